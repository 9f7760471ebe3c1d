//! `rlctl pass-all`.

use std::sync::Arc;

use ratelimit_core::api::{PassAllRequest, PassAllStatus, Refused};

use super::Command;
use crate::control::controller::Controller;

/// Lets everything pass, for a time or until it is ended, or ends that. What was before stays when it fails.
pub struct SetPassAll(pub PassAllRequest, pub Arc<str>);

impl Command for SetPassAll {
    type Answer = Result<Option<PassAllStatus>, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        controller.pass_all.ask(&request, &author)?;
        controller.state.take(&mut controller.pass_all)?;
        Ok(controller.pass_all.last().cloned())
    }
}
