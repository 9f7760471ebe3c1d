//! How the history of packets is kept.

use super::Command;
use crate::{control::controller::Controller, traffic_log::Report};

/// What does not work where the history cannot be written.
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
