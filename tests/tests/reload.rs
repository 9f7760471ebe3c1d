//! A new configuration applies whole, or not at all.

use std::{fs, net::Ipv4Addr};

use ratelimit_tests::{attached::Attached, packet::datagram, require_root, service::Service};

const OLD: &str = "[policy.default]\nlimits = [{ packets = 100, per = \"1s\" }]\n";
const NEW: &str = "[policy.default]\n\
                   limits = [{ packets = 200, per = \"1s\" }]\n\
                   [policy.partner]\n\
                   sources = [\"192.0.2.0/24\"]\n\
                   limits = [{ packets = 5, per = \"1m\" }]\n\
                   [allow]\n\
                   sources = [\"198.51.100.1\"]\n";

#[test]
fn a_limit_of_bytes_that_slows_tcp_down_is_warned_of_and_its_default_takes_its_place() {
    let to = |more: &str| {
        format!("[policy.default]\nlimits = [{{ bytes = \"10MB\", per = \"1s\"{more} }}]\n")
    };
    require_root!();
    let (_lab, service) = Service::in_lab(OLD).unwrap();
    let slow = "warning: [policy.default]: TCP stalls at the end of each window of 10MB per 1s \
                (fixed-window)";
    let said = service
        .reload(&to(", algorithm = \"fixed-window\""))
        .unwrap();
    assert!(said.contains(slow), "{said}");
    let said = service.reload(&to("")).unwrap();
    let change = "policy default: 10MB per 1s (fixed-window) -> 10MB per 1s (token-bucket, burst \
                  10MB); usage of its sources is reset";
    assert!(said.contains(change), "{said}");
    assert!(!said.contains("warning"), "{said}");
    check(
        &service,
        "8.8.8.8",
        "10MB per 1s (token-bucket, burst 10MB)",
    );
    let set = |more: &str| {
        let words = "limit set --bytes 10MB --per 1s ".to_owned() + more;
        let words: Vec<&str> = words.split_whitespace().collect();
        service.rlctl_ok(&words).unwrap()
    };
    let said = set("--burst 100kB");
    assert!(
        said.contains("warning: TCP may get less than 80 %"),
        "{said}"
    );
    let said = set("");
    assert!(
        said.contains("to 10MB per 1s (token-bucket, burst 10MB)"),
        "{said}"
    );
    assert!(!said.contains("warning"), "{said}");
}

/// With another table of `compact`, the state of all limits is reset.
#[test]
fn a_reload_says_whose_state_another_store_resets() {
    require_root!();
    let source = |text: &str| {
        format!("{OLD}[node]\nlimits = [{{ packets = 4, per = \"1h\" }}]\n[source]\n{text}\n")
    };
    let (_lab, service) = Service::in_lab(&source("store = \"lru\"\ncapacity = 5000")).unwrap();
    let program = Attached::of(&service).unwrap();
    let frame = datagram(Ipv4Addr::new(192, 0, 2, 7));
    assert_eq!(program.passed(&frame, 9).unwrap(), 4);
    // The number of sliding logs does not affect other state.
    let lru = "store = \"lru\"\ncapacity = 5000";
    let said = service
        .reload(&source(&format!("{lru}\nsliding_logs = 64")))
        .unwrap();
    assert!(
        said.contains(" -> 64; sliding logs reset\n") && !said.contains("sources"),
        "{said}"
    );
    let program = Attached::of(&service).unwrap();
    assert_eq!(program.passed(&frame, 9).unwrap(), 0);
    service.reload(&source(lru)).unwrap();
    let all = "sources, destinations, interfaces and the node";
    let unless = ", unless the table is kept because it is not much too large";
    for (text, whose, unless, passed) in [
        ("store = \"lru\"\ncapacity = 6000", "sources", "", 0),
        ("store = \"compact\"", all, "", 4),
        ("store = \"compact\"\ncapacity = 6000", all, unless, 4),
        ("store = \"compact\"\ncapacity = 5900", all, unless, 0),
    ] {
        let said = service.reload(&source(text)).unwrap();
        let expected = format!("source: changed; usage of {whose} reset{unless}\n");
        assert!(said.contains(&expected), "{said}");
        let program = Attached::of(&service).unwrap();
        assert_eq!(program.passed(&frame, 9).unwrap(), passed, "{text}");
    }
}

/// Sources with state are new in an empty store. The used budget is reset together with the state.
#[test]
fn a_store_that_begins_empty_has_the_whole_budget_for_new_sources() {
    require_root!();
    let source = |text: &str| {
        format!(
            "{OLD}[source]\n\
             {text}\n\
             new_sources = {{ count = 2, per = \"1h\", over_budget = \"drop\" }}\n"
        )
    };
    let (_lab, service) = Service::in_lab(&source("store = \"lru\"")).unwrap();
    let known = [7, 8].map(|host| datagram(Ipv4Addr::new(192, 0, 2, host)));
    let late = datagram(Ipv4Addr::new(192, 0, 2, 9));
    let passed = || {
        let program = Attached::of(&service).unwrap();
        let known = known.each_ref().map(|frame| program.passes(frame).unwrap());
        (known, program.passes(&late).unwrap())
    };
    assert_eq!(passed(), ([true; 2], false));
    for text in [
        "store = \"compact\"",
        "store = \"lru\"",
        "store = \"lru\"\ncapacity = 6000",
    ] {
        let said = service.reload(&source(text)).unwrap();
        let expected = "new sources: all counted as new again; over 2 per 1h: dropped\n";
        assert!(said.contains(expected), "{said}");
        assert_eq!(passed(), ([true; 2], false), "{text}");
    }
    let said = service.reload(&source(
        "store = \"lru\"\ncapacity = 6000\ntunnels = [\"gre\"]",
    ));
    assert!(!said.unwrap().contains("new again"));
    assert_eq!(passed(), ([true; 2], false));
}

/// The first address of a prefix is a source where sources are narrower, and the prefix where they
/// are wider.
#[test]
fn a_source_of_another_width_has_not_the_state_of_one_before() {
    require_root!();
    for store in ["lru", "compact"] {
        let source = |prefix: u8| {
            format!(
                "[policy.default]\n\
                 limits = [{{ packets = 4, per = \"1h\" }}]\n\
                 [source]\n\
                 store = \"{store}\"\n\
                 ipv4_prefix = {prefix}\n"
            )
        };
        let (_lab, service) = Service::in_lab(&source(32)).unwrap();
        let [first, other] = [0, 7].map(|host| datagram(Ipv4Addr::new(192, 0, 2, host)));
        let passed = |frame: &[u8]| Attached::of(&service).unwrap().passed(frame, 6).unwrap();
        assert_eq!([passed(&first), passed(&other)], [4, 4], "{store}");
        let said = service.reload(&source(24)).unwrap();
        assert!(said.contains("usage of sources reset"), "{said}");
        assert_eq!([passed(&other), passed(&first)], [4, 0], "{store}");
        service.reload(&source(25)).unwrap();
        assert_eq!([passed(&other), passed(&first)], [4, 0], "{store}");
    }
}

#[test]
fn a_hangup_reloads_too() {
    require_root!();
    let (_lab, service) = Service::in_lab(OLD).unwrap();
    service.configure(NEW).unwrap();
    service.signal("-HUP").unwrap();
    service.wait_for_log("configuration applied").unwrap();
    check(&service, "192.0.2.7", "5 packets per 1m");
}

#[test]
fn a_file_that_is_wrong_is_refused_by_line_and_the_old_one_stays() {
    require_root!();
    let (_lab, service) = Service::in_lab(OLD).unwrap();
    service
        .configure("[policy.default]\nlimits = [{ packets = 0, per = \"1s\" }]\n")
        .unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("config.toml:2:"), "{said:?}");
    check(&service, "8.8.8.8", "100 packets per 1s");
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(status.contains("config.toml:2:"), "{status}");
    service.configure("[policy.default]\nlimit = []\n").unwrap();
    assert_eq!(service.rlctl(&["reload"]).unwrap().code, 1);
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(
        status.contains("`limit`") && status.contains("`limits`"),
        "{status}"
    );
    service.reload(OLD).unwrap();
    assert!(
        !service
            .rlctl_ok(&["status"])
            .unwrap()
            .contains("config.toml:2:")
    );
}

#[test]
fn settings_that_need_a_restart_are_named_and_nothing_is_applied() {
    require_root!();
    let (_lab, service) = Service::in_lab(OLD).unwrap();
    service.configure(&format!("{NEW}\n")).unwrap();
    let text = fs::read_to_string(service.config()).unwrap();
    fs::write(service.config(), text.replace("/state\"", "/elsewhere\"")).unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stderr.contains("[paths]") && said.stderr.contains("restart"),
        "{said:?}"
    );
    check(&service, "192.0.2.7", "100 packets per 1s");
}

fn check(service: &Service, address: &str, limit: &str) {
    let said = service.rlctl_ok(&["check", address]).unwrap();
    assert!(said.contains(limit), "{address}: {said}");
}

const FEW_FEATURES: &str = "[policy.default]\nlimits = [{ packets = 100, per = \"1s\" }]\n";
const MANY_FEATURES: &str = "[policy.default]
limits = [
    { packets = 100, per = \"1s\", algorithm = \"token-bucket\" },
    { packets = 100, per = \"1m\", algorithm = \"sliding-window\", match = { protocol = \"udp\" } },
]
[node]
limits = [{ packets = 100000, per = \"1s\" }]
";

/// The program contains only the features that the configuration uses.
#[test]
fn a_reload_replaces_the_program_by_one_with_the_features_in_use() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(FEW_FEATURES).unwrap();
    let bytes = |service: &Service| Attached::of(service).unwrap().bytes().unwrap();
    let few = bytes(&service);
    // Runtime limits are enforced by a program with their features.
    let limit =
        "limit set --prefix 192.0.2.7 --packets 3 --per 1h --algorithm sliding-window --for 1h";
    let words: Vec<&str> = limit.split_whitespace().collect();
    service.rlctl_ok(&words).unwrap();
    let more = bytes(&service);
    assert!(more > few, "{few} and {more} bytes");
    let frame = datagram(Ipv4Addr::new(192, 0, 2, 7));
    let program = Attached::of(&service).unwrap();
    assert_eq!(program.passed(&frame, 9).unwrap(), 3);
    service.reload(MANY_FEATURES).unwrap();
    let many = bytes(&service);
    assert!(many > more, "{more} and {many} bytes");
    service.reload(FEW_FEATURES).unwrap();
    // The algorithms stay, as the limits may come back with what was used of them.
    let again = bytes(&service);
    assert!(again < many, "{again} and {many} bytes");
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    assert_eq!(
        Attached::of(&service).unwrap().passed(&frame, 9).unwrap(),
        0
    );
}
