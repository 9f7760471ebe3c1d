//! Two network namespaces, joined by a veth pair, without routes to other networks.

use std::{
    fs::{self, File},
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    process::Command,
    thread,
};

use anyhow::{Context as _, Result, ensure};

/// The interface in each namespace.
pub const INTERFACE: &str = "rl0";
/// The addresses that packets are sent to.
pub const NEAR: [&str; 2] = ["192.0.2.1", "2001:db8:a::1"];
const MACS: [&str; 2] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];

pub struct Network {
    /// The namespace of ratelimitd.
    pub near: Namespace,
    /// The sending end.
    pub far: Namespace,
}

impl Network {
    pub fn new() -> Result<Self> {
        let (near, far) = (Namespace::new()?, Namespace::new()?);
        // The namespaces have no names, so the far end is moved to that of a thread.
        far.enter(|| {
            // SAFETY: takes no pointers.
            let thread = unsafe { libc::gettid() }.to_string();
            let peer = [
                "peer", "name", INTERFACE, "address", MACS[1], "netns", &thread,
            ];
            let link = ["link", "add", INTERFACE, "address", MACS[0], "type", "veth"];
            near.ip(&[&link[..], &peer].concat())
        })?;
        for namespace in [&near, &far] {
            // A container may turn IPv6 off by default.
            let setting = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6");
            namespace
                .enter(|| fs::write(setting, "0"))
                .context("IPv6")?;
            namespace.ip(&["link", "set", "lo", "up"])?;
            namespace.ip(&["link", "set", INTERFACE, "up"])?;
        }
        for (address, route) in NEAR.iter().zip(["0.0.0.0/0", "::/0"]) {
            near.ip(&["address", "add", address, "dev", INTERFACE, "nodad"])?;
            far.ip(&["route", "add", address, "dev", INTERFACE])?;
            far.ip(&[
                "neighbour",
                "add",
                address,
                "lladdr",
                MACS[0],
                "dev",
                INTERFACE,
            ])?;
            // Sources are reached where they come from, whatever the filter of reverse paths.
            near.ip(&["route", "add", route, "dev", INTERFACE])?;
        }
        Ok(Self { near, far })
    }
}

/// A network namespace without a name. It ends with the last descriptor, thread and process in it.
pub struct Namespace(File);

impl Namespace {
    fn new() -> Result<Self> {
        let create = || {
            // SAFETY: takes no pointers, and moves only this thread, which ends here.
            let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            ensure!(result == 0, "{}", std::io::Error::last_os_error());
            Ok(Self(File::open("/proc/thread-self/ns/net")?))
        };
        let created = thread::scope(|scope| scope.spawn(create).join());
        created
            .expect("it does not panic")
            .context("making a network namespace")
    }

    /// Runs `work` on a thread in this namespace. Programs that it starts are in it too.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let enter = || {
            // SAFETY: the descriptor is open, and only this thread moves, which ends here.
            let result = unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "the namespace can be entered");
            work()
        };
        thread::scope(|scope| scope.spawn(enter).join().expect("it does not panic"))
    }

    pub fn ip(&self, words: &[&str]) -> Result<()> {
        // In its own process group, so that Ctrl-C does not stop it halfway.
        let ip = || Command::new("ip").args(words).process_group(0).output();
        let output = self.enter(ip).context("running ip")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        let words = words.join(" ");
        ensure!(output.status.success(), "ip {words}: {}", stderr.trim());
        Ok(())
    }
}
