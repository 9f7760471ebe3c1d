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
    Attachment, Descriptors, InterfacePlan, Loader, MapPlan, Pinned, PinnedTable, Place,
    request::{Answer, Request},
    socket::Socket,
};
use crate::clock;

/// The timeout of a response: the verifier processes hundreds of thousands of instructions, on a
/// machine that may be under attack.
const PATIENCE: Duration = Duration::from_mins(2);
/// The interval at which the loader is checked for being alive.
const LOOK: Duration = Duration::from_millis(200);
/// The time for which a loader may be stopped while it creates maps.
const STOPPED_MAX: Duration = Duration::from_secs(3);

/// Asks the process of the loader.
#[derive(Clone, Debug)]
pub struct Remote {
    line: Arc<Mutex<Line>>,
    process: Option<Pid>,
}

/// The transport of requests.
#[derive(Debug)]
struct Line {
    /// `None` once an answer is missed for good: the next one would be for another request.
    socket: Option<Socket>,
    /// Pending answers to requests that timed out.
    late: u32,
}

/// The reason the loader cannot answer any request.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The loader was stopped (SIGSTOP).
    #[error(
        "the loader is stopped, so no interface can be attached: resume it with `kill -CONT {0}`"
    )]
    Stopped(i32),
    /// The loader was stopped while it created maps. These are then unknown, so it gets no further
    /// requests: it ends when it is resumed, the daemon ends too, and the next start adopts what
    /// exists.
    #[error(
        "the loader was stopped while it created maps: `kill -CONT {0}` ends ratelimitd, then \
         restart it; the kernel continues to enforce"
    )]
    StoppedMidway(i32),
    /// It has ended, or ends.
    #[error("the loader exited: restart ratelimitd; enforcement continues during the restart")]
    Gone,
}

impl Remote {
    /// Connects to the loader at the other end of `socket`, with its process ID.
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

    /// Makes the loader hold the lock of the daemon too, so that it is free only after both have
    /// ended.
    pub fn hold(&mut self, lock: OwnedFd) -> anyhow::Result<()> {
        let ((), _) = self.ask_with(&Request::Hold, &[lock])?;
        Ok(())
    }

    fn require_running(&self) -> Result<(), Unavailable> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let is_stopped = |id: &Pid| matches!(waitid(WaitId::Pid(*id), options), Ok(Some(_)));
        match self.process.filter(is_stopped) {
            Some(id) => Err(Unavailable::Stopped(id.as_raw_pid())),
            None => Ok(()),
        }
    }

    /// Returns the answer of the loader to a request, and its descriptors.
    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> anyhow::Result<(T, Vec<OwnedFd>)> {
        self.ask_with(request, &[])
    }

    fn ask_with<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        descriptors: &[OwnedFd],
    ) -> anyhow::Result<(T, Vec<OwnedFd>)> {
        self.require_running()?;
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = line.socket.take().context(Unavailable::Gone)?;
        let bytes = serde_json::to_vec(request).context("writing a request")?;
        let sent = socket.send(&bytes, descriptors);
        sent.context(Unavailable::Gone)?;
        line.late += 1;
        let deadline = clock::monotonic() + PATIENCE;
        let mut stopped_since = None;
        let (bytes, descriptors) = loop {
            match socket.receive() {
                Ok(answer) => {
                    line.late -= 1;
                    let answer = answer.context(Unavailable::Gone)?;
                    if line.late == 0 {
                        break answer;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let now = clock::monotonic();
                    match self.require_running() {
                        Ok(()) => stopped_since = None,
                        // The result of requests that create maps must be known. All others are
                        // repeated.
                        Err(Unavailable::Stopped(id)) if request.makes_maps() => {
                            if now > *stopped_since.get_or_insert(now) + STOPPED_MAX {
                                bail!(Unavailable::StoppedMidway(id));
                            }
                        }
                        Err(unavailable) => {
                            line.socket = Some(socket);
                            bail!(unavailable);
                        }
                    }
                    if now > deadline {
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
    fn open(&mut self, pins: &Path) -> anyhow::Result<Pinned> {
        let ((links, logs, record_words, sets, has_other_layout), mut descriptors) =
            self.ask(&Request::Open(pins.to_owned()))?;
        let table = |sets: u32| {
            let policies = descriptors.pop().context("the loader gave no policies")?;
            anyhow::Ok(PinnedTable { sets, policies })
        };
        let table = Option::map(sets, table).transpose()?;
        Ok(Pinned {
            links,
            logs,
            record_words,
            table,
            has_other_layout,
        })
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

    fn place_at_tcx(&mut self, interface: u32, program: u32) -> anyhow::Result<Option<Place>> {
        Ok(self.ask(&Request::PlaceAtTcx(interface, program))?.0)
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

#[cfg(test)]
mod tests {
    use std::{
        process::{Child, Command},
        thread,
    };

    use ratelimit_core::log_size::LogSize;
    use rustix::process::{Signal, kill_process};

    use super::*;
    use crate::loader::Sizes;

    #[test]
    fn a_loader_that_is_stopped_while_it_makes_maps_is_named_within_seconds() {
        let mut lab = Lab::new();
        let id = lab.id();
        let began = clock::monotonic();
        let asked = thread::spawn({
            let mut remote = lab.remote.clone();
            move || remote.open_maps(&PLAN).map(drop)
        });
        lab.loader.receive_request();
        kill_process(id, Signal::STOP).unwrap();
        let error = asked.join().unwrap().unwrap_err().to_string();
        let took = clock::elapsed(began);
        assert!(took < Duration::from_secs(15), "{took:?}");
        let way_out = format!("kill -CONT {}", id.as_raw_pid());
        assert!(
            error.contains("created maps") && error.contains(&way_out),
            "{error}"
        );
        // Maps that it creates later are unknown here, so it gets no further requests, and notices
        // that.
        let error = lab.remote.detach("eth0").unwrap_err().to_string();
        assert!(error.contains(&way_out), "{error}");
        kill_process(id, Signal::CONT).unwrap();
        assert!(lab.loader.receive().unwrap().is_none());
        let error = lab.remote.detach("eth0").unwrap_err();
        let unavailable = error.downcast_ref::<Unavailable>();
        assert!(matches!(unavailable, Some(Unavailable::Gone)), "{error}");
    }

    #[test]
    fn a_loader_that_is_stopped_for_a_moment_is_waited_for() {
        let lab = Lab::new();
        let asked = thread::spawn({
            let mut remote = lab.remote.clone();
            move || remote.open_maps(&PLAN)
        });
        lab.loader.receive_request();
        kill_process(lab.id(), Signal::STOP).unwrap();
        thread::sleep(STOPPED_MAX / 2);
        kill_process(lab.id(), Signal::CONT).unwrap();
        let answer = serde_json::to_vec(&Answer::Ok(serde_json::json!([]))).unwrap();
        lab.loader.send(&answer, &[]).unwrap();
        assert!(asked.join().unwrap().unwrap().is_empty());
    }

    const PLAN: MapPlan = MapPlan {
        ipv4_prefix: 32,
        ipv6_prefix: 64,
        capacity: 1,
        sizes: Sizes {
            words: 1,
            logs: LogSize::NONE,
            sets: None,
        },
        cpus: 1,
    };

    /// A socket to the loader, and a process in its role.
    struct Lab {
        remote: Remote,
        loader: Socket,
        process: Child,
    }

    impl Lab {
        fn new() -> Self {
            let (own, loader) = Socket::pair().unwrap();
            let process = Command::new("sleep").arg("120").spawn().unwrap();
            let id = Pid::from_child(&process);
            Self {
                remote: Remote::new(own, Some(id)).unwrap(),
                loader,
                process,
            }
        }

        fn id(&self) -> Pid {
            Pid::from_child(&self.process)
        }
    }

    impl Drop for Lab {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }

    impl Socket {
        fn receive_request(&self) {
            let (bytes, _) = self.receive().unwrap().unwrap();
            assert!(Request::read(&bytes).unwrap().makes_maps());
        }
    }
}
