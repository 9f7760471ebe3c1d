//! The loader as the daemon has it: at the other end of a socket.

use std::{
    collections::BTreeMap,
    iter::zip,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};

use super::{
    Attachment, Descriptors, Detachment, Held, HeldTable, InterfacePlan, Loader, MapPlan,
    request::{Answer, Request},
    socket::Socket,
};

/// How long an answer may take: the verifier looks at hundreds of thousands of instructions, on a machine that may be under attack.
const PATIENCE: Duration = Duration::from_mins(2);

/// Asks the process of the loader.
#[derive(Clone, Debug)]
pub struct Remote {
    /// `None` once an answer was missed: the next one would be for another request.
    socket: Arc<Mutex<Option<Socket>>>,
}

impl Remote {
    /// That at the other end of `socket`.
    pub fn new(socket: Socket) -> anyhow::Result<Self> {
        socket
            .set_patience(PATIENCE)
            .context("preparing the socket of the loader")?;
        let socket = Mutex::new(Some(socket)).into();
        Ok(Self { socket })
    }

    fn ask(&mut self, request: &Request) -> anyhow::Result<(Answer, Vec<OwnedFd>)> {
        let gone = "the loader is gone: start ratelimitd again, which takes over without a gap";
        let mut held = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = held.take().context(gone)?;
        let bytes = serde_json::to_vec(request).context("writing a request")?;
        socket.send(&bytes, &[]).context(gone)?;
        let answer = socket.receive().context("waiting for the loader")?;
        let (bytes, descriptors) = answer.context(gone)?;
        let answer = serde_json::from_slice(&bytes).context("reading the answer of the loader")?;
        *held = Some(socket);
        if let Answer::Refused(why) = answer {
            return Err(anyhow!(why));
        }
        Ok((answer, descriptors))
    }
}

impl Loader for Remote {
    fn open(&mut self, pins: &Path) -> anyhow::Result<Held> {
        let (answer, mut descriptors) = self.ask(&Request::Open(pins.to_owned()))?;
        let Answer::Held { links, logs, sets } = answer else {
            bail!(unexpected(&answer));
        };
        let table = |sets| {
            let policies = descriptors.pop().context("the loader gave no policies")?;
            anyhow::Ok(HeldTable { sets, policies })
        };
        let table = sets.map(table).transpose()?;
        Ok(Held { links, logs, table })
    }

    fn open_maps(&mut self, plan: &MapPlan) -> anyhow::Result<Descriptors> {
        let (answer, descriptors) = self.ask(&Request::OpenMaps(*plan))?;
        let Answer::Maps(names) = answer else {
            bail!(unexpected(&answer));
        };
        ensure!(
            names.len() == descriptors.len(),
            "the loader gave {} of {} maps",
            descriptors.len(),
            names.len()
        );
        Ok(zip(names, descriptors).collect())
    }

    fn rename(&mut self, names: &BTreeMap<String, String>) -> anyhow::Result<()> {
        match self.ask(&Request::Rename(names.clone()))? {
            (Answer::Renamed, _) => Ok(()),
            (answer, _) => bail!(unexpected(&answer)),
        }
    }

    fn attach(&mut self, plan: &InterfacePlan) -> anyhow::Result<Attachment> {
        match self.ask(&Request::Attach(plan.clone()))? {
            (Answer::Attached(attachment), _) => Ok(attachment),
            (answer, _) => bail!(unexpected(&answer)),
        }
    }

    fn keep_pinned(&mut self) -> anyhow::Result<bool> {
        match self.ask(&Request::KeepPinned)? {
            (Answer::KeptPinned(were_gone), _) => Ok(were_gone),
            (answer, _) => bail!(unexpected(&answer)),
        }
    }

    fn detach(&mut self, interface: &str) -> anyhow::Result<bool> {
        match self.ask(&Request::Detach(interface.to_owned()))? {
            (Answer::Detached(was_attached), _) => Ok(was_attached),
            (answer, _) => bail!(unexpected(&answer)),
        }
    }

    fn detach_all(&mut self) -> anyhow::Result<Detachment> {
        match self.ask(&Request::DetachAll)? {
            (Answer::DetachedAll(interfaces), _) => Ok(Detachment { interfaces }),
            (answer, _) => bail!(unexpected(&answer)),
        }
    }
}

fn unexpected(answer: &Answer) -> String {
    format!("the loader answered something else: {answer:?}")
}
