//! Entries adopted from the kernel for lists and `CrowdSec`, until these have reported again.

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Changed, Refused},
    intent::Edit,
};
use tracing::{info, warn};

use super::Feed;
use crate::control::{lists::KEPT, state::State};

/// Removes the adopted entries when they are no longer needed.
#[derive(Default)]
pub struct Adopted {
    /// Whether lists and `CrowdSec` have reported everything again.
    pub is_over: bool,
    /// The number of entries being removed.
    going: Option<usize>,
}

impl Feed for Adopted {
    fn due(&mut self, state: &State, _: Instant) -> Result<Vec<Edit>, Refused> {
        let lists = state.intent.lists();
        let kept = KEPT.iter().filter_map(|(name, _)| lists.get(*name));
        let kept = kept
            .filter(|_| self.is_over)
            .map(|list| list.entries().len());
        self.going = kept.reduce(|all, more| all + more);
        let gone = KEPT.iter().filter(|_| self.going.is_some());
        let edits = gone.map(|(name, _)| state.intent.list_edit(&(*name).into(), None).1);
        Ok(edits.flatten().collect())
    }

    fn settle(
        &mut self,
        _: &mut State,
        answer: Result<Changed, Refused>,
    ) -> Result<Changed, Refused> {
        match (self.going.take(), &answer) {
            (None, _) => {}
            (Some(entries), Ok(_)) => info!(
                entries,
                "lists and CrowdSec are loaded again; removed the entries recovered from the kernel"
            ),
            (Some(_), Err(refused)) => warn!(
                error = refused.error,
                "cannot remove entries recovered from the kernel"
            ),
        }
        answer
    }
}
