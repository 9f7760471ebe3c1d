//! The loader as the daemon has it: at the other end of a socket.

use std::{
    collections::BTreeMap,
    iter::zip,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;

use super::{
    Attachment, Descriptors, Held, HeldTable, InterfacePlan, Loader, MapPlan,
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

    /// What the loader answers to a request, with the descriptors beside.
    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> anyhow::Result<(T, Vec<OwnedFd>)> {
        let gone = "the loader is gone: start ratelimitd again, which takes over without a gap";
        let mut held = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = held.take().context(gone)?;
        let bytes = serde_json::to_vec(request).context("writing a request")?;
        socket.send(&bytes, &[]).context(gone)?;
        let answer = socket.receive().context("waiting for the loader")?;
        let (bytes, descriptors) = answer.context(gone)?;
        let reading = "reading the answer of the loader";
        let answer: Answer = serde_json::from_slice(&bytes).context(reading)?;
        *held = Some(socket);
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
