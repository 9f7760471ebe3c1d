//! From where people are logged in: the sessions of logind, and utmp.
//!
//! A connection to sshd proves nothing: whoever guesses passwords has one too, and must not be
//! protected by it. A session comes after the password.

use std::{ffi::CStr, fs, net::IpAddr, path::Path};

use anyhow::Context;

use super::Why;
use crate::private;

const LOGIND: &str = "/run/systemd/sessions";
const UTMP: &str = "/var/run/utmp";

/// Size of a utmp entry of glibc. Other C libraries have no utmp.
const UTMP_BYTES: usize = if cfg!(target_arch = "x86_64") {
    384
} else {
    400
};

/// The other ends of the sessions that last.
///
/// # Errors
///
/// When the sessions of logind are there and cannot be read.
pub fn find() -> anyhow::Result<Vec<(IpAddr, Why)>> {
    let mut peers = of_logind(Path::new(LOGIND))?;
    peers.extend(of_utmp(Path::new(UTMP)));
    Ok(peers.into_iter().map(|peer| (peer, Why::SshPeer)).collect())
}

fn of_logind(directory: &Path) -> anyhow::Result<Vec<IpAddr>> {
    let entries = private::if_there(fs::read_dir(directory));
    let entries = entries.with_context(|| format!("listing {}", directory.display()))?;
    let mut peers = Vec::new();
    for entry in entries.into_iter().flatten() {
        let path = entry
            .with_context(|| format!("listing {}", directory.display()))?
            .path();
        // The directory also contains pipes: `3.ref`. And a session may end between listing and
        // reading.
        if path.extension().is_none() && path.is_file() {
            let text = fs::read_to_string(&path).unwrap_or_default();
            peers.extend(session_peer(&text));
        }
    }
    Ok(peers)
}

/// The other end of a session as logind writes it down (`src/login/logind-session.c`,
/// `session_save`).
fn session_peer(text: &str) -> Option<IpAddr> {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    let lasts = value("STATE") != Some("closing") && is_running(value("LEADER")?);
    let remote = value("REMOTE") == Some("1") && lasts;
    address(value("REMOTE_HOST").filter(|_| remote)?)
}

fn of_utmp(file: &Path) -> Vec<IpAddr> {
    let entries = fs::read(file).unwrap_or_default();
    let (entries, _) = entries.as_chunks::<UTMP_BYTES>();
    entries
        .iter()
        .filter_map(|entry| utmp_peer(entry))
        .collect()
}

/// The other end of `struct utmpx`: its type, its process, its line, its short name, its user, its
/// host.
fn utmp_peer(entry: &[u8]) -> Option<IpAddr> {
    let (kind, rest) = entry.split_first_chunk::<2>()?;
    let (process, rest) = rest.get(2..)?.split_first_chunk::<4>()?;
    let host = rest.get(32 + 4 + 32..)?;
    let process = i32::from_ne_bytes(*process);
    if i16::from_ne_bytes(*kind) != libc::USER_PROCESS || !is_running(&process.to_string()) {
        return None;
    }
    address(CStr::from_bytes_until_nul(host).ok()?.to_str().ok()?)
}

fn is_running(process: &str) -> bool {
    process
        .parse::<u32>()
        .is_ok_and(|id| Path::new(&format!("/proc/{id}")).exists())
}

/// An address, perhaps with a zone. A name is not asked for: whoever answers could be protected by
/// it.
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
                "# private data\n\
                 UID=0\n\
                 STATE={state}\n\
                 REMOTE={remote}\n\
                 TYPE=tty\n\
                 REMOTE_HOST={host}\n\
                 LEADER={leader}\n"
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
        let own = std::process::id().cast_signed();
        let entry = |kind: i16, process: i32, host: &str| {
            // SAFETY: zeroes are an empty entry, and an entry is plain data.
            let mut entry: libc::utmpx = unsafe { std::mem::zeroed() };
            entry.ut_type = kind;
            entry.ut_pid = process;
            for (to, from) in entry.ut_host.iter_mut().zip(host.bytes()) {
                *to = from.cast_signed();
            }
            // SAFETY: the same.
            unsafe { std::mem::transmute::<libc::utmpx, [u8; UTMP_BYTES]>(entry) }
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let entries = [
            entry(libc::USER_PROCESS, own, "192.0.2.9"),
            entry(libc::DEAD_PROCESS, own, "192.0.2.10"),
            entry(libc::USER_PROCESS, 1 << 23, "192.0.2.11"),
            entry(libc::USER_PROCESS, own, "host.example"),
            entry(libc::USER_PROCESS, own, "2001:db8::9"),
        ];
        fs::write(file.path(), entries.concat()).unwrap();
        let expected: [IpAddr; 2] = ["192.0.2.9", "2001:db8::9"].map(|it| it.parse().unwrap());
        assert_eq!(of_utmp(file.path()), expected);
        assert!(of_utmp(Path::new("/none")).is_empty());
    }
}
