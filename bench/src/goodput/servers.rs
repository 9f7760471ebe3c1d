//! The servers behind the interface: nginx and NSD, as Debian packs them.

use std::{
    net::{Ipv4Addr, UdpSocket},
    path::Path,
    time::Duration,
};

use anyhow::{Result, ensure};
use ratelimit_tests::lab::Namespace;
use tempfile::TempDir;

use crate::server::{self, Server, wait_for, write};

/// The address on which they listen.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// A query for the address of `www.test`, which wants no recursion (RFC 1035, 4).
pub const QUERY: [u8; 26] = *b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x03www\x04test\0\0\x01\0\x01";

const PAGE_WORDS: u32 = 3_000;

/// Both servers.
pub struct Servers {
    _servers: [Server; 2],
    _directory: TempDir,
}

impl Servers {
    /// Starts them, and waits until they answer.
    pub fn new(near: &Namespace) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = directory.path();
        let nginx = write(path, "nginx.conf", &nginx(path))?;
        write(path, "index.html", &page())?;
        let nsd = write(path, "nsd.conf", &nsd(path))?;
        write(path, "zone", ZONE)?;
        let servers = Self {
            _servers: [
                Server::start(near, "usr/sbin", "nginx", &["-c", &nginx])?,
                Server::start(near, "usr/sbin", "nsd", &["-dc", &nsd])?,
            ],
            _directory: directory,
        };
        let get = ["--silent", "--fail", "http://10.77.0.1"];
        wait_for(|| near.run("curl", &get).is_ok(), "nginx")?;
        wait_for(|| near.enter(is_dns_there).is_ok(), "nsd")?;
        Ok(servers)
    }
}

/// Text that takes work to compress.
fn page() -> String {
    let numbers = (0..PAGE_WORDS).map(|word| word.wrapping_mul(2_654_435_769) >> 16);
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    numbers.join(" ")
}

/// It compresses each page, so that a page costs the host much more than the users.
fn nginx(directory: &Path) -> String {
    let path = directory.display();
    server::nginx(
        directory,
        &format!("gzip on;\ngzip_comp_level 9;\nserver {{ listen {SERVER}:80; root {path}; }}"),
    )
}

/// Without a limit of its own, which Debian's has.
fn nsd(directory: &Path) -> String {
    let path = directory.display();
    format!(
        "server:\n \
         ip-address: {SERVER}\n \
         username: \"\"\n \
         chroot: \"\"\n \
         zonesdir: \"{path}\"\n \
         database: \"\"\n\
         \x20pidfile: \"{path}/nsd.pid\"\n \
         logfile: \"{path}/nsd.log\"\n \
         xfrdfile: \"{path}/xfrd\"\n\
         \x20zonelistfile: \"{path}/zones\"\n \
         xfrdir: \"{path}\"\n \
         rrl-ratelimit: 0\n\
         remote-control:\n \
         control-enable: no\n\
         zone:\n \
         name: \"test\"\n \
         zonefile: \"zone\"\n"
    )
}

const ZONE: &str =
    "$ORIGIN test.\n$TTL 0\n@ SOA ns admin 1 60 60 60 0\n@ NS ns\nns A 10.77.0.1\n* A 192.0.2.2\n";

fn is_dns_there() -> Result<()> {
    let socket = UdpSocket::bind((SERVER, 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    socket.send_to(&QUERY, (SERVER, 53))?;
    let (bytes, _) = socket.recv_from(&mut [0; 512])?;
    ensure!(bytes > QUERY.len(), "an answer without an address");
    Ok(())
}
