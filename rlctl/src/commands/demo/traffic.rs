//! The sources, their limits, and the packets that arrive.

use std::{
    collections::HashMap,
    io::ErrorKind,
    net::{IpAddr, SocketAddr, UdpSocket},
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::network::{INTERFACE, NEAR, Network};
use crate::clock;

const PORT: u16 = 9;
/// Headers of Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;
/// The longest time of a packet on the link.
const LATE: Duration = Duration::from_millis(300);
/// The longest delay of a packet on a busy machine.
const DELAY: Duration = Duration::from_millis(20);

/// Packets that count as those of one source.
pub struct Flow {
    source: &'static str,
    hosts: Vec<IpAddr>,
    pub gap: Duration,
    frame_bytes: usize,
    limit: &'static str,
    /// Packets per second that are admitted, if there is a limit.
    per_second: Option<u64>,
}

/// The packets that one source sent, and how many arrived.
#[derive(Clone, Serialize)]
pub struct Figure {
    pub source: String,
    pub traffic: String,
    pub limit: String,
    pub sent: u64,
    pub arrived: u64,
    pub expected: RangeInclusive<u64>,
}

impl Figure {
    pub fn is_right(&self) -> bool {
        self.expected.contains(&self.arrived)
    }
}

pub fn flows() -> Vec<Flow> {
    let partner = Flow {
        frame_bytes: 1000,
        limit: "50 kB/s",
        per_second: Some(50),
        ..Flow::steady("203.0.113.9", 200)
    };
    let allowed = Flow {
        limit: "allowed",
        per_second: None,
        ..Flow::steady("192.0.2.10", 500)
    };
    let hosts = (1..=4).map(|host| format!("2001:db8:b::{host}").parse());
    let network = Flow {
        hosts: hosts.collect::<Result<_, _>>().expect("they are addresses"),
        ..Flow::steady("2001:db8:b::/64", 300)
    };
    vec![
        Flow::steady("198.51.100.1", 50),
        Flow::steady("198.51.100.2", 300),
        Flow::steady("198.51.100.3", 1000),
        partner,
        allowed,
        network,
    ]
}

impl Flow {
    /// A source that sends `rate` packets per second, under the default policy.
    pub fn steady(source: &'static str, rate: u32) -> Self {
        Self {
            source,
            hosts: source.parse().into_iter().collect(),
            gap: Duration::from_secs(1) / rate,
            frame_bytes: 60,
            limit: "100/s",
            per_second: Some(100),
        }
    }

    /// `300/s, 4 hosts`
    fn traffic(&self) -> String {
        let rate = (1.0 / self.gap.as_secs_f64()).round();
        let size = if self.frame_bytes > 60 {
            ", 1000 B"
        } else {
            ""
        };
        match self.hosts.len() {
            1 => format!("{rate}/s{size}"),
            hosts => format!("{rate}/s, {hosts} hosts"),
        }
    }

    /// Returns how many of `sent` packets a fixed window of a second admits, if they took `time`.
    fn admitted(&self, sent: u64, time: Duration) -> RangeInclusive<u64> {
        let Some(limit) = self.per_second else {
            return sent..=sent;
        };
        let most = limit * (time.as_secs() + 1);
        // A window opens with a packet, so it begins up to a gap late, and later on a busy machine.
        let window = (Duration::from_secs(1) + self.gap + DELAY).as_micros();
        let full = time.as_micros() / window;
        let half_of_last = time.as_micros() % window / self.gap.as_micros() / 2;
        let least = u128::from(limit) * full + half_of_last.min(limit.into());
        sent.min(u64::try_from(least).unwrap_or(u64::MAX))..=sent.min(most)
    }
}

/// Counts packets by source where they arrive.
pub struct Receiver(Arc<Mutex<HashMap<IpAddr, u64>>>);

impl Receiver {
    /// Starts a thread that counts until the process ends.
    pub fn start(network: &Network) -> Result<Self> {
        let socket = network.near.enter(|| UdpSocket::bind(("::", PORT)));
        let socket = socket.context("receiving")?;
        let counts = Arc::<Mutex<HashMap<IpAddr, u64>>>::default();
        let counted = Arc::clone(&counts);
        thread::spawn(move || {
            let mut packet = [0; 2048];
            loop {
                match socket.recv_from(&mut packet) {
                    Ok((_, from)) => {
                        let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
                        *counted.entry(from.ip().to_canonical()).or_default() += 1;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
        Ok(Self(counts))
    }

    fn arrived(&self, hosts: &[IpAddr]) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.iter().filter_map(|host| counts.get(host)).sum()
    }
}

/// Sends all flows at the same time, each at its own pace, and counts what arrives.
pub fn send(
    network: &Network,
    receiver: &Receiver,
    flows: &[Flow],
    duration: Duration,
    interrupted: &AtomicBool,
) -> Result<Vec<Figure>> {
    for host in flows.iter().flat_map(|flow| &flow.hosts) {
        let address = host.to_string();
        // An earlier step may have added it.
        network
            .far
            .ip(&["address", "replace", &address, "dev", INTERFACE, "nodad"])?;
    }
    let before: Vec<u64> = flows.iter().map(|it| receiver.arrived(&it.hosts)).collect();
    let lanes = network.far.enter(|| {
        let lanes = flows.iter().map(Lane::new);
        let mut lanes: Vec<Lane> = lanes.collect::<Result<_>>()?;
        let start = clock::monotonic();
        for lane in &mut lanes {
            lane.due = start;
        }
        while let Some(lane) = lanes.iter_mut().min_by_key(|it| it.due)
            && lane.due < start + duration
        {
            super::check(interrupted)?;
            thread::sleep(lane.due.saturating_duration_since(clock::monotonic()));
            lane.send()?;
        }
        Ok::<_, anyhow::Error>(lanes)
    })?;
    thread::sleep(LATE);
    let figures = lanes.iter().zip(flows).zip(before);
    let figure = |((lane, flow), before): ((&Lane, &Flow), u64)| Figure {
        source: flow.source.to_owned(),
        traffic: flow.traffic(),
        limit: flow.limit.to_owned(),
        sent: lane.sent,
        arrived: receiver.arrived(&flow.hosts) - before,
        expected: flow.admitted(lane.sent, lane.last - lane.first),
    };
    Ok(figures.map(figure).collect())
}

/// The sockets of a flow, and when it sends next.
struct Lane {
    sockets: Vec<UdpSocket>,
    packet: Vec<u8>,
    gap: Duration,
    due: Instant,
    first: Instant,
    last: Instant,
    sent: u64,
}

impl Lane {
    fn new(flow: &Flow) -> Result<Self> {
        let socket = |host: &IpAddr| {
            let socket = UdpSocket::bind(SocketAddr::new(*host, 0))?;
            socket.connect((NEAR[usize::from(host.is_ipv6())], PORT))?;
            Ok(socket)
        };
        let now = clock::monotonic();
        Ok(Self {
            sockets: flow.hosts.iter().map(socket).collect::<Result<_>>()?,
            packet: vec![0; flow.frame_bytes - HEADERS],
            gap: flow.gap,
            due: now,
            first: now,
            last: now,
            sent: 0,
        })
    }

    /// Sends a packet from the host whose turn it is.
    fn send(&mut self) -> Result<()> {
        let turn = usize::try_from(self.sent)? % self.sockets.len();
        self.sockets[turn].send(&self.packet)?;
        self.last = clock::monotonic();
        if self.sent == 0 {
            self.first = self.last;
        }
        self.sent += 1;
        // A source that was held up does not catch up: it would be faster than its pace.
        self.due = (self.due + self.gap).max(self.last);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gets_its_limit_in_each_window_and_never_more_than_it_sends() {
        let time = Duration::from_millis(3600);
        let flows = flows();
        assert_eq!(flows[0].admitted(90, time), 90..=90);
        assert_eq!(flows[1].admitted(1080, time), 379..=400);
        assert_eq!(flows[2].admitted(3600, time), 400..=400);
        assert_eq!(flows[3].admitted(720, time), 200..=200);
        assert_eq!(flows[4].admitted(1800, time), 1800..=1800);
    }

    #[test]
    fn frames_and_hosts_are_those_that_are_shown() {
        let flows = flows();
        assert_eq!(flows[3].traffic(), "200/s, 1000 B");
        assert_eq!(
            (flows[5].traffic().as_str(), flows[5].hosts.len()),
            ("300/s, 4 hosts", 4)
        );
        let mut hosts: Vec<_> = flows.iter().flat_map(|it| &it.hosts).collect();
        hosts.sort_unstable();
        hosts.dedup();
        assert_eq!(hosts.len(), 9);
    }
}
