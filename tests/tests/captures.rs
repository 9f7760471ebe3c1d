//! Reads and simulates captures of real attacks, from the `DDoS` Packet Capture Collection
//! (`StopDDoS/packet-captures`), four files of which are next to the repository where all tests
//! run.

use std::{fs, num::NonZeroU32, path::PathBuf, process::Command, time::Duration};

use ratelimit_common::{
    Instant, Settings,
    challenge::{Rules, Trigger},
    parse::LinkLayer,
};
use ratelimit_core::{
    capture::{Capture, CaptureError, Format},
    config::{self, Config},
    simulation::{Configured, Simulation, answer::Answer},
};
use ratelimit_tests::{Program, Scene, program::Constants, proof, service, skip};

const SYN_FLOOD: &str = "pkt.TCP.synflood.spoofed.pcap";
const ODD_FLOOD: &str = "pkt.TCP.DOMINATE.syn.ecn.cwr.pcapng";

#[test]
fn every_packet_and_source_of_a_capture_is_found_whatever_its_name_says() {
    // Counted by others: the descriptions beside the files. Two of them are classic captures under
    // the other format's name.
    for (file, format, packets, sources) in [
        (SYN_FLOOD, Format::Pcap, 37_841, Some(37_623)),
        (ODD_FLOOD, Format::Pcap, 9_878, None),
        ("amp.UDP.isakmp.pcap", Format::Pcap, 3_984, Some(2_767)),
        ("amp.UDP.snmp.src161.pcapng", Format::Pcap, 4_373, None),
    ] {
        let Some(bytes) = read(file) else { return };
        let (seen_format, answer, ended) = simulate(&bytes, 1000);
        assert_eq!((seen_format, answer.packets), (format, packets), "{file}");
        assert!(ended.is_ok(), "{file}: {ended:?}");
        if let Some(sources) = sources {
            assert_eq!(answer.sources_seen, sources, "{file}");
        }
        let counted: u64 = answer.verdicts.iter().map(|row| row.packets).sum();
        assert_eq!(counted, packets, "{file}");
    }
}

#[test]
fn a_limit_by_source_alone_lets_a_flood_of_forged_sources_through() {
    let Some(bytes) = read(SYN_FLOOD) else { return };
    let (_, answer, _) = simulate(&bytes, 1);
    let passed = answer.verdicts.iter().filter(|row| row.action == "pass");
    let passed: u64 = passed.map(|row| row.packets).sum();
    // The first packet of every source passes any limit.
    assert!(passed >= answer.sources_seen as u64);
    assert!(passed * 100 > answer.packets * 99, "{passed}");
}

/// `rlctl suggest` names the attack and what to write against it, and that drops nearly all of it.
#[test]
fn what_is_proposed_against_a_real_attack_drops_it() {
    for file in [
        SYN_FLOOD,
        "pkt.TCP.DOMINATE.syn.ecn.cwr.pcapng",
        "amp.UDP.isakmp.pcap",
        "amp.UDP.snmp.src161.pcapng",
    ] {
        let Some(bytes) = read(file) else { return };
        let mut rlctl = Command::new(service::binary("rlctl"));
        let said = rlctl.arg("suggest").arg(path(file)).output();
        let said = said.unwrap();
        assert!(said.status.success(), "{file}: {said:?}");
        let toml = String::from_utf8(said.stdout).unwrap();
        let open = format!("[policy.default]\nlimits = []\n{toml}");
        let (_, answer, _) = simulate_with(&bytes, &open);
        let dropped = answer.verdicts.iter().filter(|row| row.action == "drop");
        let dropped: u64 = dropped.map(|row| row.packets).sum();
        assert!(
            dropped * 100 >= answer.packets * 95,
            "{file}: {dropped} of {} by\n{toml}",
            answer.packets
        );
    }
}

#[test]
fn nearly_all_of_a_real_flood_of_requests_is_challenged_and_answered_by_no_more_than_came() {
    let is_root = skip::is_root();
    // The rest of the second are resets.
    for (file, requests, sources) in [(SYN_FLOOD, 37_800, 37_623), (ODD_FLOOD, 9_639, 1)] {
        let Some(bytes) = read(file) else { return };
        let text = "[policy.default]\nlimits = []\n[challenge.tcp]\nwhen = \"always\"\n";
        let (_, simulated, _) = simulate_with(&bytes, text);
        let packets_of = |reason: &str| -> u64 {
            let rows = simulated.verdicts.iter();
            rows.filter(|row| row.reason == reason)
                .map(|row| row.packets)
                .sum()
        };
        let (challenged, packets) = (packets_of("challenged"), simulated.packets);
        assert!(challenged >= requests, "{file}: {challenged} of {packets}");
        let told = simulated.challenged.unwrap();
        assert!(
            told.sources >= sources && told.verified == 0,
            "{file}: {told:?}"
        );
        if is_root {
            let answered = answered_by_the_kernel(&bytes);
            assert!(answered >= challenged, "{file}: {answered}");
        }
    }
}

/// Counts the packets of a capture that the program answers. Each answer is that of the host, and
/// no longer than its question.
fn answered_by_the_kernel(capture: &[u8]) -> u64 {
    let mut program = Program::load(&Constants::default()).unwrap();
    let answers = NonZeroU32::new(1 << 20).unwrap();
    let scene = Scene {
        settings: Settings::default().with_challenge(true),
        challenge: Rules::new(Trigger::Always, Duration::from_mins(10), answers, 2).unwrap(),
        ..Scene::limited(&[])
    };
    scene.set_up(&mut program).unwrap();
    let (mut answered, mut now) = (0, Instant::from_nanos(1 << 40));
    let mut capture = Capture::open(capture).unwrap();
    capture
        .read(|packet| {
            // So slow that no source has too many answers.
            now = Instant::from_nanos(now.as_nanos() + 200_000_000);
            program.set_clock(now).unwrap();
            if let Some(answer) = program.answer(packet.frame).unwrap() {
                assert!(answer.len() <= packet.frame.len());
                let expected = proof::answer(packet.frame, LinkLayer::Ethernet, now).unwrap();
                assert_eq!(answer[..expected.len()], expected);
                answered += 1;
            }
            Ok::<_, CaptureError>(())
        })
        .unwrap();
    answered
}

#[test]
fn a_real_capture_that_is_cut_is_read_up_to_there() {
    let Some(bytes) = read(SYN_FLOOD) else { return };
    let (_, answer, ended) = simulate(&bytes[..bytes.len() / 2], 1000);
    // Each packet has 60 bytes and a head of 16.
    let whole = (bytes.len() as u64 / 2 - 24) / 76;
    assert_eq!(answer.packets, whole);
    assert!(matches!(ended, Err(CaptureError::Cut { .. })), "{ended:?}");
}

fn simulate(bytes: &[u8], packets_per_second: u64) -> (Format, Answer, Result<(), CaptureError>) {
    let limit = format!("{{ packets = {packets_per_second}, per = \"1s\" }}");
    simulate_with(bytes, &format!("[policy.default]\nlimits = [{limit}]\n"))
}

fn simulate_with(bytes: &[u8], text: &str) -> (Format, Answer, Result<(), CaptureError>) {
    let configured = Configured {
        config: config(text),
        lists: Vec::new(),
        tick: Duration::ZERO,
    };
    let mut simulation = Simulation::new(configured, None, None).unwrap();
    let mut capture = Capture::open(bytes).unwrap();
    let ended = capture.read(|packet| {
        simulation.packet(packet).unwrap();
        Ok(())
    });
    (capture.format(), simulation.answer(10), ended)
}

fn config(text: &str) -> Config {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    let text = format!("[[interface]]\nname = \"eth0\"\n{text}");
    fs::write(&path, text).unwrap();
    config::load(&path).unwrap()
}

/// The bytes of a capture; a test whose capture is not there is skipped.
fn read(file: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(path(file)).ok();
    if bytes.is_none() {
        skip::report(&format!("needs the capture {file} in ../shared/captures"));
    }
    bytes
}

fn path(file: &str) -> PathBuf {
    let captures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/captures");
    captures.join(file)
}
