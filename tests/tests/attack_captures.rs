//! Real attacks are named correctly within two seconds. They are captures of the `DDoS` Packet
//! Capture Collection (`StopDDoS/packet-captures`), four files of which are next to the repository
//! where all tests run.

use std::{collections::VecDeque, fs, path::PathBuf};

use ratelimit_common::{Cursor, Instant, parse::LinkLayer};
use ratelimit_core::{
    capture::{Capture, CaptureError},
    detection::{Attack, Detector, Kind, Rule, Sample},
};
use ratelimit_tests::skip;

const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn captured_attacks_are_named() {
    for (file, kind, subject) in [
        (
            "pkt.TCP.synflood.spoofed.pcap",
            Kind::SynFlood,
            "to 10.10.10.10",
        ),
        (
            "pkt.TCP.DOMINATE.syn.ecn.cwr.pcapng",
            Kind::TcpFlags,
            "to 10.10.10.10",
        ),
        (
            "amp.UDP.isakmp.pcap",
            Kind::Reflection,
            "from port 4500 to 10.10.10.10",
        ),
        (
            "amp.UDP.snmp.src161.pcapng",
            Kind::Reflection,
            "from port 161 to 10.10.10.10",
        ),
    ] {
        check(file, kind, subject);
    }
}

/// Attacks that begin slowly, and captures that are replayed faster than they were.
#[test]
fn attacks_are_named_at_any_pace() {
    for (file, kind) in [
        ("pkt.TCP.synflood.spoofed.pcap", Kind::SynFlood),
        ("pkt.TCP.DOMINATE.syn.ecn.cwr.pcapng", Kind::TcpFlags),
        ("amp.UDP.isakmp.pcap", Kind::Reflection),
        ("amp.UDP.snmp.src161.pcapng", Kind::Reflection),
    ] {
        let Some(mut samples) = read(file, 1) else {
            return;
        };
        samples.truncate(3_000);
        for per_second in [100, 400, 50_000] {
            for (number, sample) in (1_u64..).zip(&mut samples) {
                sample.at = Instant::from_nanos((1 << 40) + number * SECOND_NS / per_second);
            }
            let attacks = named(&samples);
            let reported = attacks.iter().map(|attack| attack.kind).collect::<Vec<_>>();
            assert_eq!(reported, [kind], "{file} at {per_second} packets a second");
            let took = attacks[0].since.as_nanos() - samples[0].at.as_nanos();
            assert!(took <= 2 * SECOND_NS, "{file} at {per_second}: {took} ns");
        }
    }
}

/// The one attack of a capture is named within two seconds, whether all of its packets are looked
/// at or one of 32.
fn check(file: &str, kind: Kind, subject: &str) {
    for every in [1, 32] {
        let Some(samples) = read(file, every) else {
            return;
        };
        let attacks = named(&samples);
        assert!(!attacks.is_empty(), "{file}, 1 of {every}");
        // After ten quiet seconds, it is a new attack.
        for attack in &attacks {
            let reported = (attack.kind, attack.subject.to_string());
            assert_eq!(
                reported,
                (kind, subject.to_owned()),
                "{file}, 1 of {every}: {attacks:?}"
            );
        }
        let took = attacks[0].since.as_nanos() - beginning(&samples).as_nanos();
        assert!(took <= 2 * SECOND_NS, "{file}, 1 of {every}: {took} ns");
    }
}

fn named(samples: &[Sample]) -> Vec<Attack> {
    let rules = Kind::ALL.iter().map(|kind| (*kind, Rule::of(*kind)));
    let mut detector = Detector::new(rules.collect());
    let mut attacks = Vec::new();
    for sample in samples {
        attacks.extend(detector.take(sample).began);
    }
    let end = samples.last().unwrap().at.as_nanos() + SECOND_NS;
    attacks.extend(detector.advance(Instant::from_nanos(end)).began);
    attacks
}

/// The first of 300 packets that come within a second: before it, one of the captures has half a
/// minute of single packets.
fn beginning(samples: &[Sample]) -> Instant {
    let mut last = VecDeque::new();
    for sample in samples {
        last.extend((0..sample.packets).map(|_| sample.at));
        last.drain(..last.len().saturating_sub(300));
        if last.len() == 300 && sample.at.as_nanos() - last[0].as_nanos() < SECOND_NS {
            return last[0];
        }
    }
    panic!("nothing in the capture is fast");
}

/// Reads one in `every` packets of a capture, each representing all of them. Skips a test whose
/// capture is missing.
fn read(file: &str, every: u32) -> Option<Vec<Sample>> {
    let captures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/captures");
    let Ok(bytes) = fs::read(captures.join(file)) else {
        skip::report(&format!("needs the capture {file} in ../shared/captures"));
        return None;
    };
    let mut samples = Vec::new();
    let mut packets = 0;
    let mut capture = Capture::open(bytes.as_slice()).unwrap();
    let read = capture.read(|packet| {
        packets += 1;
        if packets % every == 0 {
            let at = Instant::from_nanos(packet.time_ns.unwrap());
            let frame = Cursor::with_frame_bytes(packet.frame, packet.frame_bytes);
            samples.extend(Sample::read(at, every, frame, LinkLayer::Ethernet));
        }
        Ok::<_, CaptureError>(())
    });
    read.unwrap();
    Some(samples)
}
