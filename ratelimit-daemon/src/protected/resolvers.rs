//! The resolvers of this host: those of `resolv.conf`, and those behind a local stub.

use std::{fs, net::IpAddr};

use anyhow::Context;

use super::Why;
use crate::private;

/// The common file, and those in which stubs on 127.0.0.53 and similar name their upstream
/// resolvers.
const FILES: [&str; 3] = [
    "/etc/resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/NetworkManager/no-stub-resolv.conf",
];

/// The resolvers in all of the files that there are.
///
/// # Errors
///
/// The first file that is there and cannot be read.
pub fn find() -> anyhow::Result<Vec<(IpAddr, Why)>> {
    let mut found = Vec::new();
    for file in FILES {
        let text = private::if_there(fs::read_to_string(file));
        let text = text.with_context(|| format!("reading {file}"))?;
        let servers = text.iter().flat_map(|text| name_servers(text));
        found.extend(servers.map(|it| (it, Why::Resolver(file))));
    }
    Ok(found)
}

/// The addresses behind `nameserver`, as the C library reads them: resolv.conf(5).
fn name_servers(text: &str) -> impl Iterator<Item = IpAddr> + '_ {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = words
            .next()
            .filter(|word| *word == "nameserver")
            .and(words.next())?;
        // `fe80::1%eth0`: packets do not carry the zone.
        let (address, _) = address.split_once('%').unwrap_or((address, ""));
        address.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_the_addresses_behind_the_word() {
        let text = "# nameserver 192.0.2.9\n\
                    search example.org\n\
                    nameserver 192.0.2.1\n\
                    \tnameserver\t2001:db8::53\n\
                    nameserver fe80::1%eth0\n\
                    nameserver dns.example\n\
                    nameserver\n";
        let found: Vec<String> = name_servers(text).map(|it| it.to_string()).collect();
        assert_eq!(found, ["192.0.2.1", "2001:db8::53", "fe80::1"]);
    }
}
