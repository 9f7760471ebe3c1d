//! `rlctl check`.

use ratelimit_core::api;
use ratelimit_core::api::Refused;

use crate::control::{
    controller::Controller,
    queries::check::{self, Packet},
    question::Question,
};

/// What becomes of a packet.
pub struct Check(pub Packet);

impl Question for Check {
    type Answer = Result<api::Check, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        check::check(
            &controller.state,
            &controller.interfaces.links,
            &controller.cluster,
            self.0,
        )
    }
}
