//! The program at the TCX ingress hook: after GRO, beside the programs of others (Linux 6.6).

use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use anyhow::Context;
use aya::programs::{SchedClassifier, tc::SchedClassifierLink};
use aya_obj::generated::{BPF_F_BEFORE, bpf_attach_type, bpf_cmd};
use ratelimit_interface::{self as interface, InterfaceState};
use tracing::info;

use super::{
    Place, attachment,
    pins::{ASIDE, LinkPin},
};
use crate::{private, syscall};

/// The most programs of a hook, `BPF_MPROG_MAX` of the kernel.
const PROGRAMS_MAX: u32 = 64;

/// Attaches `program` to an interface, before those of others, and pins the link at `path`:
/// replaces the program on our pinned link without a gap if that is the first there, or creates a
/// new link.
pub fn attach(
    program: &mut SchedClassifier,
    on: &InterfaceState,
    path: &Path,
    pinned: Option<&LinkPin>,
) -> anyhow::Result<()> {
    let name = &on.name;
    let place = pinned.map(|pin| place(on.index, attachment::program(pin)?));
    if let (Some(pin), Some(Place::First)) = (pinned, place.transpose()?.flatten()) {
        return adopt(program, pin, name, path);
    }
    // The old link is let go in the same step in which the new one is kept.
    let aside = path.with_file_name(format!("{ASIDE}{}", on.index));
    private::remove(&aside)?;
    let link = create_link(program, on.index)
        .map_err(in_words)
        .with_context(|| format!("attaching to {name} in tcx mode"))?;
    pin(&link, &aside)
        .and_then(|()| Ok(fs::rename(&aside, path)?))
        .with_context(|| format!("pinning the link of {name} at {}", path.display()))?;
    if let Some(pin) = pinned {
        info!(
            interface = name,
            "the pinned link has come off, or is not the first; created a new one"
        );
        if pin.path != path {
            private::remove(&pin.path)?;
        }
    }
    Ok(())
}

/// Replaces the program of a pinned link, and pins it at `path`.
fn adopt(
    program: &mut SchedClassifier,
    pin: &LinkPin,
    name: &str,
    path: &Path,
) -> anyhow::Result<()> {
    let link = SchedClassifierLink::try_from(attachment::open_at(&pin.path)?);
    let id = program
        .attach_to_link(link.context("the pinned link is not one of TCX")?)
        .with_context(|| format!("replacing the program on {name}"))?;
    let link = program
        .take_link(id)
        .context("taking the link of the program")?;
    if !path.exists() {
        attachment::pin(link.try_into()?, name, path)?;
    }
    if pin.path != path {
        private::remove(&pin.path)?;
    }
    info!(
        interface = name,
        "adopted the pinned link and replaced its program"
    );
    Ok(())
}

/// Links `program` to an interface, before the programs of others. aya does so by the name of the
/// interface, which may change, and opens a socket for its index, which the loader may not.
fn create_link(program: &SchedClassifier, interface: u32) -> anyhow::Result<OwnedFd> {
    let program = program.fd()?.as_fd().as_raw_fd();
    let mut attributes = syscall::attributes();
    // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
    let link = unsafe { &mut attributes.link_create };
    link.__bindgen_anon_1.prog_fd = program.cast_unsigned();
    link.__bindgen_anon_2.target_ifindex = interface;
    link.attach_type = bpf_attach_type::BPF_TCX_INGRESS as u32;
    link.flags = BPF_F_BEFORE;
    // SAFETY: the attributes name no memory.
    let link = unsafe { syscall::bpf(bpf_cmd::BPF_LINK_CREATE, &mut attributes) }?;
    // SAFETY: the kernel just returned it to this process, which owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

fn pin(link: &OwnedFd, path: &Path) -> anyhow::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attributes = syscall::attributes();
    // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
    let pin = unsafe { &mut attributes.__bindgen_anon_4 };
    pin.pathname = path.as_ptr() as u64;
    pin.bpf_fd = link.as_raw_fd().cast_unsigned();
    // SAFETY: the path ends with a zero.
    unsafe { syscall::bpf(bpf_cmd::BPF_OBJ_PIN, &mut attributes) }?;
    Ok(())
}

/// Where a program runs at this hook of an interface; `None` if it does not.
pub fn place(interface: u32, program: u32) -> anyhow::Result<Option<Place>> {
    let mut programs = [0; PROGRAMS_MAX as usize];
    let mut attributes = syscall::attributes();
    // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
    let query = unsafe { &mut attributes.query };
    query.__bindgen_anon_1.target_ifindex = interface;
    query.attach_type = bpf_attach_type::BPF_TCX_INGRESS as u32;
    query.prog_ids = programs.as_mut_ptr() as u64;
    query.__bindgen_anon_2.prog_cnt = PROGRAMS_MAX;
    // SAFETY: there is room for as many numbers as a hook has programs.
    match unsafe { syscall::bpf(bpf_cmd::BPF_PROG_QUERY, &mut attributes) } {
        Ok(_) if programs[0] == program => Ok(Some(Place::First)),
        Ok(_) => Ok(programs.contains(&program).then_some(Place::Behind)),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(error).context("asking the kernel for the programs at TCX"),
    }
}

/// The interface that runs a program at this hook; `None` when none does.
pub fn running(program: u32) -> anyhow::Result<Option<InterfaceState>> {
    for index in interface::names()?.into_keys() {
        if place(index, program)?.is_some() {
            return interface::query_index(index);
        }
    }
    Ok(None)
}

/// Says what an error number means here.
fn in_words(error: anyhow::Error) -> anyhow::Error {
    let known = error.downcast_ref::<io::Error>();
    match known.and_then(io::Error::raw_os_error) {
        Some(libc::EINVAL) => error
            .context("the kernel has no TCX, which Linux has since 6.6: write `mode = \"auto\"`"),
        Some(libc::ERANGE) => error.context("64 programs are attached there, the most that may be"),
        _ => error,
    }
}
