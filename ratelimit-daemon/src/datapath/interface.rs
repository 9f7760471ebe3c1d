//! What the kernel says about a network interface (rtnetlink, `RTM_GETLINK`).

use anyhow::{Context, bail};
use netlink_packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkMessage, LinkXdp},
};
use netlink_sys::{Socket, protocols::NETLINK_ROUTE};
use ratelimit_common::parse::LinkLayer;
use serde::{Deserialize, Serialize};

use super::link_layer;

/// An interface, with the XDP program on it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct InterfaceState {
    /// Its index.
    pub index: u32,
    /// Bytes of the longest packet, without the Ethernet header.
    pub mtu: u32,
    /// The program in the driver's or the stack's hook.
    pub program: Option<(XdpMode, u32)>,
}

/// Where in the kernel a program runs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// Before the network stack.
    Generic,
    /// In the card.
    Offloaded,
}

impl XdpMode {
    /// The word for it in metrics and tables.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Offloaded => "offloaded",
        }
    }
}

/// Asks the kernel about the interface `name`; `None` when there is none.
pub fn query(name: &str) -> anyhow::Result<Option<InterfaceState>> {
    let reply =
        request(name).with_context(|| format!("asking the kernel about interface {name}"))?;
    Ok(reply.map(|message| InterfaceState {
        index: message.header.index,
        mtu: message.attributes.iter().find_map(mtu).unwrap_or_default(),
        program: message.attributes.iter().find_map(program),
    }))
}

/// What the frames of the interface `name` begin with; `None` when there is none.
///
/// # Errors
///
/// When the kernel does not tell, or it is nothing that the program reads.
pub fn link_layer(name: &str) -> anyhow::Result<Option<LinkLayer>> {
    let reply =
        request(name).with_context(|| format!("asking the kernel about interface {name}"))?;
    reply.as_ref().map(link_layer::of).transpose()
}

fn request(name: &str) -> anyhow::Result<Option<LinkMessage>> {
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(name.to_owned()));
    let mut message = NetlinkMessage::from(RouteNetlinkMessage::GetLink(link));
    message.header.flags = NLM_F_REQUEST;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&netlink_sys::SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    let (reply, _) = socket.recv_from_full()?;
    match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&reply)?.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(Some(link)),
        NetlinkPayload::Error(error) if error.raw_code() == -libc::ENODEV => Ok(None),
        NetlinkPayload::Error(error) => Err(error.to_io().into()),
        other => bail!("an unexpected answer: {other:?}"),
    }
}

const fn mtu(attribute: &LinkAttribute) -> Option<u32> {
    match attribute {
        LinkAttribute::Mtu(bytes) => Some(*bytes),
        _ => None,
    }
}

fn program(attribute: &LinkAttribute) -> Option<(XdpMode, u32)> {
    let LinkAttribute::Xdp(details) = attribute else {
        return None;
    };
    // The kernel names one hook's program as `ProgId`, and always also by its hook.
    details.iter().find_map(|detail| match detail {
        LinkXdp::DrvProgId(id) => Some((XdpMode::Native, *id)),
        LinkXdp::SkbProgId(id) => Some((XdpMode::Generic, *id)),
        LinkXdp::HwProgId(id) => Some((XdpMode::Offloaded, *id)),
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
    }

    #[test]
    fn an_interface_that_does_not_exist_is_none() {
        assert_eq!(query("no-such-if").unwrap(), None);
    }
}
