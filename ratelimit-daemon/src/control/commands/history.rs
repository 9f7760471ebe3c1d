//! The status of the history of packets.

use super::Command;
use crate::{control::controller::Controller, traffic_log::Report};

/// The name under which failures to write the history are reported.
const HISTORY: &str = "history";

/// Takes notice of how the history is kept.
pub struct NoteHistory(pub Report);

impl Command for NoteHistory {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Report { status, error } = self.0;
        controller.about.traffic = status;
        controller.state.report(HISTORY, error);
    }
}
