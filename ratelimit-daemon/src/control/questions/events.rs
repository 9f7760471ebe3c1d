//! What happened.

use std::sync::Arc;

use ratelimit_core::api::Event;
use tokio::sync::broadcast;

use crate::control::{controller::Controller, question::Question};

/// The last changes.
#[derive(Clone, Copy)]
pub struct Changes {
    /// How many of them.
    pub count: usize,
}

impl Question for Changes {
    type Answer = Vec<Arc<Event>>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        controller.state.journal().changes(self.count)
    }
}

/// What is kept, and what comes. Asked in one turn, nothing is reported twice or left out.
#[derive(Clone, Copy)]
pub struct Events;

impl Question for Events {
    type Answer = (Vec<Arc<Event>>, broadcast::Receiver<Arc<Event>>);

    fn answer(self, controller: &Controller) -> Self::Answer {
        let journal = controller.state.journal();
        (journal.kept(), journal.follow())
    }
}
