//! The API of `CrowdSec` that is followed.

use ratelimit_core::config::Crowdsec;
use tokio::sync::watch;

use crate::control::controller::Controller;

/// Follows the configured API of `CrowdSec`, which may change with each reload.
pub fn crowdsec_wishes(controller: &Controller) -> watch::Receiver<Option<Crowdsec>> {
    controller.feeds.crowdsec.wishes()
}
