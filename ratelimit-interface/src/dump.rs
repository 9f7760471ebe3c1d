//! Questions to the kernel, with one answer or many, and changes (netlink).

use std::{fmt::Debug, io};

use anyhow::bail;
use netlink_packet_core::{
    DefaultNla, ErrorMessage, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_REQUEST,
    NetlinkDeserializable, NetlinkMessage, NetlinkPayload, NetlinkSerializable, Nla, NlasIterator,
    Parseable,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_sys::{
    Socket, SocketAddr,
    protocols::{NETLINK_ROUTE, NETLINK_SOCK_DIAG},
};

/// A message, as a question or an answer.
pub trait Message:
    NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<Self>> + Debug
{
    /// The number of its protocol.
    const PROTOCOL: isize;
}

impl Message for RouteNetlinkMessage {
    const PROTOCOL: isize = NETLINK_ROUTE;
}

impl Message for SockDiagMessage {
    const PROTOCOL: isize = NETLINK_SOCK_DIAG;
}

/// Asks for one thing, and gives the answer.
pub fn exchange(
    request: RouteNetlinkMessage,
) -> anyhow::Result<NetlinkPayload<RouteNetlinkMessage>> {
    let (answer, _) = sent(request, NLM_F_REQUEST)?.recv_from_full()?;
    Ok(NetlinkMessage::deserialize(&answer)?.payload)
}

/// Asks for everything of a kind, and shows each answer. A table of a million routes is not kept.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel tells more than is asked for"
)]
pub fn dump<M: Message>(request: M, mut visit: impl FnMut(M)) -> anyhow::Result<()> {
    let socket = sent(request, NLM_F_REQUEST | NLM_F_DUMP)?;
    loop {
        let (answer, _) = socket.recv_from_full()?;
        for message in messages(&answer) {
            match message?.payload {
                NetlinkPayload::InnerMessage(message) => visit(message),
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => return Err(error.to_io().into()),
                NetlinkPayload::Noop => {}
                other => bail!("an unexpected answer: {other:?}"),
            }
        }
    }
}

/// Why the kernel refuses a change.
#[derive(Debug)]
pub struct Refused {
    /// The error number.
    pub error: io::Error,
    /// The text, if the kernel or a driver gives one.
    pub text: Option<String>,
}

/// Asks for a change.
///
/// # Errors
///
/// If the kernel does not answer. A refusal is the inner error.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel tells more than is asked for"
)]
pub fn change(request: RouteNetlinkMessage) -> anyhow::Result<Result<(), Refused>> {
    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.set_ext_ack(true)?;
    // The answer does not repeat the request.
    socket.set_cap_ack(true)?;
    let (answer, _) = send(socket, request, NLM_F_REQUEST | NLM_F_ACK)?.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)?;
    let has_text = answer.header.flags & NLM_F_ACK_TLVS != 0;
    match answer.payload {
        NetlinkPayload::Error(ErrorMessage { code: None, .. }) => Ok(Ok(())),
        NetlinkPayload::Error(refused) => Ok(Err(Refused {
            error: refused.to_io(),
            text: has_text.then(|| text(&refused.header)).flatten(),
        })),
        other => bail!("an unexpected answer: {other:?}"),
    }
}

/// The text behind the header of the refused request.
fn text(refused: &[u8]) -> Option<String> {
    /// `sizeof(struct nlmsghdr)`.
    const HEADER: usize = 16;
    const NLMSGERR_ATTR_MSG: u16 = 1;
    let attributes = NlasIterator::new(refused.get(HEADER..)?);
    attributes.flatten().find_map(|attribute| {
        let attribute = DefaultNla::parse(&attribute).ok()?;
        let mut value = vec![0; attribute.value_len()];
        attribute.emit_value(&mut value);
        let text = String::from_utf8_lossy(&value);
        (attribute.kind() == NLMSGERR_ATTR_MSG).then(|| text.trim_end_matches('\0').to_owned())
    })
}

/// A socket by which the kernel was asked.
fn sent<M: Message>(request: M, flags: u16) -> io::Result<Socket> {
    send(Socket::new(M::PROTOCOL)?, request, flags)
}

fn send<M: Message>(mut socket: Socket, request: M, flags: u16) -> io::Result<Socket> {
    let mut message = NetlinkMessage::from(request);
    message.header.flags = flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    Ok(socket)
}

/// Splits received bytes into messages.
pub fn messages<M: Message>(
    mut bytes: &[u8],
) -> impl Iterator<Item = anyhow::Result<NetlinkMessage<M>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let message = NetlinkMessage::<M>::deserialize(bytes);
        let length = message.as_ref().map_or(0, |message| message.header.length);
        // Messages begin at multiples of four bytes.
        let length = usize::try_from(length)
            .unwrap_or_default()
            .next_multiple_of(4);
        bytes = if length == 0 {
            &[]
        } else {
            bytes.get(length..).unwrap_or_default()
        };
        Some(message.map_err(anyhow::Error::from))
    })
}
