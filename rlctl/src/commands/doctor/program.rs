//! The XDP program on an interface, and how to detach a foreign one.

use aya::programs::{loaded_links, loaded_programs};
use ratelimit_common::layout::{PROGRAM, PROGRAM_FRAGS};
use ratelimit_core::api::InterfaceStatus;
use ratelimit_interface::{AttachMode, InterfaceState};

use super::{finding::Finding, link};

const CHECK: &str = "xdp-program";

/// Checks the program on the interface. `daemon` is the daemon's view, if the interface is
/// configured.
pub fn examine(state: &InterfaceState, daemon: Option<&InterfaceStatus>, wanted: bool) -> Finding {
    let attached = daemon.is_some_and(|it| it.attached);
    if state.is_at_tcx() && !attached {
        let why = "the daemon, which knows what it attached, does not respond";
        return Finding::unknown(CHECK, "unknown", why)
            .fix(format!("sudo bpftool net show dev {}", state.name));
    }
    let Some((mode, program)) = state.program else {
        return match daemon.and_then(|it| it.why.clone()) {
            Some(why) => Finding::error(CHECK, "none", why).fix("rlctl reload"),
            None => Finding::ok(CHECK, "none"),
        };
    };
    let label = mode.label();
    let is_pinned = daemon.is_some_and(|it| it.mode_wanted == "pinned");
    if attached && is_pinned {
        let name = name_of(program).ok().flatten();
        let name = name.as_deref().unwrap_or("without a name");
        let remark = daemon.and_then(|it| it.remark.clone());
        return Finding::ok(
            CHECK,
            format!(
                "{name}, number {program}, {label}; {}",
                remark.unwrap_or_default()
            ),
        );
    }
    if attached {
        let found = format!("ratelimitd, {label}");
        return match daemon.and_then(|it| it.remark.clone()) {
            Some(remark) => Finding::warning(CHECK, found, remark),
            None => Finding::ok(CHECK, found),
        };
    }
    // The daemon knows its own program, so this is another one, whatever its name.
    let is_denied = daemon.is_some_and(|it| it.why.is_some());
    match name_of(program) {
        Ok(Some(name)) if !is_denied && [PROGRAM, PROGRAM_FRAGS].contains(&name.as_str()) => {
            Finding::ok(CHECK, format!("{name} of ratelimitd, {label}"))
        }
        Ok(name) => foreign(state, (mode, program), name.as_deref(), wanted),
        Err(()) => Finding::unknown(
            CHECK,
            format!("number {program}, {label}"),
            "only root may ask the kernel for its name",
        )
        .fix(format!("sudo rlctl doctor {}", state.name)),
    }
}

fn foreign(
    state: &InterfaceState,
    (mode, program): (AttachMode, u32),
    name: Option<&str>,
    wanted: bool,
) -> Finding {
    let name = name.unwrap_or("without a name");
    let label = mode.label();
    let (held, fix) = match link_of(program, state.index) {
        Some(id) => (
            format!(", on the BPF link {id}"),
            format!("bpftool link detach id {id}"),
        ),
        None => (String::new(), mode.detach_command(&state.name)),
    };
    let found = format!("{name}, number {program}, {label}{held}");
    let why = "it belongs to another program and is left alone: the interface is not protected";
    let finding = if wanted {
        Finding::error(CHECK, found, why)
    } else {
        Finding::warning(CHECK, found, why)
    };
    finding.fix(fix)
}

/// Returns the name of a program, or an error if the kernel does not return it.
fn name_of(program: u32) -> Result<Option<String>, ()> {
    let infos = loaded_programs().map(|info| info.map_err(|_| ()));
    for info in infos {
        let info = info?;
        if info.id() == program {
            let name = info.name_as_str().filter(|name| !name.is_empty());
            return Ok(name.map(str::to_owned));
        }
    }
    Ok(None)
}

/// Returns the link that attaches a program to an interface. One program may have links on several.
/// An interface of another namespace may have the same index: if a program is on both, the first
/// link is returned.
fn link_of(program: u32, interface: u32) -> Option<u32> {
    let links = loaded_links().filter_map(Result::ok);
    links
        .filter(|link| link.program_id() == program)
        .map(|link| link.id())
        .find(|link| link::interface(*link).is_ok_and(|index| index == interface))
}
