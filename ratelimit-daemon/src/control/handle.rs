//! The thread that the controller runs on, and how others reach it: they send it closures.

use std::{io, thread};

use tokio::sync::{mpsc, oneshot};

use super::controller::Controller;

/// Requests that may wait for their turn.
const QUEUE: usize = 64;

type Job = Box<dyn FnOnce(&mut Controller) + Send>;

/// Sends the controller requests.
#[derive(Clone)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
}

/// The controller has stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the daemon is stopping")]
pub struct Stopped;

impl Handle {
    /// Runs `request` when its turn comes.
    ///
    /// # Errors
    ///
    /// When the controller has stopped.
    pub async fn call<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Controller) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (sender, answer) = oneshot::channel();
        let job: Job = Box::new(move |controller| {
            // Nobody may wait any more: the client hung up.
            let _ = sender.send(request(controller));
        });
        self.jobs.send(job).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }
}

impl Controller {
    /// Runs on a thread of its own until every handle is gone, and then gives itself back.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn spawn(mut self) -> io::Result<(Handle, thread::JoinHandle<Self>)> {
        let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE);
        let thread = thread::Builder::new()
            .name("controller".into())
            .spawn(move || {
                while let Some(job) = queue.blocking_recv() {
                    job(&mut self);
                }
                self
            })?;
        Ok((Handle { jobs }, thread))
    }
}
