//! A sample of the kernel's counters.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use ratelimit_common::{Family, Verdict, layout::Counter};
use ratelimit_core::api::AttackView;

use super::series::Sums;

/// The counters at a moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When, by the wall clock.
    pub at: Timestamp,
    /// When, by a clock that does not jump: since the machine started.
    pub since_boot: Duration,
    /// The counters at this time.
    pub counters: Counters,
    /// Remaining quota of watched limits.
    pub levels: Sums,
    /// The attacks that are going on.
    pub attacks: Vec<AttackView>,
    /// The age at which history is deleted; `None` if it is not recorded.
    pub keep: Option<Duration>,
}

/// Counters since the tables were created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// The counters by interface, including interfaces without packets.
    pub interfaces: BTreeMap<String, BTreeMap<(u8, usize), Counter>>,
    /// The counters by policy.
    pub policies: BTreeMap<Arc<str>, Counter>,
}

impl Counters {
    /// Adds counters of an interface.
    pub fn count(&mut self, interface: String, family: Family, verdict: Verdict, count: Counter) {
        let place = (family as u8, verdict.index());
        let counts = self.interfaces.entry(interface).or_default();
        counts.insert(place, count);
    }
}

/// An interface, a family, a verdict, packets and bytes.
type Row = (String, u8, usize, u64, u64);
/// Interfaces, their counters, and those of policies.
type Document = (Vec<String>, Vec<Row>, Vec<(String, u64, u64)>);

impl Counters {
    /// Formats them for the file.
    pub fn to_json(&self) -> String {
        let names: Vec<&String> = self.interfaces.keys().collect();
        let rows = self.interfaces.iter().flat_map(|(name, counts)| {
            counts.iter().map(move |((family, verdict), count)| {
                (name, family, verdict, count.packets, count.bytes)
            })
        });
        let rows: Vec<_> = rows.collect();
        let policies = self.policies.iter();
        let policies: Vec<_> = policies
            .map(|(name, count)| (&**name, count.packets, count.bytes))
            .collect();
        serde_json::json!([names, rows, policies]).to_string()
    }

    /// Parses the form in the file.
    pub fn from_json(text: &str) -> Option<Self> {
        let (names, rows, policies): Document = serde_json::from_str(text).ok()?;
        let interfaces = names.into_iter().map(|name| (name, BTreeMap::new()));
        let mut interfaces: BTreeMap<String, BTreeMap<_, _>> = interfaces.collect();
        for (name, family, verdict, packets, bytes) in rows {
            let count = Counter { packets, bytes };
            interfaces.get_mut(&name)?.insert((family, verdict), count);
        }
        let policies = policies.into_iter();
        let policies =
            policies.map(|(name, packets, bytes)| (name.into(), Counter { packets, bytes }));
        Some(Self {
            interfaces,
            policies: policies.collect(),
        })
    }
}
