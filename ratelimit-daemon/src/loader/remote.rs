//! The loader as the daemon has it: at the other end of a socket.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    iter::zip,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::de::DeserializeOwned;

use super::{
    Attachment, Descriptors, Held, HeldTable, InterfacePlan, Loader, MapPlan,
    request::{Answer, Request},
    socket::Socket,
};
use crate::clock;

/// How long an answer may take: the verifier looks at hundreds of thousands of instructions, on a machine that may be under attack.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often it is looked whether the loader goes on.
const LOOK: Duration = Duration::from_millis(200);

/// Asks the process of the loader.
#[derive(Clone, Debug)]
pub struct Remote {
    line: Arc<Mutex<Line>>,
    process: Option<Pid>,
}

/// What requests go by.
#[derive(Debug)]
struct Line {
    /// `None` once an answer is missed for good: the next one would be for another request.
    socket: Option<Socket>,
    /// Answers that are still to come, to requests of which nobody waits for one any more.
    late: u32,
}

/// Somebody has stopped the loader, so it answers nothing.
#[derive(Debug, thiserror::Error)]
#[error("the loader is stopped, so no interface can be attached: `kill -CONT {0}` has it go on")]
pub struct Stopped(i32);

impl Remote {
    /// That at the other end of `socket`, and the number of its process.
    pub fn new(socket: Socket, process: Option<Pid>) -> anyhow::Result<Self> {
        socket
            .set_patience(LOOK)
            .context("preparing the socket of the loader")?;
        let line = Line {
            socket: Some(socket),
            late: 0,
        };
        let line = Mutex::new(line).into();
        Ok(Self { line, process })
    }

    /// Has the loader hold the lock of the daemon too: nobody has it before both have ended.
    pub fn hold(&mut self, lock: OwnedFd) -> anyhow::Result<()> {
        let ((), _) = self.ask_with(&Request::Hold, &[lock])?;
        Ok(())
    }

    fn require_running(&self) -> Result<(), Stopped> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let is_stopped = |id: &Pid| matches!(waitid(WaitId::Pid(*id), options), Ok(Some(_)));
        match self.process.filter(is_stopped) {
            Some(id) => Err(Stopped(id.as_raw_pid())),
            None => Ok(()),
        }
    }

    /// What the loader answers to a request, with the descriptors beside.
    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> anyhow::Result<(T, Vec<OwnedFd>)> {
        self.ask_with(request, &[])
    }

    fn ask_with<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        descriptors: &[OwnedFd],
    ) -> anyhow::Result<(T, Vec<OwnedFd>)> {
        let gone = "the loader is gone: start ratelimitd again, which takes over without a gap";
        self.require_running()?;
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = line.socket.take().context(gone)?;
        let bytes = serde_json::to_vec(request).context("writing a request")?;
        socket.send(&bytes, descriptors).context(gone)?;
        line.late += 1;
        let deadline = clock::monotonic() + PATIENCE;
        let (bytes, descriptors) = loop {
            match socket.receive() {
                Ok(answer) => {
                    line.late -= 1;
                    let answer = answer.context(gone)?;
                    if line.late == 0 {
                        break answer;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // What these make is to be known here. All others are done again.
                    let is_due = matches!(request, Request::Open(_) | Request::OpenMaps(_));
                    if let (false, Err(stopped)) = (is_due, self.require_running()) {
                        line.socket = Some(socket);
                        bail!(stopped);
                    }
                    if clock::monotonic() > deadline {
                        return Err(error).context("waiting for the loader");
                    }
                }
                Err(error) => return Err(error).context("waiting for the loader"),
            }
        };
        let reading = "reading the answer of the loader";
        let answer: Answer = serde_json::from_slice(&bytes).context(reading)?;
        line.socket = Some(socket);
        let answer = answer.map_err(anyhow::Error::msg)?;
        Ok((
            serde_json::from_value(answer).context(reading)?,
            descriptors,
        ))
    }
}

impl Loader for Remote {
    fn open(&mut self, pins: &Path) -> anyhow::Result<Held> {
        let ((links, logs, sets), mut descriptors) = self.ask(&Request::Open(pins.to_owned()))?;
        let table = |sets: u32| {
            let policies = descriptors.pop().context("the loader gave no policies")?;
            anyhow::Ok(HeldTable { sets, policies })
        };
        let table = Option::map(sets, table).transpose()?;
        Ok(Held { links, logs, table })
    }

    fn open_maps(&mut self, plan: &MapPlan) -> anyhow::Result<Descriptors> {
        let (names, descriptors): (Vec<String>, _) = self.ask(&Request::OpenMaps(*plan))?;
        ensure!(
            names.len() == descriptors.len(),
            "the loader gave {} of {} maps",
            descriptors.len(),
            names.len()
        );
        Ok(zip(names, descriptors).collect())
    }

    fn rename(&mut self, names: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let ((), _) = self.ask(&Request::Rename(names.clone()))?;
        Ok(())
    }

    fn prepare(&mut self, plan: &InterfacePlan) -> anyhow::Result<()> {
        let ((), _) = self.ask(&Request::Prepare(plan.clone()))?;
        Ok(())
    }

    fn attach(&mut self, plan: &InterfacePlan) -> anyhow::Result<Attachment> {
        Ok(self.ask(&Request::Attach(plan.clone()))?.0)
    }

    fn keep_pinned(&mut self) -> anyhow::Result<bool> {
        Ok(self.ask(&Request::KeepPinned)?.0)
    }

    fn stale_next(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.ask(&Request::StaleNext)?.0)
    }

    fn forget_replaced(&mut self) -> anyhow::Result<()> {
        let ((), _) = self.ask(&Request::ForgetReplaced)?;
        Ok(())
    }

    fn detach(&mut self, interface: &str) -> anyhow::Result<bool> {
        Ok(self.ask(&Request::Detach(interface.to_owned()))?.0)
    }

    fn detach_all(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.ask(&Request::DetachAll)?.0)
    }
}
