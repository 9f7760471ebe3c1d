//! The destinations, ports and classes of which SYNs are challenged.

use std::time::Duration;

use ratelimit_tests::{require_root, service::Service, wait_until};

use super::*;

#[test]
fn if_destinations_and_ports_are_named_connections_to_others_are_neither_challenged_nor_counted() {
    require_root!();
    let lab = lab();
    lab.add_addresses(&["10.77.0.5/24"], &[]).unwrap();
    let other: IpAddr = Ipv4Addr::new(10, 77, 0, 5).into();
    let _servers = [NEAR[0], other].map(|near| Server::new(&lab, near));
    let toml = |when: &str, keys: &str| {
        let section = ALWAYS.replace("always", when);
        generic(&format!(
            "{section}destinations = [\"10.77.0.5\"]\n{keys}\n"
        ))
    };
    let observing = format!("observe = true\n{}", toml("always", ""));
    let service = Service::started(&lab, &observing).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("observe", "challenged").unwrap(), 0);
    connect(&lab, other);
    assert_eq!(service.packets("observe", "challenged").unwrap(), 1);
    // A flood of others is none.
    let reloaded = service.reload(&toml("over 500 syn/s", "")).unwrap();
    let told = "over 500 syn/s to 10.77.0.5, by rst";
    assert!(reloaded.contains(told), "{reloaded}");
    flooded(&lab, NEAR[0], || thread::sleep(Duration::from_secs(2)));
    let status = || service.rlctl_ok(&["status"]).unwrap();
    assert!(status().contains("(idle)"), "{}", status());
    flooded(&lab, other, || {
        wait_until("it is on", || !status().contains("(idle)"));
        connect(&lab, NEAR[0]);
        assert_eq!(service.packets("pass", "verified").unwrap(), 0);
        connect(&lab, other);
    });
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
    // The port in the question counts.
    service
        .reload(&toml("always", "ports = [443, 8080]"))
        .unwrap();
    let check = |to: &[&str]| {
        let question = [&["check", "192.0.2.1"], to].concat();
        service.rlctl(&question).unwrap().stdout
    };
    let yes = "SYNs to 10.77.0.5, ports 443, 8080 are challenged";
    let no = "SYNs are not challenged now; only SYNs to 10.77.0.5, ports 443, 8080 can be";
    let tcp = ["--proto", "tcp", "--dport"];
    for (to, expected) in [
        (vec![], yes),
        (vec!["--to", "10.77.0.5"], yes),
        (vec!["--to", "10.77.0.1"], no),
        ([&["--to", "10.77.0.5"], &tcp[..], &["8080"]].concat(), yes),
        ([&["--to", "10.77.0.5"], &tcp[..], &["80"]].concat(), no),
    ] {
        let reported = check(&to);
        assert!(reported.contains(expected), "{to:?}: {reported}");
    }
    // Another port than those, from a source that is not verified.
    service.reload(&toml("always", "ports = [443]")).unwrap();
    let challenged = service.packets("drop", "challenged").unwrap();
    sender_syn(&lab, other);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(service.packets("drop", "challenged").unwrap(), challenged);
    service.reload(&toml("always", "ports = [8080]")).unwrap();
    sender_syn(&lab, other);
    let is_counted = || service.packets("drop", "challenged").unwrap() == challenged + 1;
    wait_until("it is challenged", is_counted);
}

/// The pair test of classes with a reload, a dry run, the answers of `rlctl`, a simulation and a
/// limit that counts the same class.
#[test]
fn if_classes_are_named_other_syns_are_neither_challenged_nor_counted() {
    require_root!();
    let lab = lab();
    let _server = Server::new(&lab, NEAR[0]);
    // SYNs of Linux have options, forged ones have none.
    let toml = |when: &str, classes: &str| {
        let section = ALWAYS.replace("always", when);
        generic(&format!(
            "{section}classes = [{classes}]\n\
             [class.plain]\nprotocol = \"tcp\"\nlength = \"40-44\"\n\
             [class.service]\ndestination_ports = [{PORT}]\n"
        ))
    };
    let observing = format!("observe = true\n{}", toml("always", "\"plain\""));
    let service = Service::started(&lab, &observing).unwrap();
    let packets = |action, reason| service.packets(action, reason).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(packets("observe", "challenged"), 0);
    sender_syn(&lab, NEAR[0]);
    let is_counted = || packets("observe", "challenged") == 1;
    wait_until("it is counted, of both kinds", is_counted);
    // A flood of another class is none.
    let reloaded = service.reload(&toml("over 500 syn/s", "\"tcp-invalid\", \"plain\""));
    assert!(reloaded.is_err(), "{reloaded:?}");
    let flags = "\n[class.urgent]\ntcp = \"syn,urg / syn,ack,urg\"\n";
    let urgent = toml("over 500 syn/s", "\"urgent\"") + flags;
    let reloaded = service.reload(&urgent).unwrap();
    let told = "over 500 syn/s of class urgent, by rst";
    assert!(reloaded.contains(told), "{reloaded}");
    let status = || service.rlctl_ok(&["status"]).unwrap();
    flooded(&lab, NEAR[0], || thread::sleep(Duration::from_secs(2)));
    assert!(status().contains("(idle)"), "{}", status());
    service
        .reload(&toml("over 500 syn/s", "\"plain\""))
        .unwrap();
    flooded(&lab, NEAR[0], || {
        wait_until("it is on", || !status().contains("(idle)"));
        // A client whose SYNs are not of the class passes while others are challenged, and proves
        // nothing.
        connect(&lab, NEAR[0]);
    });
    assert_eq!(packets("pass", "verified"), 0);
    assert!(packets("drop", "challenged") > 0);
    // The class of its port, which a limit counts too.
    let limited = toml("always", "\"plain\", \"service\"").replace(
        "limits = []",
        "limits = [{ packets = 1_000, per = \"1s\", match = \"service\" }]",
    );
    service.reload(&limited).unwrap();
    connect(&lab, NEAR[0]);
    assert_eq!(packets("pass", "verified"), 1);
    let check = |port: &str| {
        let question = ["check", "192.0.2.1", "--proto", "tcp", "--dport", port];
        service.rlctl(&question).unwrap().stdout
    };
    let yes = "SYNs of classes plain, service are challenged";
    assert!(check("8080").contains(yes), "{}", check("8080"));
    service.reload(&toml("always", "\"service\"")).unwrap();
    assert!(check("8080").contains("SYNs of class service are challenged"));
    let no = "SYNs are not challenged now; only SYNs of class service can be";
    assert!(check("443").contains(no), "{}", check("443"));
    // The fate of a SYN is reported first.
    let verified = NEAR[0].to_string();
    for (address, port, code, said) in [
        ("192.0.2.1", "8080", 3, "are dropped (challenged)"),
        ("192.0.2.1", "443", 0, "pass"),
        (verified.as_str(), "8080", 0, "pass"),
    ] {
        let question = [
            "check", address, "--proto", "tcp", "--flags", "syn", "--dport", port,
        ];
        let answer = service.rlctl(&question).unwrap();
        assert_eq!(answer.code, code, "{answer:?}");
        let first = answer.stdout.lines().next().unwrap();
        assert!(first.contains(said), "{first}");
    }
    // A class that is gone while it is named changes nothing.
    let gone = toml("always", "\"service\"").replace("[class.service]", "[class.other-name]");
    let refused = service.reload(&gone).unwrap_err().to_string();
    assert!(refused.contains("there is no class `service`"), "{refused}");
    let challenged = packets("drop", "challenged");
    sender_syn(&lab, NEAR[0]);
    let is_challenged = || packets("drop", "challenged") == challenged + 1;
    wait_until("it is challenged still", is_challenged);
}

/// A forged SYN to the server.
fn sender_syn(lab: &Lab, near: IpAddr) {
    let sender = Sender::new(&lab.far).unwrap();
    sender.send(&forged(1, near)).unwrap();
}
