//! What produces changes by itself. A feed owns what it knows, reads the state and proposes edits.
//!
//! It never writes to the kernel or the database: its edits go through [`State::apply`]. One that is asked what is due is a [`Feed`].

pub mod adopted;
pub mod attacks;
pub mod cluster;
pub mod crowdsec;
pub mod detected;
pub mod ended;
pub mod pass_all;
pub mod trials;

use std::net::IpAddr;

use ratelimit_common::{Detected, Instant};
use ratelimit_core::{
    api::{Changed, Refused},
    intent::Edit,
};

use super::{cause::Cause, state::State};

/// One source of changes.
pub trait Feed {
    /// The edits that are due. Without any, nothing is changed.
    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused>;

    /// Why entries go that its edits take away.
    fn cause(&self) -> Cause<'_> {
        Cause::Origin
    }

    /// Takes notice of what became of its edits: all of them hold in `state`, or none does.
    fn settle(&mut self, state: &State, answer: &Result<Changed, Refused>);

    /// Bans of the program that its edits hold in place of, so the program is to forget them.
    fn adopted(&mut self) -> Vec<(IpAddr, Detected)> {
        Vec::new()
    }
}
