//! From where people are logged in: the sessions of logind, and utmp.
//!
//! A connection to sshd proves nothing: whoever guesses passwords has one too, and must not be protected by it. A session
//! comes after the password.

use std::{ffi::CStr, fs, io, net::IpAddr, path::Path};

use anyhow::Context;

use super::Why;

const LOGIND: &str = "/run/systemd/sessions";

/// The other ends of the sessions that last.
///
/// # Errors
///
/// When the sessions of logind are there and cannot be read.
pub fn find() -> anyhow::Result<Vec<(IpAddr, Why)>> {
    let mut peers = of_logind(Path::new(LOGIND))?;
    peers.extend(of_utmp());
    Ok(peers.into_iter().map(|peer| (peer, Why::SshPeer)).collect())
}

fn of_logind(directory: &Path) -> anyhow::Result<Vec<IpAddr>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("listing {}", directory.display()))?,
    };
    let mut peers = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("listing {}", directory.display()))?
            .path();
        // Beside the files stand pipes: `3.ref`. And a session may end between the list and the look.
        if path.extension().is_none() && path.is_file() {
            let text = fs::read_to_string(&path).unwrap_or_default();
            peers.extend(session_peer(&text));
        }
    }
    Ok(peers)
}

/// The other end of a session as logind writes it down (`src/login/logind-session.c`, `session_save`).
fn session_peer(text: &str) -> Option<IpAddr> {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    let lasts = value("STATE") != Some("closing") && is_running(value("LEADER")?);
    let remote = value("REMOTE") == Some("1") && lasts;
    address(value("REMOTE_HOST").filter(|_| remote)?)
}

fn of_utmp() -> Vec<IpAddr> {
    let mut peers = Vec::new();
    // SAFETY: nothing else in this process reads utmp, and what an entry points to is copied before the next is asked for.
    unsafe {
        libc::setutxent();
        while let Some(entry) = libc::getutxent().as_ref() {
            peers.extend(utmp_peer(entry));
        }
        libc::endutxent();
    }
    peers
}

fn utmp_peer(entry: &libc::utmpx) -> Option<IpAddr> {
    if entry.ut_type != libc::USER_PROCESS || !is_running(&entry.ut_pid.to_string()) {
        return None;
    }
    let bytes = entry.ut_host.map(i8::cast_unsigned);
    let host = CStr::from_bytes_until_nul(&bytes).ok()?;
    address(host.to_str().ok()?)
}

fn is_running(process: &str) -> bool {
    process
        .parse::<u32>()
        .is_ok_and(|id| Path::new(&format!("/proc/{id}")).exists())
}

/// An address, perhaps with a zone. A name is not asked for: whoever answers could be protected by it.
fn address(text: &str) -> Option<IpAddr> {
    let (address, _) = text.split_once('%').unwrap_or((text, ""));
    address.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_from_elsewhere_that_lasts_has_a_peer() {
        let own = std::process::id();
        let session = |state: &str, remote: &str, host: &str, leader: u32| {
            let text = format!(
                "# private data\nUID=0\nSTATE={state}\nREMOTE={remote}\nTYPE=tty\nREMOTE_HOST={host}\nLEADER={leader}\n"
            );
            session_peer(&text).map(|peer| peer.to_string())
        };
        assert_eq!(
            session("active", "1", "192.0.2.9", own).as_deref(),
            Some("192.0.2.9")
        );
        assert_eq!(
            session("online", "1", "fe80::9%eth0", own).as_deref(),
            Some("fe80::9")
        );
        assert_eq!(session("closing", "1", "192.0.2.9", own), None);
        assert_eq!(session("active", "0", "192.0.2.9", own), None);
        assert_eq!(session("active", "1", "host.example", own), None);
        // The number is beyond what the kernel gives to processes.
        assert_eq!(session("active", "1", "192.0.2.9", 1 << 23), None);
        assert_eq!(session_peer(""), None);
    }

    #[test]
    fn sessions_are_files_among_others() {
        let directory = tempfile::tempdir().unwrap();
        let session = format!(
            "STATE=active\nREMOTE=1\nREMOTE_HOST=2001:db8::9\nLEADER={}\n",
            std::process::id()
        );
        for name in ["3", "3.ref"] {
            fs::write(directory.path().join(name), &session).unwrap();
        }
        let expected: [IpAddr; 1] = ["2001:db8::9".parse().unwrap()];
        assert_eq!(of_logind(directory.path()).unwrap(), expected);
        assert!(
            of_logind(&directory.path().join("none"))
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn of_utmp_those_who_are_logged_in_and_run_count() {
        // SAFETY: zeroes are an entry of nobody.
        let mut entry: libc::utmpx = unsafe { std::mem::zeroed() };
        let host = b"192.0.2.9".map(u8::cast_signed);
        entry.ut_host[..host.len()].copy_from_slice(&host);
        entry.ut_pid = std::process::id().cast_signed();
        assert_eq!(utmp_peer(&entry), None);
        entry.ut_type = libc::USER_PROCESS;
        assert_eq!(utmp_peer(&entry), Some([192, 0, 2, 9].into()));
        entry.ut_pid = 1 << 23;
        assert_eq!(utmp_peer(&entry), None);
    }
}
