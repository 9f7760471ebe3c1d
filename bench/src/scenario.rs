//! A scenario: a configuration, and the traffic measured on it.

use std::net::Ipv4Addr;

use ratelimit_core::{ip_family::IpFamily, prefix::Prefix};

use crate::{goal::Goal, lists, store::Store, traffic::Traffic};

/// An installation of the product, with its cases.
pub struct Scenario {
    /// The store of the state of sources.
    pub store: Store,
    /// The prefix of its cases' names.
    pub name: String,
    /// Its budget for new sources.
    pub new_sources: NewSources,
    /// The sources that can have state, where it is not the default.
    pub capacity: Option<u32>,
    /// The mode of its interface.
    pub mode: &'static str,
    /// Its configuration besides, without interface, paths and metrics.
    pub toml: String,
    /// Prefixes banned at runtime.
    pub bans: Vec<Prefix>,
    /// The number of random prefixes of each family that are banned besides.
    pub random_bans: usize,
    /// Prefixes allowed at runtime.
    pub allows: Vec<Prefix>,
    /// The entry that the scenario is about, if any, and whether its packets are counted for it.
    pub counted: Option<(Prefix, bool)>,
    /// The IPv4 sources that are verified.
    pub verified: Vec<Ipv4Addr>,
    /// The measured cases.
    pub cases: Vec<Case>,
}

/// The budget for new sources.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NewSources {
    /// The default of the store.
    Default,
    /// More than come, where the store has a budget by default: known sources pay for one, and all
    /// sources become known.
    Ample,
    /// Any number.
    Unlimited,
    /// A small number. The packets of others are dropped.
    Few,
}

impl NewSources {
    /// Returns the lines for the table `[source]` of the configuration file.
    pub const fn toml(self, store: Store) -> &'static str {
        match (self, store) {
            (Self::Default, _) | (Self::Ample, Store::Compact) => "",
            (Self::Ample, Store::Lru) => {
                "new_sources = { count = 16_777_215, per = \"1s\", over_budget = \"pass\" }"
            }
            (Self::Unlimited, _) => "new_sources = \"unlimited\"",
            (Self::Few, _) => {
                "new_sources = { count = 1_000, per = \"1s\", over_budget = \"drop\" }"
            }
        }
    }
}

/// Traffic on an installation.
pub struct Case {
    /// The traffic.
    pub traffic: Traffic,
    /// The reason of the verdict that the packets get, as `rlctl stats` names it.
    pub reason: &'static str,
    /// The goal.
    pub goal: Option<Goal>,
    /// Whether `--quick` measures it.
    pub is_core: bool,
}

impl Scenario {
    /// A scenario without lists and cases.
    pub fn new(store: Store, name: impl Into<String>, toml: impl Into<String>) -> Self {
        Self {
            store,
            name: name.into(),
            new_sources: NewSources::Ample,
            capacity: None,
            mode: "native",
            toml: toml.into(),
            bans: vec![],
            random_bans: 0,
            allows: vec![],
            counted: None,
            verified: vec![],
            cases: vec![],
        }
    }

    /// The scenario with another budget for new sources.
    pub fn new_sources(self, new_sources: NewSources) -> Self {
        Self {
            new_sources,
            ..self
        }
    }

    /// The scenario with another mode of its interface.
    pub fn mode(self, mode: &'static str) -> Self {
        Self { mode, ..self }
    }

    /// Sets the number of sources with room.
    pub fn capacity(self, capacity: u32) -> Self {
        Self {
            capacity: Some(capacity),
            ..self
        }
    }

    /// The prefixes banned at runtime, with the random ones.
    pub fn all_bans(&self) -> Vec<Prefix> {
        let random = IpFamily::ALL.map(|family| lists::random(family, self.random_bans));
        [&*self.bans, &random.concat()].concat()
    }

    /// The scenario with one more case.
    pub fn case(mut self, case: Case) -> Self {
        self.cases.push(case);
        self
    }

    /// The name of a case: `lru/pass/ipv4/hot`.
    pub fn name_of(&self, case: &Case) -> String {
        name(self.store, &self.name, case.traffic)
    }
}

/// The name of a case.
pub fn name(store: Store, scenario: &str, traffic: Traffic) -> String {
    format!("{}/{scenario}/{}", store.label(), traffic.label())
}

impl Case {
    /// A case whose packets get a verdict for `reason`.
    pub const fn new(traffic: Traffic, reason: &'static str) -> Self {
        Self {
            traffic,
            reason,
            goal: None,
            is_core: false,
        }
    }

    /// The case with a goal.
    pub fn goal(self, goal: Goal) -> Self {
        Self {
            goal: Some(goal),
            ..self
        }
    }

    /// The case with a goal, if there is one.
    pub fn maybe_goal(self, goal: Option<Goal>) -> Self {
        Self { goal, ..self }
    }

    /// The case, for `--quick` too.
    pub fn core(self) -> Self {
        Self {
            is_core: true,
            ..self
        }
    }
}
