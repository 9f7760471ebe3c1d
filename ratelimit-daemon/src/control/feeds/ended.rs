//! What is over: bans, allows and limits, and sources that were quiet for long enough.
//!
//! The kernel ends them by itself. The database forgets them later, and a daemon that starts forgets them too.

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Changed, Refused},
    intent::Edit,
};
use tracing::warn;

use super::Feed;
use crate::control::{record::Cause, state::State};

/// Has no state of its own.
pub struct Ended;

impl Feed for Ended {
    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused> {
        let forgotten = state.intent.forgotten(now).into_iter();
        let forgotten = forgotten.map(|source| Edit::Offence(source, None));
        Ok(forgotten.chain(state.intent.ended(now)).collect())
    }

    fn cause(&self) -> Cause<'_> {
        Cause::Time
    }

    fn settle(&mut self, _: &State, answer: &Result<Changed, Refused>) {
        if let Err(refused) = answer {
            warn!(error = refused.error, "what is over could not be ended");
        }
    }
}
