//! Tunnels of the kernel through a daemon, which looks into them while its configuration says so.

use std::{
    net::{Ipv4Addr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use ratelimit_tests::{
    Frame, Lab,
    lab::{INTERFACE, Receiver, Sender},
    packet::ETHERNET_BYTES,
    require_root,
    service::Service,
    skip, wait_until,
};

/// The addresses below tunnels.
const OUTER: [[&str; 2]; 2] = [
    ["10.99.0.1/24", "fd99::1/64"],
    ["10.99.0.2/24", "fd99::2/64"],
];
/// The addresses inside tunnels; the second sends to the first.
const INNER: [&str; 2] = ["192.0.2.1/24", "192.0.2.2/24"];
const TARGET: &str = "192.0.2.1:9000";
const SOURCE: &str = "192.0.2.2";

/// Is banned, and goes through no tunnel.
const BANNED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

const PATIENCE: Duration = Duration::from_millis(500);

/// The value of `tunnels`, and the arguments of `ip link add` with the addresses of both ends.
const KINDS: [(&str, &str); 8] = [
    ("ipip", "ipip local 10.99.0.NEAR remote 10.99.0.FAR"),
    ("ipip", "ip6tnl local fd99::NEAR remote fd99::FAR mode any"),
    ("gre", "gre local 10.99.0.NEAR remote 10.99.0.FAR key 9"),
    ("gre", "gretap local 10.99.0.NEAR remote 10.99.0.FAR"),
    ("gre", "ip6gre local fd99::NEAR remote fd99::FAR"),
    (
        "vxlan:4789",
        "vxlan id 7 local 10.99.0.NEAR remote 10.99.0.FAR dstport 4789",
    ),
    (
        "vxlan:8472",
        "vxlan id 7 local fd99::NEAR remote fd99::FAR dstport 8472",
    ),
    ("geneve:6081", "geneve id 7 remote 10.99.0.FAR"),
];

#[test]
fn the_source_inside_of_a_kernels_tunnel_is_banned_while_the_configuration_says_so() {
    require_root!();
    for (word, device) in KINDS.into_iter().step_by(3) {
        check(word, device);
    }
}

#[test]
#[ignore = "thorough"]
fn the_source_inside_of_every_tunnel_of_the_kernel_is_banned() {
    require_root!();
    for (word, device) in KINDS {
        check(word, device);
    }
}

#[test]
fn an_interface_of_a_tunnel_that_is_looked_into_is_reported() {
    require_root!();
    let lab = Lab::new().unwrap();
    lab.add_addresses(&OUTER[0], &OUTER[1]).unwrap();
    let add = "link add tunnel0 type vxlan id 7 local 10.99.0.1 remote 10.99.0.2 dstport 4789";
    let words: Vec<&str> = add.split(' ').collect();
    if let Err(error) = lab.near.ip(&words) {
        skip::report(&format!("this kernel has no vxlan: {error:#}"));
        return;
    }
    lab.near.ip(&["link", "set", "tunnel0", "up"]).unwrap();
    let toml = |inner: &str, more: &str| format!("{}{more}", toml(inner));
    let tunnel = "[[interface]]\nname = \"tunnel0\"\nmode = \"generic\"\n";
    let told = "remove [[interface]] tunnel0, or \"vxlan:4789\" from `tunnels`";
    let service = Service::started(&lab, &toml("[\"vxlan\"]", tunnel)).unwrap();
    service.wait_for_log(told).unwrap();
    for (inner, more, is_told) in [("[\"gre\"]", tunnel, false), ("[\"vxlan\"]", "", false)] {
        service.configure(&toml(inner, more)).unwrap();
        let doctor = service.rlctl(&["doctor", "tunnel0"]).unwrap().stdout;
        assert_eq!(doctor.contains(told), is_told, "{doctor}");
        let said = service.rlctl_ok(&["reload"]).unwrap();
        assert_eq!(said.contains(told), is_told, "{said}");
    }
}

/// One configuration refuses the sender of a tunnel, and the other one looks inside and refuses who
/// sends there. No packet is judged by parts of both.
#[test]
fn tunnels_change_in_one_step_with_the_rules() {
    require_root!();
    let lab = Lab::new().unwrap();
    let refusing = |source: &str, tunnels: &str| {
        let rest = toml(tunnels);
        format!("[policy.refused]\nsources = [\"{source}\"]\naction = \"drop\"\n{rest}")
    };
    let outside = refusing(&BANNED.to_string(), "[]");
    let inside = refusing(SOURCE, "[\"ipip\"]");
    let mut service = Service::started(&lab, &outside).unwrap();
    let stop = AtomicBool::new(false);
    let mut receiver = Receiver::on(&lab.near, INTERFACE).unwrap();
    let frame = Frame::ethernet().ipv4(BANNED);
    let frame = frame.ipv4(SOURCE.parse().unwrap()).udp(9).build();
    thread::scope(|scope| {
        scope.spawn(|| send_until(&lab, &frame, &stop));
        let _stop = Stop(&stop);
        for toml in [&inside, &outside, &inside] {
            service.configure(toml).unwrap();
            service.rlctl_ok(&["reload"]).unwrap();
        }
        for (toml, signal) in [(&outside, "-KILL"), (&inside, "-TERM")] {
            service.stop(signal).unwrap();
            service.configure(toml).unwrap();
            service.start().unwrap();
        }
        // A source inside counts only where tunnels are looked into: now packets arrive.
        service.configure(&refusing(SOURCE, "[]")).unwrap();
        let mut passed = frames_of(&mut receiver, BANNED);
        assert_eq!(passed, 0, "packets that both configurations refuse");
        service.rlctl_ok(&["reload"]).unwrap();
        wait_until("packets that no configuration refuses", || {
            passed += frames_of(&mut receiver, BANNED);
            passed > 0
        });
    });
}

/// Counts the frames of a source since the last call.
fn frames_of(receiver: &mut Receiver, source: Ipv4Addr) -> usize {
    let mut count = 0;
    while let Some(frame) = receiver.next(Duration::from_millis(2)).unwrap() {
        count += usize::from(frame[ETHERNET_BYTES + 12..][..4] == source.octets());
    }
    count
}

fn check(word: &str, device: &str) {
    let lab = Lab::new().unwrap();
    lab.add_addresses(&OUTER[0], &OUTER[1]).unwrap();
    let ends = [(&lab.near, "1", "2"), (&lab.far, "2", "1")];
    for ((namespace, near, far), inner) in ends.into_iter().zip(INNER) {
        let device = device.replace("NEAR", near).replace("FAR", far);
        let words: Vec<&str> = device.split(' ').collect();
        let add = [&["link", "add", "tunnel0", "type"], &words[..]].concat();
        if let Err(error) = namespace.ip(&add) {
            let kind = words[0];
            skip::kernel_lacks(&format!("{kind}: {error:#}"));
            return;
        }
        let address = ["address", "add", inner, "dev", "tunnel0"];
        namespace.ip(&address).unwrap();
        namespace.ip(&["link", "set", "tunnel0", "up"]).unwrap();
    }
    let service = Service::started(&lab, &toml("[]")).unwrap();
    for banned in [SOURCE.to_owned(), BANNED.to_string()] {
        service.rlctl_ok(&["ban", &banned, "--for", "1h"]).unwrap();
    }
    let stop = AtomicBool::new(false);
    let mut receiver = Receiver::on(&lab.near, INTERFACE).unwrap();
    let frame = Frame::ethernet().ipv4(BANNED).udp(9).build();
    thread::scope(|scope| {
        scope.spawn(|| send_until(&lab, &frame, &stop));
        let _stop = Stop(&stop);
        assert!(arrives(&lab), "{device}: without `tunnels`");
        let (with, on) = (
            toml(&format!("[\"{word}\"]")),
            format!("tunnels: none -> {word}"),
        );
        reload(&service, &with, &on);
        assert!(!arrives(&lab), "{device}: with `tunnels`");
        reload(&service, &toml("[]"), &format!("tunnels: {word} -> none"));
        assert!(arrives(&lab), "{device}: without `tunnels` again");
        reload(&service, &with, &on);
        assert!(!arrives(&lab), "{device}: with `tunnels` again");
    });
    while let Some(frame) = receiver.next(PATIENCE).unwrap() {
        let source = &frame[ETHERNET_BYTES + 12..][..4];
        assert_ne!(source, BANNED.octets(), "{device}: a banned packet passed");
    }
    let status = service.rlctl_ok(&["status"]).unwrap();
    let told = format!("tunnels: packets in {word} count for the inner source");
    assert!(status.contains(&told), "{device}: {status}");
    // Drops are sampled, so the inner packet is only certain to be seen once the flood has ended.
    let seen = "(udp to 192.0.2.1 port 9000 from port";
    wait_until(&format!("{device}: a sample of the inner packet"), || {
        !arrives(&lab)
            && service
                .rlctl(&["check", SOURCE])
                .unwrap()
                .stdout
                .contains(seen)
    });
}

fn toml(inner: &str) -> String {
    format!(
        "[policy.default]\nlimits = []\n[source]\ntunnels = {inner}\n\
         [[interface]]\nname = \"{INTERFACE}\"\n"
    )
}

fn reload(service: &Service, toml: &str, reported: &str) {
    service.configure(toml).unwrap();
    let said = service.rlctl_ok(&["reload"]).unwrap();
    assert!(said.contains(reported), "{reported}: {said}");
    assert!(!said.contains("reset"), "{said}");
}

/// Whether datagrams come through the tunnel.
fn arrives(lab: &Lab) -> bool {
    let receiver = lab.near.enter(|| UdpSocket::bind(TARGET)).unwrap();
    let sender = lab.far.enter(|| UdpSocket::bind((SOURCE, 0))).unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    // The first may wait for the address of a neighbour.
    for _ in 0..3 {
        sender.send_to(b"inside", TARGET).unwrap();
        if receiver.recv(&mut [0; 16]).is_ok() {
            return true;
        }
    }
    false
}

fn send_until(lab: &Lab, frame: &[u8], stop: &AtomicBool) {
    let sender = Sender::on(&lab.far, INTERFACE).unwrap();
    while !stop.load(Relaxed) {
        sender.send(frame).unwrap();
        thread::sleep(Duration::from_micros(500));
    }
}

/// Stops the sender, also where the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
