//! A real fail2ban, with directories of its own, in the near namespace of a lab.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};

use crate::{
    PATIENCE, debian,
    service::{Service, binary},
};

/// The action file that operators install.
const ACTION: &str = include_str!("../../contrib/fail2ban/ratelimit.conf");
/// `TIME fail from ADDRESS`
const FILTER: &str = "[Definition]\nfailregex = ^ fail from <ADDR>$\ndatepattern = ^EPOCH\n";

/// A server that bans by a service, and the log that it reads.
pub struct Fail2ban {
    directory: PathBuf,
    namespace: Vec<String>,
    child: Option<Child>,
}

impl Fail2ban {
    /// A server with these jails, each a name and a time to ban for, that runs. One failure bans.
    pub fn started(service: &Service, jails: &[(&str, &str)]) -> Result<Self> {
        let directory = service.path("fail2ban");
        fs::create_dir_all(directory.join("action.d"))?;
        fs::create_dir_all(directory.join("filter.d"))?;
        let write = |name: &str, text: &str| fs::write(directory.join(name), text);
        write("action.d/ratelimit.conf", ACTION)?;
        let socket = service.path("run/control.sock");
        let rlctl = format!(
            "{} --socket {}",
            binary("rlctl").display(),
            socket.display()
        );
        write(
            "action.d/ratelimit.local",
            &format!("[Init]\nrlctl = {rlctl}\n"),
        )?;
        write("filter.d/test.conf", FILTER)?;
        let at = |name: &str| directory.join(name).display().to_string();
        let main = format!(
            "[Definition]\n\
             allowipv6 = auto\n\
             loglevel = INFO\n\
             logtarget = {}\n\
             syslogsocket = auto\n\
             socket = {}\n\
             pidfile = {}\n\
             dbfile = {}\n\
             dbpurgeage = 1d\n\
             dbmaxmatches = 10\n",
            at("server.log"),
            at("sock"),
            at("pid"),
            at("bans.sqlite3")
        );
        write("fail2ban.conf", &main)?;
        let mut jail = "[DEFAULT]\n\
                        backend = polling\n\
                        usedns = no\n\
                        maxretry = 1\n\
                        findtime = 1d\n\
                        filter = test\n\
                        action = ratelimit\n"
            .to_owned();
        for (name, bantime) in jails {
            let log = at(&format!("{name}.log"));
            File::create(&log)?;
            writeln!(
                jail,
                "[{name}]\nenabled = true\nlogpath = {log}\nbantime = {bantime}"
            )?;
        }
        write("jail.conf", &jail)?;
        let mut fail2ban = Self {
            directory,
            namespace: vec![format!("--net={}", service.namespace())],
            child: None,
        };
        fail2ban.start()?;
        Ok(fail2ban)
    }

    /// Starts the server, and waits until it answers.
    pub fn start(&mut self) -> Result<()> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(self.directory.join("output"))?;
        let mut server = self.command("fail2ban-server");
        server.args(["-f", "start"]).stdin(Stdio::null());
        server.stdout(output.try_clone()?).stderr(output);
        self.child = Some(server.spawn().context("running fail2ban-server")?);
        self.wait_for("an answer", |it| Ok(it.client(&["ping"]).is_ok()))
    }

    /// Stops the server as an operator does.
    pub fn stop(&mut self) -> Result<()> {
        self.client(&["stop"])?;
        if let Some(mut child) = self.child.take() {
            child.wait()?;
        }
        Ok(())
    }

    /// Runs `fail2ban-client`, which must succeed.
    pub fn client(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command("fail2ban-client").args(arguments).output()?;
        ensure!(
            output.status.success(),
            "fail2ban-client {arguments:?}: {output:?}"
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Writes a failure of an address into the log of a jail.
    pub fn failure(&self, jail: &str, address: &str) -> Result<()> {
        let log = self.directory.join(format!("{jail}.log"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let mut log = File::options().append(true).open(log)?;
        writeln!(log, "{now} fail from {address}").context("writing the log")
    }

    /// Returns the log of the server.
    pub fn log(&self) -> String {
        let read = |name| fs::read_to_string(self.directory.join(name)).unwrap_or_default();
        read("output") + &read("server.log")
    }

    /// Waits until something is so.
    pub fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Self) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self)? {
            ensure!(
                Instant::now() < deadline,
                "waited for {what}: {}",
                self.log()
            );
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let package = debian::directory("fail2ban");
        // Debian's own, which the package is for, where there are others too.
        let python = Path::new("/usr/bin/python3");
        let python = if python.exists() {
            python
        } else {
            Path::new("python3")
        };
        let mut command = Command::new("nsenter");
        command
            .args(&self.namespace)
            .arg(python)
            .arg(package.join("usr/bin").join(program))
            .args(["-c".as_ref(), self.directory.as_os_str()])
            .args(["-s".as_ref(), self.directory.join("sock").as_os_str()])
            .args(["-p".as_ref(), self.directory.join("pid").as_os_str()])
            .env("PYTHONPATH", package.join("usr/lib/python3/dist-packages"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

impl Drop for Fail2ban {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A panic may have come first; what fails here is a process left behind.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
