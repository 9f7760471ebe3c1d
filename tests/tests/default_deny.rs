//! `action = "drop"` drops all sources that neither a policy nor an allow lets in, and locks no
//! operator out.

use std::{fs, net::IpAddr};

use ratelimit_tests::{
    Lab, lab::INTERFACE, packet::datagram, require_root, service::Service, wait_until,
};

const DENY: &str = r#"[policy.default]
action = "drop"
[policy.office]
sources = ["198.51.100.0/24", "2001:db8:40::/48"]
limits = []
[policy.guests]
sources = ["198.51.100.128/25"]
action = "drop"
[allow]
sources = ["203.0.113.7"]
"#;
const UNLIMITED: &str = "[policy.default]\nlimits = []\n";
const STRANGER: &str = "203.0.113.9";
const GATEWAY: &str = "203.0.113.254";

#[test]
fn only_allowed_sources_and_those_of_other_policies_pass() {
    require_root!();
    let (lab, service) = Service::in_lab(DENY).unwrap();
    for (source, is_let_in) in [
        (STRANGER, false),
        ("2001:db8:41::1", false),
        ("203.0.113.7", true),
        ("198.51.100.1", true),
        ("2001:db8:40::1", true),
        ("198.51.100.200", false),
    ] {
        assert_eq!(passes(&lab, source), is_let_in, "{source}");
    }
    let said = service.rlctl(&["check", STRANGER]).unwrap();
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.stdout.contains("dropped (policy)"), "{said:?}");
    assert!(
        said.stdout
            .contains("rule: policy default: drops everything"),
        "{said:?}"
    );
    let said = service.rlctl(&["check", "198.51.100.200"]).unwrap().stdout;
    let rule = "rule: policy guests, for 198.51.100.128/25: drops everything";
    assert!(said.contains(rule), "{said}");
    assert_eq!(service.packets("drop", "policy").unwrap(), 3);
    let limits = service.rlctl_ok(&["list", "limits"]).unwrap();
    assert!(limits.contains("drops everything"), "{limits}");
    let set = ["limit", "set", "--packets", "10", "--per", "1s"];
    let set = service.rlctl_ok(&set).unwrap();
    assert!(set.contains("these limits open nothing"), "{set}");
    let limits = service.rlctl_ok(&["list", "limits"]).unwrap();
    assert_eq!(limits.matches("drops everything").count(), 2, "{limits}");
    service.rlctl_ok(&["limit", "rm"]).unwrap();
    // A runtime limit does not open what is dropped; an allow does, as long as it is there.
    let limit = [
        "limit",
        "set",
        "--prefix",
        STRANGER,
        "--packets",
        "9",
        "--per",
        "1s",
    ];
    service.rlctl_ok(&limit).unwrap();
    assert!(!passes(&lab, STRANGER));
    service.rlctl_ok(&["allow", "add", STRANGER]).unwrap();
    assert!(passes(&lab, STRANGER));
}

#[test]
fn limits_change_nothing_where_a_dry_run_counts_what_it_would_drop() {
    require_root!();
    let text = DENY.replacen("action = \"drop\"", "action = \"drop\"\nobserve = true", 1);
    let (lab, service) = Service::in_lab(&text).unwrap();
    let set = [
        "limit",
        "set",
        "--prefix",
        STRANGER,
        "--packets",
        "1",
        "--per",
        "1h",
    ];
    let said = service.rlctl_ok(&set).unwrap();
    assert!(
        said.contains("in a dry run: these limits open nothing"),
        "{said}"
    );
    assert!(!said.contains("drop packets"), "{said}");
    for _ in 0..3 {
        assert!(passes(&lab, STRANGER));
    }
    let limits = service.rlctl_ok(&["list", "limits"]).unwrap();
    let own = limits.lines().find(|line| line.contains(STRANGER));
    assert!(own.is_some_and(|line| line.contains("observe")), "{limits}");
    let check = service.rlctl(&["check", STRANGER]).unwrap().stdout;
    assert!(!check.contains("policy: 1 packet"), "{check}");
}

#[test]
fn a_reload_that_would_cut_off_the_gateway_asks_first_and_the_drop_stops_at_it() {
    require_root!();
    let (lab, service) = Service::in_lab(UNLIMITED).unwrap();
    let near = &lab.near;
    let address = ["address", "add", "203.0.113.1/24", "dev", INTERFACE];
    near.ip(&address).unwrap();
    let route = ["default", "via", GATEWAY, "table", "77"];
    near.ip(&[&["route", "add"], &route[..]].concat()).unwrap();
    wait_until("a gateway", || {
        let protected = service.rlctl_ok(&["list", "protected"]).unwrap();
        protected.contains(GATEWAY)
    });
    let text = fs::read_to_string(service.config()).unwrap();
    fs::write(service.config(), text.replace(UNLIMITED, DENY)).unwrap();
    let announced = service.rlctl(&["reload", "--dry-run"]).unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(announced.stderr, said.stderr);
    let config = service.config();
    let dry_run = ["reload", "--dry-run", config.to_str().unwrap()];
    let to_try = service.rlctl_ok(&dry_run).unwrap();
    let why = "[policy.default] would drop every packet of";
    assert!(
        to_try.contains("warning:") && to_try.contains(why),
        "{to_try}"
    );
    assert!(said.stderr.contains(why), "{said:?}");
    let gateway = "203.0.113.254, the default gateway of rl0";
    assert!(said.stderr.contains(gateway), "{said:?}");
    assert!(said.stderr.contains("rlctl reload --force"), "{said:?}");
    assert!(passes(&lab, STRANGER), "refused");
    // A list that comes with it lets in the gateway, and the resolvers of the host.
    let resolvers = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let resolvers = resolvers
        .lines()
        .filter_map(|it| it.strip_prefix("nameserver "));
    let needed: Vec<&str> = resolvers.chain([GATEWAY]).collect();
    let list = service.path("needed.txt");
    fs::write(&list, needed.join("\n")).unwrap();
    let allowing = format!("{DENY}[list.needed]\nfile = {list:?}\naction = \"allow\"\n");
    fs::write(service.config(), text.replace(UNLIMITED, &allowing)).unwrap();
    service.rlctl_ok(&["reload"]).unwrap();
    assert!(!passes(&lab, STRANGER) && passes(&lab, GATEWAY));
    fs::write(service.config(), &text).unwrap();
    service.rlctl_ok(&["reload"]).unwrap();
    fs::write(service.config(), text.replace(UNLIMITED, DENY)).unwrap();
    service.rlctl_ok(&["reload", "--force"]).unwrap();
    assert!(!passes(&lab, STRANGER));
    assert!(passes(&lab, GATEWAY), "protected");
    // Packets that are dropped anyway are not reported.
    service.rlctl_ok(&["reload"]).unwrap();
    near.ip(&[&["route", "del"], &route[..]].concat()).unwrap();
    wait_until("no gateway", || !passes(&lab, GATEWAY));
}

fn passes(lab: &Lab, source: &str) -> bool {
    let source: IpAddr = source.parse().unwrap();
    lab.passes(&datagram(source)).unwrap()
}
