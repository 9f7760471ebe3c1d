//! The sources, their limits, and the packets that arrive.

use std::{
    collections::HashMap,
    io::ErrorKind,
    net::{IpAddr, SocketAddr, UdpSocket},
    ops::{Range, RangeInclusive},
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use serde::Serialize;

use super::network::{INTERFACE, NEAR, Network};
use crate::clock;

const PORT: u16 = 9;
/// Headers of Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;
/// All packets have arrived once none came for this long.
const LATE: Duration = Duration::from_millis(300);
/// How far the limiter may be from the sender on when a packet arrives: the tick of its clock, and
/// the delay on a busy machine.
const DELAY: Duration = Duration::from_millis(20);
const WINDOW: Duration = Duration::from_secs(1);
/// Holds all packets of the demo, in case this process gets no CPU time.
const RECEIVE_BYTES: usize = 16 << 20;

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

    /// Returns how many packets a fixed window of a second admits, of those sent at these times.
    ///
    /// A busy machine holds the sender up, so the pace alone does not tell. Each window opens with
    /// a packet, and the next one opens with any packet that may be the first after its end.
    fn admitted(&self, sent_at: &[Range<Instant>]) -> RangeInclusive<u64> {
        let sent = sent_at.len();
        let Some(limit) = self.per_second else {
            return sent as u64..=sent as u64;
        };
        // The packets admitted from each one on, if it opens a window.
        let mut least = vec![0; sent + 1];
        let mut most = vec![0; sent + 1];
        for (opening, at) in sent_at.iter().enumerate().rev() {
            let (early, late) = (
                at.start + WINDOW.saturating_sub(DELAY),
                at.end + (WINDOW + DELAY),
            );
            let first = sent_at
                .partition_point(|it| it.end < early)
                .max(opening + 1);
            let last = sent_at.partition_point(|it| it.start < late).max(first);
            let total = |of: &[u64], next: usize| limit.min((next - opening) as u64) + of[next];
            let totals = |of| (first..=last).map(move |next| total(of, next));
            let (low, high) = (totals(&least).min(), totals(&most).max());
            (least[opening], most[opening]) = low.zip(high).unwrap_or_default();
        }
        least[0]..=most[0]
    }
}

/// Counts packets by source where they arrive.
pub struct Receiver {
    socket: UdpSocket,
    counts: HashMap<IpAddr, u64>,
}

impl Receiver {
    pub fn new(network: &Network) -> Result<Self> {
        let socket = network.near.enter(|| UdpSocket::bind(("::", PORT)));
        let socket = socket.context("receiving")?;
        socket.set_nonblocking(true)?;
        set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES)?;
        let counts = HashMap::new();
        Ok(Self { socket, counts })
    }

    /// Counts the packets that are there, and returns whether there were any.
    fn receive(&mut self) -> Result<bool> {
        let mut packet = [0; 2048];
        let mut any = false;
        loop {
            match self.socket.recv_from(&mut packet) {
                Ok((_, from)) => *self.counts.entry(from.ip().to_canonical()).or_default() += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(any),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("receiving"),
            }
            any = true;
        }
    }

    fn arrived(&self, hosts: &[IpAddr]) -> u64 {
        hosts.iter().filter_map(|host| self.counts.get(host)).sum()
    }
}

/// Sends all flows at the same time, each at its own pace, and counts what arrives.
pub fn send(
    network: &Network,
    receiver: &mut Receiver,
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
            receiver.receive()?;
        }
        Ok::<_, anyhow::Error>(lanes)
    })?;
    loop {
        thread::sleep(LATE);
        if !receiver.receive()? {
            break;
        }
    }
    let figures = lanes.iter().zip(flows).zip(before);
    let figure = |((lane, flow), before): ((&Lane, &Flow), u64)| Figure {
        source: flow.source.to_owned(),
        traffic: flow.traffic(),
        limit: flow.limit.to_owned(),
        sent: lane.sent_at.len() as u64,
        arrived: receiver.arrived(&flow.hosts) - before,
        expected: flow.admitted(&lane.sent_at),
    };
    Ok(figures.map(figure).collect())
}

/// The sockets of a flow, and when it sends next.
struct Lane {
    sockets: Vec<UdpSocket>,
    packet: Vec<u8>,
    gap: Duration,
    due: Instant,
    /// Before and after the call that sent each packet.
    sent_at: Vec<Range<Instant>>,
}

impl Lane {
    fn new(flow: &Flow) -> Result<Self> {
        let socket = |host: &IpAddr| {
            let socket = UdpSocket::bind(SocketAddr::new(*host, 0))?;
            socket.connect((NEAR[usize::from(host.is_ipv6())], PORT))?;
            Ok(socket)
        };
        Ok(Self {
            sockets: flow.hosts.iter().map(socket).collect::<Result<_>>()?,
            packet: vec![0; flow.frame_bytes - HEADERS],
            gap: flow.gap,
            due: clock::monotonic(),
            sent_at: Vec::new(),
        })
    }

    /// Sends a packet from the host whose turn it is.
    fn send(&mut self) -> Result<()> {
        let turn = self.sent_at.len() % self.sockets.len();
        let start = clock::monotonic();
        self.sockets[turn].send(&self.packet)?;
        let end = clock::monotonic();
        self.sent_at.push(start..end);
        // A source that was held up does not catch up: it would be faster than its pace.
        self.due = (self.due + self.gap).max(end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is admitted if `flow` sends from the first to the second millisecond of each
    /// stretch.
    fn admitted(flow: &Flow, stretches: &[[u64; 2]]) -> RangeInclusive<u64> {
        let start = clock::monotonic();
        let mut sent_at = Vec::new();
        for [from, to] in stretches.iter().map(|it| it.map(Duration::from_millis)) {
            let packets = to.saturating_sub(from).as_micros() / flow.gap.as_micros();
            let packets = u32::try_from(packets).unwrap();
            let at = (0..packets).map(|packet| start + from + flow.gap * packet);
            sent_at.extend(at.map(|it| it..it));
        }
        flow.admitted(&sent_at)
    }

    #[test]
    fn a_source_gets_its_limit_in_each_window_and_never_more_than_it_sends() {
        let flows = flows();
        let expected = [180, 400, 400, 200, 1800, 400];
        for (flow, expected) in flows.iter().zip(expected) {
            let admitted = admitted(flow, &[[0, 3600]]);
            assert_eq!(admitted, expected..=expected, "{}", flow.source);
        }
    }

    #[test]
    fn a_source_that_was_held_up_gets_what_fits_its_windows() {
        let flow = Flow::steady("192.0.2.7", 300);
        assert_eq!(admitted(&flow, &[[0, 900], [1700, 3600]]), 300..=300);
        // The second window has about 29 packets before the break and 16 after it.
        let admitted = admitted(&flow, &[[0, 1100], [1950, 3600]]);
        assert!((331..=340).contains(admitted.start()), "{admitted:?}");
        assert!((350..=362).contains(admitted.end()), "{admitted:?}");
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
