//! What the controller is asked: it reads, and changes nothing.

use super::{commands::Command, controller::Controller};

/// A request that changes nothing.
pub trait Question: Send + 'static {
    /// What it answers.
    type Answer: Send + 'static;

    /// Answers it.
    fn answer(self, controller: &Controller) -> Self::Answer;
}

/// A question that waits for its turn as commands do.
pub struct Asked<Q>(pub Q);

impl<Q: Question> Command for Asked<Q> {
    type Answer = Q::Answer;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        self.0.answer(controller)
    }
}
