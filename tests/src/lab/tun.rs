//! A tun device: packets that a test writes arrive there without a link-layer header.

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
};

use anyhow::{Context, Result, ensure};

use super::{INTERFACE, Namespace};

/// `TUNSETIFF` of `linux/if_tun.h`.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

/// The other end of a tun device.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// Makes the device in `namespace`. It is there as long as this.
    pub fn new(namespace: &Namespace) -> Result<Self> {
        namespace.enter(open).map(Self)
    }

    /// Lets a packet of the protocol with this Ethernet type arrive.
    pub fn send(&mut self, ethertype: u16, packet: &[u8]) -> Result<()> {
        let [high, low] = ethertype.to_be_bytes();
        let written = [&[0, 0, high, low], packet].concat();
        self.0.write_all(&written).context("writing to the device")
    }

    /// Throws away what the namespace has sent.
    pub fn drain(&mut self) -> Result<()> {
        let mut packet = vec![0; 1 << 16];
        loop {
            match self.0.read(&mut packet) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("reading from the device"),
            }
        }
    }
}

/// With the four bytes in front of each packet that name its protocol: the kernel then takes any.
fn open() -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .context("opening /dev/net/tun")?;
    // SAFETY: zeroes are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(INTERFACE.bytes()) {
        *place = byte.try_into()?;
    }
    request.ifr_ifru.ifru_flags = libc::IFF_TUN.try_into()?;
    // SAFETY: the request outlives the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
    ensure!(
        result == 0,
        "making the device: {}",
        std::io::Error::last_os_error()
    );
    Ok(file)
}
