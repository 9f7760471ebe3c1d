//! The challenge of sources, as configured.

use std::{fmt, net::IpAddr, num::NonZeroU32, time::Duration};

use ratelimit_common::{
    ClassSet, Ipv4, Ipv6,
    challenge::{PORTS_MAX, Rules, TARGETS_MAX, Targets, Traffic, Trigger},
};

use crate::{
    class::{Catalogue, Class, Match, Selected},
    ip_family::IpAddress as _,
    prefix::Prefix,
    quantity,
};

/// The most destinations, of both families.
pub const DESTINATIONS_MAX: usize = TARGETS_MAX;

/// The text for challenging all sources.
pub const ALWAYS: &str = "always";
/// The text for challenging none.
pub const NEVER: &str = "never";

/// The rules by which sources have to prove themselves.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Challenge {
    /// The threshold for challenging TCP connections: a rate per second.
    pub connections: Trigger,
    /// The threshold for challenging DNS queries: a rate per second.
    pub queries: Trigger,
    /// The destinations to which connections are challenged; empty for all.
    pub destinations: Vec<Prefix>,
    /// Destination ports of connections, if they are restricted.
    pub connection_ports: Vec<u16>,
    /// The names of the classes whose SYNs are challenged; empty for all.
    pub classes: Vec<String>,
    /// The ports that serve DNS.
    pub ports: Vec<u16>,
    /// The time for which a source stays verified.
    pub lasts: Duration,
    /// Answers in a second, to all sources together.
    pub answers: NonZeroU32,
    /// The exchange that proves a source.
    pub way: Way,
    /// Whether a listener that answers by a cookie scales its window. Then its buffer has to be the
    /// default one (`SO_RCVBUF`).
    pub window_scaling: bool,
    /// The pause of the challenge after no client completed it; `None` if it never pauses.
    pub back_off: Option<Duration>,
}

/// The reply to a SYN of a source that is not verified.
#[derive(Clone, Copy, Debug, Eq, PartialEq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Way {
    /// A wrong acknowledgement, which the source resets.
    Rst,
    /// A cookie of the listener, where there is one that gives one.
    Syncookie,
}

impl Way {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Challenge {
    /// Compiles the rules for the datapath. `cpus` CPUs draw shares, and `number` returns the
    /// number of a class in the catalogue.
    ///
    /// # Panics
    ///
    /// If a number is outside the range that the configuration permits.
    pub fn compile(
        &self,
        cpus: u32,
        catalogue: &Catalogue,
        number: impl Fn(&Class) -> ClassSet,
    ) -> Rules {
        let rules = Rules::new(self.connections, self.lasts, self.answers, cpus);
        let ports = in_array(&self.ports);
        let rules = rules.and_then(|rules| rules.asking_queries(self.queries, ports, cpus));
        let rules = rules.expect("the configuration refuses more");
        let mut rules = rules.of_targets(self.targets());
        if !self.classes.is_empty() {
            let classes: Vec<Class> = self.classes(catalogue).collect();
            let numbers = classes.iter().map(number);
            let numbers = numbers.fold(ClassSet::NONE, ClassSet::union);
            rules = rules.of_classes(numbers, classes.iter().any(Class::asks_headers));
        }
        rules.asking_listeners(self.way == Way::Syncookie)
    }

    fn targets(&self) -> Targets {
        let all = Targets::default().at_ports(in_array(&self.connection_ports));
        self.destinations.iter().fold(all, |targets, prefix| {
            let bits = prefix.len();
            let next = match prefix.address() {
                IpAddr::V4(front) => targets.with(Ipv4::from(front), Ipv4::mask(bits)),
                IpAddr::V6(front) => targets.with(Ipv6::from(front), Ipv6::mask(bits)),
            };
            next.expect("a family has room for all")
        })
    }

    /// Returns the classes of challenged SYNs. Empty for all.
    pub fn classes(&self, catalogue: &Catalogue) -> impl Iterator<Item = Class> {
        let selected = self.classes.iter();
        let selected = selected.map(|name| catalogue.select(&Match::Named(name.clone())));
        selected.filter_map(|selected| match selected {
            Ok(Selected::Class(class)) => Some(class),
            Ok(Selected::Other) | Err(_) => None,
        })
    }

    /// Describes the targets of challenged connections: `198.51.100.0/24, port 443`. `None` for
    /// all.
    pub fn to(&self) -> Option<String> {
        let mut named: Vec<String> = self.destinations.iter().map(Prefix::to_string).collect();
        if !self.connection_ports.is_empty() {
            named.push(to_ports(&self.connection_ports));
        }
        (!named.is_empty()).then(|| named.join(", "))
    }

    /// The classes of which SYNs are challenged: `class web`; `None` where that is all.
    pub fn of_classes(&self) -> Option<String> {
        let noun = match self.classes.len() {
            0 => return None,
            1 => "class",
            _ => "classes",
        };
        Some(format!("{noun} {}", self.classes.join(", ")))
    }

    /// The threshold for challenging this kind of request.
    pub const fn of(&self, traffic: Traffic) -> Trigger {
        match traffic {
            Traffic::Connections => self.connections,
            Traffic::Queries => self.queries,
        }
    }

    /// Describes the threshold as in the configuration.
    pub fn when(&self, traffic: Traffic) -> String {
        match self.of(traffic) {
            Trigger::Never => NEVER.to_owned(),
            Trigger::Always => ALWAYS.to_owned(),
            Trigger::Over(over) => format!("over {over} {}", unit(traffic)),
        }
    }

    /// The DNS ports whose sources are challenged.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        let ports = self.ports.iter().copied();
        ports.filter(|_| self.queries != Trigger::Never)
    }
}

/// Returns the ports in the format of the datapath: 0 is none.
fn in_array(ports: &[u16]) -> [u16; PORTS_MAX] {
    std::array::from_fn(|place| ports.get(place).copied().unwrap_or_default())
}

/// Describes the challenged SYNs: ` of class web to 198.51.100.7, port 443`. Empty for all.
pub fn narrowed(classes: Option<&str>, to: Option<&str>) -> String {
    let part = |word, it: Option<&str>| it.map_or_else(String::new, |it| format!(" {word} {it}"));
    part("of", classes) + &part("to", to)
}

/// The unit of the rate.
pub(crate) const fn unit(traffic: Traffic) -> &'static str {
    match traffic {
        Traffic::Connections => "syn/s",
        Traffic::Queries => "packets/s",
    }
}

impl fmt::Display for Challenge {
    /// `over 5000 syn/s, by rst, for 10m, at most 100000 answers a second; of DNS always, to port
    /// 53`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (when, lasts) = (
            self.when(Traffic::Connections),
            quantity::duration(self.lasts),
        );
        write!(
            formatter,
            "{when}{}, by {}, for {lasts}, at most {} answers a second",
            narrowed(self.of_classes().as_deref(), self.to().as_deref()),
            self.way.name(),
            self.answers
        )?;
        if self.queries == Trigger::Never {
            return Ok(());
        }
        let ports: Vec<u16> = self.ports().collect();
        let queries = self.when(Traffic::Queries);
        write!(formatter, "; of DNS {queries}, to {}", to_ports(&ports))
    }
}

/// `port 53`, `ports 53, 5353`
pub(crate) fn to_ports(ports: &[u16]) -> String {
    let noun = if ports.len() == 1 { "port" } else { "ports" };
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    format!("{noun} {}", ports.join(", "))
}
