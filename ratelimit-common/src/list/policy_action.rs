//! The action of a policy on every packet of its sources, before any limit.

use super::{DROPS, DRY_RUN};

/// It is part of a list entry, so packets without an entry pay nothing for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PolicyAction {
    /// Applies the limits, inside of a prefix whose policy drops. The program treats it like no
    /// action.
    Limit,
    /// Drops the packets.
    Drop,
    /// Counts the packets as dropped and passes them, in a dry run.
    Observe,
}

impl PolicyAction {
    pub(super) const fn bits(action: Option<Self>) -> u64 {
        match action {
            None => 0,
            Some(Self::Limit) => DRY_RUN,
            Some(Self::Drop) => DROPS,
            Some(Self::Observe) => DROPS | DRY_RUN,
        }
    }

    pub(super) const fn of_bits(said: u64) -> Option<Self> {
        match (said & DROPS != 0, said & DRY_RUN != 0) {
            (false, false) => None,
            (false, true) => Some(Self::Limit),
            (true, false) => Some(Self::Drop),
            (true, true) => Some(Self::Observe),
        }
    }
}
