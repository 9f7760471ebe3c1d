//! What was adopted from the kernel in place of lists and of `CrowdSec`, until they say again whom they ban and allow.

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Changed, Refused},
    intent::Edit,
};
use tracing::{info, warn};

use super::Feed;
use crate::control::{lists::KEPT, state::State};

/// What was adopted.
#[derive(Debug, Default)]
pub struct Adopted {
    /// The entries that are being taken away.
    entries: usize,
}

impl Adopted {
    /// Whether there is any.
    pub fn is_there(state: &State) -> bool {
        let lists = state.intent.lists();
        KEPT.iter().any(|(name, _)| lists.contains_key(*name))
    }
}

impl Feed for Adopted {
    fn due(&mut self, state: &State, _: Instant) -> Result<Vec<Edit>, Refused> {
        let gone = KEPT.map(|(name, _)| state.intent.list_edit(&name.into(), None));
        self.entries = gone.iter().map(|(difference, _)| difference.removed).sum();
        Ok(gone.into_iter().filter_map(|(_, edit)| edit).collect())
    }

    fn settle(&mut self, _: &State, answer: &Result<Changed, Refused>) {
        match answer {
            Ok(_) => info!(
                entries = self.entries,
                "lists and CrowdSec say again whom they ban and allow: what was kept from the kernel in their place is gone"
            ),
            Err(refused) => warn!(
                error = refused.error,
                "what was kept from the kernel could not be taken away"
            ),
        }
    }
}
