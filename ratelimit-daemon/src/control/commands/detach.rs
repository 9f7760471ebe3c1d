//! `rlctl detach`.

use std::sync::Arc;

use ratelimit_core::api::{Detached, Refused, What};
use tracing::info;

use super::Command;
use crate::{clock, control::controller::Controller};

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
        info!(?interfaces, author, "detached");
        let detached = What::Detached {
            interfaces: interfaces.clone(),
            by: author.into(),
        };
        controller
            .state
            .reports
            .journal
            .record(clock::wall(), detached);
        Ok(Detached { interfaces })
    }
}
