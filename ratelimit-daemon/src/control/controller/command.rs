//! What the controller runs: a typed command for each verb of `rlctl` and each task of the daemon.

use super::Controller;

/// A request that changes something. Many hold what is asked for, and who asks.
pub trait Command: Send + 'static {
    /// What it answers.
    type Answer: Send + 'static;

    /// Whether its changes may be in one transaction with those of commands that wait at the same time, where a client asks for it.
    const SHARES_TRANSACTION: bool = false;

    /// Carries it out.
    fn run(self, controller: &mut Controller) -> Self::Answer;
}

/// A [query](crate::control::queries), which waits for its turn as commands do.
pub struct Asked<F>(pub F);

impl<F, T> Command for Asked<F>
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
    /// Runs a command. Where that makes tables anew, it has not ended before the programs run on them.
    pub fn run<C: Command>(&mut self, command: C) -> C::Answer {
        let answer = command.run(self);
        self.follow_tables();
        answer
    }
}
