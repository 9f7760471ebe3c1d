//! The thread of the controller, and the handle to send it commands and queries.
//!
//! Commands that wait at the same time share a transaction, because a commit takes longer than most
//! changes. A command is answered only once it is known whether its changes are in the database.

use std::{io, sync::Arc, thread};

use ratelimit_core::api;
use tokio::sync::{mpsc, oneshot};

use super::{
    Controller,
    command::{Command, ReadOnly},
};
use crate::{
    control::{
        reports::workload::{self, BusyWith, Workload},
        sources::scanner::{self, Scanner},
    },
    keys::Keys,
};

/// Requests that can wait for their turn.
const QUEUE: usize = 64;
/// The most commands in one transaction: the first of them waits for the last.
const GROUP: usize = 64;

enum Job {
    Alone(Alone),
    /// Its changes may share a transaction, and it is answered after the commit.
    Grouped(Grouped),
}

type Alone = Box<dyn FnOnce(&mut Controller) + Send>;

type Grouped = Box<dyn FnOnce(&mut Controller) -> Answer + Send>;

type Answer = Box<dyn FnOnce(Unkept, Others) + Send>;

/// The reasons why changes in force are not in the database.
type Unkept = Arc<[String]>;

/// The answers to the other commands of a group, sent when this is dropped. The first command
/// carries them: the controller wakes only its thread, which wakes the others much more cheaply.
struct Others {
    unkept: Unkept,
    answers: Vec<Answer>,
}

impl Drop for Others {
    fn drop(&mut self) {
        for answer in self.answers.drain(..) {
            let others = Self {
                unkept: Arc::clone(&self.unkept),
                answers: Vec::new(),
            };
            answer(Arc::clone(&self.unkept), others);
        }
    }
}

/// Sends requests to the controller, and jobs to the scanner next to it.
#[derive(Clone)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
    scans: mpsc::Sender<scanner::Job>,
    workload: Workload,
    keys: Keys,
}

/// The reason the controller does not answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unanswered {
    /// The controller has stopped.
    #[error("the daemon is stopping")]
    Stopped,
}

impl Handle {
    /// Returns the progress of the import that the controller is busy with.
    pub fn progress(&self) -> api::Progress {
        self.workload.progress.view()
    }

    /// Returns the current work of the controller, if any.
    pub fn busy(&self) -> Option<BusyWith> {
        self.workload.busy()
    }

    /// Returns the load of the controller, and the number of refused commands.
    pub const fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Returns the key spaces, which answer without the controller.
    pub const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Answers a query when its turn comes.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Controller) -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        self.call(ReadOnly(question)).await
    }

    /// Runs a command when its turn comes.
    pub async fn call<C: Command>(&self, command: C) -> Result<C::Answer, Unanswered> {
        let (sender, answer) = oneshot::channel();
        let what = workload::what();
        let waiting = self.workload.wait();
        let job = Job::Alone(Box::new(move |controller| {
            drop(waiting);
            let value = run(controller, what, command);
            controller.state.keep_journal();
            // The client may have hung up.
            let _ = sender.send(value);
        }));
        self.jobs.send(job).await.map_err(|_| Unanswered::Stopped)?;
        answer.await.map_err(|_| Unanswered::Stopped)
    }

    /// Queues a command before all later requests, and does not wait for it.
    pub async fn post(&self, command: impl Command<Answer = ()>) -> Result<(), Unanswered> {
        let waiting = self.workload.wait();
        let job = Job::Alone(Box::new(|controller| {
            drop(waiting);
            controller.run(command);
        }));
        self.jobs.send(job).await.map_err(|_| Unanswered::Stopped)
    }

    /// Runs a short command when its turn comes. It makes its changes only with `State::edit`, and
    /// may share a transaction. Also returns [why](Controller::unkept) changes are not saved.
    pub async fn call_grouped<C: Command>(
        &self,
        command: C,
    ) -> Result<(C::Answer, Vec<String>), Unanswered> {
        let (sender, answer) = oneshot::channel();
        let what = workload::what();
        let waiting = self.workload.wait();
        let job = Job::Grouped(Box::new(move |controller| {
            drop(waiting);
            let value = run(controller, what, command);
            Box::new(move |unkept: Unkept, others| {
                let _ = sender.send((value, unkept, others));
            })
        }));
        self.jobs.send(job).await.map_err(|_| Unanswered::Stopped)?;
        let (value, unkept, others) = answer.await.map_err(|_| Unanswered::Stopped)?;
        drop(others);
        Ok((value, unkept.to_vec()))
    }

    /// Runs `scan` when its turn comes, while the controller continues.
    pub async fn scan<T: Send + 'static>(
        &self,
        scan: impl FnOnce(&mut Scanner) -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        let (sender, answer) = oneshot::channel();
        let job: scanner::Job = Box::new(move |scanner| {
            // Skip the scan if the client hung up.
            if !sender.is_closed() {
                let _ = sender.send(scan(scanner));
            }
        });
        self.scans
            .send(job)
            .await
            .map_err(|_| Unanswered::Stopped)?;
        answer.await.map_err(|_| Unanswered::Stopped)
    }
}

/// Runs a command, which keeps the controller busy as `what`.
fn run<C: Command>(controller: &mut Controller, what: Arc<str>, command: C) -> C::Answer {
    let workload = controller.about.workload.clone();
    workload.during(what, || controller.run(command))
}

impl Controller {
    /// Runs the controller on its own thread until all handles are gone, and then returns it.
    /// Another thread scans the tables of sources.
    pub fn spawn(mut self) -> io::Result<(Handle, thread::JoinHandle<Self>)> {
        let (scans, scanner) =
            Scanner::new(Arc::clone(&self.state.enforcer.datapath().sources)).spawn()?;
        self.scans.jobs = Some(scans.clone());
        let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE);
        let workload = self.about.workload.clone();
        let keys = self.keys.clone();
        let thread = thread::Builder::new()
            .name("controller".into())
            .spawn(move || {
                while let Some(job) = queue.blocking_recv() {
                    self.run_job(job, &mut queue);
                }
                self.scans.jobs = None;
                if let Err(panic) = scanner.join() {
                    std::panic::resume_unwind(panic);
                }
                self
            })?;
        let handle = Handle {
            jobs,
            scans,
            workload,
            keys,
        };
        Ok((handle, thread))
    }

    fn run_job(&mut self, job: Job, queue: &mut mpsc::Receiver<Job>) {
        match job {
            Job::Alone(job) => job(self),
            Job::Grouped(first) => {
                let next = self.run_group(first, queue);
                if let Some(next) = next {
                    next(self);
                }
            }
        }
    }

    /// Runs a command together with those that wait behind it, and returns the first request that
    /// cannot join the group.
    fn run_group(&mut self, first: Grouped, queue: &mut mpsc::Receiver<Job>) -> Option<Alone> {
        self.state.begin_group();
        let first = first(self);
        let mut answers = Vec::new();
        let mut alone = None;
        while answers.len() + 1 < GROUP {
            match queue.try_recv() {
                Ok(Job::Grouped(job)) => answers.push(job(self)),
                Ok(Job::Alone(job)) => {
                    alone = Some(job);
                    break;
                }
                Err(_) => break,
            }
        }
        let workload = self.about.workload.clone();
        workload.during("writing changes to the database".into(), || {
            self.state.end_group();
            self.state.keep_journal();
        });
        let unkept: Unkept = self.unkept().into();
        let others = Others {
            unkept: Arc::clone(&unkept),
            answers,
        };
        first(unkept, others);
        alone
    }
}
