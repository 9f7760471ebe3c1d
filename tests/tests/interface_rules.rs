//! Rules of an interface: another default policy, limits that replace those of the node, a dry run.
//! With real packets.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use ratelimit_tests::{
    Frame, Lab,
    lab::{INTERFACE, Sender},
    packet::datagram,
    require_root,
    service::Service,
    wait_until,
};
use serde_json::Value;

const OTHER: &str = "rl1";
/// Selected by no prefix.
const ANYBODY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
/// A source in [`NAMED`].
const KNOWN: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

const DEFAULT: &str =
    "[policy.default]\nlimits = [{ packets = 5, per = \"1h\", algorithm = \"token-bucket\" }]\n";
const LAN: &str = "[policy.lan]\n\
                   limits = [{ packets = 2, per = \"1h\", algorithm = \"token-bucket\", \
                   match = \"udp\" }]\n";
const NAMED: &str = "[policy.named]\n\
                     sources = [\"203.0.113.0/24\"]\n\
                     limits = [{ packets = 3, per = \"1h\", algorithm = \"token-bucket\" }]\n";

#[test]
fn each_interface_has_its_policy_for_sources_that_no_prefix_selects() {
    require_root!();
    let lab = lab();
    let own = "policy = \"lan\"\n";
    let mut service = Service::started(&lab, &config("", own)).unwrap();
    let wire = Wire::new(&lab, &service);
    // Limited, limited, and of a prefix.
    assert_eq!(
        wire.send(INTERFACE, ANYBODY, 10),
        ["5 pass", "5 drop limited"]
    );
    assert_eq!(wire.send(OTHER, ANYBODY, 10), ["2 pass", "8 drop limited"]);
    assert_eq!(wire.send(OTHER, KNOWN, 10), ["3 pass", "7 drop limited"]);
    // The limit counts a class only.
    assert_eq!(wire.send_frames(OTHER, &icmp(ANYBODY), 5), ["5 pass"]);
    for (on, policy, action) in [(INTERFACE, "default", "drop"), (OTHER, "lan", "pass")] {
        let check = service
            .json::<Value>(&["check", "198.51.100.9", "--iface", on])
            .unwrap();
        assert_eq!(
            [&check["policy"], &check["action"]],
            [policy, action],
            "{check}"
        );
    }
    let check = service.json::<Value>(&["check", "198.51.100.9"]).unwrap();
    assert_eq!(check["interfaces"][0]["interface"], OTHER, "{check}");
    let said = service.rlctl_ok(&["status"]).unwrap();
    let expected = "rl1: default policy: lan";
    assert!(said.contains(expected), "{said}");
    // The rules outlive the daemon, and the next one adopts them.
    service.stop("-KILL").unwrap();
    let sender = Sender::on(&lab.far, OTHER).unwrap();
    sender.send(&datagram(ANYBODY)).unwrap();
    service.start().unwrap();
    let wire = Wire::new(&lab, &service);
    assert_eq!(wire.send(OTHER, ANYBODY, 3), ["3 drop limited"]);
    assert_eq!(wire.send(INTERFACE, ANYBODY, 3), ["3 drop limited"]);
    let check = service
        .rlctl(&["check", "198.51.100.9", "--iface", OTHER])
        .unwrap();
    let rule = "rule: policy lan on rl1";
    assert!(check.stdout.contains(rule), "{}", check.stdout);
    let said = service.reload(&config(own, "")).unwrap();
    for change in ["rl0: policy default -> lan", "rl1: policy lan -> default"] {
        assert!(said.contains(change), "{said}");
    }
    assert_eq!(wire.send(OTHER, ANYBODY, 1), ["1 drop limited"]);
    assert_eq!(
        wire.send_frames(OTHER, &icmp(ANYBODY), 1),
        ["1 drop limited"]
    );
    assert_eq!(wire.send_frames(INTERFACE, &icmp(ANYBODY), 1), ["1 pass"]);
    service.reload(&config("", "")).unwrap();
    assert_eq!(
        wire.send_frames(INTERFACE, &icmp(ANYBODY), 1),
        ["1 drop limited"]
    );
}

#[test]
fn check_without_an_interface_answers_what_the_interfaces_agree_on() {
    require_root!();
    let lab = lab();
    let dry_run = "observe = true\n";
    let service = Service::started(&lab, &config(dry_run, dry_run)).unwrap();
    service.rlctl_ok(&["ban", &KNOWN.to_string()]).unwrap();
    let wire = Wire::new(&lab, &service);
    assert_eq!(wire.send(OTHER, KNOWN, 1), ["1 observe banned"]);
    assert_eq!(wire.send(INTERFACE, KNOWN, 1), ["1 observe banned"]);
    let check = || {
        let said = service
            .rlctl(&["check", &KNOWN.to_string(), "--json"])
            .unwrap();
        let json: Value = serde_json::from_str(&said.stdout).unwrap();
        let others = json["interfaces"].as_array().map_or(0, Vec::len);
        (
            json["action"].as_str().unwrap().to_owned(),
            others,
            said.code,
        )
    };
    assert_eq!(check(), ("observe".to_owned(), 0, 0));
    service.reload(&config(dry_run, "")).unwrap();
    assert_eq!(check(), ("drop".to_owned(), 1, 3));
    // On one interface more is dropped than where no rule applies.
    service.rlctl_ok(&["unban", &KNOWN.to_string()]).unwrap();
    service.reload(&config("", "policy = \"lan\"\n")).unwrap();
    assert_eq!(wire.send(OTHER, ANYBODY, 3), ["2 pass", "1 drop limited"]);
    let said = service
        .rlctl(&["check", &ANYBODY.to_string(), "--proto", "udp"])
        .unwrap();
    assert!(said.stdout.contains("pass"), "{said:?}");
    assert_eq!(said.code, 3, "{said:?}");
}

/// Each packet is judged by the dry run while the program is attached again.
#[test]
fn a_dry_run_of_one_interface_continues_while_a_daemon_starts_and_tables_are_recreated() {
    require_root!();
    let lab = lab();
    let text = format!(
        "{DEFAULT}{NAMED}{}{}",
        interface(INTERFACE, ""),
        interface(OTHER, "observe = true\n")
    );
    let mut service = Service::started(&lab, &text).unwrap();
    service.rlctl_ok(&["ban", &KNOWN.to_string()]).unwrap();
    let wire = Wire::new(&lab, &service);
    assert_eq!(wire.send(OTHER, KNOWN, 1), ["1 observe banned"]);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let sender = Sender::on(&lab.far, OTHER).unwrap();
            while !done.load(Relaxed) {
                sender.send(&datagram(KNOWN)).unwrap();
            }
        });
        for capacity in [20_000, 40_000] {
            service.stop("-KILL").unwrap();
            service.start().unwrap();
            let source = format!("{text}[source]\ncapacity = {capacity}\n");
            service.reload(&source).unwrap();
        }
        done.store(true, Relaxed);
        traffic.join().unwrap();
    });
    let stats: Value = service.json(&["stats"]).unwrap();
    let rows = stats.as_array().unwrap().iter();
    let rows = rows.filter(|row| row["interface"] == OTHER && row["reason"] == "banned");
    let actions: Vec<&str> = rows.map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["observe"], "{stats}");
}

#[test]
fn a_dry_run_of_one_interface_drops_nothing_there_and_bans_no_source() {
    require_root!();
    let lab = lab();
    let banning = DEFAULT.replace(
        "limits",
        "ban = { after = 3, within = \"1h\", for = \"1h\", forgeable = \"ban\" }\nlimits",
    );
    let text = format!(
        "{banning}{NAMED}{}{}",
        interface(INTERFACE, ""),
        interface(OTHER, "observe = true\n")
    );
    let mut service = Service::started(&lab, &text).unwrap();
    service.rlctl_ok(&["ban", &KNOWN.to_string()]).unwrap();
    let wire = Wire::new(&lab, &service);
    assert_eq!(wire.send(OTHER, KNOWN, 4), ["4 observe banned"]);
    assert_eq!(wire.send(INTERFACE, KNOWN, 4), ["4 drop banned"]);
    assert_eq!(
        wire.send(OTHER, ANYBODY, 20),
        ["5 pass", "15 observe limited"]
    );
    let bans = |service: &Service| service.rlctl_ok(&["list", "bans"]).unwrap();
    assert!(!bans(&service).contains("198.51.100.9"));
    let said = service.rlctl_ok(&["status"]).unwrap();
    let dry_runs: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("dry run"))
        .collect();
    assert_eq!(dry_runs.len(), 1, "{said}");
    assert!(dry_runs[0].contains(OTHER), "{said}");
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    let wire = Wire::new(&lab, &service);
    assert_eq!(wire.send(OTHER, KNOWN, 2), ["2 observe banned"]);
    // Strikes count where there is no dry run, and the resulting ban applies on both.
    let fates = wire.send(INTERFACE, ANYBODY, 6);
    assert_eq!(fates, ["3 drop banned", "3 drop limited"]);
    assert_eq!(wire.send(OTHER, ANYBODY, 2), ["2 observe banned"]);
    service.wait_until("the ban", || bans(&service).contains("198.51.100.9"));
    service
        .reload(&text.replace("observe = true\n", ""))
        .unwrap();
    assert_eq!(wire.send(OTHER, KNOWN, 2), ["2 drop banned"]);
}

#[test]
fn an_interface_has_limits_of_all_that_comes_there_in_place_of_those_of_the_node() {
    require_root!();
    let lab = lab();
    let open = DEFAULT.replace("packets = 5,", "packets = 50,");
    let node = |title: &str, limits: &str| {
        format!(
            "[{title}]\nlimits = [{{ {limits}, per = \"1h\", algorithm = \"token-bucket\" }}]\n"
        )
    };
    let all = node("node", "packets = 7");
    let with = |all: &str, own: &str| {
        let interfaces = interface(INTERFACE, "") + &interface(OTHER, own);
        format!("{open}{NAMED}{interfaces}{all}")
    };
    let own = node("interface.node", "packets = 4");
    let mut service = Service::started(&lab, &with(&all, &own)).unwrap();
    let wire = Wire::new(&lab, &service);
    // All sources together, on each of the two.
    assert_eq!(wire.send(OTHER, KNOWN, 3), ["3 pass"]);
    assert_eq!(
        wire.send(OTHER, ANYBODY, 9),
        ["1 pass", "8 drop node-limited"]
    );
    assert_eq!(
        wire.send(INTERFACE, ANYBODY, 10),
        ["7 pass", "3 drop node-limited"]
    );
    for (on, told) in [(INTERFACE, "the node"), (OTHER, "the interface rl1")] {
        let said = service
            .rlctl(&["check", "198.51.100.9", "--iface", on])
            .unwrap();
        let refused = format!("drops by limits of {told}: ");
        assert!(
            said.stdout.contains(&format!("limit of {told} (")),
            "{said:?}"
        );
        assert!(said.stdout.contains(&refused), "{said:?}");
        assert_eq!(
            said.stdout.matches("per-CPU reserve").count(),
            1,
            "{said:?}"
        );
        let check = service
            .json::<Value>(&["check", "198.51.100.9", "--iface", on])
            .unwrap();
        assert_eq!(check["reason"], "node-limited", "{check}");
    }
    let check = service.json::<Value>(&["check", "198.51.100.9"]).unwrap();
    let wider = check["wider"].as_array().unwrap();
    let refused: Vec<_> = wider
        .iter()
        .map(|it| (it["interface"].as_str(), it["refused_packets"].as_u64()))
        .collect();
    assert_eq!(
        refused,
        [(None, Some(3)), (Some(OTHER), Some(8))],
        "{check}"
    );
    let said = service.rlctl_ok(&["status"]).unwrap();
    let expected = "rl1: has its own limits instead of the node's";
    assert!(said.contains(expected), "{said}");
    let listed = service.rlctl_ok(&["list", "limits"]).unwrap();
    assert!(listed.contains("[interface] rl1"), "{listed}");
    // The rules outlive the daemon, with the usage.
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    let wire = Wire::new(&lab, &service);
    assert_eq!(wire.send(OTHER, ANYBODY, 2), ["2 drop node-limited"]);
    // A higher limit keeps the usage.
    service.reload(&with(&all, &own.replace('4', "6"))).unwrap();
    assert_eq!(
        wire.send(OTHER, ANYBODY, 3),
        ["2 pass", "1 drop node-limited"]
    );
    // A limit of one class; a dry run; no limit.
    let icmp_only = node("interface.node", "packets = 1, match = \"icmp\"");
    service.reload(&with(&all, &icmp_only)).unwrap();
    assert_eq!(wire.send(OTHER, ANYBODY, 3), ["3 pass"]);
    assert_eq!(
        wire.send_frames(OTHER, &icmp(ANYBODY), 3),
        ["1 pass", "2 drop node-limited"]
    );
    // Limits that return find their usage again.
    let dry_run = format!("{own}observe = true\n");
    service.reload(&with(&all, &dry_run)).unwrap();
    assert_eq!(wire.send(OTHER, ANYBODY, 2), ["2 observe node-limited"]);
    service
        .reload(&with(&all, &dry_run.replace('4', "9")))
        .unwrap();
    assert_eq!(
        wire.send(OTHER, ANYBODY, 6),
        ["3 pass", "3 observe node-limited"]
    );
    service
        .reload(&with("", &format!("observe = true\n{own}")))
        .unwrap();
    assert_eq!(wire.send(OTHER, ANYBODY, 2), ["2 observe node-limited"]);
    assert_eq!(wire.send(INTERFACE, ANYBODY, 3), ["3 pass"]);
    service.reload(&with(&all, "")).unwrap();
    assert_eq!(
        wire.send(OTHER, ANYBODY, 9),
        ["7 pass", "2 drop node-limited"]
    );
    assert_eq!(wire.send(INTERFACE, ANYBODY, 1), ["1 drop node-limited"]);
}

/// An interface that comes while the daemon runs has what is its own from its first packet on.
#[test]
fn an_interface_that_comes_later_has_its_rule() {
    require_root!();
    let lab = lab();
    let text = config("observe = true\n", "policy = \"lan\"\n");
    let service = Service::started(&lab, &text).unwrap();
    lab.near.ip(&["link", "delete", OTHER]).unwrap();
    add(&lab);
    service.wait_until("all interfaces", || {
        service.rlctl(&["status"]).unwrap().code == 0
    });
    let wire = Wire::new(&lab, &service);
    assert_eq!(wire.send(OTHER, ANYBODY, 4), ["2 pass", "2 drop limited"]);
    assert_eq!(
        wire.send(INTERFACE, ANYBODY, 6),
        ["5 pass", "1 observe limited"]
    );
}

/// Sends packets, and says what became of them.
struct Wire<'a> {
    lab: &'a Lab,
    service: &'a Service,
}

impl<'a> Wire<'a> {
    fn new(lab: &'a Lab, service: &'a Service) -> Self {
        Self { lab, service }
    }

    /// Sends UDP packets of a source to an interface.
    fn send(&self, on: &str, source: Ipv4Addr, packets: u64) -> Vec<String> {
        self.send_frames(on, &datagram(source), packets)
    }

    fn send_frames(&self, on: &str, frame: &[u8], packets: u64) -> Vec<String> {
        let before = counted(self.service, on);
        let sender = Sender::on(&self.lab.far, on).unwrap();
        for _ in 0..packets {
            sender.send(frame).unwrap();
        }
        self.service.wait_for("all packets", || {
            let mut fates = counted(self.service, on);
            for (fate, count) in &before {
                *fates.get_mut(fate).unwrap() -= count;
            }
            fates.retain(|_, count| *count > 0);
            let told = fates
                .iter()
                .map(|((_, fate), count)| format!("{count} {fate}"));
            (fates.values().sum::<u64>() == packets).then(|| told.collect())
        })
    }
}

/// The IPv4 packets of an interface, by what became of them: those that pass first.
fn counted(service: &Service, on: &str) -> BTreeMap<(bool, String), u64> {
    let mut counted = BTreeMap::new();
    let rows = service.json::<Value>(&["stats"]).unwrap();
    let rows = rows.as_array().unwrap().iter();
    for row in rows.filter(|row| row["interface"] == on && row["family"] == "ipv4") {
        let [action, reason] = ["action", "reason"].map(|key| row[key].as_str().unwrap());
        let passes = action == "pass";
        let fate = if passes {
            action.to_owned()
        } else {
            format!("{action} {reason}")
        };
        *counted.entry((!passes, fate)).or_default() += row["packets"].as_u64().unwrap();
    }
    counted
}

/// A lab with a second pair of interfaces.
fn lab() -> Lab {
    let lab = Lab::new().unwrap();
    add(&lab);
    lab
}

fn add(lab: &Lab) {
    let far = lab.far.name();
    let pair = ["link", "add", OTHER, "type", "veth", "peer", "name", OTHER];
    lab.near.ip(&[&pair[..], &["netns", far]].concat()).unwrap();
    for namespace in [&lab.near, &lab.far] {
        namespace.ip(&["link", "set", OTHER, "up"]).unwrap();
    }
    wait_until("the link is up", || {
        let shown = lab.near.ip(&["link", "show", OTHER]).unwrap();
        shown.contains("LOWER_UP")
    });
}

fn config(first: &str, second: &str) -> String {
    // A policy that applies to no source is refused.
    let lan = if first.contains("lan") || second.contains("lan") {
        LAN
    } else {
        ""
    };
    let interfaces = interface(INTERFACE, first) + &interface(OTHER, second);
    format!("{DEFAULT}{lan}{NAMED}{interfaces}")
}

fn interface(name: &str, own: &str) -> String {
    format!("[[interface]]\nname = \"{name}\"\n{own}")
}

fn icmp(source: Ipv4Addr) -> Vec<u8> {
    Frame::ethernet().ipv4(source).icmp(8).pad_to(60).build()
}
