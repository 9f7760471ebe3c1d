//! `rlctl pass-all`.

use std::sync::Arc;

use ratelimit_core::{
    api::{PassAllRequest, PassAllStatus, Refused},
    intent::Edit,
};

use super::Command;
use crate::control::{controller::Controller, feeds::pass_all::asked, reports::cause::Cause};

/// Turns pass-all on, for a time or until it is turned off, or turns it off and returns what ended.
/// On failure, nothing changes.
pub struct SetPassAll(pub PassAllRequest, pub Arc<str>);

impl Command for SetPassAll {
    type Answer = Result<Option<PassAllStatus>, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let opened = request.on.then(|| asked(&request, &author)).transpose()?;
        let edit = Edit::PassAll(opened.as_ref().map(|opened| opened.until));
        controller.state.apply([edit], Cause::User(&author))?;
        let before = controller.feeds.pass_all.last().cloned();
        controller.feeds.pass_all.note(opened);
        let opened = controller.feeds.pass_all.last().cloned();
        Ok(opened.or(before.filter(|_| !request.on)))
    }
}
