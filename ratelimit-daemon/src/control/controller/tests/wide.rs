//! Classes, the limits of wider prefixes, and those of the node.

use std::{collections::BTreeSet, fs};

use ratelimit_common::{
    ClassSet, Ipv4, Policy, Record,
    aggregate::Aggregate,
    class::{CLASSES_MAX, Property},
    layout::NODE_POLICIES,
    refused::{self, WAYS, set_of, sets_of_cpu},
};
use ratelimit_core::{
    api::AppliesTo, class::Match, class_tables::ClassTables, config, intent, ip_family::IpFamily,
};

use super::*;
use crate::{control::configuration::diff, cpus, loader::REFUSED_MAPS};

#[test]
fn a_packet_sees_what_was_or_what_will_be() {
    let mut lab = lab(TCP);
    let before = lab.class_of(TCP_KIND);
    let classes = lab.classes();
    lab.take_writes();
    lab.reload(EVERYTHING).unwrap();
    let written = lab.take_writes();
    let udp = lab.class_of(UDP_KIND);
    assert!(!udp.intersects(before));
    let place = |what: &dyn Fn(&Write) -> bool| written.iter().position(what).unwrap();
    let last = |what: &dyn Fn(&Write) -> bool| written.iter().rposition(what).unwrap();
    let settings = lab.settings();
    let node = lab.node().unwrap();
    let mut classes = classes;
    let of_classes = written.iter().map(|it| {
        let Write::Classes(changes) = it else {
            return None;
        };
        classes = steps::changed(&classes, changes);
        Some(classes.classes())
    });
    let of_classes: Vec<_> = of_classes.collect();
    let is_of = |classes: ClassSet| {
        let mut places = of_classes.iter();
        places.position(|it| *it == Some(classes)).unwrap()
    };
    let order = [
        is_of(before.union(udp)),
        place(&|it| matches!(it, Write::Policy(..))),
        place(&|it| matches!(it, Write::Entry(..))),
        place(&|it| matches!(it, Write::Switched(_))),
        place(&|it| *it == Write::Total(node.slot())),
        place(&|it| *it == Write::Settings(settings)),
        last(&|it| matches!(it, Write::Entry(..))),
        is_of(udp),
        last(&|it| matches!(it, Write::Policy(..))),
    ];
    assert!(order.is_sorted(), "{order:?}: {written:?}");
}

#[test]
fn classes_are_asked_for_while_there_is_a_limit_of_one() {
    let mut lab = lab(PLAIN);
    for (text, asked) in [(TCP, true), (PLAIN, false)] {
        lab.reload(text).unwrap();
        assert_eq!(lab.settings().has_classes(), asked);
    }
    assert_eq!(lab.classes(), ClassTables::default());
}

#[test]
fn a_class_that_stays_keeps_its_number_and_its_policy_also_over_a_restart() {
    let mut lab = lab(EVERYTHING);
    let (udp, policy) = (lab.class_of(UDP_KIND), lab.policy_index("192.0.2.1"));
    lab.reload(&EVERYTHING.replace("games", "play")).unwrap();
    assert_eq!(
        (lab.class_of(UDP_KIND), lab.policy_index("192.0.2.1")),
        (udp, policy)
    );
    lab.reload(&EVERYTHING.replace(UDP_LIMIT, &format!("{UDP_LIMIT}, {TCP_LIMIT}")))
        .unwrap();
    assert_eq!(lab.class_of(UDP_KIND), udp);
    assert!(!lab.class_of(TCP_KIND).intersects(udp) && !lab.class_of(TCP_KIND).is_empty());
    lab.take_writes();
    lab.restart();
    assert_eq!(lab.take_writes(), []);
}

#[test]
fn the_node_keeps_its_state_while_the_words_mean_the_same() {
    let mut lab = lab(EVERYTHING);
    let before = lab.node().unwrap();
    lab.set_node_state(before.scope(), 7);
    lab.reload(&EVERYTHING.replace("packets = 900_000", "packets = 950_000"))
        .unwrap();
    let after = lab.node().unwrap();
    assert_eq!(
        (after.scope(), lab.node_state(after.scope())),
        (before.scope(), 7)
    );
    assert_ne!(after, before);
    lab.restart();
    assert_eq!(
        (lab.node(), lab.node_state(after.scope())),
        (Some(after), 7)
    );
}

#[test]
fn the_node_restarts_in_another_place_when_the_words_mean_something_else() {
    let mut lab = lab(EVERYTHING);
    for algorithm in [
        "sliding-window",
        "token-bucket",
        "fixed-window",
        "sliding-window",
    ] {
        let before = lab.node().unwrap();
        for slot in 0..NODE_POLICIES {
            lab.set_node_state(slot, 7);
        }
        let other = format!("packets = 900_000, algorithm = \"{algorithm}\"");
        lab.reload(&EVERYTHING.replace("packets = 900_000", &other))
            .unwrap();
        let after = lab.node().unwrap();
        if after.scope() != before.scope() {
            assert_ne!(
                after.scope() % NODE_POLICIES,
                before.scope() % NODE_POLICIES
            );
            assert_eq!(lab.node_state(after.scope()), 0, "{algorithm}");
        }
        assert_eq!(lab.node_state(before.scope()), 7, "{algorithm}");
    }
    lab.reload(PLAIN).unwrap();
    assert_eq!(lab.node(), None);
    lab.reload(EVERYTHING).unwrap();
    assert_eq!(lab.node_state(lab.node().unwrap().scope()), 0);
}

#[test]
fn prefixes_have_policies_of_their_own_from_the_narrowest_to_the_widest() {
    let lab = lab(EVERYTHING);
    let policies = lab.policies();
    let levels = |family| -> Vec<(u8, u64)> {
        let aggregates = lab.switched().aggregates[family as usize];
        let levels = (0..2).filter_map(|index| aggregates.get(index));
        let amount = |level: Aggregate| {
            let limit = *policies[&level.policy.into()].limit(0).unwrap();
            (level.prefix, limit.capacity())
        };
        levels.map(amount).collect()
    };
    assert_eq!(levels(IpFamily::V4), [(24, 500)]);
    assert_eq!(levels(IpFamily::V6), [(56, 600), (48, 700)]);
    assert!(lab.settings().has_aggregates());
    let status = lab.status();
    assert_eq!(status.aggregates, ["ipv4/24", "ipv6/56", "ipv6/48"]);
    assert!(status.node && status.policies == 2 && status.classes.len() == 1);
    let shared: Vec<(String, AppliesTo)> = queries::limits(&lab.state)
        .into_iter()
        .map(|policy| (policy.name, policy.applies_to))
        .collect();
    let expected = [
        ("default", AppliesTo::Source),
        ("partner", AppliesTo::Source),
        ("[subnet] ipv4/24", AppliesTo::Prefix),
        ("[subnet] ipv6/56", AppliesTo::Prefix),
        ("[subnet] ipv6/48", AppliesTo::Prefix),
        ("[node]", AppliesTo::Node),
    ];
    assert_eq!(shared, expected.map(|(name, to)| (name.to_owned(), to)));
}

#[test]
fn there_is_room_for_the_sliding_logs_of_prefixes() {
    let log = "prefix = 24, algorithm = \"sliding-log\", packets = 77";
    let config = read(&EVERYTHING.replace("prefix = 24, packets = 500", log));
    assert_eq!(intent::log_times(&config), 77);
}

#[test]
fn a_reload_that_fails_leaves_every_table_as_it_was() {
    let mut lab = lab(TCP);
    lab.ban(&["192.0.2.1"], None).unwrap();
    let tables = |lab: &Lab| (lab.classes(), lab.switched(), lab.settings(), lab.held());
    let before = tables(&lab);
    lab.leave_room(0);
    lab.reload(EVERYTHING).unwrap_err();
    assert_eq!(tables(&lab), before);
    lab.make_room();
    // The settings come after the aggregates.
    lab.refuse_settings(true);
    lab.reload(EVERYTHING).unwrap_err();
    assert_eq!(tables(&lab), before);
    lab.refuse_settings(false);
    lab.reload(EVERYTHING).unwrap();
    assert_ne!(tables(&lab), before);
}

#[test]
fn arrays_of_classes_that_somebody_changed_are_put_right_when_their_turn_comes() {
    let mut lab = lab(EVERYTHING);
    let before = lab.classes();
    for property in Property::ALL {
        let mut entries = before.entries().to_vec();
        let last = property.start() + property.values() - 1;
        entries[last as usize] = ClassSet::one(CLASSES_MAX - 1).unwrap();
        let changed = ClassTables::from_entries(entries);
        lab.tables_mut().policies.set_classes(&changed).unwrap();
        (0..165).for_each(|_| lab.tick());
        assert!(lab.classes() == before, "{property:?}");
    }
}

#[test]
fn a_runtime_limit_counts_a_class() {
    let mut lab = lab(EVERYTHING);
    let refused = lab.limit_class("tcp-sny").unwrap_err();
    assert_eq!(refused.error, "there is no class `tcp-sny`");
    let hint = refused.hint.unwrap();
    assert!(hint.contains("tcp-syn") && hint.contains("games"), "{hint}");
    lab.limit_class("tcp").unwrap();
    let tcp = lab.class_of(TCP_KIND);
    let policy = lab.policy_of("198.51.100.1");
    assert!(policy.limits().any(|limit| limit.classes() == tcp));
    lab.take_writes();
    lab.restart();
    assert_eq!(lab.take_writes(), []);
}

#[test]
fn a_class_that_runtime_limits_count_cannot_be_taken_away() {
    let mut lab = lab(EVERYTHING);
    lab.limit_class("games").unwrap();
    let error = lab.reload(TCP).unwrap_err().to_string();
    let expected = "the runtime limits of 198.51.100.0/24 use the class `games`";
    assert!(error.contains(expected), "{error}");
    assert!(lab.settings().has_aggregates());
}

#[test]
fn more_classes_than_can_be_told_apart_at_once_change_nothing() {
    let classes = |first: u16| {
        let policy = |number: u16| {
            let limits = (0..7).map(|port| {
                let port = first + 7 * number + port;
                format!("{{ packets = 9, per = \"1s\", match = {{ source_ports = [{port}] }} }}")
            });
            let limits = limits.collect::<Vec<_>>().join(", ");
            format!("[policy.p{number}]\nsources = [\"10.{number}.0.0/16\"]\nlimits = [{limits}]\n")
        };
        format!("{PLAIN}{}", (0..4).map(policy).collect::<String>())
    };
    let mut lab = lab(&classes(1));
    let before = lab.classes();
    let error = lab.reload(&classes(5)).unwrap_err().to_string();
    assert!(error.contains("change fewer at once"), "{error}");
    assert_eq!(lab.classes(), before);
    lab.reload(&classes(4)).unwrap();
    lab.reload(&classes(7)).unwrap();
}

#[test]
fn top_tells_prefixes_as_prefixes_and_their_sources_as_sources() {
    let lab = lab(EVERYTHING);
    let scope_of = |index: u32| lab.policies()[&index].scope();
    let level = lab.switched().aggregates[0].get(0).unwrap();
    let aggregate = scope_of(level.policy.into());
    let default = scope_of(lab.settings().default_policy());
    let network: IpAddr = "203.0.113.0".parse().unwrap();
    let policies = lab.policies();
    for scope in [default, aggregate] {
        let mut policies = policies.values();
        let policy = policies.find(|it| it.scope() == scope).unwrap();
        put_record(&lab, network, scope, used(policy));
    }
    let refused = lab.memory.maps().array(REFUSED_MAPS[0]).unwrap();
    let source = Ipv4::new([203, 0, 113, 0]);
    let index = set_of(&source, 0, sets_of_cpu(cpus::possible().unwrap()));
    let mut set: [refused::Refused<Ipv4>; WAYS] = refused.get(index).unwrap();
    (0..3).for_each(|_| refused::Refused::count(&mut set, &source, Instant::from_nanos(1)));
    refused.set(index, set).unwrap();
    let top = lab.top(9);
    let rows: BTreeSet<_> = top
        .iter()
        .map(|row| {
            (
                row.source.to_string(),
                row.policy.as_str(),
                row.refused_packets,
            )
        })
        .collect();
    let expected = [
        ("203.0.113.0".to_owned(), "default", 3),
        ("203.0.113.0/24".to_owned(), "[subnet] ipv4/24", 0),
    ];
    assert_eq!(rows, expected.into());
}

#[test]
fn check_tells_the_limits_that_a_source_shares() {
    let lab = lab(EVERYTHING);
    let wider = |address: &str| -> Vec<(Option<String>, String)> {
        let check = lab.checked(address);
        let reported = check.wider.into_iter();
        reported
            .map(|it| {
                (
                    it.prefix.map(|it| it.to_string()),
                    it.limits[0].limit.to_string(),
                )
            })
            .collect()
    };
    let node = (None, "900000 packets per 1s".to_owned());
    let level =
        |prefix: &str, amount| (Some(prefix.to_owned()), format!("{amount} packets per 1s"));
    assert_eq!(
        wider("203.0.113.9"),
        [level("203.0.113.0/24", 500), node.clone()]
    );
    let ipv6 = [
        level("2001:db8:0:100::/56", 600),
        level("2001:db8::/48", 700),
        node,
    ];
    assert_eq!(wider("2001:db8:0:123::1"), ipv6);
}

#[test]
fn a_prefix_without_room_decides() {
    let lab = lab(EVERYTHING);
    let level = lab.switched().aggregates[0].get(0).unwrap();
    let policy = lab.policies()[&level.policy.into()];
    let network: IpAddr = "203.0.113.0".parse().unwrap();
    put_record(&lab, network, policy.scope(), used(&policy));
    lab.check("203.0.113.9", "drop", "subnet-limited", None, "default");
    lab.check("203.0.114.9", "pass", "conforming", None, "default");
}

#[test]
fn a_reload_tells_what_is_different_and_whether_the_state_is_kept() {
    let reported =
        |before: &str, after: &str| diff::changes(&read(before), &read(after)).join("\n");
    let renamed = EVERYTHING.replace("games", "play");
    let expected = "class games: removed
class play: added, udp to port 27015
policy default: 10 packets per 1s and 6 packets per 1s of games -> 10 packets per 1s and 6 packets \
    per 1s of play; usage of its sources is kept
policy partner: 6 packets per 1s of games -> 6 packets per 1s of play; usage of its sources is \
    kept";
    assert_eq!(reported(EVERYTHING, &renamed), expected);
    let changed = EVERYTHING
        .replace("[27015]", "[27016]")
        .replace("prefix = 24, packets = 500", "prefix = 24, packets = 501")
        .replace("prefix = 48, packets = 700", "prefix = 40, packets = 700")
        .replace(
            "packets = 900_000",
            "algorithm = \"sliding-window\", packets = 900_000",
        );
    let expected = "class games: udp to port 27015 -> udp to port 27016
policy default: usage of its sources is reset
policy partner: usage of its sources is reset
subnet ipv4/24: 500 packets per 1s -> 501 packets per 1s; usage of each prefix is kept
subnet ipv6/48: removed
subnet ipv6/40: added, 700 packets per 1s
node: 900000 packets per 1s -> 900000 packets per 1s (sliding-window); usage is reset";
    assert_eq!(reported(EVERYTHING, &changed), expected);
    let observed = EVERYTHING.replace("[node]", "[node]\nobserve = true");
    assert_eq!(
        reported(EVERYTHING, &observed),
        "node: observe false -> true"
    );
    assert_eq!(reported(EVERYTHING, EVERYTHING), "");
    let (others, _) = EVERYTHING.split_once("[node]").unwrap();
    assert_eq!(reported(EVERYTHING, others), "node: removed with its usage");
}

const PLAIN: &str = "[policy.default]\nlimits = [{ packets = 10, per = \"1s\" }]\n";
const TCP_LIMIT: &str = "{ packets = 5, per = \"1s\", match = \"tcp\" }";
const UDP_LIMIT: &str = "{ packets = 6, per = \"1s\", match = \"games\" }";
const TCP: &str = "[policy.default]\nlimits = [{ packets = 5, per = \"1s\", match = \"tcp\" }]\n";
const EVERYTHING: &str = r#"
[class.games]
protocol = "udp"
destination_ports = [27015]
[policy.default]
limits = [{ packets = 10, per = "1s" }, { packets = 6, per = "1s", match = "games" }]
[policy.partner]
sources = ["192.0.2.0/24"]
limits = [{ packets = 6, per = "1s", match = "games" }]
[subnet]
ipv4 = [{ prefix = 24, packets = 500, per = "1s" }]
ipv6 = [{ prefix = 48, packets = 700, per = "1s" }, { prefix = 56, packets = 600, per = "1s" }]
[node]
limits = [{ packets = 900_000, per = "1s" }]
"#;
const TCP_KIND: u32 = 6;
const UDP_KIND: u32 = 17;

fn lab(toml: &str) -> Lab {
    Lab::new(read(toml))
}

pub(super) fn read(toml: &str) -> Config {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    fs::write(&path, format!("{toml}\n[[interface]]\nname = \"eth0\"\n")).unwrap();
    let config = config::load(&path).unwrap();
    Config {
        files: Vec::new(),
        ..config
    }
}

#[test]
fn check_tells_the_classes_whose_limit_is_used_up() {
    let toml = "[policy.default]\n\
                limits = [{ packets = 5, per = \"1h\", match = \"icmp\" }, \
                { packets = 9, per = \"1h\" }]\n";
    let lab = Lab::new(read(toml));
    let address: IpAddr = "192.0.2.1".parse().unwrap();
    let check = |lab: &Lab| {
        let check = lab.controller.check(address).unwrap();
        let classes = check.classes.into_iter();
        let classes: Vec<_> = classes.map(|it| (it.class, it.action, it.reason)).collect();
        (check.action, classes)
    };
    assert_eq!(check(&lab), ("pass".to_owned(), vec![]));
    let named = lab.state.compiled.policies.get("default").unwrap();
    let record = used(&named.policy);
    put_record(&lab, address, named.policy.scope(), record);
    let refused = ["icmp", "drop", "limited"].map(str::to_owned).into();
    assert_eq!(check(&lab), ("pass".to_owned(), vec![refused]));
}

/// A record in which the first limit is used up by now.
fn used(policy: &Policy) -> Record {
    let limit = policy.limit(0).unwrap();
    let word = limit.algorithm().step(0, clock::now(), limit.capacity());
    let mut record = Record::default();
    record.words[0] = word.unwrap();
    record
}

impl Lab {
    fn reload(&mut self, toml: &str) -> anyhow::Result<()> {
        self.config = read(toml);
        let config = self.config.clone();
        self.replace_config(config)
    }

    fn limit_class(&mut self, class: &str) -> Result<Changed, Refused> {
        let request = LimitRequest {
            prefix: Some(prefix("198.51.100.0/24")),
            limits: vec![limit(9).of_class(Match::Named(class.to_owned()))],
            ..LimitRequest::default()
        };
        self.set_limits(request, "root")
    }

    fn classes(&self) -> ClassTables {
        self.tables().policies.classes().unwrap()
    }

    /// The classes that a packet of a protocol may belong to.
    fn class_of(&self, kind: u32) -> ClassSet {
        let classes = self.classes();
        let excluded = classes.excluded(Property::Kind, kind);
        classes.classes().difference(excluded)
    }

    fn node(&self) -> Option<Policy> {
        let index = self.settings().node_policy()?;
        Some(self.tables().policies.get(index).unwrap())
    }

    fn set_node_state(&self, scope: u32, word: u64) {
        let mut record = Record::default();
        record.words[0] = word;
        let sources = &self.tables().sources;
        sources.set_total(scope % NODE_POLICIES, record).unwrap();
    }

    fn node_state(&self, scope: u32) -> u64 {
        let sources = &self.tables().sources;
        sources.total(scope % NODE_POLICIES).unwrap().words[0]
    }
}
