//! Questions to the kernel about interfaces, addresses and routes (rtnetlink), and the messages that it sends.

use std::io;

use anyhow::{Context, bail};
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use tokio::io::{Interest, unix::AsyncFd};

/// Asks for everything of a kind, and shows each answer. A table of a million routes is not kept.
///
/// # Errors
///
/// When the kernel does not tell.
pub fn dump(
    request: RouteNetlinkMessage,
    mut visit: impl FnMut(RouteNetlinkMessage),
) -> anyhow::Result<()> {
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
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

/// The messages that stand one behind the other in what was received.
pub fn messages(
    mut bytes: &[u8],
) -> impl Iterator<Item = anyhow::Result<NetlinkMessage<RouteNetlinkMessage>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes);
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

/// A socket that hears of changes, from when it was made on.
pub struct Watch(Socket);

impl Watch {
    /// Begins to listen to these groups (`RTNLGRP_LINK` ...).
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn new(groups: &[u32]) -> anyhow::Result<Self> {
        let listen = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            for group in groups {
                socket.add_membership(*group)?;
            }
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        listen().map(Self).context(LISTENING)
    }

    /// The changes, for a task to wait for.
    ///
    /// # Errors
    ///
    /// When the runtime refuses.
    pub fn changes(self) -> anyhow::Result<Changes> {
        // SAFETY: the descriptor is that of the socket, which is kept open and never exchanged.
        let socket = unsafe { AsyncFd::register_with_interest(self.0, Interest::READABLE) };
        let socket = socket.map_err(io::Error::from).context(LISTENING)?;
        Ok(Changes(socket))
    }
}

/// What the kernel tells of a [`Watch`].
pub struct Changes(AsyncFd<Socket>);

impl Changes {
    /// Waits until something has come that matters, or more than the socket holds: then something was missed.
    ///
    /// # Errors
    ///
    /// When the kernel does not tell any more.
    pub async fn next(&self, matters: impl Fn(&[u8]) -> bool) -> anyhow::Result<()> {
        loop {
            let mut ready = self.0.readable().await.context(LISTENING)?;
            let has_come = self.drain(&matters)?;
            ready.clear_ready();
            if has_come {
                return Ok(());
            }
        }
    }

    /// Reads what has come, and answers whether any of it matters.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub fn drain(&self, matters: impl Fn(&[u8]) -> bool) -> anyhow::Result<bool> {
        let mut has_come = false;
        loop {
            match self.0.get_ref().recv_from_full() {
                Ok((bytes, _)) => has_come |= matters(&bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(has_come),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => has_come = true,
                Err(error) => return Err(error).context(LISTENING),
            }
        }
    }
}

const LISTENING: &str = "listening to what the kernel tells of interfaces, addresses and routes";
