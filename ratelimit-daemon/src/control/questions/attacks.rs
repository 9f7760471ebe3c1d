//! What the detection of attacks looks for.

use std::net::IpAddr;

use ratelimit_core::detection::Rules;

use crate::control::{controller::Controller, queries::views, question::Question};

/// The rules, and the addresses of this host.
#[derive(Clone, Copy)]
pub struct AttackRules;

impl Question for AttackRules {
    type Answer = (Rules, Vec<IpAddr>);

    fn answer(self, controller: &Controller) -> Self::Answer {
        let state = &controller.state;
        let rules = state.intent.config.attacks.clone();
        (rules, views::own_addresses(state))
    }
}
