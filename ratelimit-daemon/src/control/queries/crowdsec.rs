//! Which API of `CrowdSec` is followed.

use ratelimit_core::config::Crowdsec;
use tokio::sync::watch;

use crate::control::controller::Controller;

/// Which API of `CrowdSec` is to be followed, and later after each reload.
pub fn crowdsec_wishes(controller: &Controller) -> watch::Receiver<Option<Crowdsec>> {
    controller.feeds.crowdsec.wishes()
}
