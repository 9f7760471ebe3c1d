//! What reads: each answers a question from the [state](super::State), and changes nothing.

pub mod check;
mod covering;
pub mod export;
mod limit_state;
pub mod lists;
pub mod new_sources;
pub mod preview;
pub mod suggest;
pub mod top;
pub mod views;

use ratelimit_core::{
    api::{Check, ListView, Refused, SuggestRequest, Suggested},
    config::Crowdsec,
    detection::Rules,
};
use tokio::sync::watch;

use super::controller::Controller;

impl Controller {
    /// What would happen to a packet.
    ///
    /// # Errors
    ///
    /// When there is no such packet or interface, or the kernel's tables cannot be read.
    pub fn check(&self, question: impl Into<check::Question>) -> Result<Check, Refused> {
        check::check(&self.state, &self.links, question.into())
    }

    /// The limits that would have let the asked part of all windows through, with headroom.
    ///
    /// # Errors
    ///
    /// When what is asked for makes no sense, or of no limit enough was seen.
    pub fn suggest(&self, request: &SuggestRequest) -> Result<Suggested, Refused> {
        suggest::suggest(&self.state, &self.history, self.started, request)
    }

    /// The lists, by name: those that there are, and those that never could be read.
    #[must_use]
    pub fn lists(&self) -> Vec<ListView> {
        lists::lists(&self.state, &self.list_files)
    }

    /// What is looked for in samples.
    #[must_use]
    pub fn attack_rules(&self) -> Rules {
        self.state.intent.config.attacks.clone()
    }

    /// Which API of `CrowdSec` is to be followed, now and after each reload.
    #[must_use]
    pub fn crowdsec_wish(&self) -> watch::Receiver<Option<Crowdsec>> {
        self.crowdsec.wishes()
    }
}
