//! The floods, at a pace that leaves the link room.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use aya::{
    Ebpf, EbpfLoader,
    maps::{MapData, PerCpuArray, PerCpuValues},
    programs::{TestRun, TestRunAttrs, TestRunOptions, Xdp, xdp::XdpMode},
    util::nr_cpus,
};
use ratelimit_core::ip_family::IpFamily;
use ratelimit_tests::{
    Frame, Lab,
    lab::{self, INTERFACE},
    packet::{ETHERNET_BYTES, IPV4_BYTES, SYN},
};

use super::{
    captured::{Captured, ETHERNET},
    servers::{QUERY, SERVER},
};
use crate::{
    draw::Draw,
    harness,
    live::{header_sum, interface},
    traffic::{Sources, Traffic, ipv4},
};

/// The payload of each datagram of a reflection, as EDNS allows it.
const REFLECTED_BYTES: usize = 1_232;
/// Packets a second.
pub const PER_SECOND: u32 = 300_000;
/// Packets that are sent at once, as a card hands them over.
const BURST: u32 = 64;

/// The traffic besides that of the users.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flood {
    /// Nothing.
    None,
    /// SYNs of forged sources to the web server.
    Syn,
    /// The SYNs of a capture, of forged sources too.
    Captured,
    /// Queries of forged sources.
    Query,
    /// Large, unrequested responses of 1,024 name servers, to a port without a socket.
    Reflection,
    /// Queries of one source, of 1,024 or of 65,536.
    Loud(Sources),
}

impl Flood {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Syn,
        Self::Captured,
        Self::Query,
        Self::Reflection,
        Self::Loud(Sources::Hot),
        Self::Loud(Sources::Thousand),
        Self::Loud(Sources::Many),
    ];

    /// Returns the name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Syn => "forged SYNs",
            Self::Captured => "captured SYNs",
            Self::Query => "forged queries",
            Self::Reflection => "a reflection",
            Self::Loud(Sources::Hot) => "queries of one source",
            Self::Loud(Sources::Thousand) => "queries of 1,024 sources",
            Self::Loud(_) => "queries of 65,536 sources",
        }
    }

    const fn sources(self) -> Sources {
        match self {
            Self::None | Self::Syn | Self::Captured | Self::Query => Sources::Flood,
            Self::Reflection => Sources::Thousand,
            Self::Loud(sources) => sources,
        }
    }

    fn frame(self, first: u32) -> Vec<u8> {
        let frame = Frame::ethernet().ipv4(ipv4(first));
        let mut frame = match self {
            Self::Syn => frame.tcp(80, SYN).pad_to(60).build(),
            Self::Reflection => datagram(frame, [53, 40_000], &[0; REFLECTED_BYTES]),
            Self::None | Self::Captured | Self::Query | Self::Loud(_) => {
                datagram(frame, [12_345, 53], &QUERY)
            }
        };
        let start = ETHERNET_BYTES;
        frame[..start].copy_from_slice(&ETHERNET);
        frame[start + 16..start + 20].copy_from_slice(&SERVER.octets());
        if self == Self::Syn {
            write_checksum(&mut frame);
        }
        frame
    }
}

/// A datagram from and to these ports, without a checksum, which it may be.
fn datagram(frame: Frame, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let bytes = u16::try_from(8 + payload.len()).unwrap_or(8);
    let words = [ports[0], ports[1], bytes, 0].map(u16::to_be_bytes);
    frame
        .protocol(17, words.as_flattened())
        .payload(payload)
        .build()
}

/// Writes the checksum of a segment whose sequence number is the complement of its source, as
/// `send_syn` makes it: the sum is then the same for each source.
fn write_checksum(frame: &mut [u8]) {
    let (head, segment) = frame.split_at_mut(ETHERNET_BYTES + IPV4_BYTES);
    segment[4..8].fill(0);
    segment[14..16].copy_from_slice(&[0xfa, 0xf0]);
    segment[16..18].fill(0);
    let words = head[ETHERNET_BYTES + 16..]
        .chunks(2)
        .chain(segment[..20].chunks(2));
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let sum = sum + 6 + 20;
    let folded = (sum & 0xffff) + (sum >> 16);
    let [high, low, ..] = (!folded << 16).to_be_bytes();
    segment[16..18].copy_from_slice(&[high, low]);
}

/// The programs that send, and a capture where there is one.
pub struct Sender {
    ebpf: Ebpf,
    draws: PerCpuArray<MapData, Draw>,
    captured: Option<Captured>,
    _attached: Lab,
}

impl Sender {
    /// Loads them.
    pub fn new(object: &[u8], captured: Option<Captured>) -> Result<Self> {
        let mut ebpf = EbpfLoader::new()
            .load(object)
            .context("reading the harness")?;
        // The kernel makes a direct call of each attached program (`bpf_prog_change_xdp`). For one
        // that is attached nowhere, each burst would wait 30 ms for that.
        let attached = Lab::new()?;
        for (name, namespace) in [("send", &attached.near), ("send_syn", &attached.far)] {
            let program = harness::xdp(&mut ebpf, name)?;
            program
                .load()
                .with_context(|| format!("loading `{name}`"))?;
            namespace.enter(|| program.attach(INTERFACE, XdpMode::Driver))?;
        }
        let draws = ebpf.take_map("DRAW").context("no map DRAW")?.try_into()?;
        Ok(Self {
            ebpf,
            draws,
            captured,
            _attached: attached,
        })
    }

    /// Floods `lab` until it is over, and returns the packets per second.
    pub fn flood(&mut self, lab: &Lab, flood: Flood, is_over: &AtomicBool) -> Result<f64> {
        match flood {
            Flood::None => Ok(0.0),
            Flood::Captured => self.replay(lab, is_over),
            Flood::Syn | Flood::Query | Flood::Reflection | Flood::Loud(_) => {
                self.draw(lab, flood, is_over)
            }
        }
    }

    fn replay(&mut self, lab: &Lab, is_over: &AtomicBool) -> Result<f64> {
        let captured = self.captured.as_mut().context("there is no capture")?;
        let sender = lab::Sender::new(&lab.far)?;
        run(is_over, || captured.send(&sender, BURST))
    }

    fn draw(&mut self, lab: &Lab, flood: Flood, is_over: &AtomicBool) -> Result<f64> {
        let traffic = Traffic::new(IpFamily::V4, flood.sources());
        let frame = flood.frame(traffic.first);
        let draw = Draw {
            state: fastrand::u64(..),
            interface: interface(lab)?,
            header_sum: header_sum(&frame[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES]),
            ..traffic.draw(0)
        };
        let cpus = nr_cpus().map_err(|(file, error)| anyhow!(error).context(file))?;
        let draws = (0..cpus as u64).map(|cpu| Draw {
            state: draw.state ^ cpu << 40,
            ..draw
        });
        self.draws
            .set(0, PerCpuValues::try_from(draws.collect::<Vec<_>>())?, 0)?;
        let name = if flood == Flood::Syn {
            "send_syn"
        } else {
            "send"
        };
        let program: &Xdp = self
            .ebpf
            .program(name)
            .context("no such program")?
            .try_into()?;
        let options = || TestRunOptions {
            data_in: Some(&frame),
            repeat: BURST,
            attrs: TestRunAttrs::new().xdp_live_frames(BURST),
            ..TestRunOptions::default()
        };
        let burst = || {
            let result = program.test_run(options());
            result.map(drop).context("sending live frames")
        };
        lab.far.enter(|| run(is_over, burst))
    }
}

/// Sends bursts at the pace of a flood.
#[expect(clippy::cast_precision_loss, reason = "millions")]
fn run(is_over: &AtomicBool, mut burst: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    let mut sent = 0_u64;
    while !is_over.load(Relaxed) {
        let due = Duration::from_secs(1) * u32::try_from(sent)? / PER_SECOND;
        thread::sleep(due.saturating_sub(start.elapsed()));
        burst()?;
        sent += u64::from(BURST);
    }
    Ok(sent as f64 / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_syn_has_the_checksum_of_each_source() {
        for source in [0x0a00_0000_u32, 0xc0a8_fe01, 0x0001_ffff] {
            let mut frame = Flood::Syn.frame(0x0a00_0000);
            let source = source.to_be_bytes();
            frame[26..30].copy_from_slice(&source);
            frame[38..42].copy_from_slice(&source.map(|byte| !byte));
            let words = frame[26..54].chunks(2);
            let sum: u32 = words
                .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
                .sum();
            let sum = sum + 6 + 20;
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        }
    }
}
