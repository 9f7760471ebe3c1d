//! The stores that the product has for the state of sources: a dimension of every case.

use crate::goal::Goal;

/// The store of the state of sources.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Store {
    /// BPF's LRU hash maps.
    Lru,
    /// Tables of sets, in BPF arrays.
    Compact,
}

/// The goals of a store.
pub struct Goals {
    /// One source, within its limit.
    pub hot: Goal,
    /// One source, over its limit.
    pub limited: Goal,
    /// 65,536 sources; an LRU hash map reaches no stated figure there.
    pub many: Option<Goal>,
    /// 1,048,576 sources.
    pub million: Goal,
    /// 2^31 sources.
    pub flood: Goal,
}

impl Store {
    /// Every store.
    pub const ALL: [Self; 2] = [Self::Lru, Self::Compact];

    /// Its name, with which those of its cases begin.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Compact => "compact",
        }
    }

    /// Returns the lines for the table `[source]` of the configuration file.
    pub const fn toml(self) -> &'static str {
        match self {
            Self::Lru => "store = \"lru\"",
            Self::Compact => "store = \"compact\"",
        }
    }

    /// Returns the goals.
    pub const fn goals(self) -> Goals {
        match self {
            Self::Lru => Goals {
                hot: Goal::AtMost(3.5),
                limited: Goal::AtMost(4.0),
                many: None,
                million: Goal::AtMost(22.0),
                flood: Goal::AtMost(42.0),
            },
            Self::Compact => Goals {
                hot: Goal::AtMost(3.0),
                limited: Goal::AtMost(3.5),
                many: Some(Goal::AtMost(5.0)),
                million: Goal::AtMost(10.0),
                flood: Goal::AtMost(10.0),
            },
        }
    }
}
