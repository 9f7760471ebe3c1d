//! The stores that the product has for the state of sources: a dimension of every case.

use crate::goal::Goal;

/// Where the state of sources is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Store {
    /// BPF's LRU hash maps.
    Lru,
}

/// What packets may cost in a store.
pub struct Goals {
    /// One source, within its limit.
    pub hot: Goal,
    /// One source, over its limit.
    pub limited: Goal,
    /// 65,536 sources.
    pub many: Goal,
    /// 1,048,576 sources.
    pub million: Goal,
    /// 2^32 sources.
    pub flood: Goal,
}

impl Store {
    /// Every store.
    pub const ALL: [Self; 1] = [Self::Lru];

    /// Its name, with which those of its cases begin.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Lru => "lru",
        }
    }

    /// What chooses it in the configuration file.
    pub const fn toml(self) -> &'static str {
        match self {
            // The only one there is.
            Self::Lru => "",
        }
    }

    /// What it is to cost.
    pub const fn goals(self) -> Goals {
        match self {
            Self::Lru => Goals {
                hot: Goal::AtMost(3.5),
                limited: Goal::AtMost(4.0),
                many: Goal::AtMost(7.0),
                million: Goal::AtMost(22.0),
                flood: Goal::AtMost(42.0),
            },
        }
    }
}
