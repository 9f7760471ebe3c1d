//! Keeping what is protected current: the kernel tells of addresses and default routes that come and go, files and sessions
//! are looked at every minute.

use std::{io, os::fd::AsRawFd, time::Duration};

use anyhow::Context;
use netlink_packet_core::NetlinkPayload;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{Protected, netlink::is_relevant};
use crate::{
    control::{Controller, Handle},
    rtnetlink::messages,
};

/// How often files and sessions are looked at.
const EVERY: Duration = Duration::from_mins(1);
/// How long a change may draw others after it: an interface that comes up has several addresses.
const SETTLES: Duration = Duration::from_millis(200);

/// What the kernel tells of addresses and routes.
pub struct Watch {
    socket: Socket,
}

impl Watch {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn new() -> anyhow::Result<Self> {
        let listen = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            for group in [
                libc::RTNLGRP_IPV4_IFADDR,
                libc::RTNLGRP_IPV4_ROUTE,
                libc::RTNLGRP_IPV6_IFADDR,
                libc::RTNLGRP_IPV6_ROUTE,
            ] {
                socket.add_membership(group)?;
            }
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = listen().context("listening for changes of addresses and routes")?;
        Ok(Self { socket })
    }

    /// Reads what has come, and answers whether what is protected may be different.
    fn drain(&self) -> io::Result<bool> {
        let mut relevant = false;
        loop {
            match self.socket.recv_from_full() {
                Ok((bytes, _)) => relevant |= has_relevant(&bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(relevant),
                // More came than the socket holds: something was missed.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => relevant = true,
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.socket.as_raw_fd()
    }
}

fn has_relevant(bytes: &[u8]) -> bool {
    messages(bytes).any(|message| {
        message.is_ok_and(|message| match message.payload {
            NetlinkPayload::InnerMessage(message) => is_relevant(&message),
            _ => false,
        })
    })
}

/// Tells the controller what is protected, whenever that may be different, until `stop`.
///
/// # Errors
///
/// When the kernel does not tell any more.
pub async fn keep_current(
    watch: Watch,
    controller: Handle,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // SAFETY: the descriptor is that of the socket, which `watch` keeps open and never exchanges.
    let watch = unsafe { AsyncFd::register_with_interest(watch, Interest::READABLE) };
    let watch = watch.map_err(io::Error::from);
    let watch = watch.context("listening for changes of addresses and routes")?;
    let mut every = interval(EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first comes at once, and was looked at before the program was put on the interfaces.
    every.tick().await;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = every.tick() => {}
            changed = changed(&watch) => changed?,
        }
        let found = tokio::task::spawn_blocking(Protected::find).await?;
        controller
            .call(move |controller: &mut Controller| controller.state.protect(found))
            .await?;
    }
}

/// Waits until what is protected may be different, and nothing of it has come for a moment.
async fn changed(watch: &AsyncFd<Watch>) -> anyhow::Result<()> {
    let context = "reading changes of addresses and routes";
    loop {
        let mut ready = watch.readable().await.context(context)?;
        let relevant = watch.get_ref().drain().context(context)?;
        ready.clear_ready();
        if relevant {
            sleep(SETTLES).await;
            watch.get_ref().drain().context(context)?;
            return Ok(());
        }
    }
}
