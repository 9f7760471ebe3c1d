//! `mode = "tcx"`: the same decisions after GRO, beside other programs, from the kernel on.

use std::{
    fs,
    net::UdpSocket,
    os::fd::AsRawFd as _,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use aya::programs::{LinkOrder, TcAttachType, tc::TcAttachOptions, xdp::XdpMode};
use ratelimit_common::{Family, PassReason, Verdict, layout};
use ratelimit_tests::{
    Frame, Lab, Program,
    lab::INTERFACE,
    packet::{VLAN, datagram},
    program::{Constants, has_tcx},
    require_command, require_root,
    service::Service,
    skip,
};

const SERVER: &str = "192.0.2.1:7";
const BANNED: &str = "192.0.2.66";
const FREE: &str = "192.0.2.2";
const CLIENTS: [&str; 2] = ["192.0.2.2/24", "192.0.2.66/24"];
const POLICY: &str = "[policy.default]\nlimits = []\n";
/// The longest time until a datagram that passed arrives.
const LATE: Duration = Duration::from_millis(300);

#[test]
fn a_frame_of_many_packets_counts_as_many() {
    const SEGMENT: usize = 100;
    const SEGMENTS: usize = 50;
    require_root!();
    let Some(lab) = lab() else { return };
    let limit = "[policy.default]\nlimits = [{ packets = 120, per = \"1h\" }]\n";
    let service = Service::started(&lab, &with_mode("tcx", limit)).unwrap();
    let server = server(&lab);
    let client = client(&lab, FREE);
    let size = i32::try_from(SEGMENT).unwrap();
    // SAFETY: the kernel copies the number during the call.
    let set = unsafe {
        libc::setsockopt(
            client.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const size).cast(),
            4,
        )
    };
    assert_eq!(set, 0);
    for _ in 0..4 {
        client.send(&[7; SEGMENT * SEGMENTS]).unwrap();
    }
    // The third frame has no room, but single packets have.
    client.send(&[7; SEGMENT]).unwrap();
    let datagrams = received(&server);
    assert_eq!(datagrams, 2 * SEGMENTS + 1);
    let counted = |action, reason| service.packets(action, reason).unwrap();
    assert_eq!(counted("pass", "conforming"), 101);
    assert_eq!(counted("drop", "limited"), 100);
}

/// A virtual machine leaves it to its host to count the segments.
#[test]
fn segments_that_nobody_counted_are_counted() {
    require_root!();
    let program = Program::load(&Constants {
        entry_point: layout::PROGRAM_TCX,
        ..Constants::default()
    })
    .unwrap();
    let frame = datagram([198, 51, 100, 9]);
    let frame = [&frame[..], &[0; 2_900]].concat();
    let counted = || {
        let verdict = Verdict::Pass(PassReason::Unlimited);
        program.counter(Family::Ipv4, verdict).unwrap()
    };
    for (segments, each, packets) in [(0, 0, 1), (1, 0, 1), (3, 1_000, 3), (0, 1_000, 3)] {
        let before = counted();
        program.run_merged(&frame, segments, each).unwrap();
        let after = counted();
        let case = format!("{segments} of {each} bytes");
        assert_eq!(after.packets - before.packets, packets, "{case}");
        let bytes = after.bytes - before.bytes;
        assert_eq!(bytes, frame.len() as u64, "{case}");
    }
}

/// The kernel removes the outermost tag before TCX.
#[test]
fn classes_see_the_vlan_that_is_no_longer_in_the_frame() {
    require_root!();
    let Some(lab) = lab() else { return };
    let limits = "[{ packets = 1, per = \"1h\", match = { vlan = [7] } }]";
    let policy = format!("[policy.default]\nlimits = {limits}\n");
    let service = Service::started(&lab, &with_mode("tcx", &policy)).unwrap();
    let source = [192, 0, 2, 2].into();
    for id in [8, 7] {
        let frame = Frame::ethernet().vlan(VLAN, id).ipv4(source).udp(9).build();
        lab.send(&frame, 3).unwrap();
    }
    service.wait_until("the others are dropped", || {
        service.packets("drop", "limited").unwrap() == 2
    });
    assert_eq!(service.packets("pass", "conforming").unwrap(), 1);
}

#[test]
fn a_program_that_was_attached_before_ours_is_reported_until_ours_is_first_again() {
    require_root!();
    let Some(lab) = lab() else { return };
    let mut service = Service::started(&lab, &with_mode("tcx", POLICY)).unwrap();
    let mut theirs = Program::load(&Constants {
        entry_point: layout::PROGRAM_TCX,
        ..Constants::default()
    })
    .unwrap();
    let first = TcAttachOptions::TcxOrder(LinkOrder::first());
    let program = theirs.tcx_mut();
    lab.near
        .enter(|| program.attach_with_options(INTERFACE, TcAttachType::Ingress, first))
        .unwrap();
    let is_reported = |service: &Service| {
        let status = service.rlctl_ok(&["status"]).unwrap();
        status.contains("another program at TCX runs first")
    };
    service.wait_until("it is reported", || is_reported(&service));
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    assert!(!is_reported(&service));
}

#[test]
fn it_runs_beside_an_xdp_program_of_another_owner_and_without_the_daemon() {
    require_root!();
    let Some(lab) = lab() else { return };
    let mut theirs = Program::load(&Constants::default()).unwrap();
    let attach = || theirs.xdp_mut().attach(INTERFACE, XdpMode::Skb);
    lab.near.enter(attach).unwrap();
    let server = server(&lab);
    let mut service = Service::started(&lab, &with_mode("tcx", POLICY)).unwrap();
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(status.contains("tcx"), "{status}");
    service.rlctl_ok(&["ban", BANNED]).unwrap();
    let expect = |step: &str| {
        let passed = [BANNED, FREE].map(|source| passes(&lab, &server, source));
        assert_eq!(passed, [false, true], "{step}");
    };
    expect("as it is");
    service.stop("-KILL").unwrap();
    expect("no daemon");
    service.start().unwrap();
    expect("the next daemon");
    service.wait_for_log("adopted the pinned link").unwrap();
    // Its own hook has one program still.
    let doctor = service.rlctl(&["doctor", INTERFACE]).unwrap().stdout;
    assert!(doctor.contains("ratelimitd, tcx"), "{doctor}");
    service.rlctl_ok(&["detach"]).unwrap();
    assert!(passes(&lab, &server, BANNED));
}

#[test]
fn no_banned_packet_passes_when_the_mode_changes() {
    require_root!();
    let Some(lab) = lab() else { return };
    let mut service = Service::started(&lab, &with_mode("native", POLICY)).unwrap();
    service.rlctl_ok(&["ban", BANNED]).unwrap();
    let server = server(&lab);
    let banned = client(&lab, BANNED);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                banned.send(b"banned").unwrap();
            }
        });
        for round in 0..3 {
            for mode in ["tcx", "generic", "tcx", "native"] {
                service.reload(&with_mode(mode, POLICY)).unwrap();
                let status = service.rlctl_ok(&["status"]).unwrap();
                assert!(status.contains(mode), "{round}: {status}");
            }
            service.configure(&with_mode("tcx", POLICY)).unwrap();
            service.stop("-KILL").unwrap();
            service.start().unwrap();
        }
        is_over.store(true, Relaxed);
        sender.join().unwrap();
    });
    assert_eq!(received(&server), 0);
    assert!(passes(&lab, &server, FREE));
}

#[test]
fn a_link_that_somebody_detaches_is_noticed_and_replaced() {
    require_root!();
    require_command!("bpftool");
    let Some(lab) = lab() else { return };
    let service = Service::started(&lab, &with_mode("tcx", POLICY)).unwrap();
    service.rlctl_ok(&["ban", BANNED]).unwrap();
    let server = server(&lab);
    assert!(!passes(&lab, &server, BANNED));
    let mut detach = Command::new("bpftool");
    let detach = detach.args(["link", "detach", "pinned"]);
    let detach = detach.arg(link_of(&service, "0t"));
    assert!(detach.status().unwrap().success());
    service
        .wait_for_log("the pinned link has come off")
        .unwrap();
    assert!(!passes(&lab, &server, BANNED));
}

#[test]
fn a_link_that_a_killed_daemon_left_at_the_other_hook_is_detached() {
    require_root!();
    let Some(lab) = lab() else { return };
    let mut service = Service::started(&lab, &with_mode("native", POLICY)).unwrap();
    let pin = link_of(&service, "0");
    let aside = service.pins().join("aside");
    service.stop("-KILL").unwrap();
    fs::rename(&pin, &aside).unwrap();
    service.configure(&with_mode("tcx", POLICY)).unwrap();
    service.start().unwrap();
    service.stop("-KILL").unwrap();
    fs::rename(&aside, &pin).unwrap();
    let has_xdp = || {
        let shown = lab.near.ip(&["link", "show", INTERFACE]).unwrap();
        shown.contains("prog/xdp")
    };
    assert!(has_xdp());
    service.start().unwrap();
    assert!(!has_xdp());
    let server = server(&lab);
    assert!(passes(&lab, &server, FREE));
    assert_eq!(service.packets("pass", "unlimited").unwrap(), 1);
}

#[test]
fn a_link_that_a_killed_daemon_was_about_to_exchange_is_detached() {
    require_root!();
    let Some(lab) = lab() else { return };
    let mut service = Service::started(&lab, &with_mode("tcx", POLICY)).unwrap();
    let pin = link_of(&service, "0t");
    service.stop("-KILL").unwrap();
    fs::rename(&pin, pin.with_file_name("new-1")).unwrap();
    service.configure(&with_mode("native", POLICY)).unwrap();
    service.start().unwrap();
    let server = server(&lab);
    assert!(passes(&lab, &server, FREE));
    assert_eq!(service.packets("pass", "unlimited").unwrap(), 1);
}

/// A lab with addresses; `None` where the kernel has no TCX.
fn lab() -> Option<Lab> {
    if !has_tcx() {
        skip::report("needs TCX (Linux 6.6)");
        return None;
    }
    let lab = Lab::new().unwrap();
    for (namespace, addresses) in [(&lab.near, &["192.0.2.1/24"][..]), (&lab.far, &CLIENTS)] {
        for address in addresses {
            let add = ["address", "add", address, "dev", INTERFACE];
            namespace.ip(&add).unwrap();
        }
    }
    Some(lab)
}

fn with_mode(mode: &str, policy: &str) -> String {
    format!("{policy}[[interface]]\nname = \"{INTERFACE}\"\nmode = \"{mode}\"\n")
}

/// The pin of the link of the interface, by its slot and the letter of its program.
fn link_of(service: &Service, slot: &str) -> PathBuf {
    let link = format!("v{}/links/{slot}-{INTERFACE}", layout::VERSION);
    service.pins().join(link)
}

/// A server on the protected side.
fn server(lab: &Lab) -> UdpSocket {
    let server = lab.near.enter(|| UdpSocket::bind(SERVER)).unwrap();
    server.set_read_timeout(Some(LATE)).unwrap();
    server
}

/// A client of it with this address.
fn client(lab: &Lab, address: &str) -> UdpSocket {
    let client = lab.far.enter(|| UdpSocket::bind((address, 0))).unwrap();
    client.connect(SERVER).unwrap();
    client
}

/// The datagrams that arrive until none comes any more.
fn received(server: &UdpSocket) -> usize {
    let mut room = [0; 200];
    let arrived = std::iter::from_fn(|| server.recv(&mut room).ok());
    arrived.count()
}

/// Whether a datagram of a source arrives.
fn passes(lab: &Lab, server: &UdpSocket, source: &str) -> bool {
    client(lab, source).send(b"one").unwrap();
    received(server) == 1
}
