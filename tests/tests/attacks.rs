//! The daemon names attacks from what the kernel samples of live traffic, and ordinary traffic it
//! does not.

use std::{
    fmt::Write as _,
    fs,
    net::Ipv4Addr,
    path::PathBuf,
    thread,
    time::{Duration, Instant, SystemTime},
};

use ratelimit_core::{
    api::{AttackView, Ban, Check, Status},
    capture::{Capture, CaptureError},
    detection::Kind,
};
use ratelimit_tests::{
    Frame, Lab,
    attached::Attached,
    lab::Sender,
    packet::{ACK, SYN},
    require_root,
    service::Service,
    skip,
};

const SYN_FLOOD: &str = "pkt.TCP.synflood.spoofed.pcap";

#[test]
fn a_flood_of_forged_requests_is_named() {
    check(SYN_FLOOD, Kind::SynFlood, "to 10.10.10.10");
}

#[test]
fn a_reflection_by_ipsec_gateways_is_named() {
    let subject = "from port 4500 to 10.10.10.10";
    check("amp.UDP.isakmp.pcap", Kind::Reflection, subject);
}

#[test]
fn ordinary_traffic_is_not_named_and_a_flood_behind_it_is() {
    const ROUNDS: u32 = 3_000;
    require_root!();
    let (lab, service) = Service::in_lab(&toml("observe")).unwrap();
    let sender = Sender::new(&lab.far).unwrap();
    for round in 0..ROUNDS {
        for frame in ordinary(round) {
            sender.send(&frame).unwrap();
        }
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_secs(2));
    assert_eq!(attacks(&service), []);
    for packet in 0..50_000 {
        sender.send(&request(packet * 65_537)).unwrap();
    }
    let found = wait_for_attacks(&service);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, Kind::SynFlood);
}

#[test]
fn a_source_that_floods_is_banned_where_the_rule_says_so() {
    require_root!();
    let (lab, service) = Service::in_lab(&toml("ban")).unwrap();
    lab.send(&request(7), 50_000).unwrap();
    wait_for_attacks(&service);
    let bans: Vec<Ban> = service.json(&["list", "bans"]).unwrap();
    assert_eq!(bans.len(), 1, "{bans:?}");
    assert_eq!(bans[0].prefix.to_string(), client(7).to_string());
}

/// Samples are few at this rate, so each represents many packets.
#[test]
fn clients_of_a_flooded_host_are_not_banned_with_its_flooders() {
    const FLOODERS: u32 = 20;
    const CLIENTS: u32 = 400;
    const LASTS: Duration = Duration::from_secs(3);
    /// In which each client connects once.
    const ROUND: Duration = Duration::from_millis(160);
    require_root!();
    let rule = "[policy.default]\nlimits = []\n[detection.syn_flood]\nanswer = \"ban\"\n";
    let (lab, service) = Service::in_lab(rule).unwrap();
    let sender = Sender::new(&lab.far).unwrap();
    let flood: Vec<Vec<u8>> = (0..FLOODERS).map(request).collect();
    let to_other = |number| {
        let frame = Frame::ethernet().ipv4(client(number)).tcp(443, SYN);
        frame
            .pad_to(60)
            .build_to(Ipv4Addr::new(198, 51, 100, 77).into())
    };
    let busy_elsewhere = to_other(FLOODERS);
    let mut clients = (FLOODERS + 1..).take(CLIENTS as usize).cycle();
    let start = Instant::now();
    let (mut connected, mut elsewhere) = (0, 0);
    while start.elapsed() < LASTS {
        for frame in &flood {
            sender.send(frame).unwrap();
        }
        let due = start.elapsed().as_micros() * u128::from(CLIENTS) / ROUND.as_micros();
        while connected < due {
            sender.send(&request(clients.next().unwrap())).unwrap();
            connected += 1;
        }
        while elsewhere < start.elapsed().as_millis() / 10 {
            sender.send(&busy_elsewhere).unwrap();
            elsewhere += 1;
        }
    }
    wait_for_attacks(&service);
    let bans: Vec<Ban> = service.json(&["list", "bans"]).unwrap();
    let mut banned: Vec<String> = bans.iter().map(|ban| ban.prefix.to_string()).collect();
    let mut flooders: Vec<String> = (0..FLOODERS).map(|it| client(it).to_string()).collect();
    banned.sort();
    flooders.sort();
    assert_eq!(banned, flooders);
}

#[test]
fn an_attack_outlives_a_change_of_its_rules() {
    require_root!();
    let (lab, service) = Service::in_lab(&toml("observe")).unwrap();
    let sender = Sender::new(&lab.far).unwrap();
    let flood = || {
        for packet in 0..50_000 {
            sender.send(&request(packet * 65_537)).unwrap();
        }
    };
    flood();
    let before = wait_for_attacks(&service);
    let table = format!("[detection.{}]\n", Kind::SynFlood.key());
    let changed = format!("{table}threshold = 400\n");
    service
        .reload(&toml("observe").replace(&table, &changed))
        .unwrap();
    // The rules are read once a second, and a second of packets is counted together.
    thread::sleep(Duration::from_millis(1_500));
    flood();
    thread::sleep(Duration::from_millis(1_500));
    let after = attacks(&service);
    assert_eq!(after.len(), 1, "{after:?}");
    assert_eq!(after[0].since, before[0].since);
    let metrics = service.metrics().unwrap();
    let counted = "ratelimit_attacks_total{kind=\"syn-flood\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
}

#[test]
fn a_source_that_floods_is_limited_where_the_rule_says_so() {
    require_root!();
    let (lab, mut service) = Service::in_lab(&toml("limit")).unwrap();
    lab.send(&request(7), 50_000).unwrap();
    wait_for_attacks(&service);
    let address = client(7).to_string();
    let limited = check_of(&service, &address).limited.unwrap();
    assert_eq!(limited.prefix.to_string(), address);
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    assert!(check_of(&service, &address).limited.is_some());
    for frame in [request(7), request(8)] {
        lab.send(&frame, 100).unwrap();
    }
    let check = check_of(&service, &address);
    assert!(check.refused_packets >= 50, "{check:?}");
    assert_eq!(check.policy, "[detected] default + 10 packets per 1s");
    assert_eq!(
        check_of(&service, &client(8).to_string()).refused_packets,
        0
    );
    let listed = service.rlctl_ok(&["list", "limits"]).unwrap();
    assert!(listed.contains(&address), "{listed}");
    let metrics = service.metrics().unwrap();
    assert!(metrics.contains("ratelimit_detected_limits 1"), "{metrics}");
    service
        .rlctl_ok(&["limit", "rm", "--prefix", &address])
        .unwrap();
    assert_eq!(check_of(&service, &address).limited, None);
}

/// The answer to an attack never resets an hour's usage: neither when it begins, while it lasts,
/// nor when it ends.
#[test]
fn a_further_limit_gives_nothing_back_of_what_a_source_has_used() {
    const AN_HOUR: usize = 1_000;
    require_root!();
    for store in ["lru", "compact"] {
        let lab = Lab::new().unwrap();
        let limited = |amount: usize| {
            format!(
                "[source]\n\
                 store = \"{store}\"\n\
                 [policy.default]\n\
                 limits = [{{ packets = {amount}, per = \"1h\" }}]\n\
                 [detection.syn_flood]\n\
                 answer = \"limit\"\n\
                 limit = {{ packets = 5, per = \"1h\" }}\n"
            )
        };
        let mut service = Service::started(&lab, &limited(AN_HOUR)).unwrap();
        let (address, frame) = (client(7).to_string(), request(7));
        let sender = Sender::new(&lab.far).unwrap();
        for _ in 0..50_000 {
            sender.send(&frame).unwrap();
        }
        service.wait_until("its limits", || {
            check_of(&service, &address).limited.is_some()
        });
        let passed = |service: &Service| {
            let program = Attached::of(service).unwrap();
            program.passed(&frame, 20).unwrap()
        };
        assert_eq!(passed(&service), 0, "{store}: all of an hour is used");
        service.reload(&limited(AN_HOUR + 2)).unwrap();
        assert_eq!(passed(&service), 2, "{store}: two more are allowed");
        service.reload(&limited(AN_HOUR + 9)).unwrap();
        assert_eq!(passed(&service), 3, "{store}: the further limit is full");
        service.stop("-KILL").unwrap();
        service.start().unwrap();
        assert_eq!(passed(&service), 0, "{store}: a restart gives nothing back");
        service
            .rlctl_ok(&["limit", "rm", "--prefix", &address])
            .unwrap();
        assert_eq!(passed(&service), 4, "{store}: what was left of the hour");
    }
}

fn check_of(service: &Service, address: &str) -> Check {
    // It ends with 3 where packets are dropped at the moment.
    service.json(&["check", address]).unwrap()
}

/// Sends the fast part of a capture at its own pace. Only its attack may be named.
fn check(file: &str, kind: Kind, subject: &str) {
    require_root!();
    let Some(packets) = read(file) else { return };
    let (lab, service) = Service::in_lab(&toml("observe")).unwrap();
    let sender = Sender::new(&lab.far).unwrap();
    let (start, began) = (Instant::now(), SystemTime::now());
    for (after, frame) in &packets {
        thread::sleep((start + *after).saturating_duration_since(Instant::now()));
        sender.send(frame).unwrap();
    }
    let took = start.elapsed();
    let found = wait_for_attacks(&service);
    assert_eq!(found.len(), 1, "{found:?}");
    let reported = (found[0].kind, found[0].subject.as_str());
    assert_eq!(reported, (kind, subject));
    let since = SystemTime::from(found[0].since);
    let named = since.duration_since(began).unwrap();
    // The machine may be busy, and the traffic slower than it was. The second window ends a little
    // after two seconds.
    let most = took.max(Duration::from_secs(2)) + Duration::from_millis(500);
    assert!(named <= most, "{named:?}");
    service.wait_for_log("attack began").unwrap();
    let metrics = service.metrics().unwrap();
    let counted = format!("ratelimit_attacks_total{{kind=\"{}\"}} 1", kind.label());
    assert!(metrics.contains(&counted), "{metrics}");
    let named = format!("{} {subject} since", kind.label());
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(status.contains(&named), "{status}");
    service.wait_for_event(&format!("attack began: {named}"));
}

fn wait_for_attacks(service: &Service) -> Vec<AttackView> {
    let found = || Some(attacks(service)).filter(|found| !found.is_empty());
    service.wait_for("an attack", found)
}

fn attacks(service: &Service) -> Vec<AttackView> {
    service.json::<Status>(&["status"]).unwrap().attacks
}

/// Nothing is limited, and everything is looked for.
fn toml(answer: &str) -> String {
    let mut toml = "[policy.default]\nlimits = []\n".to_owned();
    for kind in Kind::ALL {
        writeln!(toml, "[detection.{}]\nanswer = \"{answer}\"", kind.key()).unwrap();
    }
    toml
}

/// A millisecond of web, ssh, DNS, a large download, and many clients behind one address.
fn ordinary(round: u32) -> Vec<Vec<u8>> {
    let segment = |source, port, flags, bytes| {
        let frame = Frame::ethernet().ipv4(source).tcp(port, flags);
        frame.pad_to(bytes).build()
    };
    let one = Ipv4Addr::new(203, 0, 113, 77);
    let web = client(round * 65_537);
    let mut frames = vec![request(round * 65_537)];
    frames.extend((0..5).map(|_| segment(web, 443, ACK, 60)));
    frames.extend((0..5).map(|_| segment(one, 443, SYN, 60)));
    frames.extend((0..20).map(|_| segment(one, 443, ACK, 60)));
    let question = Frame::ethernet().ipv4(one).udp(53).pad_to(80).build();
    frames.extend([question, segment(client(1), 22, ACK, 120)]);
    let answer = [0, 53, 0xc0, 7, 0, 8, 0, 0];
    let answer = Frame::ethernet().ipv4(client(2)).protocol(17, &answer);
    frames.push(answer.pad_to(160).build());
    frames.extend((0..20).map(|_| segment(client(3), 50_000, ACK, 1_500)));
    frames
}

fn request(number: u32) -> Vec<u8> {
    let frame = Frame::ethernet().ipv4(client(number)).tcp(443, SYN);
    frame.pad_to(60).build()
}

/// Returns one of many addresses, spread widely.
fn client(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x6000_0000 | (number & 0x0fff_ffff))
}

/// Frames of the first two seconds that are fast, each with when it comes; a test whose capture is
/// not there is skipped.
fn read(file: &str) -> Option<Vec<(Duration, Vec<u8>)>> {
    const FAST: usize = 300;
    let captures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/captures");
    let Ok(bytes) = fs::read(captures.join(file)) else {
        skip::report(&format!("needs the capture {file} in ../shared/captures"));
        return None;
    };
    let mut packets = Vec::new();
    let mut capture = Capture::open(bytes.as_slice()).unwrap();
    let read = capture.read(|packet| {
        let at = Duration::from_nanos(packet.time_ns.unwrap());
        packets.push((at, packet.frame.to_vec()));
        Ok::<_, CaptureError>(())
    });
    read.unwrap();
    let second = Duration::from_secs(1);
    let mut starts = packets.windows(FAST);
    let first = starts.position(|few| few[FAST - 1].0.saturating_sub(few[0].0) < second);
    packets.drain(..first.expect("some of it is fast"));
    let start = packets[0].0;
    for packet in &mut packets {
        packet.0 = packet.0.saturating_sub(start);
    }
    packets.retain(|packet| packet.0 < 2 * second);
    Some(packets)
}
