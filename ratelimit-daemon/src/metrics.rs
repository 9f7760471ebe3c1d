//! The metrics that Prometheus scrapes. No label holds an address: their number does not grow with the sources.

mod daemon;

use std::collections::BTreeMap;

use ratelimit_common::{Family as AddressFamily, detected::Detection, layout::Counter};
use ratelimit_core::{
    api::{
        ClusterStatus, CrowdsecStatus, EntryCounter, ListView, NodeState, SharingStatus, Status,
    },
    detection::Kind,
    exposition::{Exposition, Family, Format},
};

use crate::control::{Filling, Reconciliation, Snapshot, UNANSWERED};

/// All metrics, as text.
pub fn render(snapshot: &Snapshot, format: Format) -> String {
    let mut to = Exposition::new(format);
    traffic(&mut to, snapshot);
    lists(&mut to, snapshot);
    detection(&mut to, snapshot);
    reconciliation(&mut to, &snapshot.reconciliation);
    filling(&mut to, &snapshot.filling);
    sources(&mut to, snapshot);
    new_sources(&mut to, snapshot);
    challenge(&mut to, snapshot);
    events(&mut to, snapshot);
    interfaces(&mut to, snapshot);
    if let Some(status) = &snapshot.status.crowdsec {
        crowdsec(&mut to, status);
    }
    if let Some(status) = &snapshot.status.cluster {
        cluster(&mut to, status);
    }
    daemon::write(&mut to, snapshot);
    to.finish()
}

fn traffic(to: &mut Exposition, snapshot: &Snapshot) {
    let packets = to
        .counter("ratelimit_packets")
        .help("Packets received, by verdict and reason.");
    each_counter(snapshot, packets, |count| count.packets);
    let bytes = to
        .counter("ratelimit_bytes")
        .help("Bytes of frames received, by verdict and reason.");
    each_counter(snapshot, bytes, |count| count.bytes);
}

fn each_counter(snapshot: &Snapshot, mut to: Family<'_>, value: fn(&Counter) -> u64) {
    for (interface, row) in &snapshot.counters {
        let labels = [
            ("interface", interface.as_str()),
            ("family", row.family.label()),
            ("verdict", row.verdict.action()),
            ("reason", row.verdict.reason()),
        ];
        to.labelled(&labels, value(&row.count));
    }
}

fn lists(to: &mut Exposition, snapshot: &Snapshot) {
    let status = &snapshot.status;
    to.gauge("ratelimit_bans")
        .help("Bans in force.")
        .value(status.bans);
    to.gauge("ratelimit_allows")
        .help("Entries of the allow list.")
        .value(status.allows);
    to.gauge("ratelimit_policies")
        .help("Policies, with the default policy.")
        .value(status.policies);
    policies(to, snapshot);
    files(to, &status.lists);

    let maps = || status.maps.iter();
    let mut entries = to
        .gauge("ratelimit_map_entries")
        .help("Entries in use of a BPF map.");
    entries.each(
        "map",
        maps().filter_map(|map| Some((&map.name, map.entries?))),
    );
    for (family, count) in families().zip(snapshot.sources.held) {
        let map = sources_map(family, status);
        if !maps().any(|it| it.name == map && it.entries.is_some()) {
            entries.labelled(&[("map", map)], count);
        }
    }
    to.gauge("ratelimit_map_capacity")
        .help("Entries that a BPF map has room for.")
        .each("map", maps().map(|map| (&map.name, map.capacity)));
    to.gauge("ratelimit_map_memory_bytes")
        .help("Kernel memory of a BPF map.")
        .each("map", maps().map(|map| (&map.name, map.memory_bytes)));
}

/// What matched the policies of the configuration. Those of runtime limits have addresses for names.
fn policies(to: &mut Exposition, snapshot: &Snapshot) {
    let counters = |count: fn(&EntryCounter) -> Option<u64>| {
        let policies = snapshot.policies.iter();
        policies.filter_map(move |(name, counter)| Some((name, count(counter)?)))
    };
    to.counter("ratelimit_policy_packets")
        .help("Packets that were judged by a policy.")
        .each("policy", counters(|counter| counter.packets));
    to.counter("ratelimit_policy_bytes")
        .help("Bytes of frames that were judged by a policy.")
        .each("policy", counters(|counter| counter.bytes));
}

fn files(to: &mut Exposition, lists: &[ListView]) {
    to.gauge("ratelimit_list_entries")
        .help("Entries of a list.")
        .each("list", lists.iter().map(|list| (&list.name, list.entries)));
    let counters = |count: fn(&ListView) -> Option<u64>| {
        lists
            .iter()
            .filter_map(move |list| Some((&list.name, count(list)?)))
    };
    to.counter("ratelimit_list_packets")
        .help("Packets that matched an entry of a list.")
        .each("list", counters(|list| list.counter.packets));
    to.counter("ratelimit_list_bytes")
        .help("Bytes of frames that matched an entry of a list.")
        .each("list", counters(|list| list.counter.bytes));
    let from_files = lists.iter().filter(|list| list.file.is_some());
    to.counter("ratelimit_list_errors")
        .help("Failed attempts to read the file of a list.")
        .each("list", from_files.map(|list| (&list.name, list.errors)));
    let read = lists
        .iter()
        .filter_map(|list| Some((&list.name, seconds(list.read?))));
    to.gauge("ratelimit_list_last_success_timestamp_seconds")
        .help("When the file of a list was last applied.")
        .each("list", read);
    let fetched = lists
        .iter()
        .filter_map(|list| Some((&list.name, seconds(list.fetched?))));
    let help =
        "When the file of a list with a url was last downloaded, or its server had nothing newer.";
    to.gauge("ratelimit_list_fetched_timestamp_seconds")
        .help(help)
        .each("list", fetched);
}

fn detection(to: &mut Exposition, snapshot: &Snapshot) {
    to.gauge("ratelimit_detected_bans")
        .help("Bans in force that policies made.")
        .value(snapshot.status.detected_bans);
    to.counter("ratelimit_detected_bans_made")
        .help("Bans that policies made, since the daemon started.")
        .each("policy", &snapshot.detections.by_policy);
    let results = Detection::ALL.map(|it| (it.label(), snapshot.tally.detections[it as usize]));
    to.counter("ratelimit_detections")
        .help("Sources that reached the strikes of a policy, by result.")
        .each("result", results);
    to.counter("ratelimit_detection_events_lost")
        .help("Bans by policies that the daemon learned of late, as the event ring was full.")
        .value(snapshot.tally.events_lost);
    to.counter("ratelimit_attacks")
        .help("Attacks found since the daemon started, by kind.")
        .each("kind", by_kind(&snapshot.attacks));
    to.gauge("ratelimit_detected_limits")
        .help("Sources of attacks that have a further limit.")
        .value(snapshot.status.limited);
    to.counter("ratelimit_detected_limits_made")
        .help("Sources that got a further limit since the daemon started, by kind of attack.")
        .each("kind", by_kind(&snapshot.limited));
}

fn by_kind(counts: &BTreeMap<Kind, u64>) -> impl Iterator<Item = (&'static str, &u64)> {
    counts.iter().map(|(kind, count)| (kind.label(), count))
}

fn reconciliation(to: &mut Exposition, reconciliation: &Reconciliation) {
    let Reconciliation {
        intended,
        missing,
        repaired,
    } = reconciliation;
    to.gauge("ratelimit_intended")
        .help("Entries that belong into the kernel's tables.")
        .each("kind", intended.labelled());
    to.gauge("ratelimit_enforced")
        .help("Entries confirmed in the kernel's tables.")
        .each("kind", intended.less(missing).labelled());
    to.counter("ratelimit_repaired")
        .help("Entries of the kernel's tables that were wrong, and were repaired.")
        .each("kind", repaired.labelled());
}

fn filling(to: &mut Exposition, filling: &Filling) {
    to.gauge("ratelimit_list_nearly_full")
        .help("Whether bans, allows and policies take over 80 % of their room.")
        .each("family", labels().zip(filling.nearly_full.map(u8::from)));
    to.counter("ratelimit_bans_given_way")
        .help("Automatic bans that were evicted from a full list.")
        .value(filling.evicted);
}

fn sources(to: &mut Exposition, snapshot: &Snapshot) {
    to.counter("ratelimit_sources_inserted")
        .help("Sources that got state.")
        .each("family", labels().zip(snapshot.totals.inserted));
    to.counter("ratelimit_sources_evicted")
        .help("Sources whose state was evicted, counted every 10 seconds.")
        .each("family", labels().zip(snapshot.sources.evicted));
}

/// The budget, where there is one. The counters of packets say what became of packets over budget.
fn new_sources(to: &mut Exposition, snapshot: &Snapshot) {
    let Some(budget) = &snapshot.status.new_sources else {
        return;
    };
    to.gauge("ratelimit_new_sources")
        .help("New sources that may get state in a window.")
        .each("over_budget", [(budget.over_budget.as_str(), budget.count)]);
    to.gauge("ratelimit_new_sources_window_seconds")
        .help("Length of that window.")
        .value(budget.per_seconds);
}

/// Whether sources are challenged, where they may be. The counters of packets say how many were, and how many proved themselves.
fn challenge(to: &mut Exposition, snapshot: &Snapshot) {
    let Some(challenge) = &snapshot.status.challenge else {
        return;
    };
    to.gauge("ratelimit_challenge_on")
        .help("1 while sources that are not verified are challenged.")
        .value(u8::from(challenge.is_on));
    if let Some(dns) = &challenge.dns {
        to.gauge("ratelimit_challenge_dns_on")
            .help("1 while sources that are not verified are challenged for queries of DNS.")
            .value(u8::from(dns.is_on));
    }
    to.gauge("ratelimit_challenge_verified_sources")
        .help("Sources that are verified, by where they proved themselves.")
        .each(
            "by",
            [
                ("here", challenge.verified_here),
                ("cluster", challenge.verified_by_peers),
            ],
        );
    let help =
        "SYNs and queries without an answer, as the answers to all sources or to one were spent.";
    to.counter("ratelimit_challenge_over_budget")
        .help(help)
        .value(challenge.unanswered_packets);
    to.gauge("ratelimit_challenge_suspended")
        .help("1 while nobody is challenged, as nobody who was proved itself.")
        .value(u8::from(challenge.suspended_until.is_some()));
    let troubles = &snapshot.status.troubles;
    to.gauge("ratelimit_challenge_unanswered")
        .help("1 while many are challenged and nobody proves itself.")
        .value(u8::from(troubles.iter().any(|it| it.what == UNANSWERED)));
}

fn events(to: &mut Exposition, snapshot: &Snapshot) {
    to.counter("ratelimit_events_sent")
        .help("Sampled drops sent to the daemon.")
        .value(snapshot.totals.events_sent);
    to.counter("ratelimit_events_lost")
        .help("Sampled drops lost, as the event ring was full.")
        .value(snapshot.totals.events_lost);
}

fn interfaces(to: &mut Exposition, snapshot: &Snapshot) {
    let mut attached = to
        .gauge("ratelimit_interface_attached")
        .help("Whether the program runs on an interface, and its mode.");
    for interface in &snapshot.status.interfaces {
        let mode = interface.mode.as_deref().unwrap_or("none");
        attached.labelled(
            &[("interface", &interface.name), ("mode", mode)],
            u8::from(interface.attached),
        );
    }
}

fn crowdsec(to: &mut Exposition, status: &CrowdsecStatus) {
    to.gauge("ratelimit_crowdsec_connected")
        .help("Whether CrowdSec's local API answered the last request.")
        .value(u8::from(status.connected == Some(true)));
    to.gauge("ratelimit_crowdsec_bans")
        .help("Bans in force from CrowdSec.")
        .value(status.bans);
    to.gauge("ratelimit_crowdsec_decisions")
        .help("Decisions of CrowdSec behind these bans.")
        .value(status.decisions);
    to.counter("ratelimit_crowdsec_pulls")
        .help("Requests to CrowdSec's local API, by result.")
        .each(
            "result",
            [("answered", status.pulls), ("failed", status.failures)],
        );
    to.counter("ratelimit_crowdsec_ignored")
        .help("Decisions of CrowdSec that ban nobody here, by reason.")
        .each("reason", &status.ignored);
    if let Some(pulled) = status.pulled {
        to.gauge("ratelimit_crowdsec_last_pull_timestamp_seconds")
            .help("When CrowdSec's local API last answered.")
            .value(seconds(pulled));
    }
}

fn cluster(to: &mut Exposition, status: &ClusterStatus) {
    to.gauge("ratelimit_cluster_connected")
        .help("Whether the store of the cluster takes messages.")
        .value(u8::from(status.connected == Some(true)));
    to.counter("ratelimit_cluster_failures")
        .help("How often the store of the cluster failed.")
        .value(status.failures);
    to.gauge("ratelimit_cluster_bans")
        .help("Bans in force of other nodes.")
        .value(status.bans);
    let count = |state| {
        status
            .nodes
            .iter()
            .filter(|node| node.state == state)
            .count()
    };
    let states = NodeState::ALL
        .iter()
        .map(|state| (state.label(), count(*state)));
    to.gauge("ratelimit_cluster_nodes")
        .help("Nodes of the cluster, by state.")
        .each("state", states);
    to.counter("ratelimit_cluster_refused")
        .help("Messages of the cluster that were refused, by reason.")
        .each("reason", &status.refused);
    to.counter("ratelimit_cluster_denied")
        .help("Statements of other nodes without effect here.")
        .value(status.denied);
    let help = "Sources that proved themselves here and were told, or on other nodes and were taken over, or were not.";
    to.counter("ratelimit_cluster_verified").help(help).each(
        "what",
        [
            ("told", status.verified_told),
            ("taken", status.verified_taken),
            ("denied", status.verified_denied),
        ],
    );
    if let Some(sharing) = &status.sharing {
        shares(to, sharing);
    }
}

fn shares(to: &mut Exposition, sharing: &SharingStatus) {
    to.gauge("ratelimit_cluster_configured_nodes")
        .help("Nodes that the configuration says there are.")
        .value(sharing.configured_nodes);
    to.gauge("ratelimit_cluster_shares")
        .help("Limits of sources, prefixes and the node of which this node has a share of its own.")
        .value(sharing.keys);
    to.gauge("ratelimit_cluster_shares_without_room")
        .help("Sources, prefixes and nodes whose shares have no room in the kernel.")
        .value(sharing.without_room);
    to.gauge("ratelimit_cluster_fallback")
        .help("Whether this node admits no more of each limit than it may always claim.")
        .value(u8::from(sharing.fallback.is_some()));
    if let Some(at) = sharing.divided_at {
        to.gauge("ratelimit_cluster_last_division_timestamp_seconds")
            .help("When limits were last divided by the reports of all nodes.")
            .value(seconds(at));
    }
}

/// The families that have sources.
fn families() -> impl Iterator<Item = AddressFamily> {
    [AddressFamily::Ipv4, AddressFamily::Ipv6].into_iter()
}

fn labels() -> impl Iterator<Item = &'static str> {
    families().map(AddressFamily::label)
}

/// Where the state of a family's sources is: a `compact` table has more than the slots of one set.
fn sources_map(family: AddressFamily, status: &Status) -> &'static str {
    let is_compact = status
        .maps
        .iter()
        .any(|map| map.name == "COMPACT_V4" && map.entries.is_some());
    match (family, is_compact) {
        (AddressFamily::Ipv4, false) => "SOURCES_V4",
        (_, false) => "SOURCES_V6",
        (AddressFamily::Ipv4, true) => "COMPACT_V4",
        (_, true) => "COMPACT_V6",
    }
}

fn seconds(time: jiff::Timestamp) -> f64 {
    time.as_duration().as_secs_f64()
}
