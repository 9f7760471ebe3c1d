//! Interfaces whose packets have no Ethernet header: a tun device, with a daemon on it.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ratelimit_tests::{
    Frame, Lab,
    lab::{INTERFACE, Receiver, Tun},
    packet::{ETHERNET_BYTES, SYN},
    require_root,
    service::Service,
};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// The timeout for a packet to reach the socket behind the program.
const PATIENCE: Duration = Duration::from_millis(300);
const PACKETS: u64 = 20;
const TOML: &str = "[policy.default]\nlimits = [{ packets = 5, per = \"1h\" }]\n\
                    [allow]\nsources = [\"192.0.2.9\"]\n";

#[test]
fn packets_without_a_link_header_are_judged_by_their_sources() {
    require_root!();
    for mode in ["generic", "auto"] {
        let mut scene = Scene::new(mode);
        let service = Service::started(&scene.lab, &toml(mode)).unwrap();
        for banned in ["198.51.100.1", "2001:db8:1::/64"] {
            service.rlctl_ok(&["ban", banned, "--for", "1h"]).unwrap();
        }
        for (source, passed) in [("198.51.100.1", 0), ("198.51.100.2", 5), ("192.0.2.9", 20)] {
            let packet = ipv4(source.parse().unwrap());
            assert_eq!(scene.passed(IPV4, &packet), passed, "{mode}: {source}");
        }
        for (source, passed) in [("2001:db8:1::7", 0), ("2001:db8:2::7", 5)] {
            let packet = ipv6(source.parse().unwrap());
            assert_eq!(scene.passed(IPV6, &packet), passed, "{mode}: {source}");
        }
        let reasons = service.metrics().unwrap();
        for counted in [
            "family=\"ipv4\",verdict=\"drop\",reason=\"banned\"} 20",
            "family=\"ipv4\",verdict=\"drop\",reason=\"limited\"} 15",
            "family=\"ipv6\",verdict=\"drop\",reason=\"banned\"} 20",
            "family=\"ipv6\",verdict=\"drop\",reason=\"limited\"} 15",
        ] {
            assert!(reasons.contains(counted), "{mode}: {counted}\n{reasons}");
        }
    }
}

#[test]
fn truncated_frames_are_dropped_and_frames_without_ip_pass() {
    require_root!();
    let mut scene = Scene::new("generic");
    let _service = Service::started(&scene.lab, &toml("generic")).unwrap();
    let (ipv4, ipv6) = (
        ipv4(Ipv4Addr::new(198, 51, 100, 3)),
        ipv6("2001:db8:3::1".parse().unwrap()),
    );
    for bytes in [1, 12, 19] {
        assert_eq!(scene.passed(IPV4, &ipv4[..bytes]), 0, "{bytes} bytes");
    }
    for bytes in [1, 24, 39] {
        assert_eq!(scene.passed(IPV6, &ipv6[..bytes]), 0, "{bytes} bytes");
    }
    // The type that the device was given does not reach the program: the version decides.
    let mut other = ipv4.clone();
    other[0] = 0x75;
    assert_eq!(scene.passed(0x88cc, &other), PACKETS);
}

fn toml(mode: &str) -> String {
    format!("{TOML}[[interface]]\nname = \"{INTERFACE}\"\nmode = \"{mode}\"\n")
}

struct Scene {
    lab: Lab,
    tun: Tun,
    received: Receiver,
}

impl Scene {
    fn new(name: &str) -> Self {
        let lab = Lab::without_link().unwrap();
        let tun = Tun::new(&lab.near).expect(name);
        lab.near.ip(&["link", "set", INTERFACE, "up"]).unwrap();
        let received = Receiver::new(&lab.near).unwrap();
        Self { lab, tun, received }
    }

    /// Counts the packets that get to the stack.
    fn passed(&mut self, ethertype: u16, packet: &[u8]) -> u64 {
        self.tun.drain().unwrap();
        self.received.count(Duration::ZERO).unwrap();
        for _ in 0..PACKETS {
            self.tun.send(ethertype, packet).unwrap();
        }
        self.received.count(PATIENCE).unwrap()
    }
}

fn ipv4(source: Ipv4Addr) -> Vec<u8> {
    without_link(Frame::ethernet().ipv4(source).tcp(80, SYN))
}

fn ipv6(source: Ipv6Addr) -> Vec<u8> {
    without_link(Frame::ethernet().ipv6(source).tcp(80, SYN))
}

fn without_link(frame: Frame) -> Vec<u8> {
    frame.build()[ETHERNET_BYTES..].to_vec()
}
