//! The service of the daemon, where systemd manages it.

use std::{path::Path, process::Command};

use crate::{arguments::CONFIG, exit_code::ExitCode, failure::Failure};

const UNIT: &str = "ratelimitd";

/// Whether systemd runs here and its unit reads this file; see `sd_booted(3)`.
pub fn is_managed(file: &Path) -> bool {
    file == Path::new(CONFIG) && Path::new("/run/systemd/system").is_dir()
}

/// Starts the daemon now and at boot. `Type=notify` makes systemd wait until it is ready.
pub fn start(file: &Path) -> Result<(), Failure> {
    if is_managed(file) {
        return systemctl(&["enable", "--now", UNIT]);
    }
    let file = file.display();
    let error = format!("{file} is ready, but no ratelimitd runs, and systemd does not manage one");
    let hint = format!("start it: ratelimitd --config {file}");
    Err(Failure::new(ExitCode::NoDaemon, error).hint(hint))
}

/// Has a daemon that runs already started at boot, too.
pub fn enable(file: &Path) -> Result<(), Failure> {
    if is_managed(file) {
        systemctl(&["enable", UNIT])
    } else {
        Ok(())
    }
}

fn systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let command = format!("systemctl {}", arguments.join(" "));
    let output = Command::new("systemctl").args(arguments).output();
    let output = output.map_err(|error| Failure::refused(format!("{command}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let error = format!("`{command}` failed: {}", stderr.trim());
    Err(Failure::refused(error).hint(format!("journalctl --unit {UNIT}")))
}
