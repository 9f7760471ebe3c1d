//! A socket that sends and receives whole frames on one interface (`AF_PACKET`).

use std::{
    ffi::CString,
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
    time::Duration,
};

use anyhow::{Context, Result};

/// Room for what arrives while this process has no CPU.
const RECEIVE_BUFFER_BYTES: libc::c_int = 64 << 20;
/// How long a receive waits, so that its thread looks up now and then.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);

/// A packet socket of the network namespace that the thread was in when it was opened.
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// A socket that sends, and receives nothing.
    pub fn sending(interface: &str) -> Result<Self> {
        Self::open(interface, 0)
    }

    /// A socket that receives all that `interface` passes to the network stack.
    pub fn receiving(interface: &str) -> Result<Self> {
        let socket = Self::open(interface, libc::ETH_P_ALL)?;
        socket
            .set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)
            .and_then(|()| {
                socket.set(
                    libc::SOL_SOCKET,
                    libc::SO_RCVBUFFORCE,
                    &RECEIVE_BUFFER_BYTES,
                )
            })
            .and_then(|()| {
                let timeout = libc::timeval {
                    tv_sec: 0,
                    tv_usec: RECEIVE_TIMEOUT.subsec_micros().into(),
                };
                socket.set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout)
            })
            .with_context(|| format!("preparing a packet socket on {interface}"))?;
        Ok(socket)
    }

    /// Sends a frame.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer and the length are those of one slice.
        let sent =
            unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Receives a frame into `buffer`; `None` when none came for a while.
    pub fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        // SAFETY: the pointer and the length are those of one slice.
        let received = unsafe {
            libc::recv(
                self.fd.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                0,
            )
        };
        if let Ok(bytes) = usize::try_from(received) {
            return Ok(Some(&buffer[..bytes]));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        }
    }

    /// How many frames found the buffer of the socket full, since this was last asked.
    pub fn overflowed(&self) -> io::Result<u32> {
        // SAFETY: zeros are valid for a struct of integers.
        let mut stats: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut length = socklen::<libc::tpacket_stats>();
        // SAFETY: `stats` has room for `length` bytes, and both outlive the call.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        };
        succeeded(result).map(|()| stats.tp_drops)
    }

    /// A socket for another protocol than 0 would receive from all interfaces until it is bound.
    fn open(interface: &str, protocol: libc::c_int) -> Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        succeeded(fd).context("opening a packet socket")?;
        // SAFETY: the descriptor was just opened, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let socket = Self { fd };
        socket
            .bind(interface, protocol)
            .with_context(|| format!("binding a packet socket to {interface}"))?;
        Ok(socket)
    }

    fn bind(&self, interface: &str, protocol: libc::c_int) -> io::Result<()> {
        // SAFETY: zeros are valid for a struct of integers.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET.try_into().map_err(io::Error::other)?;
        address.sll_protocol = u16::try_from(protocol).map_err(io::Error::other)?.to_be();
        address.sll_ifindex = index(interface)?;
        // SAFETY: the address is a `sockaddr_ll` of the length that is passed, and outlives the call.
        let result = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                socklen::<libc::sockaddr_ll>(),
            )
        };
        succeeded(result)
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: the value has the length that is passed, and outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                option,
                ptr::from_ref(value).cast(),
                socklen::<T>(),
            )
        };
        succeeded(result)
    }
}

fn index(interface: &str) -> io::Result<libc::c_int> {
    let name = CString::new(interface)?;
    // SAFETY: the name ends with a zero and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    index.try_into().map_err(io::Error::other)
}

fn socklen<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("the structs of the socket API are small")
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
