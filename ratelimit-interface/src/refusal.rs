//! Why the kernel refuses an XDP program, in its own words (extended acknowledgement).
//!
//! `BPF_LINK_CREATE` returns only an error number. The tracepoint `bpf_xdp_link_attach_failed` has
//! the text since Linux 6.6; the same attempt by rtnetlink returns it from any kernel with XDP.

use std::os::fd::{AsRawFd, BorrowedFd};

use anyhow::{Context, anyhow};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkMessage, LinkXdp},
};

use crate::{
    AttachMode,
    dump::{self, Refused},
};

// `XDP_FLAGS_*` of `linux/if_link.h`.
const ONLY_IF_NONE: u32 = 1;
const ONLY_IF_EXPECTED: u32 = 16;

/// Tries to attach a program that was just refused, and returns the text of the kernel or driver;
/// `None` if they give none. Should the attempt succeed, the program is detached at once.
///
/// # Errors
///
/// If the kernel cannot be asked, or the program cannot be detached.
pub fn refusal(
    interface: u32,
    program: BorrowedFd<'_>,
    mode: AttachMode,
) -> anyhow::Result<Option<String>> {
    let program = program.as_raw_fd();
    let mode = match mode {
        AttachMode::Generic => 2,
        AttachMode::Native => 4,
        AttachMode::Offloaded => 8,
        AttachMode::Tcx => return Ok(None),
    };
    let attach = [LinkXdp::Fd(program), LinkXdp::Flags(mode | ONLY_IF_NONE)];
    if let Err(Refused { text, .. }) = dump::change(set(interface, &attach))? {
        return Ok(text);
    }
    let detach = [
        LinkXdp::Fd(-1),
        LinkXdp::Flags(mode | ONLY_IF_EXPECTED),
        LinkXdp::ExpectedFd(u32::try_from(program)?),
    ];
    dump::change(set(interface, &detach))?
        .map_err(|refused| anyhow!(refused.error))
        .with_context(|| format!("detaching from interface {interface} what it refused before"))?;
    Ok(None)
}

fn set(interface: u32, xdp: &[LinkXdp]) -> RouteNetlinkMessage {
    let mut link = LinkMessage::default();
    link.header.index = interface;
    link.attributes.push(LinkAttribute::Xdp(xdp.to_vec()));
    RouteNetlinkMessage::SetLink(link)
}
