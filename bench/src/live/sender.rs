//! Sends live frames: a program writes each one's source, and the kernel puts it on the wire.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use aya::{
    Ebpf, EbpfLoader,
    maps::{MapData, PerCpuArray, PerCpuValues},
    programs::{TestRun, TestRunAttrs, TestRunOptions, Xdp},
    util::nr_cpus,
};
use ratelimit_tests::{
    Lab, cpu,
    lab::INTERFACE,
    packet::{ETHERNET_BYTES, IPV4_BYTES},
};

use crate::{draw::Draw, harness, traffic::Traffic};

/// Frames that are on the wire before the receiver's turn; a veth queue holds 256.
const BATCH: u32 = 64;
/// The longest delay of sent frames.
const LATE: Duration = Duration::from_millis(50);

/// The program that sends.
pub struct Sender {
    ebpf: Ebpf,
    draws: PerCpuArray<MapData, Draw>,
}

/// The results for the frames.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The received frames.
    pub received: u64,
    /// The duration.
    pub seconds: f64,
}

impl Sender {
    /// Loads the program.
    pub fn new(object: &[u8]) -> Result<Self> {
        let mut ebpf = EbpfLoader::new()
            .load(object)
            .context("reading the harness")?;
        harness::xdp(&mut ebpf, "send")?
            .load()
            .context("loading `send`")?;
        let draws = ebpf.take_map("DRAW").context("no map DRAW")?.try_into()?;
        Ok(Self { ebpf, draws })
    }

    /// Sends IPv4 frames out of the far end of `lab`.
    pub fn send(&mut self, lab: &Lab, traffic: Traffic, packets: u32) -> Result<Sent> {
        let frame = traffic.frame();
        self.set_draw(Draw {
            state: fastrand::u64(..),
            interface: interface(lab)?,
            header_sum: header_sum(&frame[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES]),
            ..traffic.draw(0)
        })?;
        let program: &Xdp = self
            .ebpf
            .program("send")
            .context("no program `send`")?
            .try_into()?;
        let before = lab.near.received()?.packets;
        let seconds = lab.far.enter(|| run(program, &frame, packets))?;
        thread::sleep(LATE);
        let received = lab.near.received()?.packets - before;
        Ok(Sent { received, seconds })
    }

    fn set_draw(&mut self, draw: Draw) -> Result<()> {
        let cpus = nr_cpus().map_err(|(file, error)| anyhow!(error).context(file))?;
        Ok(self
            .draws
            .set(0, PerCpuValues::try_from(vec![draw; cpus])?, 0)?)
    }
}

/// Sends, and returns the wall-clock time: the receiver may run outside of this thread.
fn run(program: &Xdp, frame: &[u8], packets: u32) -> Result<f64> {
    cpu::pin(0);
    harness::come_first()?;
    let options = TestRunOptions {
        data_in: Some(frame),
        repeat: packets,
        attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
        ..TestRunOptions::default()
    };
    let start = Instant::now();
    program.test_run(options).context("sending live frames")?;
    Ok(start.elapsed().as_secs_f64())
}

/// The index of the far interface.
pub fn interface(lab: &Lab) -> Result<u32> {
    let text = lab.far.ip(&["-oneline", "link", "show", INTERFACE])?;
    let index = text
        .split_once(':')
        .and_then(|(index, _)| index.parse().ok());
    index.with_context(|| format!("`ip` does not say which index {INTERFACE} has: {text}"))
}

/// The folded sum of the words of an IPv4 header, without checksum and source (RFC 1071).
pub fn header_sum(header: &[u8]) -> u32 {
    const LEFT_OUT: [usize; 3] = [5, 6, 7];
    let words = header.chunks_exact(2).enumerate();
    let words = words.filter(|(index, _)| !LEFT_OUT.contains(index));
    let sum: u32 = words
        .map(|(_, word)| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    (sum & 0xffff) + (sum >> 16)
}

#[cfg(test)]
mod tests {
    use ratelimit_core::ip_family::IpFamily;

    use super::*;
    use crate::traffic::Sources;

    #[test]
    fn with_the_source_added_the_sum_is_the_checksum_of_the_header() {
        let traffic = Traffic {
            first: 0xc0a8_fe01,
            ..Traffic::new(IpFamily::V4, Sources::Hot)
        };
        let frame = traffic.frame();
        let header = &frame[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES];
        let sum = header_sum(header) + 0xc0a8 + 0xfe01;
        let folded = (sum & 0xffff) + (sum >> 16);
        let checksum = u32::from(header[10]) << 8 | u32::from(header[11]);
        assert_eq!((folded & 0xffff) + (folded >> 16), 0xffff - checksum);
    }
}
