//! A real Redis of Debian's package, with a directory of its own. It listens on a Unix socket,
//! which reaches every namespace.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{debian, lab::Namespace, waiting};

/// A server that is killed when this is dropped.
pub struct Redis {
    directory: TempDir,
    child: Option<Child>,
    /// The namespace in which it listens by TCP too, and the port.
    network: Option<(String, u16)>,
}

/// The ports of a server and of the one that takes its place.
pub const PORTS: [u16; 2] = [6379, 6380];

impl Redis {
    /// A server that runs and keeps nothing on disk.
    pub fn started() -> Result<Self> {
        Self::started_at(None)
    }

    /// The same, that listens at the first of [`PORTS`] of all addresses of a namespace too.
    pub fn started_in(namespace: &Namespace) -> Result<Self> {
        Self::started_at(Some((namespace.name().to_owned(), PORTS[0])))
    }

    /// Starts a server on the other port with a copy of the current data, without replication.
    pub fn copied(&self) -> Result<Self> {
        let (namespace, port) = self.network.as_ref().context("it listens at no port")?;
        let other = if *port == PORTS[0] {
            PORTS[1]
        } else {
            PORTS[0]
        };
        let copy = Self::started_at(Some((namespace.clone(), other)))?;
        copy.cli(&["REPLICAOF", "127.0.0.1", &port.to_string()])?;
        waiting::wait_until("a copy of redis-server", || {
            let said = copy.cli(&["INFO", "replication"]).unwrap_or_default();
            said.contains("master_link_status:up")
        });
        copy.cli(&["REPLICAOF", "NO", "ONE"])?;
        Ok(copy)
    }

    fn started_at(network: Option<(String, u16)>) -> Result<Self> {
        let mut redis = Self {
            directory: tempfile::tempdir()?,
            child: None,
            network,
        };
        // Daemons of other users connect to the socket.
        fs::set_permissions(redis.directory.path(), fs::Permissions::from_mode(0o755))?;
        redis.start()?;
        Ok(redis)
    }

    /// Starts an empty server, and waits until it answers.
    pub fn start(&mut self) -> Result<()> {
        let mut server = Self::program("redis-server");
        let mut port = 0;
        if let Some((namespace, at)) = &self.network {
            let program = server.get_program().to_owned();
            let mut inside = Command::new("ip");
            inside.args(["netns", "exec", namespace]).arg(program);
            for (key, value) in server.get_envs() {
                inside.env(key, value.unwrap_or_default());
            }
            inside.args(["--bind", "0.0.0.0", "--protected-mode", "no"]);
            (server, port) = (inside, *at);
        }
        server.args(["--port", &port.to_string(), "--save", ""]);
        server.args(["--unixsocketperm", "777", "--repl-diskless-sync-delay", "0"]);
        server.arg("--unixsocket").arg(self.socket());
        server.arg("--dir").arg(self.directory.path());
        server.stdin(Stdio::null()).stdout(Stdio::null());
        self.child = Some(server.spawn().context("running redis-server")?);
        waiting::wait_until("redis-server", || self.cli(&["PING"]).is_ok());
        Ok(())
    }

    /// The socket on which it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// Sends the server a signal: `-STOP`, `-CONT`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let child = self.child.as_ref().context("it does not run")?;
        let id = child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status()?;
        ensure!(status.success(), "kill {signal}: {status}");
        Ok(())
    }

    /// Kills the server.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Runs `redis-cli`, which must succeed, and gives what it printed.
    pub fn cli(&self, arguments: &[&str]) -> Result<String> {
        let mut client = Self::program("redis-cli");
        client.arg("-s").arg(self.socket()).arg("-e");
        let output = client.args(arguments).output()?;
        ensure!(
            output.status.success(),
            "redis-cli {arguments:?}: {output:?}"
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Appends a message to the stream of a cluster.
    pub fn publish(&self, message: &[u8]) -> Result<()> {
        use std::io::Write;

        let mut client = Self::program("redis-cli");
        client.arg("-s").arg(self.socket()).arg("-e").arg("-x");
        client.args(["XADD", "{ratelimit}:stream", "*", "m"]);
        let mut client = client.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let mut stdin = client.stdin.take().context("a pipe was asked for")?;
        stdin.write_all(message)?;
        drop(stdin);
        ensure!(client.wait()?.success(), "redis-cli XADD");
        Ok(())
    }

    /// The last messages of a node in the stream of a cluster, as they were stored, the newest
    /// first.
    pub fn last_of(&self, node: &str) -> Result<Vec<Vec<u8>>> {
        let url = format!("unix://{}", self.socket().display());
        let mut connection = redis::Client::open(url)?.get_connection()?;
        let mut read = redis::cmd("XREVRANGE");
        read.arg(&["{ratelimit}:stream", "+", "-", "COUNT", "50"]);
        let entries: Vec<(String, Vec<Vec<u8>>)> = read.query(&mut connection)?;
        let messages = entries.into_iter();
        let messages = messages.filter_map(|(_, fields)| fields.into_iter().nth(1));
        let is_of = |message: &Vec<u8>| message.windows(node.len()).any(|it| it == node.as_bytes());
        Ok(messages.filter(is_of).collect())
    }

    /// Returns one of its programs. `RATELIMIT_STORE_SERVER` names another server, for example
    /// Valkey.
    pub fn program(name: &str) -> Command {
        let other = env::var_os("RATELIMIT_STORE_SERVER").filter(|_| name == "redis-server");
        if let Some(server) = other {
            return Command::new(server);
        }
        let root = debian::directory("redis-server");
        let mut command = Command::new(root.join("usr/bin").join(name));
        let libraries = root.join("usr/lib");
        let libraries = libraries.join(format!("{}-linux-gnu", env::consts::ARCH));
        command.env("LD_LIBRARY_PATH", libraries);
        command
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // A panic may have come first; what fails here is a process left behind.
        let _ = self.kill();
    }
}
