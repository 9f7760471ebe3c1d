//! Other network stacks, servers behind this host, and more verified sources than there is room for.

use std::{num::NonZeroU32, time::Duration};

use ratelimit_common as common;
use ratelimit_common::{
    PassReason, Settings, Verdict,
    challenge::{Rules, When},
    layout::VERIFIED_MAX,
    parse::LinkLayer,
};
use ratelimit_tests::{
    Frame,
    packet::{ACK, RST},
    program::Action,
    proof, require_root,
    service::Service,
};

use super::*;

#[test]
fn who_connects_through_this_host_proves_itself_by_a_reset() {
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

/// The requests of stacks as they are, with what stands in their options, and whether their resets acknowledge too.
const STACKS: [(&str, u8, &[u8], u8); 7] = [
    (
        "Linux",
        SYN,
        &[
            2, 4, 5, 180, 4, 2, 8, 10, 0, 1, 2, 3, 0, 0, 0, 0, 1, 3, 3, 7,
        ],
        RST,
    ),
    (
        "Windows",
        SYN | ECE_CWR,
        &[2, 4, 5, 180, 1, 3, 3, 8, 1, 1, 4, 2],
        RST,
    ),
    (
        "macOS",
        SYN | ECE_CWR,
        &[
            2, 4, 5, 180, 1, 3, 3, 6, 1, 1, 8, 10, 9, 8, 7, 6, 0, 0, 0, 0, 4, 2, 0, 0,
        ],
        RST,
    ),
    (
        "FreeBSD",
        SYN,
        &[
            2, 4, 5, 180, 1, 3, 3, 6, 4, 2, 8, 10, 9, 8, 7, 6, 0, 0, 0, 0,
        ],
        RST,
    ),
    (
        "OpenBSD",
        SYN,
        &[
            2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 6, 1, 1, 8, 10, 9, 8, 7, 6, 0, 0, 0, 0,
        ],
        RST,
    ),
    ("lwIP", SYN, &[2, 4, 2, 24], RST | ACK),
    ("a scanner without options", SYN, &[], RST | ACK),
];

/// Both flags of ECN.
const ECE_CWR: u8 = 0xc0;

#[test]
fn the_requests_of_other_stacks_are_answered_and_their_resets_are_proofs() {
    require_root!();
    let program = challenging();
    let mut now = common::Instant::from_nanos(1 << 40);
    for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
        for (number, (stack, flags, options, reset)) in (0..).zip(STACKS) {
            // Later, nobody is verified any more.
            now = common::Instant::from_nanos(now.as_nanos() + 3_600_000_000_000);
            program.set_clock(now).unwrap();
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
                .payload(options)
                .pad_to(60)
                .build();
            let answer = program.answer(&question).unwrap().expect(stack);
            assert!(answer.len() <= question.len(), "{stack}");
            let front = 12 + 4 * tags.len();
            assert_eq!(
                answer[12..front + 2],
                question[12..front + 2],
                "{stack}: through its VLANs"
            );
            let expected = proof::answer(&question, LinkLayer::Ethernet, now).unwrap();
            assert_eq!(answer[..expected.len()], expected, "{stack}");
            let mut proof = proof::of(&question, LinkLayer::Ethernet, now).unwrap();
            let flags = proof.len() - 7;
            proof[flags] = reset;
            let judge = |frame: &[u8]| program.judge(frame).unwrap().1;
            assert_eq!(
                judge(&proof),
                Verdict::Pass(PassReason::Verified),
                "{stack}"
            );
            assert_eq!(
                judge(&question),
                Verdict::Pass(PassReason::Unlimited),
                "{stack}"
            );
        }
    }
}

#[test]
fn where_too_many_are_verified_those_that_were_seen_last_stay_so() {
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
        challenge: Rules::new(When::Always, Duration::from_mins(10), answers, 2).unwrap(),
        ..Scene::limited(&[])
    };
    scene.set_up(&mut program).unwrap();
    program
}
