//! `rlctl detach`.

use std::sync::Arc;

use ratelimit_core::api::{Detached, Refused, What};

use super::Command;
use crate::control::controller::Controller;

/// Detaches the programs from their interfaces. Runtime settings stay in the database.
pub struct Detach(pub Arc<str>);

impl Command for Detach {
    type Answer = Result<Detached, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(author) = self;
        let author = &*author;
        controller.interfaces.links.detach(author);
        let detached = controller.state.enforcer.attachments().detach();
        controller.interfaces.tend_all(&mut controller.state);
        let interfaces = detached?;
        controller.state.reports.record(What::Detached {
            interfaces: interfaces.clone(),
            by: author.into(),
        });
        Ok(Detached { interfaces })
    }
}
