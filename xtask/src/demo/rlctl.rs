//! `rlctl`, typed for the user to see.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;

/// The program, and the daemon that it is to talk to.
pub struct Rlctl {
    /// Where it is.
    pub program: PathBuf,
    /// The socket of the daemon.
    pub socket: PathBuf,
}

impl Rlctl {
    /// Shows the command and what it answers. It has to end with `code`.
    pub fn type_in(&self, arguments: &[&str], code: i32) -> Result<()> {
        let typed = typed(arguments);
        println!("$ {typed}");
        let status = process::status(self.command().args(arguments))?;
        if status.code() != Some(code) {
            bail!("`{typed}` ended with {status}, and should have ended with {code}");
        }
        Ok(())
    }

    /// How the daemon attached to its interface, `native` or `generic`; `None` while it does not answer.
    pub fn attach_mode(&self) -> Result<Option<String>> {
        let output = self.command().args(["status", "--json"]).output();
        let output = output.context("running rlctl")?;
        if !output.status.success() {
            return Ok(None);
        }
        let status: Value =
            serde_json::from_slice(&output.stdout).context("reading JSON of rlctl")?;
        let mode = status["interfaces"][0]["mode"].as_str();
        let mode = mode.with_context(|| format!("ratelimitd is not attached: {status}"))?;
        Ok(Some(mode.to_owned()))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("RATELIMIT_SOCKET", &self.socket);
        command
    }
}

fn typed(arguments: &[&str]) -> String {
    let mut text = "rlctl".to_owned();
    for argument in arguments {
        text += " ";
        text += argument;
    }
    text
}
