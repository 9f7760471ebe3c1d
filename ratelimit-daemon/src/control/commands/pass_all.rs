//! `rlctl pass-all`.

use std::sync::Arc;

use jiff::Timestamp;
use ratelimit_core::api::{PassAllRequest, PassAllStatus, Refused, What};
use tracing::info;

use super::Command;
use crate::control::{controller::Controller, pass_all::document};

/// Lets everything pass, for a time or until it is ended, or ends that. What was before stays when it fails.
pub struct SetPassAll {
    /// What is asked for.
    pub request: PassAllRequest,
    /// Who asks.
    pub author: Arc<str>,
}

impl Command for SetPassAll {
    type Answer = Result<Option<PassAllStatus>, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { request, author } = self;
        let author = &*author;
        let opened = if request.on {
            Some(document(request, author)?)
        } else {
            None
        };
        controller.state.replace_pass_all(opened)?;
        if !request.on {
            info!(author, "pass-all is off: packets are judged again");
        }
        // As it was asked for, however short.
        let opened = controller.state.pass_all.opened.as_ref();
        let status = opened.map(|document| document.status.clone());
        controller.state.journal.record(
            Timestamp::now(),
            match &status {
                Some(status) => What::PassAllOn {
                    until: status.until,
                    by: author.into(),
                },
                None => What::PassAllOff {
                    by: Some(author.into()),
                },
            },
        );
        Ok(status)
    }
}
