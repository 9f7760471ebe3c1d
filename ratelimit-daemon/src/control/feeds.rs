//! What produces changes by itself. A feed owns what it knows, reads the state and proposes edits.
//!
//! It never writes to the kernel or the database: [`State::take`] makes what it proposes, so a feed sees `&State`.

pub mod adopted;
pub mod attacks;
pub mod cluster;
pub mod crowdsec;
pub mod detected;
pub mod ended;
pub mod lists;
pub mod pass_all;
pub mod trials;

use std::net::IpAddr;

use ratelimit_common::{Detected, Instant};
use ratelimit_core::{
    api::{Changed, Refused},
    intent::Edit,
};

use super::{record::Cause, state::State};
use crate::clock;

/// One source of changes.
pub trait Feed {
    /// The edits that are due. Without any, nothing is changed.
    ///
    /// # Errors
    ///
    /// Why it cannot tell.
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

impl State {
    /// Makes the changes that a feed proposes: all of them, or none.
    ///
    /// # Errors
    ///
    /// Why none of them was made. The feed has been told.
    pub fn take(&mut self, feed: &mut impl Feed) -> Result<Changed, Refused> {
        self.take_at(feed, clock::now())
    }

    /// The same at another time.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub(super) fn take_at(
        &mut self,
        feed: &mut impl Feed,
        now: Instant,
    ) -> Result<Changed, Refused> {
        let answer = match feed.due(self, now) {
            Ok(edits) if edits.is_empty() => Ok(Changed::default()),
            Ok(edits) => self.apply(edits, feed.cause()),
            Err(refused) => Err(refused),
        };
        feed.settle(self, &answer);
        let adopted = feed.adopted();
        if adopted.is_empty() {
            return answer;
        }
        let forgotten = self.enforcer.detections().forget_detected(&adopted);
        let forgotten = forgotten.map_err(Refused::from).and(answer);
        if forgotten.is_err() {
            feed.settle(self, &forgotten);
        }
        forgotten
    }
}
