//! The floods.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Instant,
};

use anyhow::{Context, Result, anyhow};
use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, MapData, PerCpuArray, PerCpuValues},
    programs::{TestRun, TestRunAttrs, TestRunOptions, Xdp, xdp::XdpMode},
    util::nr_cpus,
};
use ratelimit_core::ip_family::IpFamily;
use ratelimit_tests::{
    Frame, Lab, cpu,
    lab::INTERFACE,
    packet::{ETHERNET_BYTES, IPV4_BYTES, SYN},
};

use super::{
    captured::{CapturedFrame, ETHERNET, FRAME_BYTES},
    servers::{QUERY, SERVER},
};
use crate::{
    draw::Draw,
    harness,
    live::{header_sum, interface},
    pace::Pace,
    placement::WORLD,
    traffic::{Sources, Traffic, ipv4},
};

/// The payload of each datagram of a reflection, as EDNS allows it.
const REFLECTED_BYTES: usize = 1_232;
/// Calls of the program before packets are put on the wire: a few microseconds.
const BATCH: u32 = 64;
/// Calls of the program until it is asked whether the flood is over: some ten milliseconds.
const CALLS: u32 = 1 << 18;
/// The packets of so many seconds arrive at once, as cards moderate their interrupts, but no more
/// than this: the queue of the interface holds 256.
const COALESCED: f64 = 250e-6;
const BURST_MAX: f64 = 192.0;
/// The rate of a flood that hardly is one, in packets per second.
const SLOWEST: f64 = 1.0;

/// The traffic beside that of the users.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flood {
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
    pub const ALL: [Self; 7] = [
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
            Self::Syn => "forged SYNs",
            Self::Captured => "captured SYNs",
            Self::Query => "forged queries",
            Self::Reflection => "a reflection",
            Self::Loud(Sources::Hot) => "queries of one source",
            Self::Loud(Sources::Thousand) => "queries of 1,024 sources",
            Self::Loud(_) => "queries of 65,536 sources",
        }
    }

    const fn program(self) -> &'static str {
        match self {
            Self::Syn => "flood_syn",
            Self::Captured => "flood_captured",
            Self::Query | Self::Reflection | Self::Loud(_) => "flood",
        }
    }

    const fn sources(self) -> Sources {
        match self {
            Self::Syn | Self::Captured | Self::Query => Sources::Flood,
            Self::Reflection => Sources::Thousand,
            Self::Loud(sources) => sources,
        }
    }

    fn frame(self, first: u32) -> Vec<u8> {
        let frame = Frame::ethernet().ipv4(ipv4(first));
        let mut frame = match self {
            Self::Syn => frame.tcp(80, SYN).build(),
            Self::Reflection => datagram(frame, [53, 40_000], &[0; REFLECTED_BYTES]),
            Self::Captured => frame.build(),
            Self::Query | Self::Loud(_) => datagram(frame, [12_345, 53], &QUERY),
        };
        // Behind the packet, of whose length the checksum is.
        frame.resize(frame.len().max(FRAME_BYTES), 0);
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
/// `flood_syn` makes it: the sum is then the same for each source.
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

/// The programs that send.
pub struct Sender {
    ebpf: Ebpf,
    draws: PerCpuArray<MapData, Draw>,
    paces: PerCpuArray<MapData, Pace>,
    template: Array<MapData, CapturedFrame>,
    _attached: [Lab; 2],
}

impl Sender {
    /// Loads them, with the frames of a capture where there is one.
    pub fn new(object: &[u8], captured: Option<&[CapturedFrame]>) -> Result<Self> {
        let mut ebpf = EbpfLoader::new()
            .load(object)
            .context("reading the harness")?;
        // The kernel makes a direct call of each attached program (`bpf_prog_change_xdp`). For one
        // that is attached nowhere, each call would wait 30 ms for that.
        let attached = [Lab::new()?, Lab::new()?];
        for (name, namespace) in [
            ("flood", &attached[0].near),
            ("flood_syn", &attached[0].far),
            ("flood_captured", &attached[1].near),
        ] {
            let program = harness::xdp(&mut ebpf, name)?;
            program
                .load()
                .with_context(|| format!("loading `{name}`"))?;
            namespace.enter(|| program.attach(INTERFACE, XdpMode::Driver))?;
        }
        if let Some(captured) = captured {
            let map = ebpf.map_mut("CAPTURE").context("no map CAPTURE")?;
            let mut map: Array<_, CapturedFrame> = map.try_into()?;
            for (index, frame) in (0..map.len()).zip(captured.iter().cycle()) {
                map.set(index, frame, 0)?;
            }
        }
        let draws = ebpf.take_map("DRAW").context("no map DRAW")?.try_into()?;
        let paces = ebpf.take_map("PACE").context("no map PACE")?.try_into()?;
        let template = ebpf.take_map("TEMPLATE").context("no map TEMPLATE")?;
        Ok(Self {
            ebpf,
            draws,
            paces,
            template: template.try_into()?,
            _attached: attached,
        })
    }

    /// Floods `lab` at a rate until it is over, and returns the packets per second that were sent.
    /// Its CPU is busy at any rate, even at 0, so that all rates are measured beside the same load.
    pub fn flood(
        &mut self,
        lab: &Lab,
        flood: Flood,
        rate: f64,
        is_over: &AtomicBool,
    ) -> Result<f64> {
        let traffic = Traffic::new(IpFamily::V4, flood.sources());
        let frame = flood.frame(traffic.first);
        let draw = Draw {
            state: fastrand::u64(..),
            interface: interface(lab)?,
            header_sum: header_sum(&frame[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES]),
            ..traffic.draw(0)
        };
        let template = frame.first_chunk().context("a frame is too short")?;
        self.template.set(0, template, 0)?;
        let cpus = nr_cpus().map_err(|(file, error)| anyhow!(error).context(file))?;
        self.draws
            .set(0, PerCpuValues::try_from(vec![draw; cpus])?, 0)?;
        self.paces
            .set(0, PerCpuValues::try_from(vec![pace(rate); cpus])?, 0)?;
        let program: &Xdp = self
            .ebpf
            .program(flood.program())
            .context("no such program")?
            .try_into()?;
        let start = Instant::now();
        lab.far.enter(|| -> Result<()> {
            cpu::pin(WORLD);
            while !is_over.load(Relaxed) {
                let options = TestRunOptions {
                    data_in: Some(&frame),
                    repeat: CALLS,
                    attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
                    ..TestRunOptions::default()
                };
                program.test_run(options).context("sending live frames")?;
            }
            Ok(())
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let sent: u64 = self.paces.get(&0, 0)?.iter().map(|pace| pace.sent).sum();
        #[expect(clippy::cast_precision_loss, reason = "millions")]
        Ok(sent as f64 / seconds)
    }
}

/// Bursts of whole packets at a rate.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most seconds, and hundreds of packets"
)]
fn pace(rate: f64) -> Pace {
    let rate = rate.max(SLOWEST);
    let burst = (rate * COALESCED).round().clamp(1.0, BURST_MAX);
    Pace {
        gap: (burst / rate * 1e9) as u64,
        burst: burst as u64,
        ..Pace::default()
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_tests::packet::checksum;

    use super::*;

    #[test]
    fn a_forged_syn_has_the_checksum_of_each_source() {
        for source in [0x0a00_0000_u32, 0xc0a8_fe01, 0x0001_ffff] {
            let mut frame = Flood::Syn.frame(0x0a00_0000);
            let source = source.to_be_bytes();
            frame[26..30].copy_from_slice(&source);
            frame[38..42].copy_from_slice(&source.map(|byte| !byte));
            let packet_bytes = u16::from_be_bytes([frame[16], frame[17]]);
            let segment_bytes = u32::from(packet_bytes) - 20;
            let end = ETHERNET_BYTES + usize::from(packet_bytes);
            assert_eq!(checksum(&frame[26..end], 6 + segment_bytes), 0);
        }
    }
}
