//! Other network stacks, servers behind this host, and more verified sources than there is room
//! for.

use std::{num::NonZeroU32, time::Duration};

use ratelimit_common as common;
use ratelimit_common::{
    PassReason, Settings, Verdict,
    challenge::{Rules, Trigger},
    layout::VERIFIED_MAX,
    parse::LinkLayer,
};
use ratelimit_core::capture::{Capture, CaptureError, Packet};
use ratelimit_tests::{
    Frame, Program,
    packet::{ACK, RST},
    program::Action,
    proof, require_root,
    service::Service,
};

use super::*;

#[test]
fn a_client_that_connects_through_this_host_proves_itself_by_a_reset() {
    require_root!();
    let lab = lab();
    let behind = Namespace::of("behind").unwrap();
    let ip = |namespace: &Namespace, words: &str| {
        namespace.ip(&words.split(' ').collect::<Vec<_>>()).unwrap()
    };
    let pair = format!(
        "link add rl1 type veth peer name {INTERFACE} netns {}",
        behind.name()
    );
    ip(&lab.near, &pair);
    ip(&lab.near, "link set rl1 up");
    ip(&lab.near, "address add 10.79.0.1/24 dev rl1");
    ip(&behind, "link set rl0 up");
    ip(&behind, "address add 10.79.0.2/24 dev rl0");
    ip(&behind, "route add default via 10.79.0.1");
    ip(&lab.far, "route add 10.79.0.0/24 via 10.77.0.1");
    sysctl(&lab.near, "net/ipv4/ip_forward", "1");
    let server = "10.79.0.2".parse().unwrap();
    let service = Service::started(&lab, &generic(ALWAYS)).unwrap();
    let _server = Server::on(&behind, server);
    let before = Listening::of(&behind);
    flooded(&lab, server, || {
        for _ in 0..20 {
            connect(&lab, server);
        }
        thread::sleep(Duration::from_millis(100));
    });
    let expected = Listening {
        opened: 20,
        ..Listening::default()
    };
    assert_eq!(Listening::of(&behind).since(&before), expected);
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
    assert!(service.packets("drop", "challenged").unwrap() > 100);
}

/// The options of requests, as the database of fingerprints of p0f 3.09b has them, and some that it
/// lacks.
const STACKS: [(&str, u8, &str, u8); 17] = [
    ("Linux 3.11 and newer", SYN, "mss,sok,ts,nop,ws", RST),
    (
        "Linux without timestamps",
        SYN,
        "mss,nop,nop,sok,nop,ws",
        RST,
    ),
    ("Linux 2.0", SYN, "mss", RST),
    ("Windows XP", SYN, "mss,nop,nop,sok", RST),
    ("Windows 7", SYN, "mss,nop,ws,nop,nop,sok", RST),
    (
        "Windows with ECN",
        SYN | ECE_CWR,
        "mss,nop,ws,nop,nop,sok",
        RST,
    ),
    ("Windows with timestamps", SYN, "mss,nop,ws,sok,ts", RST),
    ("a crawler", SYN, "mss,nop,nop,ts,nop,ws", RST),
    (
        "macOS",
        SYN | ECE_CWR,
        "mss,nop,ws,nop,nop,ts,sok,eol,eol",
        RST,
    ),
    ("OpenBSD", SYN, "mss,nop,nop,sok,nop,ws,nop,nop,ts", RST),
    ("Solaris", SYN, "nop,ws,nop,nop,ts,nop,nop,sok,mss", RST),
    ("OpenVMS", SYN, "mss,nop,ws", RST),
    ("Blackberry", SYN, "mss,nop,nop,sok,nop,nop,ts", RST),
    (
        "a spider",
        SYN,
        "mss,sok,nop,nop,nop,nop,nop,nop,nop,nop,nop,nop,nop,ws",
        RST,
    ),
    ("nmap", SYN, "ts,nop,nop,ws,nop,mss", RST),
    ("lwIP", SYN, "mss", RST | ACK),
    ("a scanner without options", SYN, "", RST | ACK),
];

/// Both flags of ECN.
const ECE_CWR: u8 = 0xc0;

/// Options in the words of p0f.
fn options(layout: &str) -> Vec<u8> {
    let option = |name| -> &[u8] {
        match name {
            "mss" => &[2, 4, 5, 180],
            "nop" => &[1],
            "ws" => &[3, 3, 7],
            "sok" => &[4, 2],
            "ts" => &[8, 10, 9, 8, 7, 6, 0, 0, 0, 0],
            "eol" | "" => &[0],
            other => panic!("{other}"),
        }
    };
    let mut options: Vec<u8> = layout.split(',').flat_map(option).copied().collect();
    options.resize(options.len().next_multiple_of(4), 0);
    if layout.is_empty() { vec![] } else { options }
}

#[test]
fn the_requests_of_other_stacks_are_answered_and_their_resets_are_proofs() {
    require_root!();
    let program = challenging();
    let mut now = common::Instant::from_nanos(1 << 40);
    for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
        for (number, (stack, flags, layout, reset)) in (0..).zip(STACKS) {
            let options = options(layout);
            let mut header = [0; 20];
            header[..8].copy_from_slice(&[200, number, 0, 80, 1, 2, 3, 4]);
            header[12] = u8::try_from(5 + options.len() / 4).unwrap() << 4;
            header[13] = flags;
            let frame = tags
                .iter()
                .fold(Frame::ethernet(), |frame, tag| frame.vlan(*tag, 7));
            let source = Ipv4Addr::new(192, 0, 2, number);
            let question = frame
                .ipv4(source)
                .protocol(6, &header)
                .payload(&options)
                .pad_to(60)
                .build();
            // Later, all verifications have expired.
            now = common::Instant::from_nanos(now.as_nanos() + 3_600_000_000_000);
            proves_itself(&program, now, stack, &question, reset);
        }
    }
}

/// SYNs of Windows and Linux that were captured on the wire, one of IPv6: from the captures that
/// `pcap-parser`, dpkt, gopacket and pypacker come with.
const CAPTURED: &[u8] = include_bytes!("requests.pcap");

#[test]
fn captured_requests_are_answered_and_their_resets_are_proofs() {
    require_root!();
    let program = challenging();
    let mut requests = vec![];
    let mut capture = Capture::open(CAPTURED).unwrap();
    let visit = |packet: Packet<'_>| {
        requests.push(packet.frame.to_vec());
        Ok::<(), CaptureError>(())
    };
    capture.read(visit).unwrap();
    assert_eq!(requests.len(), 7);
    for (number, question) in (0..).zip(requests) {
        let now = common::Instant::from_nanos((1 << 40) + number);
        proves_itself(&program, now, &format!("request {number}"), &question, RST);
    }
}

/// Whether a request is answered, and its source is verified by the reset that a stack sends back
/// with these flags.
fn proves_itself(program: &Program, now: common::Instant, stack: &str, question: &[u8], reset: u8) {
    program.set_clock(now).unwrap();
    let answer = program.answer(question).unwrap().expect(stack);
    assert!(answer.len() <= question.len(), "{stack}");
    let is_tag = |at: usize| matches!(question[at..at + 2], [0x81, 0] | [0x88, 0xa8]);
    let kind = (12..).step_by(4).find(|at| !is_tag(*at)).unwrap();
    let through = 12..kind + 2;
    assert_eq!(
        answer[through.clone()],
        question[through],
        "{stack}: through its VLANs"
    );
    let expected = proof::answer(question, LinkLayer::Ethernet, now).unwrap();
    assert_eq!(answer[..expected.len()], expected, "{stack}");
    let mut proof = proof::of(question, LinkLayer::Ethernet, now).unwrap();
    let flags = proof.len() - 7;
    proof[flags] = reset;
    let judge = |frame: &[u8]| program.judge(frame).unwrap().1;
    let verified = Verdict::Pass(PassReason::Verified);
    assert_eq!(judge(&proof), verified, "{stack}");
    let passes = Verdict::Pass(PassReason::Unlimited);
    assert_eq!(judge(question), passes, "{stack}");
}

#[test]
fn if_too_many_are_verified_those_that_were_seen_last_stay_so() {
    require_root!();
    let program = challenging();
    let now = common::Instant::from_nanos(1 << 40);
    program.set_clock(now).unwrap();
    let question = |number: u32| {
        let source = Ipv4Addr::from(0x0a00_0000 + number);
        Frame::ethernet().ipv4(source).tcp(PORT, SYN).build()
    };
    let many = VERIFIED_MAX + VERIFIED_MAX / 4;
    for number in 0..many {
        let proof = proof::of(&question(number), LinkLayer::Ethernet, now).unwrap();
        assert_eq!(program.run(&proof).unwrap(), Action::Pass);
        // The first one comes again and again.
        if number % 1_000 == 0 {
            let answer = program.answer(&question(0)).unwrap();
            assert_eq!(answer, None, "{number}");
        }
    }
    let verified = |numbers: std::ops::Range<u32>| {
        let answers = numbers.map(|number| program.answer(&question(number)).unwrap());
        answers.filter(Option::is_none).count()
    };
    assert_eq!(verified(many - 1_000..many), 1_000);
    assert!(verified(0..1_000) < 1_000);
}

/// A program without a daemon that challenges all sources.
fn challenging() -> Program {
    let mut program = Program::load(&Constants::default()).unwrap();
    let answers = NonZeroU32::new(1 << 20).unwrap();
    let scene = Scene {
        settings: Settings::default().with_challenge(true),
        challenge: Rules::new(Trigger::Always, Duration::from_mins(10), answers, 2).unwrap(),
        ..Scene::limited(&[])
    };
    scene.set_up(&mut program).unwrap();
    program
}
