//! Finds the client of the SSH session in which a command was typed: sshd passes it to its
//! children, but `sudo` drops it.

use std::{env, fs, net::IpAddr, os::unix::process::parent_id};

/// The variables of sshd (`ssh(1)`): the address and the port of the client come first.
const VARIABLES: [&str; 2] = ["SSH_CONNECTION", "SSH_CLIENT"];
/// The most processes to search between the command and its session: a shell, `sudo`, a shell, a
/// script.
const ANCESTORS_MAX: usize = 32;

/// Returns the peer of the SSH session; `None` on a console, or if the parent processes are not
/// readable.
pub fn find() -> Option<IpAddr> {
    // A variable that is there has the last word, also an empty one.
    if let Some(value) = VARIABLES.into_iter().find_map(|name| env::var(name).ok()) {
        return client(&value);
    }
    let mut process = parent_id();
    for _ in 0..ANCESTORS_MAX {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        if let Some(value) = value(&environment) {
            return client(&value);
        }
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        process = parent(&status).filter(|parent| *parent != 0)?;
    }
    None
}

/// `192.0.2.9 51514 192.0.2.1 22`; the client may have a zone.
fn client(value: &str) -> Option<IpAddr> {
    let address = value.split_whitespace().next()?;
    let (address, _) = address.split_once('%').unwrap_or((address, ""));
    address.parse().ok()
}

/// The first of the variables in an environment as the kernel shows it.
fn value(environment: &[u8]) -> Option<String> {
    let entries: Vec<_> = environment
        .split(|byte| *byte == 0)
        .map(String::from_utf8_lossy)
        .collect();
    VARIABLES.into_iter().find_map(|name| {
        let mut entries = entries.iter().filter_map(|entry| entry.split_once('='));
        entries
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value.to_owned())
    })
}

fn parent(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_stands_first() {
        let found = |value| client(value).map(|address| address.to_string());
        assert_eq!(
            found("192.0.2.9 51514 192.0.2.1 22").as_deref(),
            Some("192.0.2.9")
        );
        assert_eq!(found("fe80::9%eth0 51514 22").as_deref(), Some("fe80::9"));
        assert_eq!(found(""), None);
        assert_eq!(found("UNKNOWN"), None);
    }

    #[test]
    fn an_environment_is_searched_for_the_name_and_not_for_the_letters() {
        let environment = b"X=SSH_CLIENT=192.0.2.8\0MY_SSH_CONNECTION=192.0.2.7 1 2 \
                            3\0SSH_CLIENT=192.0.2.9 1 22\0";
        assert_eq!(value(environment).as_deref(), Some("192.0.2.9 1 22"));
        assert_eq!(value(b"HOME=/root\0"), None);
    }

    #[test]
    fn the_parent_of_a_process_is_known() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert_eq!(parent(&status), Some(parent_id()));
    }
}
