//! Attaching the program to interfaces, and taking it off.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use aya::programs::{
    ProgramError, Xdp,
    links::{FdLink, PinnedLink},
    xdp,
};
use tracing::{info, warn};

use super::{
    interface::{self, InterfaceState, XdpMode},
    pins::{LinkPin, Pins},
};
use crate::config::{Interface, Mode};

/// How long the kernel may take to let a link go.
const DETACH_TIMEOUT: Duration = Duration::from_secs(2);
const DETACH_POLL: Duration = Duration::from_millis(2);

/// A program on an interface.
#[derive(Debug)]
pub struct Attachment {
    /// The interface.
    pub interface: Interface,
    /// Its slot in the counters.
    pub slot: u32,
    /// Where the program runs.
    pub mode: XdpMode,
    /// `None` once the program was taken off.
    link: Option<FdLink>,
}

/// What was taken off.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Detachment {
    /// The interfaces.
    pub interfaces: Vec<String>,
}

/// Puts `program` on `interface`: in place of the program on a pinned link of ours, without a gap, else on a new link.
///
/// # Errors
///
/// When the interface does not exist, has somebody else's program, or its driver refuses.
pub fn attach(
    program: &mut Xdp,
    interface: &Interface,
    slot: u32,
    pins: &Pins,
    pinned: Option<&LinkPin>,
) -> anyhow::Result<Attachment> {
    let name = &interface.name;
    let state = interface::query(name)?.ok_or_else(|| anyhow!("there is no interface {name}"))?;
    let adopted = match pinned {
        Some(pin) => adopt(program, interface, pin, &state)?,
        None => None,
    };
    // The pin of a link that does not fit is gone already.
    let replaced = pinned.filter(|_| adopted.is_some());
    let link = match adopted {
        Some(link) => link,
        None => attach_anew(program, interface, &state)?,
    };
    let path = pins.link(slot, name);
    if !path.exists() {
        link.pin(&path)
            .with_context(|| format!("pinning the link of {name} at {}", path.display()))?;
    }
    if let Some(pin) = replaced.filter(|pin| pin.path != path) {
        remove(pin)?;
    }
    let link = PinnedLink::from_pin(&path)
        .with_context(|| format!("opening the link of {name} at {}", path.display()))?;
    let mode = running_mode(name)?;
    Ok(Attachment {
        interface: interface.clone(),
        slot,
        mode,
        link: Some(link.into()),
    })
}

impl Attachment {
    /// The program that the link runs; `None` once it was taken off.
    ///
    /// # Errors
    ///
    /// When the kernel does not tell.
    pub fn program_id(&self) -> anyhow::Result<Option<u32>> {
        let info = self.link.as_ref().map(FdLink::info).transpose();
        Ok(info
            .context("reading the link")?
            .map(|info| info.program_id()))
    }

    /// Lets the link go, whose pin is removed.
    pub fn release(&mut self) {
        self.link = None;
    }
}

/// Replaces the program of a pinned link; `None` when the link has come off its interface or has the wrong mode.
fn adopt(
    program: &mut Xdp,
    interface: &Interface,
    pin: &LinkPin,
    state: &InterfaceState,
) -> anyhow::Result<Option<FdLink>> {
    let name = &interface.name;
    let link = FdLink::from(open(pin)?);
    let linked = link.info().context("reading the pinned link")?.program_id();
    let fits = match (interface.mode, state.program) {
        (_, Some((_, running))) if running != linked => false,
        (Mode::Native, Some((mode, _))) => mode == XdpMode::Native,
        (Mode::Generic, Some((mode, _))) => mode == XdpMode::Generic,
        (Mode::Auto, Some(_)) => true,
        (_, None) => false,
    };
    if !fits {
        info!(
            interface = name,
            "the pinned link does not fit and is made anew"
        );
        drop(link);
        remove(pin)?;
        return Ok(None);
    }
    let link = xdp::XdpLink::try_from(link).context("the pinned link is not one of XDP")?;
    let id = program
        .attach_to_link(link)
        .with_context(|| format!("replacing the program on {name}"))?;
    info!(
        interface = name,
        "adopted the pinned link and replaced its program"
    );
    Ok(Some(fd_link(program, id)?))
}

fn attach_anew(
    program: &mut Xdp,
    interface: &Interface,
    state: &InterfaceState,
) -> anyhow::Result<FdLink> {
    let name = &interface.name;
    // A link of ours that was just taken away because of its mode is gone from the kernel by now: ask again.
    let state = interface::query(name)?.unwrap_or_else(|| state.clone());
    if let Some((mode, id)) = state.program {
        bail!(
            "{name} already runs the {} XDP program {}, which is left alone: take it off with `ip link set dev {name} {} off`",
            mode.label(),
            program_name(id),
            if mode == XdpMode::Generic {
                "xdpgeneric"
            } else {
                "xdpdrv"
            },
        );
    }
    let id = match interface.mode {
        Mode::Native => attach_as(program, interface, &state, xdp::XdpMode::Driver)?,
        Mode::Generic => attach_as(program, interface, &state, xdp::XdpMode::Skb)?,
        Mode::Auto => match attach_as(program, interface, &state, xdp::XdpMode::Driver) {
            Ok(id) => id,
            Err(error) => {
                warn!(
                    interface = name,
                    error = format!("{error:#}"),
                    "the driver refuses XDP: falling back to generic mode, which is several times slower"
                );
                attach_as(program, interface, &state, xdp::XdpMode::Skb)?
            }
        },
    };
    fd_link(program, id)
}

fn attach_as(
    program: &mut Xdp,
    interface: &Interface,
    state: &InterfaceState,
    mode: xdp::XdpMode,
) -> anyhow::Result<xdp::XdpLinkId> {
    let attached: Result<_, ProgramError> = program.attach_to_if_index(state.index, mode);
    attached.with_context(|| {
        let word = if mode == xdp::XdpMode::Skb {
            "generic"
        } else {
            "native"
        };
        format!("attaching to {} in {word} mode", interface.name)
    })
}

fn fd_link(program: &mut Xdp, id: xdp::XdpLinkId) -> anyhow::Result<FdLink> {
    let link = program
        .take_link(id)
        .context("taking the link of the program")?;
    link.try_into()
        .context("the kernel gave no link that can be pinned")
}

fn running_mode(name: &str) -> anyhow::Result<XdpMode> {
    let state = interface::query(name)?;
    let (mode, _) = state
        .and_then(|state| state.program)
        .ok_or_else(|| anyhow!("{name} lost its program while it was attached"))?;
    Ok(mode)
}

fn remove(pin: &LinkPin) -> anyhow::Result<()> {
    fs::remove_file(&pin.path).with_context(|| format!("removing {}", pin.path.display()))
}

/// Removes the pin of a link, which takes its program off the interface, and waits until it is off: the kernel lets a link go
/// when it comes to it.
///
/// # Errors
///
/// When the pin cannot be removed, or the program stays.
pub fn detach(pin: &LinkPin) -> anyhow::Result<()> {
    let program = FdLink::from(open(pin)?)
        .info()
        .context("reading the pinned link")?
        .program_id();
    remove(pin)?;
    let deadline = Instant::now() + DETACH_TIMEOUT;
    while is_on(&pin.interface, program)? {
        if Instant::now() > deadline {
            bail!(
                "the program is still on {}: somebody else holds its link",
                pin.interface
            );
        }
        thread::sleep(DETACH_POLL);
    }
    info!(interface = pin.interface, "detached");
    Ok(())
}

/// The name of the program that a pinned link runs; `None` where the link has come off.
///
/// # Errors
///
/// When the kernel does not tell.
pub fn running(pin: &LinkPin) -> anyhow::Result<Option<String>> {
    let id = FdLink::from(open(pin)?)
        .info()
        .context("reading the pinned link")?
        .program_id();
    Ok(name_of(id))
}

fn is_on(interface: &str, program: u32) -> anyhow::Result<bool> {
    let state = interface::query(interface)?;
    Ok(state
        .and_then(|state| state.program)
        .is_some_and(|(_, id)| id == program))
}

fn open(pin: &LinkPin) -> anyhow::Result<PinnedLink> {
    PinnedLink::from_pin(&pin.path)
        .with_context(|| format!("opening the pinned link {}", pin.path.display()))
}

/// The name and number of a program, for people.
fn program_name(id: u32) -> String {
    match name_of(id) {
        Some(name) if !name.is_empty() => format!("`{name}` (id {id})"),
        _ => format!("with id {id}"),
    }
}

fn name_of(id: u32) -> Option<String> {
    let mut programs = aya::programs::loaded_programs().flatten();
    let info = programs.find(|info| info.id() == id)?;
    Some(info.name_as_str()?.to_owned())
}
