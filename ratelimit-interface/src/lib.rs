//! Network interfaces and sockets as the kernel reports them (rtnetlink, `sock_diag`). It changes
//! nothing, except for the attempt of [`refusal()`].
// A new variant must be handled everywhere.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod address;
mod dump;
pub mod helpers;
mod link_layer;
mod refusal;
pub mod route;
pub mod sockets;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkInfo, LinkMessage, LinkXdp},
};
use ratelimit_common::parse::LinkLayer;
use serde::{Deserialize, Serialize};

pub use dump::{dump, messages};
pub use refusal::refusal;

/// An interface, with the XDP program on it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct InterfaceState {
    /// The index of the interface.
    pub index: u32,
    /// The name of the interface.
    pub name: String,
    /// Bytes of the longest packet, without the Ethernet header.
    pub mtu: u32,
    /// Kind of a virtual interface: `bridge`, `vlan`.
    pub kind: Option<String>,
    /// The index of the lower interface, as of a VLAN. For a veth, the index of the other end.
    pub lower: Option<u32>,
    /// The program in the driver's or the stack's hook.
    pub program: Option<(AttachMode, u32)>,
    /// The bus and the name of its device: `pci`, `0000:01:00.0`. Linux reports them since 5.15.
    pub device: Option<(String, String)>,
    /// The most queues that it can receive by.
    pub rx_queues_max: u32,
}

/// The kinds of interfaces whose frames another interface has received, and GRO may have put
/// together there.
const STACKED: [&str; 9] = [
    "bridge",
    "bond",
    "team",
    "vlan",
    "macvlan",
    "macvtap",
    "ipvlan",
    "ipvtap",
    "openvswitch",
];

/// The kinds of interfaces whose other end is a network stack, which leaves cutting to the card
/// that it takes them for (TSO).
const UNCUT: [&str; 2] = ["netkit", "veth"];

impl InterfaceState {
    /// Whether frames may come to it as they were sent, of up to 64 kB: in generic mode each counts
    /// as one packet. A program in native mode makes the other end of a veth cut them.
    pub fn is_uncut(&self) -> bool {
        let kind = self.kind.as_deref();
        kind.is_some_and(|kind| UNCUT.contains(&kind))
    }

    /// Whether its program runs at TCX, where a frame counts for the packets that it was merged
    /// from.
    pub fn is_at_tcx(&self) -> bool {
        matches!(self.program, Some((AttachMode::Tcx, _)))
    }

    /// Whether other interfaces received its frames and may have merged several of them (GRO): in
    /// generic mode, what arrives as 30 packets then counts as one.
    pub fn is_stacked(&self) -> bool {
        let kind = self.kind.as_deref();
        kind.is_some_and(|kind| STACKED.contains(&kind))
    }
}

/// The mode of a program: its hook.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachMode {
    /// In the driver.
    Native,
    /// Before the network stack.
    Generic,
    /// In the card.
    Offloaded,
    /// At TCX, after the network stack has put packets together.
    Tcx,
}

impl AttachMode {
    /// The word for it in metrics and tables.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Offloaded => "offloaded",
            Self::Tcx => "tcx",
        }
    }

    /// The command that takes a program without a link off an interface.
    pub fn detach_command(self, interface: &str) -> String {
        let hook = match self {
            Self::Native => "xdpdrv",
            Self::Generic => "xdpgeneric",
            Self::Offloaded => "xdpoffload",
            Self::Tcx => return format!("bpftool net detach tcx_ingress dev {interface}"),
        };
        format!("ip link set dev {interface} {hook} off")
    }
}

/// Asks the kernel about the interface `name`; `None` when there is none.
pub fn query(name: &str) -> anyhow::Result<Option<InterfaceState>> {
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(name.to_owned()));
    let reply =
        request(link).with_context(|| format!("asking the kernel about interface {name}"))?;
    // A name that is an alternative one of another interface finds that.
    Ok(reply.map(state).filter(|state| state.name == name))
}

/// Returns the link-layer header of an interface; `None` if the interface does not exist.
///
/// # Errors
///
/// If the kernel cannot be queried, or the program does not read such frames.
pub fn link_layer(index: u32) -> anyhow::Result<Option<LinkLayer>> {
    let mut link = LinkMessage::default();
    link.header.index = index;
    let reply =
        request(link).with_context(|| format!("asking the kernel about interface {index}"))?;
    reply.as_ref().map(link_layer::of).transpose()
}

/// Queries the interface with an index.
pub fn query_index(index: u32) -> anyhow::Result<Option<InterfaceState>> {
    let mut link = LinkMessage::default();
    link.header.index = index;
    let reply =
        request(link).with_context(|| format!("asking the kernel about interface {index}"))?;
    Ok(reply.map(state))
}

/// The interface that runs the program with a number; `None` when none does. A program of ours is
/// loaded for one interface.
pub fn running(program: u32) -> anyhow::Result<Option<InterfaceState>> {
    let mut found = None;
    each(|link| {
        let state = state(link);
        if state.program.is_some_and(|(_, number)| number == program) {
            found = Some(state);
        }
    })?;
    Ok(found)
}

/// The names of all interfaces, by their index.
pub fn names() -> anyhow::Result<BTreeMap<u32, String>> {
    let mut names = BTreeMap::new();
    each(|link| {
        let state = state(link);
        names.insert(state.index, state.name);
    })?;
    Ok(names)
}

/// The kinds of all interfaces that are virtual.
pub fn kinds() -> anyhow::Result<BTreeSet<String>> {
    let mut kinds = BTreeSet::new();
    each(|link| kinds.extend(state(link).kind))?;
    Ok(kinds)
}

fn each(mut visit: impl FnMut(LinkMessage)) -> anyhow::Result<()> {
    let all = RouteNetlinkMessage::GetLink(LinkMessage::default());
    dump(all, |answer| {
        if let RouteNetlinkMessage::NewLink(link) = answer {
            visit(link);
        }
    })
    .context("asking the kernel for interfaces")
}

/// Returns the interfaces that receive the frames of a stacked one: its ports, or the lower
/// interface.
pub fn beneath(upper: &InterfaceState) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    each(|link| {
        let is_port = link.attributes.iter().any(|attribute| {
            matches!(
                attribute, LinkAttribute::Controller(index) if *index == upper.index,
            )
        });
        let state = state(link);
        if is_port || upper.lower == Some(state.index) {
            found.push(state.name);
        }
    })?;
    Ok(found)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel tells more than is asked for"
)]
fn state(message: LinkMessage) -> InterfaceState {
    let mut state = InterfaceState {
        index: message.header.index,
        program: message.attributes.iter().find_map(program),
        ..InterfaceState::default()
    };
    let (mut bus, mut device) = (None, None);
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => state.name = name,
            LinkAttribute::NumRxQueues(queues) => state.rx_queues_max = queues,
            LinkAttribute::ParentDevBusName(name) => bus = Some(name),
            LinkAttribute::ParentDevName(name) => device = Some(name),
            LinkAttribute::Mtu(bytes) => state.mtu = bytes,
            LinkAttribute::Link(index) => state.lower = Some(index),
            LinkAttribute::LinkInfo(details) => {
                state.kind = details.into_iter().find_map(|detail| match detail {
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    state.device = bus.zip(device);
    state
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel tells more than is asked for"
)]
fn request(link: LinkMessage) -> anyhow::Result<Option<LinkMessage>> {
    match dump::exchange(RouteNetlinkMessage::GetLink(link))? {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(Some(link)),
        NetlinkPayload::Error(error) if error.raw_code() == -libc::ENODEV => Ok(None),
        NetlinkPayload::Error(error) => Err(error.to_io().into()),
        other => bail!("an unexpected answer: {other:?}"),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel tells more than is asked for"
)]
fn program(attribute: &LinkAttribute) -> Option<(AttachMode, u32)> {
    let LinkAttribute::Xdp(details) = attribute else {
        return None;
    };
    // The kernel names one hook's program as `ProgId`, and always also by its hook.
    details.iter().find_map(|detail| match detail {
        LinkXdp::DrvProgId(id) => Some((AttachMode::Native, *id)),
        LinkXdp::SkbProgId(id) => Some((AttachMode::Generic, *id)),
        LinkXdp::HwProgId(id) => Some((AttachMode::Offloaded, *id)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found() {
        let interface = query("lo").unwrap().unwrap();
        assert_eq!((interface.index, interface.mtu), (1, 65_536));
        assert_eq!(query_index(1).unwrap().unwrap(), interface);
    }

    #[test]
    fn every_interface_has_its_name() {
        assert!(names().unwrap().values().any(|name| name == "lo"));
    }

    #[test]
    fn an_interface_that_does_not_exist_is_none() {
        assert_eq!(query("no-such-if").unwrap(), None);
    }
}
