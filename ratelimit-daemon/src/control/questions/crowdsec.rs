//! `CrowdSec`.

use ratelimit_core::config::Crowdsec;
use tokio::sync::watch;

use crate::control::{controller::Controller, question::Question};

/// Which API is to be followed, and later after each reload.
#[derive(Clone, Copy)]
pub struct CrowdsecWishes;

impl Question for CrowdsecWishes {
    type Answer = watch::Receiver<Option<Crowdsec>>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        controller.crowdsec.wishes()
    }
}
