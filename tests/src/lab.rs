//! An isolated network: two namespaces, joined by a veth pair, without routes to other networks.
//!
//! The names are unique, and everything is removed when the lab is dropped, also after a panic.

mod raw;
mod tun;

use std::{
    fs::{self, File},
    os::{fd::AsRawFd, unix::process::CommandExt as _},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use ratelimit_common::layout::Counter;

pub use raw::{Receiver, Sender};
pub use tun::Tun;

/// The name of the interface in each namespace.
pub const INTERFACE: &str = "rl0";
/// The most packets that an end sends on its own during a test: router and neighbour solicitations,
/// and group memberships.
pub const OWN_PACKETS: u64 = 10;
/// The longest time of a frame on the link, and the longest delay behind one that was sent later.
const LATE: Duration = Duration::from_millis(500);
const SOON: Duration = Duration::from_millis(20);
/// The last frame sent: of an experimental protocol other than IP, so that every program passes it.
pub const LAST: [u8; 60] = {
    let mut frame = [0; 60];
    // From one address of a locally administered vendor to another.
    frame[0] = 2;
    frame[6] = 2;
    frame[11] = 1;
    frame[12] = 0x88;
    frame[13] = 0xb5;
    frame
};
/// The usual MTU.
const MTU: &str = "1500";
/// Room for a jumbo frame with two VLAN tags.
const MTU_JUMBO: &str = "9200";

/// Two namespaces joined by a link.
#[derive(Debug)]
pub struct Lab {
    /// The namespace of the program.
    pub near: Namespace,
    /// The namespace from which packets are sent.
    pub far: Namespace,
}

impl Lab {
    /// Makes the namespaces and the link.
    pub fn new() -> Result<Self> {
        Self::with_mtu(MTU)
    }

    /// Creates a lab whose link supports jumbo frames.
    pub fn jumbo() -> Result<Self> {
        Self::with_mtu(MTU_JUMBO)
    }

    /// Gives each end addresses, with the lengths of their networks, that can be used at once.
    pub fn add_addresses(&self, near: &[&str], far: &[&str]) -> Result<()> {
        for (namespace, addresses) in [(&self.near, near), (&self.far, far)] {
            let sysctl = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6");
            namespace.enter(|| fs::write(sysctl, "0"))?;
            for address in addresses {
                let add = ["address", "add", address, "dev", INTERFACE];
                let of_ipv6: &[&str] = if address.contains(':') {
                    &["nodad"]
                } else {
                    &[]
                };
                namespace.ip(&[&add, of_ipv6].concat())?;
            }
        }
        Ok(())
    }

    /// Sends a frame from the far end `times` times.
    pub fn send(&self, frame: &[u8], times: u64) -> Result<()> {
        let sender = Sender::new(&self.far)?;
        (0..times).try_for_each(|_| sender.send(frame))
    }

    /// Whether a frame from the far end comes through at the near one.
    pub fn passes(&self, frame: &[u8]) -> Result<bool> {
        Ok(self.passed(frame, 1)? == 1)
    }

    /// Sends equal frames from the far end, and returns how many arrive at the near one.
    pub fn passed(&self, frame: &[u8], times: usize) -> Result<usize> {
        let mut receiver = Receiver::new(&self.near)?;
        passed(&Sender::new(&self.far)?, &mut receiver, frame, times)
    }

    /// The namespaces alone, without a link.
    pub fn without_link() -> Result<Self> {
        let unique = unique();
        Ok(Self {
            near: Namespace::new(format!("{unique}-near"))?,
            far: Namespace::new(format!("{unique}-far"))?,
        })
    }

    fn with_mtu(mtu: &str) -> Result<Self> {
        let lab = Self::without_link()?;
        let far = lab.far.name.as_str();
        let pair = ["type", "veth", "peer", "name", INTERFACE, "netns", far];
        lab.near
            .ip(&[&["link", "add", INTERFACE], &pair[..]].concat())?;
        for namespace in [&lab.near, &lab.far] {
            namespace.ip(&["link", "set", INTERFACE, "mtu", mtu, "up"])?;
        }
        Ok(lab)
    }
}

/// Returns how many of a number of equal frames arrive. Neighbours may send packets of their own.
pub fn passed(
    sender: &Sender,
    receiver: &mut Receiver,
    frame: &[u8],
    times: usize,
) -> Result<usize> {
    for _ in 0..times {
        sender.send(frame)?;
    }
    sender.send(&LAST)?;
    let (mut passed, mut patience) = (0, LATE);
    while passed < times
        && let Some(seen) = receiver.next(patience)?
    {
        passed += usize::from(seen == frame);
        if seen == LAST {
            patience = SOON;
        }
    }
    Ok(passed)
}

/// A name that no other lab of any process has.
fn unique() -> String {
    static LABS: AtomicU32 = AtomicU32::new(0);
    format!("rl-{}-{}", process::id(), LABS.fetch_add(1, Relaxed))
}

/// A network namespace, which goes when this is dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates a namespace for a role.
    pub fn of(role: &str) -> Result<Self> {
        Self::new(format!("{}-{role}", unique()))
    }

    /// A namespace that says nothing by itself.
    fn new(name: String) -> Result<Self> {
        run("ip", &["netns", "add", &name])?;
        let namespace = Self { name };
        namespace.enter(|| {
            let silence = |of| fs::write(format!("/proc/sys/net/ipv6/conf/{of}/disable_ipv6"), "1");
            silence("all").and_then(|()| silence("default"))
        })?;
        Ok(namespace)
    }

    /// The name that `ip netns` knows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` on this namespace.
    pub fn ip(&self, arguments: &[&str]) -> Result<String> {
        run("ip", &[&["-netns", &self.name], arguments].concat())
    }

    /// Runs a command in this namespace, and answers what it printed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        run(
            "ip",
            &[&["netns", "exec", &self.name, program], arguments].concat(),
        )
    }

    /// Does something on a thread that is in this namespace.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let enter = || {
            let path = format!("/run/netns/{}", self.name);
            let namespace = File::open(&path).expect("the namespace exists");
            // SAFETY: the descriptor is open. It is this thread that moves, and it ends here.
            let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "{path} can be entered");
            work()
        };
        thread::scope(|scope| scope.spawn(enter).join().expect("the work does not panic"))
    }

    /// Returns what the interface received, according to `ip -s link`.
    pub fn received(&self) -> Result<Counter> {
        let text = self.ip(&["-oneline", "-stats", "link", "show", INTERFACE])?;
        let numbers = text.split("RX:").nth(1).context("no RX statistics")?;
        let numbers = numbers.split('\\').nth(1).context("no RX numbers")?;
        let mut numbers = numbers.split_whitespace().map(str::parse::<u64>);
        let mut next = || Ok::<_, anyhow::Error>(numbers.next().context("a number is missing")??);
        let bytes = next()?;
        Ok(Counter {
            packets: next()?,
            bytes,
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A failure here leaves only a namespace behind; the test has already reported its result.
        let _ = run("ip", &["netns", "delete", &self.name]);
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let command = || format!("{program} {}", arguments.join(" "));
    // Ctrl-C goes to a whole process group: in its own, `ip` is not stopped halfway.
    let output = Command::new(program)
        .args(arguments)
        .process_group(0)
        .output()
        .with_context(command)?;
    ensure!(
        output.status.success(),
        "{}: {}",
        command(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
