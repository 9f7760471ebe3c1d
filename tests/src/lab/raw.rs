//! Whole frames, in and out of the interface of a namespace.
//!
//! A socket stays in the namespace that it was opened in, so only opening it takes a thread there.

use std::{
    ffi::CString,
    io::Error,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};

use super::{INTERFACE, Namespace};

/// Bytes of frames that wait to be received while this process has no CPU.
const BUFFER_BYTES: libc::c_int = 64 << 20;

/// Asks when the kernel received what was read last.
const SIOCGSTAMPNS: libc::c_ulong = 0x8907;

/// The longest time for which a link can stay full.
const FULL_MAX: Duration = Duration::from_secs(10);

/// Sends frames out of the interface of a namespace.
#[derive(Debug)]
pub struct Sender(OwnedFd);

impl Sender {
    /// A sender in `namespace`.
    pub fn new(namespace: &Namespace) -> Result<Self> {
        Self::on(namespace, INTERFACE)
    }

    /// Opens an interface with this name.
    pub fn on(namespace: &Namespace, interface: &str) -> Result<Self> {
        // A socket of no protocol receives nothing.
        namespace.enter(|| socket(0, interface)).map(Self)
    }

    /// Sends a frame, when the queue of the link has room for it.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        let deadline = Instant::now() + FULL_MAX;
        loop {
            // SAFETY: the frame outlives the call.
            let sent =
                unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
            if usize::try_from(sent).ok() == Some(frame.len()) {
                return Ok(());
            }
            let error = Error::last_os_error();
            // The queue was full, and the frame is not in it.
            let is_full = error.raw_os_error() == Some(libc::ENOBUFS);
            ensure!(is_full && Instant::now() < deadline, "sending: {error}");
            thread::yield_now();
        }
    }

    /// Sends `frame` as often as `per_second` demands, for so long; answers how often that was.
    pub fn send_at_rate(&self, frame: &[u8], per_second: u32, duration: Duration) -> Result<u64> {
        let start = Instant::now();
        let interval = Duration::from_secs(1) / per_second;
        let (mut sent, mut due) = (0, start);
        while due < start + duration {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            self.send(frame)?;
            sent += 1;
            due += interval;
        }
        Ok(sent)
    }
}

/// Receives the frames that come in at the interface of a namespace, behind the program.
#[derive(Debug)]
pub struct Receiver {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Receiver {
    /// A receiver in `namespace`; it sees what arrives from here on.
    pub fn new(namespace: &Namespace) -> Result<Self> {
        Self::on(namespace, INTERFACE)
    }

    /// Opens an interface with this name.
    pub fn on(namespace: &Namespace, interface: &str) -> Result<Self> {
        let socket = namespace.enter(|| socket(libc::ETH_P_ALL, interface))?;
        set(
            &socket,
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            &BUFFER_BYTES,
        )?;
        let yes: libc::c_int = 1;
        set(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            &yes,
        )?;
        let buffer = vec![0; 1 << 16];
        Ok(Self { socket, buffer })
    }

    /// The next frame, without the VLAN tag that the kernel takes off; `None` when none comes for
    /// so long.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Vec<u8>>> {
        if !self.is_readable(patience)? {
            return Ok(None);
        }
        let buffer = self.buffer.as_mut_ptr().cast();
        // SAFETY: the buffer outlives the call, and is as long as it says.
        let bytes = unsafe { libc::recv(self.socket.as_raw_fd(), buffer, self.buffer.len(), 0) };
        let bytes = usize::try_from(bytes)
            .map_err(|_| Error::last_os_error())
            .context("receiving")?;
        Ok(Some(self.buffer[..bytes].to_vec()))
    }

    /// The time for which the last received frame had waited to be received: this process may have
    /// had no CPU.
    pub fn waited(&self) -> Result<Duration> {
        // SAFETY: zeroes are a valid time.
        let mut came: libc::timespec = unsafe { std::mem::zeroed() };
        // SAFETY: the time outlives the call, which writes one.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCGSTAMPNS, &raw mut came) };
        // The first call has frames stamped from then on.
        if result != 0 && Error::last_os_error().raw_os_error() == Some(libc::ENOENT) {
            return Ok(Duration::ZERO);
        }
        ensure!(result == 0, "asking for a time: {}", Error::last_os_error());
        let came = Duration::new(came.tv_sec.try_into()?, came.tv_nsec.try_into()?);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Ok(now.saturating_sub(came))
    }

    /// Receives until nothing comes for so long; answers how many frames that were.
    pub fn count(&mut self, patience: Duration) -> Result<u64> {
        let mut frames = 0;
        while self.next(patience)?.is_some() {
            frames += 1;
        }
        Ok(frames)
    }

    /// The number of frames that found no room since the last call.
    pub fn lost(&self) -> Result<u32> {
        // SAFETY: zeroes are valid statistics.
        let mut statistics: libc::tpacket_stats = unsafe { std::mem::zeroed() };
        let mut bytes = libc::socklen_t::try_from(size_of_val(&statistics))?;
        // SAFETY: both outlive the call, and there is room for as many bytes.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut bytes,
            )
        };
        ensure!(result == 0, "asking for losses: {}", Error::last_os_error());
        Ok(statistics.tp_drops)
    }

    fn is_readable(&self, patience: Duration) -> Result<bool> {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let patience = patience.as_millis().try_into()?;
        // SAFETY: the one descriptor outlives the call.
        let ready = unsafe { libc::poll(&raw mut poll, 1, patience) };
        ensure!(ready >= 0, "waiting: {}", Error::last_os_error());
        Ok(ready > 0)
    }
}

/// A raw socket on the interface of this thread's namespace. It gets its protocol where it gets its
/// interface: one that has it before receives what arrives on every other until then.
fn socket(protocol: libc::c_int, interface: &str) -> Result<OwnedFd> {
    let protocol = u16::try_from(protocol)?.to_be();
    // SAFETY: takes no pointers.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    ensure!(
        socket >= 0,
        "opening a raw socket: {}",
        Error::last_os_error()
    );
    // SAFETY: the descriptor is new and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let name = CString::new(interface)?;
    // SAFETY: the name is a terminated string that outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    // SAFETY: zeroes are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET.try_into()?;
    address.sll_protocol = protocol;
    address.sll_ifindex = index.try_into()?;
    let bytes = libc::socklen_t::try_from(size_of_val(&address))?;
    // SAFETY: the address outlives the call, and is as long as it says.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) };
    ensure!(
        result == 0,
        "binding to {interface}: {}",
        Error::last_os_error()
    );
    Ok(socket)
}

fn set<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> Result<()> {
    let bytes = libc::socklen_t::try_from(size_of::<T>())?;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the value outlives the call, and is as long as it says.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, bytes) };
    ensure!(
        result == 0,
        "setting option {option}: {}",
        Error::last_os_error()
    );
    Ok(())
}
