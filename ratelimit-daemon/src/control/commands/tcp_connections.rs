//! Commands of the task that counts TCP connections.

use std::collections::BTreeMap;

use ratelimit_core::prefix::Prefix;

use super::Command;
use crate::control::{controller::Controller, feeds::propose, reports::troubles::CONNECTIONS};

/// Limits sources by their connections: those that have at least as many as some policy permits.
pub struct NoteConnections(pub Result<BTreeMap<Prefix, u32>, String>);

impl Command for NoteConnections {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        match self.0 {
            Ok(counted) => {
                controller.feeds.connections.note(counted);
                let _ = propose(&mut controller.feeds.connections, &mut controller.state);
            }
            Err(error) => {
                let error = format!("cannot count connections: {error}");
                controller.state.report(CONNECTIONS, Some(error));
            }
        }
    }
}
