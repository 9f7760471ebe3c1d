//! A real local API of `CrowdSec`, with directories of its own, in the near namespace of a lab. It
//! knows of no central API.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{debian, service::Service, waiting};

/// The URL on which it listens.
pub const URL: &str = "http://127.0.0.1:8080";
/// The key of the bouncer under test.
pub const KEY: &str = "0123456789abcdef0123456789abcdef";

/// A local API.
pub struct Crowdsec {
    directory: PathBuf,
    namespace: String,
    child: Option<Child>,
}

impl Crowdsec {
    /// An API that runs and knows the bouncer.
    pub fn started(service: &Service) -> Result<Self> {
        let mut crowdsec = Self {
            directory: service.path("crowdsec"),
            namespace: format!("--net={}", service.namespace()),
            child: None,
        };
        crowdsec.configure()?;
        let credentials = crowdsec.at("local_api_credentials.yaml");
        crowdsec.cscli(&[
            "machines",
            "add",
            "test",
            "--password",
            "test",
            "-f",
            &credentials,
        ])?;
        crowdsec.cscli(&["bouncers", "add", "ratelimit", "-k", KEY])?;
        crowdsec.start()?;
        Ok(crowdsec)
    }

    /// Starts the API, and waits until it answers.
    pub fn start(&mut self) -> Result<()> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.at("log"))?;
        let mut server = self.command("crowdsec");
        server.arg("-no-cs").stdin(Stdio::null());
        server.stdout(log.try_clone()?).stderr(log);
        self.child = Some(server.spawn().context("running crowdsec")?);
        waiting::until(
            || self.cscli(&["decisions", "list"]).is_ok(),
            || fs::read_to_string(self.at("log")).unwrap_or_default(),
        );
        Ok(())
    }

    /// Kills the API.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Runs `cscli`, which must succeed.
    pub fn cscli(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command("cscli").args(arguments).output()?;
        ensure!(output.status.success(), "cscli {arguments:?}: {output:?}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self, program: &str) -> Command {
        let program = debian::directory("crowdsec").join("usr/bin").join(program);
        let mut command = Command::new("nsenter");
        command.arg(&self.namespace).arg(program);
        command.args(["-c", &self.at("config.yaml")]);
        command
    }

    fn configure(&self) -> Result<()> {
        for name in ["data", "hub", "notifications", "plugins"] {
            fs::create_dir_all(self.at(name))?;
        }
        let root = self.directory.display();
        let config = format!(
            "common:
  daemonize: false
  log_media: stdout
  log_level: info
  working_dir: .
config_paths:
  config_dir: {root}
  data_dir: {root}/data
  simulation_path: {root}/simulation.yaml
  hub_dir: {root}/hub
  index_path: {root}/hub/.index.json
  notification_dir: {root}/notifications
  plugin_dir: {root}/plugins
cscli:
  output: json
db_config:
  type: sqlite
  db_path: {root}/data/crowdsec.db
  use_wal: true
api:
  client:
    credentials_path: {root}/local_api_credentials.yaml
  server:
    listen_uri: 127.0.0.1:8080
    profiles_path: {root}/profiles.yaml
    console_path: {root}/console.yaml
prometheus:
  enabled: false
"
        );
        let profiles = "name: test
filters:
 - Alert.Remediation == true
decisions:
 - type: ban
   duration: 4h
on_success: break
";
        for (name, text) in [
            ("config.yaml", config.as_str()),
            ("profiles.yaml", profiles),
            ("simulation.yaml", "simulation: off\n"),
            ("hub/.index.json", "{}\n"),
            ("console.yaml", ""),
            ("local_api_credentials.yaml", ""),
        ] {
            fs::write(self.at(name), text)?;
        }
        Ok(())
    }

    fn at(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

impl Drop for Crowdsec {
    fn drop(&mut self) {
        // A panic may have come first; what fails here is a process left behind.
        let _ = self.kill();
    }
}
