//! Attaching the program to interfaces, and taking it off.

use std::{io, os::fd::AsFd, path::Path, thread, time::Duration};

use anyhow::{Context, anyhow, bail};
use aya::{
    programs::{
        ProgramError, Xdp,
        links::{FdLink, PinnedLink},
        xdp,
    },
    sys::SyscallError,
};
use ratelimit_core::config::Mode;
use tracing::{info, warn};

use super::{InterfacePlan, entry_point::EntryPoint, foreign, pins::LinkPin, tcx};
use crate::{clock, private};
use ratelimit_interface::{self as interface, AttachMode, InterfaceState};

/// The timeout for the kernel to release a link.
const DETACH_TIMEOUT: Duration = Duration::from_secs(2);
const DETACH_POLL: Duration = Duration::from_millis(2);

/// The result of adopting a pinned link.
enum Adoption {
    /// It runs the new program.
    Adopted(FdLink),
    /// It ran in this mode, which is not the wanted one, and was detached.
    TakenOff(AttachMode),
    /// It had come off its interface.
    Gone,
}

/// Attaches `program` to `interface`: replaces the program on our pinned link without a gap, or
/// creates a new link. Returns a remark, if there is one.
pub fn attach(
    program: &mut Xdp,
    (interface, state): (&InterfacePlan, &InterfaceState),
    path: &Path,
    pinned: Option<&LinkPin>,
) -> anyhow::Result<Option<String>> {
    let name = &interface.name;
    let mut remark = None;
    let adoption = pinned.map(|pin| adopt(program, interface, pin, state));
    match adoption.transpose()? {
        Some(Adoption::Adopted(link)) => {
            if !path.exists() {
                pin(link, name, path)?;
            }
            if let Some(pin) = pinned.filter(|pin| pin.path != path) {
                private::remove(&pin.path)?;
            }
        }
        Some(Adoption::TakenOff(mode)) => {
            let anew = attach_anew(program, interface, state);
            remark = match anew.and_then(|(link, remark)| Ok((pin(link, name, path)?, remark))) {
                Ok((_, remark)) => remark,
                Err(error) => Some(put_back(program, interface, state, mode, path, error)?),
            };
        }
        Some(Adoption::Gone) | None => {
            let link;
            (link, remark) = attach_anew(program, interface, state)?;
            pin(link, name, path)?;
        }
    }
    Ok(remark)
}

/// Replaces the program of a pinned link, unless that has come off its interface or has the wrong
/// mode.
fn adopt(
    program: &mut Xdp,
    interface: &InterfacePlan,
    pin: &LinkPin,
    state: &InterfaceState,
) -> anyhow::Result<Adoption> {
    let name = &interface.name;
    let link = open_at(&pin.path)?;
    let linked = link.info().context("reading the pinned link")?.program_id();
    // The verifier took a good part of a second since `state` was read.
    let now = interface::query_index(state.index)?;
    let running = now.and_then(|state| state.program);
    let running = running.filter(|(_, running)| *running == linked);
    let fits = match (interface.mode, running) {
        (Mode::Native, Some((mode, _))) => mode == AttachMode::Native,
        (Mode::Generic, Some((mode, _))) => mode == AttachMode::Generic,
        (Mode::Auto, Some(_)) => true,
        (Mode::Pinned | Mode::Tcx, _) | (_, None) => false,
    };
    if !fits {
        info!(
            interface = name,
            "the pinned link is incompatible; creating a new one"
        );
        drop(link);
        detach(pin)?;
        return Ok(running.map_or(Adoption::Gone, |(mode, _)| Adoption::TakenOff(mode)));
    }
    let link = xdp::XdpLink::try_from(link).context("the pinned link is not an XDP link")?;
    let id = program
        .attach_to_link(link)
        .with_context(|| format!("replacing the program on {name}"))?;
    info!(
        interface = name,
        "adopted the pinned link and replaced its program"
    );
    Ok(Adoption::Adopted(fd_link(program, id)?))
}

/// Creates a new link. Returns a remark if the driver refuses native mode in the mode `auto`.
fn attach_anew(
    program: &mut Xdp,
    interface: &InterfacePlan,
    state: &InterfaceState,
) -> anyhow::Result<(FdLink, Option<String>)> {
    let name = &interface.name;
    // A link of ours may have been detached because of its mode: ask again.
    let state = interface::query(name)?.unwrap_or_else(|| state.clone());
    if let Some((mode, id)) = state.program {
        bail!(
            "{name} already runs the {} XDP program with id {id}, which is left alone: {}; to run \
             both, write `mode = \"tcx\"` for this interface, or pin it before (`bpftool prog pin \
             id {id} /sys/fs/bpf/NAME`), and write `chain = \"/sys/fs/bpf/NAME\"`",
            mode.label(),
            foreign::detach_command(name, mode, id),
        );
    }
    let mut attach = |mode| attach_as(program, interface, &state, mode);
    let link = match interface.mode {
        Mode::Native => attach(AttachMode::Native)?,
        Mode::Generic => attach(AttachMode::Generic)?,
        Mode::Pinned | Mode::Tcx => bail!("the program of {name} is not attached to XDP"),
        Mode::Auto => match attach(AttachMode::Native) {
            Ok(link) => link,
            Err(error) => {
                let remark = format!(
                    "the driver refuses XDP: falling back to generic mode, which is several times \
                     slower: {error:#}"
                );
                return Ok((attach(AttachMode::Generic)?, Some(remark)));
            }
        },
    };
    Ok((link, None))
}

/// Puts the program back in the mode before a failed attempt, whose error is `error`, and reports
/// that.
///
/// # Errors
///
/// If that fails as well.
fn put_back(
    program: &mut Xdp,
    interface: &InterfacePlan,
    state: &InterfaceState,
    mode: AttachMode,
    path: &Path,
    error: anyhow::Error,
) -> anyhow::Result<String> {
    let (name, label) = (&interface.name, mode.label());
    let back = attach_as(program, interface, state, mode).and_then(|link| pin(link, name, path));
    match back {
        Ok(_) => Ok(format!(
            "{name} stays in {label} mode because the configured one failed: set `mode = \
             \"{label}\"`: {error:#}"
        )),
        Err(back) => Err(error.context(format!(
            "{name} is not protected: the configured mode fails, and so does {label} mode \
             ({back:#})"
        ))),
    }
}

fn attach_as(
    program: &mut Xdp,
    interface: &InterfacePlan,
    state: &InterfaceState,
    mode: AttachMode,
) -> anyhow::Result<FdLink> {
    let flag = match mode {
        AttachMode::Native => xdp::XdpMode::Driver,
        AttachMode::Generic => xdp::XdpMode::Skb,
        AttachMode::Offloaded => xdp::XdpMode::Hardware,
        AttachMode::Tcx => bail!("TCX is no mode of XDP"),
    };
    let attached: Result<_, ProgramError> = program.attach_to_if_index(state.index, flag);
    let id = attached.map_err(|error| {
        let name = &interface.name;
        let error = if is_above(&error) {
            anyhow!(
                "the bridge, bond or VLAN above {name} already runs an XDP program: configure only \
                 one of the two"
            )
        } else {
            in_words(program, state, mode, error)
        };
        error.context(format!("attaching to {name} in {} mode", mode.label()))
    })?;
    fd_link(program, id)
}

/// Adds the reason in the words of the kernel or the driver, if they give one.
fn in_words(
    program: &Xdp,
    state: &InterfaceState,
    mode: AttachMode,
    error: ProgramError,
) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    let refusal = program
        .fd()
        .map_err(Into::into)
        .and_then(|program| interface::refusal(state.index, program.as_fd(), mode));
    match refusal {
        Ok(Some(text)) => error.context(text),
        Ok(None) => error,
        Err(unknown) => {
            let unknown = format!("{unknown:#}");
            warn!(
                interface = state.name,
                error = unknown,
                "cannot ask the kernel why"
            );
            error
        }
    }
}

/// Returns whether the kernel refuses a program because of one on an upper device: `dev_xdp_attach`
/// of `net/core/dev.c`. One on the interface itself was already excluded.
fn is_above(error: &ProgramError) -> bool {
    let ProgramError::SyscallError(SyscallError { io_error, .. }) = error else {
        return false;
    };
    io_error.kind() == io::ErrorKind::AlreadyExists
}

/// Pins a link, which the pin holds from then on too.
pub fn pin(link: FdLink, name: &str, path: &Path) -> anyhow::Result<FdLink> {
    let pinned = link.pin(path);
    let pinned =
        pinned.with_context(|| format!("pinning the link of {name} at {}", path.display()))?;
    Ok(pinned.into())
}

/// The link that is pinned at `path`.
pub fn open_at(path: &Path) -> anyhow::Result<FdLink> {
    let link = PinnedLink::from_pin(path);
    let link = link.with_context(|| format!("opening the pinned link {}", path.display()))?;
    Ok(link.into())
}

fn fd_link(program: &mut Xdp, id: xdp::XdpLinkId) -> anyhow::Result<FdLink> {
    let link = program
        .take_link(id)
        .context("taking the link of the program")?;
    link.try_into()
        .context("the kernel gave no link that can be pinned")
}

/// The mode of the XDP program that an interface runs.
pub fn running_mode(on: &InterfaceState) -> anyhow::Result<AttachMode> {
    let state = interface::query_index(on.index)?;
    let (mode, _) = state
        .and_then(|state| state.program)
        .ok_or_else(|| anyhow!("{} lost its program during the attachment", on.name))?;
    Ok(mode)
}

/// The number of the program of a pinned link.
pub fn program(pin: &LinkPin) -> anyhow::Result<u32> {
    let info = open_at(&pin.path)?
        .info()
        .context("reading the pinned link")?;
    Ok(info.program_id())
}

/// The interface that runs the program of a pinned link, whatever its name is.
pub fn interface_of(pin: Option<&LinkPin>) -> anyhow::Result<Option<InterfaceState>> {
    pin.map_or(Ok(None), |pin| running(pin.entry_point, program(pin)?))
}

/// The interface that runs a program; `None` when none does.
pub fn running(entry_point: EntryPoint, program: u32) -> anyhow::Result<Option<InterfaceState>> {
    if entry_point.is_tcx() {
        tcx::running(program)
    } else {
        interface::running(program)
    }
}

/// Removes the pin of a link, which takes its program off the interface, and waits until it is off:
/// the kernel lets a link go when it comes to it.
pub fn detach(pin: &LinkPin) -> anyhow::Result<()> {
    let program = program(pin)?;
    private::remove(&pin.path)?;
    let deadline = clock::monotonic() + DETACH_TIMEOUT;
    while let Some(on) = running(pin.entry_point, program)? {
        if clock::monotonic() > deadline {
            bail!(
                "the program is still on {}: another process holds its link",
                on.name
            );
        }
        thread::sleep(DETACH_POLL);
    }
    info!(interface = pin.interface, "detached");
    Ok(())
}
