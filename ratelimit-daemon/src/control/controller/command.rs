//! Commands of the controller: one type for each verb of `rlctl` and each task of the daemon.

use super::Controller;

/// A request that changes something, usually with the author.
pub trait Command: Send + 'static {
    /// The result.
    type Answer: Send + 'static;

    /// Whether a client may ask to commit its changes in one transaction with commands that wait at
    /// the same time.
    const SHARES_TRANSACTION: bool = false;

    /// Executes the command.
    fn run(self, controller: &mut Controller) -> Self::Answer;
}

/// A [query](crate::control::queries), which takes its turn like a command.
pub struct ReadOnly<F>(pub F);

impl<F, T> Command for ReadOnly<F>
where
    F: FnOnce(&Controller) -> T + Send + 'static,
    T: Send + 'static,
{
    type Answer = T;

    fn run(self, controller: &mut Controller) -> T {
        self.0(controller)
    }
}

impl Controller {
    /// Runs a command. If it creates tables, it ends only after the programs use them.
    pub fn run<C: Command>(&mut self, command: C) -> C::Answer {
        let answer = command.run(self);
        self.follow_tables();
        answer
    }
}
