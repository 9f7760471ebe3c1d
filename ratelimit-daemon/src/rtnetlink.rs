//! The messages that the kernel sends about interfaces, addresses and routes (rtnetlink).

use std::io;

use anyhow::Context;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use tokio::io::{Interest, unix::AsyncFd};

/// A socket that receives notifications of changes since its creation.
pub struct Watch(Socket);

impl Watch {
    /// Begins to listen to these groups (`RTNLGRP_LINK` ...).
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
    pub fn changes(self) -> anyhow::Result<Changes> {
        // SAFETY: the descriptor is that of the socket, which is kept open and never exchanged.
        let socket = unsafe { AsyncFd::register_with_interest(self.0, Interest::READABLE) };
        let socket = socket.map_err(io::Error::from).context(LISTENING)?;
        Ok(Changes(socket))
    }
}

/// Messages of a [`Watch`].
pub struct Changes(AsyncFd<Socket>);

impl Changes {
    /// Waits until something has come that matters, or more than the socket holds: then something
    /// was missed.
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

    /// Reads all pending messages, and returns whether any of them matters.
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

const LISTENING: &str = "subscribing to interface, address and route changes";
