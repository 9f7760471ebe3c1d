//! The kernel tells of interfaces that come, go and change; and from time to time they are looked at, as it does not tell that somebody
//! has taken a program off.

use std::{io, os::fd::AsRawFd, time::Duration};

use anyhow::Context;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::control::{Controller, Handle};

/// How often interfaces are looked at although nothing was told.
const EVERY: Duration = Duration::from_millis(250);
/// How long a look draws others after it: where thousands of interfaces come and go, they are looked at 50 times a second.
const SETTLES: Duration = Duration::from_millis(20);

/// What the kernel tells of interfaces.
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
            socket.add_membership(libc::RTNLGRP_LINK)?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = listen().context("listening for changes of interfaces")?;
        Ok(Self { socket })
    }

    /// Reads what has come: that something has is all that matters.
    fn drain(&self) -> io::Result<()> {
        loop {
            match self.socket.recv_from_full() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
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

/// Has the controller look at the interfaces whenever they may be different, until `stop`.
///
/// # Errors
///
/// When the kernel does not tell any more.
pub async fn keep_attached(
    watch: Watch,
    controller: Handle,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let context = "listening for changes of interfaces";
    // SAFETY: the descriptor is that of the socket, which `watch` keeps open and never exchanges.
    let watch = unsafe { AsyncFd::register_with_interest(watch, Interest::READABLE) };
    let watch = watch.map_err(io::Error::from).context(context)?;
    let mut every = interval(EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = every.tick() => {}
            ready = watch.readable() => {
                let mut ready = ready.context(context)?;
                watch.get_ref().drain().context(context)?;
                ready.clear_ready();
            }
        }
        controller.call(Controller::tend_links).await?;
        sleep(SETTLES).await;
    }
}
