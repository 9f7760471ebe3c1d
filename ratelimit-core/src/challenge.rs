//! The challenge of sources, as people say it.

use std::{fmt, net::IpAddr, num::NonZeroU32, time::Duration};

use ratelimit_common::{
    Ipv4, Ipv6,
    challenge::{Asked, PORTS_MAX, Rules, TARGETS_MAX, Targets, When},
};

use crate::{ip_family::IpAddress as _, limit::Scope, prefix::Prefix, quantity};

/// The most destinations, of both families.
pub const DESTINATIONS_MAX: usize = TARGETS_MAX;

/// When sources have to prove themselves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Challenge {
    /// Those that ask for TCP connections: beyond how many of these in a second.
    pub connections: When,
    /// Those that ask a DNS server: beyond how many datagrams in a second.
    pub queries: When,
    /// The destinations to which connections are challenged; all where none is named.
    pub destinations: [Option<Prefix>; DESTINATIONS_MAX],
    /// The ports of them, likewise; 0 is none.
    pub connection_ports: [u16; PORTS_MAX],
    /// The ports that serve DNS; 0 is none.
    pub ports: [u16; PORTS_MAX],
    /// How long a source stays verified.
    pub lasts: Duration,
    /// Answers in a second, to all sources together.
    pub answers: NonZeroU32,
    /// What they answer.
    pub way: Way,
    /// Who counts as verified: who proved itself on any node of the cluster, or here alone.
    pub scope: Scope,
    /// For how long nobody is challenged where nobody ever proved itself; `None` where that changes nothing.
    pub back_off: Option<Duration>,
}

/// What a SYN of a source that is not verified is answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// A wrong acknowledgement, which the source resets.
    Rst,
    /// A cookie of the listener, where there is one that gives one.
    Syncookie,
}

impl Way {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::Rst, Self::Syncookie];

    /// Its name, as it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rst => "rst",
            Self::Syncookie => "syncookie",
        }
    }
}

impl Challenge {
    /// The rules as the datapath reads them, where `cpus` CPUs draw shares.
    ///
    /// # Panics
    ///
    /// When a number is none that the configuration takes.
    pub fn compile(&self, cpus: u32) -> Rules {
        let rules = Rules::new(self.connections, self.lasts, self.answers, cpus);
        let rules = rules.and_then(|rules| rules.asking_queries(self.queries, self.ports, cpus));
        let rules = rules.expect("the configuration refuses more");
        let rules = rules.of_targets(self.targets());
        rules.asking_listeners(self.way == Way::Syncookie)
    }

    fn targets(&self) -> Targets {
        let all = Targets::default().at_ports(self.connection_ports);
        self.destinations().fold(all, |targets, prefix| {
            let bits = prefix.len();
            let next = match prefix.address() {
                IpAddr::V4(front) => targets.with(Ipv4::from(front), Ipv4::mask(bits)),
                IpAddr::V6(front) => targets.with(Ipv6::from(front), Ipv6::mask(bits)),
            };
            next.expect("a family has room for all")
        })
    }

    /// The destinations to which connections are challenged; all where there is none.
    pub fn destinations(&self) -> impl Iterator<Item = Prefix> {
        self.destinations.into_iter().flatten()
    }

    /// The ports of them, likewise.
    pub fn connection_ports(&self) -> impl Iterator<Item = u16> {
        let ports = self.connection_ports.into_iter();
        ports.filter(|port| *port != 0)
    }

    /// Whether connections to this address and port are challenged, while that is on. One that is not given is any.
    pub fn is_of(&self, to: Option<IpAddr>, port: Option<u16>) -> bool {
        let is_at = |port| {
            let mut ports = self.connection_ports().peekable();
            ports.peek().is_none() || ports.any(|it| it == port)
        };
        let is_in = |to: IpAddr| {
            let mut destinations = self.destinations().peekable();
            destinations.peek().is_none() || destinations.any(|it| it.covers(to.into()))
        };
        port.is_none_or(is_at) && to.is_none_or(is_in)
    }

    /// What connections are challenged to: `198.51.100.0/24, port 443`; `None` where that is all.
    pub fn to(&self) -> Option<String> {
        let mut named: Vec<String> = self.destinations().map(|it| it.to_string()).collect();
        let ports: Vec<u16> = self.connection_ports().collect();
        if !ports.is_empty() {
            named.push(to_ports(&ports));
        }
        (!named.is_empty()).then(|| named.join(", "))
    }

    /// When sources are challenged.
    pub const fn of(&self, asked: Asked) -> When {
        match asked {
            Asked::Connections => self.connections,
            Asked::Queries => self.queries,
        }
    }

    /// The same, as it is written.
    pub fn when(&self, asked: Asked) -> String {
        match self.of(asked) {
            When::Never => "never".to_owned(),
            When::Always => "always".to_owned(),
            When::Over(over) => format!("over {over} {}", unit(asked)),
        }
    }

    /// The ports that serve DNS, as far as sources are challenged for that.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        let ports = self.ports.into_iter().filter(|port| *port != 0);
        ports.filter(|_| self.queries != When::Never)
    }
}

/// What is counted.
pub(crate) const fn unit(asked: Asked) -> &'static str {
    match asked {
        Asked::Connections => "syn/s",
        Asked::Queries => "packets/s",
    }
}

impl fmt::Display for Challenge {
    /// `over 5000 syn/s, by rst, for 10m, at most 100000 answers a second; of DNS always, to port 53`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (when, lasts) = (
            self.when(Asked::Connections),
            quantity::duration(self.lasts),
        );
        formatter.write_str(&when)?;
        if let Some(to) = self.to() {
            write!(formatter, " to {to}")?;
        }
        write!(
            formatter,
            ", by {}, for {lasts}, at most {} answers a second",
            self.way.name(),
            self.answers
        )?;
        if self.scope == Scope::Node {
            formatter.write_str(", known to this node alone")?;
        }
        if self.queries == When::Never {
            return Ok(());
        }
        let ports: Vec<u16> = self.ports().collect();
        let queries = self.when(Asked::Queries);
        write!(formatter, "; of DNS {queries}, to {}", to_ports(&ports))
    }
}

/// `port 53`, `ports 53, 5353`
pub(crate) fn to_ports(ports: &[u16]) -> String {
    let noun = if ports.len() == 1 { "port" } else { "ports" };
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    format!("{noun} {}", ports.join(", "))
}
