//! What a policy does with every packet of its sources, before any limit.

use super::{DROPS, DRY_RUN};

/// It stands in the entries of the lists, so packets pay nothing for it that are on none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PolicyAction {
    /// Its limits judge them, inside a prefix whose policy drops. To the program that is the same as no action.
    Limit,
    /// It drops them.
    Drop,
    /// It would drop them, and they pass: a dry run.
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
