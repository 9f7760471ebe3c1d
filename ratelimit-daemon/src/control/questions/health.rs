//! `/healthz`.

use ratelimit_core::api::Unenforced;

use crate::control::{controller::Controller, links::PINS, question::Question};

/// What is not enforced, what is wrong with the pins, and whether everything passes.
#[derive(Clone, Copy)]
pub struct Health;

impl Question for Health {
    type Answer = (Vec<Unenforced>, Option<String>, bool);

    fn answer(self, controller: &Controller) -> Self::Answer {
        let pins = controller.troubles.of(PINS).map(str::to_owned);
        let is_open = controller.pass_all.status().is_some();
        (controller.unenforced(), pins, is_open)
    }
}
