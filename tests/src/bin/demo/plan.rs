//! Who sends what, how fast, and what the configuration allows them.

use std::{net::IpAddr, time::Duration};

use ratelimit_tests::lab::INTERFACE;

use super::frame::{self, Protocol};

/// How long all of them send: every source over its limit fills its seventh window well before the end.
pub const DURATION: Duration = Duration::from_millis(6600);

/// Who may send how much.
const POLICIES: &str = r#"[policy.default]
limits = [{ packets = 100, per = "1s" }]

[policy.partner]
sources = ["203.0.113.0/24"]
limits = [{ bytes = "50kB", per = "1s", algorithm = "fixed-window" }]

[allow]
sources = ["192.0.2.10"]
"#;

/// What a source may send in a second.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Packets(u64),
    Bytes(u64),
}

const DEFAULT: Option<Limit> = Some(Limit::Packets(100));
const PARTNER: Option<Limit> = Some(Limit::Bytes(50_000));
const ALLOWED: Option<Limit> = None;

/// A second over a hundred packets, and a hundredth for a late one.
const JUST_AT_THE_LIMIT: Duration = Duration::from_micros(10_100);

/// Packets that count as those of one source.
pub struct Flow {
    /// The source as the daemon keys it.
    pub source: &'static str,
    /// The hosts that take turns.
    pub hosts: Vec<IpAddr>,
    /// The time between two packets.
    pub gap: Duration,
    /// What it may send.
    limit: Option<Limit>,
    protocol: Protocol,
    frame_bytes: Option<usize>,
    vlan: Option<u16>,
}

/// What the daemon is configured with, as it is shown to the user.
pub fn configuration() -> String {
    format!("on_stop = \"detach\"\n\n[[interface]]\nname = \"{INTERFACE}\"\n\n{POLICIES}")
}

/// The flows, each with one thing to show.
pub fn flows() -> Vec<Flow> {
    use Protocol::{Icmp, Tcp, Udp};
    vec![
        Flow::new("198.51.100.1", Udp, per_second(50), DEFAULT),
        Flow::new("198.51.100.2", Tcp, JUST_AT_THE_LIMIT, DEFAULT),
        Flow::new("198.51.100.3", Icmp, per_second(300), DEFAULT),
        Flow::new("198.51.100.4", Udp, per_second(1000), DEFAULT),
        Flow::new("198.51.100.5", Tcp, per_second(300), DEFAULT).in_vlan(100),
        Flow::new("203.0.113.9", Udp, per_second(200), PARTNER).of_bytes(1000),
        Flow::new("192.0.2.10", Udp, per_second(1000), ALLOWED),
        Flow::new("2001:db8:a::1", Icmp, per_second(50), DEFAULT),
        Flow::new("2001:db8:b::/64", Tcp, per_second(300), DEFAULT).with_hosts(4),
    ]
}

impl Flow {
    fn new(source: &'static str, protocol: Protocol, gap: Duration, limit: Option<Limit>) -> Self {
        Self {
            source,
            hosts: source.parse().into_iter().collect(),
            gap,
            limit,
            protocol,
            frame_bytes: None,
            vlan: None,
        }
    }

    fn in_vlan(mut self, id: u16) -> Self {
        self.vlan = Some(id);
        self
    }

    fn of_bytes(mut self, bytes: usize) -> Self {
        self.frame_bytes = Some(bytes);
        self
    }

    /// Hosts of the prefix that `source` is.
    fn with_hosts(mut self, count: u16) -> Self {
        let (network, _) = self.source.split_once("::").unwrap_or_default();
        self.hosts = (1..=count)
            .filter_map(|host| format!("{network}::{host:x}").parse().ok())
            .collect();
        self
    }

    /// `TCP 300/s, VLAN 100`
    pub fn traffic(&self) -> String {
        let rate = (1.0 / self.gap.as_secs_f64()).round();
        let hosts = (self.hosts.len() > 1).then(|| format!("{} hosts", self.hosts.len()));
        let size = self.frame_bytes.map(|bytes| format!("{bytes} B"));
        let vlan = self.vlan.map(|id| format!("VLAN {id}"));
        let parts = [
            Some(format!("{} {rate}/s", self.protocol)),
            hosts,
            size,
            vlan,
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// `100 packets`, in a second
    pub fn allowance(&self) -> String {
        match self.limit {
            None => "allowed".to_owned(),
            Some(Limit::Packets(amount)) => format!("{amount} packets"),
            Some(Limit::Bytes(amount)) => format!("{} kB", amount / 1000),
        }
    }

    /// The packets that it may send in a second; `None` for any number.
    pub fn packets_max(&self) -> Option<u64> {
        self.limit.map(|limit| match (limit, self.frame_bytes) {
            (Limit::Packets(amount), _) => amount,
            (Limit::Bytes(amount), bytes) => amount / bytes.map_or(1, |bytes| bytes as u64),
        })
    }

    /// A frame from each of its hosts.
    pub fn frames(&self) -> Vec<Vec<u8>> {
        let frames = self.hosts.iter().map(|&host| {
            let frame = frame::from(host, self.protocol, self.vlan);
            frame.pad_to(self.frame_bytes.unwrap_or(0)).build()
        });
        frames.collect()
    }
}

fn per_second(packets: u32) -> Duration {
    Duration::from_secs(1) / packets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_has_a_frame_of_each_of_its_hosts() {
        for flow in flows() {
            assert!(!flow.hosts.is_empty(), "{}", flow.source);
            let sources: Vec<_> = flow
                .frames()
                .iter()
                .filter_map(|frame| frame::source(frame))
                .collect();
            assert_eq!(sources, flow.hosts);
        }
    }

    #[test]
    fn no_host_sends_for_two_flows() {
        let mut hosts: Vec<_> = flows().into_iter().flat_map(|flow| flow.hosts).collect();
        let count = hosts.len();
        hosts.sort_unstable();
        hosts.dedup();
        assert_eq!(hosts.len(), count);
    }

    #[test]
    fn frames_have_the_size_that_is_shown() {
        for flow in flows() {
            for frame in flow.frames() {
                assert!(flow.frame_bytes.is_none_or(|bytes| bytes == frame.len()));
            }
        }
    }
}
