//! The maps of a capture: the request, the counters, and the ring of packets.

use std::{io, net::IpAddr, os::fd::OwnedFd, time::Duration};

use anyhow::Context;
use aya::maps::{Array, MapData, PerCpuArray, PerCpuValues};
use ratelimit_common::{
    DropReason,
    capture::{Capture, Head, SNAP_MAX, Tally, WINDOW_NS},
    layout::INTERFACES_MAX,
};
use ratelimit_core::{
    api::{CaptureRequest, Refused},
    prefix::Prefix,
};
use zerocopy::FromBytes;

use crate::{
    clock, cpus,
    ring::{Events, Ring},
};

/// The packets that a CPU copies of an interface in a second, at most.
pub const PACKETS_PER_SECOND: u64 = 10_000;

/// The maps, for their one owner.
pub struct CaptureMaps {
    wanted: Array<MapData, Capture>,
    tally: PerCpuArray<MapData, Tally>,
    packets: Ring,
    /// Mapped while a capture runs.
    ring: Option<Events>,
    held: Capture,
}

impl CaptureMaps {
    /// The maps of the program.
    pub fn new(
        wanted: Array<MapData, Capture>,
        tally: PerCpuArray<MapData, Tally>,
        packets: Ring,
    ) -> Self {
        Self {
            wanted,
            tally,
            packets,
            ring: None,
            held: Capture::default(),
        }
    }

    /// Has the kernel copy packets for as long as `lease`, with counts that begin at 0.
    pub fn begin(&mut self, request: &CaptureRequest, lease: Duration) -> Result<(), Refused> {
        self.held = compile(request)?;
        let ring = self.packets.open()?;
        let cpus = cpus::possible()? as usize;
        for slot in 0..INTERFACES_MAX {
            let empty = PerCpuValues::try_from(vec![Tally::default(); cpus]);
            let empty = empty.map_err(anyhow::Error::from)?;
            let cleared = self.tally.set(slot, empty, 0);
            cleared.map_err(|error| anyhow::Error::from(error).context("writing CAPTURE_TALLY"))?;
        }
        self.renew(lease)?;
        self.ring = Some(ring);
        Ok(())
    }

    /// Renews the lease.
    pub fn renew(&mut self, lease: Duration) -> anyhow::Result<()> {
        self.held.until_ns = clock::after(lease).as_nanos();
        let set = self.wanted.set(0, self.held, 0);
        set.context("writing the map CAPTURE")
    }

    /// Has the kernel copy nothing any more.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let set = self.wanted.set(0, Capture::default(), 0);
        set.context("writing the map CAPTURE")
    }

    /// Ends the capture; remaining packets are not read.
    pub fn end(&mut self) -> anyhow::Result<()> {
        self.ring = None;
        self.stop()
    }

    /// Returns a descriptor that is readable when there are packets.
    pub fn ring_fd(&self) -> io::Result<OwnedFd> {
        self.packets.descriptor()
    }

    /// Visits up to `left` packets, until `visit` has produced that many bytes. Returns `true` if
    /// the ring is empty.
    pub fn read(
        &mut self,
        bytes: usize,
        left: &mut u64,
        mut visit: impl FnMut(&Head, &[u8]) -> usize,
    ) -> bool {
        while *left > 0 {
            let Some(item) = self.ring.as_mut().and_then(Events::next) else {
                return true;
            };
            if let Ok((head, frame)) = Head::read_from_prefix(&item) {
                *left -= 1;
                if visit(&head, frame) >= bytes {
                    return false;
                }
            }
        }
        true
    }

    /// Returns the counts of each interface.
    pub fn tallies(&self, slots: impl Iterator<Item = u32>) -> anyhow::Result<Vec<(u32, Tally)>> {
        let tally = |slot: u32| {
            let by_cpu = self.tally.get(&slot, 0);
            let by_cpu = by_cpu.context("reading the map CAPTURE_TALLY")?;
            let mut sum = Tally::default();
            for cpu in by_cpu.iter() {
                sum.matched += cpu.matched;
                sum.sent += cpu.sent;
                sum.over += cpu.over;
                sum.lost += cpu.lost;
            }
            Ok((slot, sum))
        };
        slots.map(tally).collect()
    }
}

/// Compiles the request for the kernel. The capture has not started yet.
fn compile(request: &CaptureRequest) -> Result<Capture, Refused> {
    if request.every == 0 {
        return Err(Refused::because("`every` must be greater than 0")
            .hint("use for example 100 for 1 of 100 packets"));
    }
    if request.snap == 0 || request.snap > SNAP_MAX {
        return Err(Refused::because(format!(
            "the snapshot length {} is not between 1 and {SNAP_MAX}",
            request.snap
        )));
    }
    let (source, mask) = request.source.map(mask).unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "a thousand")]
    let burst = (PACKETS_PER_SECOND * WINDOW_NS / 1_000_000_000) as u32;
    Ok(Capture {
        until_ns: 0,
        source,
        mask,
        reasons: reasons(&request.reasons)?,
        every: request.every,
        snap: request.snap,
        burst,
    })
}

/// The bits of reasons by their names; no names are all.
fn reasons(names: &[String]) -> Result<u32, Refused> {
    let all = || DropReason::ALL.into_iter();
    if names.is_empty() {
        return Ok(all().fold(0, |bits, reason| bits | 1 << reason as u32));
    }
    names.iter().try_fold(0, |bits, name| {
        let reason = all().find(|reason| reason.label() == name);
        let known: Vec<&str> = all().map(DropReason::label).collect();
        let unknown = || {
            Refused::because(format!("unknown drop reason `{name}`"))
                .hint(format!("use one of {}", known.join(", ")))
        };
        Ok(bits | 1 << reason.ok_or_else(unknown)? as u32)
    })
}

/// A prefix of addresses in 16 bytes, and its bits.
fn mask(prefix: Prefix) -> ([u8; 16], [u8; 16]) {
    let (address, length) = match prefix.address() {
        IpAddr::V4(address) => (address.to_ipv6_mapped(), 96 + u32::from(prefix.len())),
        IpAddr::V6(address) => (address, u32::from(prefix.len())),
    };
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    (address.octets(), mask.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{Ipv4, Ipv6};

    use super::*;

    #[test]
    fn a_prefix_of_a_family_has_its_sources() {
        let capture = compile(&request("203.0.113.0/24", &["limited"])).unwrap();
        assert!(capture.has_source(Ipv4::new([203, 0, 113, 9])));
        assert!(!capture.has_source(Ipv4::new([203, 0, 112, 9])));
        assert!(capture.has_reason(DropReason::Limited));
        assert!(!capture.has_reason(DropReason::Banned));
        let capture = compile(&request("2000::/3", &[])).unwrap();
        assert!(capture.has_source(Ipv6::new([0x20; 16])));
        assert!(!capture.has_source(Ipv4::new([32, 32, 32, 32])));
        assert!(
            DropReason::ALL
                .into_iter()
                .all(|reason| capture.has_reason(reason))
        );
        let all_of_ipv4 = compile(&request("0.0.0.0/0", &[])).unwrap();
        assert!(!all_of_ipv4.has_source(Ipv6::new([0x20; 16])));
    }

    #[test]
    fn what_cannot_be_captured_is_refused() {
        let none = CaptureRequest {
            every: 0,
            ..CaptureRequest::default()
        };
        check(&none, "`every` must be greater than 0");
        let long = CaptureRequest {
            snap: 16_385,
            ..CaptureRequest::default()
        };
        check(
            &long,
            "the snapshot length 16385 is not between 1 and 16384",
        );
        let unknown = request("::/0", &["limted"]);
        check(&unknown, "unknown drop reason `limted`");
    }

    fn check(request: &CaptureRequest, expected: &str) {
        assert_eq!(compile(request).unwrap_err().error, expected);
    }

    fn request(source: &str, reasons: &[&str]) -> CaptureRequest {
        CaptureRequest {
            source: Some(source.parse().unwrap()),
            reasons: reasons.iter().map(ToString::to_string).collect(),
            ..CaptureRequest::default()
        }
    }
}
