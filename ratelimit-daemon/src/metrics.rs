//! The metrics that Prometheus scrapes. No label holds an address: their number does not grow with
//! the sources.

mod daemon;

use std::collections::BTreeMap;

use ratelimit_common::{Family as AddressFamily, layout::Counter, policy_ban::BanResult};
use ratelimit_core::{
    api::{
        ClusterStatus, CrowdsecStatus, EntryCounter, ListView, NodeState, SharingStatus, Status,
        UpstreamRoutes,
    },
    detection::Kind,
    exposition::{Exposition, Family, Format},
    keys::Counts,
};

use crate::control::{Filling, Reconciliation, Snapshot, UNANSWERED};

/// All metrics, as text.
pub fn render(snapshot: &Snapshot, format: Format) -> String {
    let mut to = Exposition::new(format);
    traffic(&mut to, snapshot);
    lists(&mut to, snapshot);
    automatic_bans(&mut to, snapshot);
    attacks(&mut to, snapshot);
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
    keys(&mut to, &snapshot.keys);
    if let Some(routes) = &snapshot.upstream {
        upstream(&mut to, routes);
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
        .help("Bytes received including frame headers, by verdict and reason.");
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
        .help("Number of policies, including the default one.")
        .value(status.policies);
    policies(to, snapshot);
    files(to, &status.lists);

    let maps = || status.maps.iter();
    let mut entries = to
        .gauge("ratelimit_map_entries")
        .help("Used entries of a BPF map.");
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
        .help("Maximum number of entries of a BPF map.")
        .each("map", maps().map(|map| (&map.name, map.capacity)));
    to.gauge("ratelimit_map_memory_bytes")
        .help("Kernel memory used by a BPF map.")
        .each("map", maps().map(|map| (&map.name, map.memory_bytes)));
}

/// Packets matched by configured policies. Those of runtime limits have addresses as names.
fn policies(to: &mut Exposition, snapshot: &Snapshot) {
    let counters = |count: fn(&EntryCounter) -> Option<u64>| {
        let policies = snapshot.policies.iter();
        policies.filter_map(move |(name, counter)| Some((name, count(counter)?)))
    };
    to.counter("ratelimit_policy_packets")
        .help("Packets judged by a policy.")
        .each("policy", counters(|counter| counter.packets));
    to.counter("ratelimit_policy_bytes")
        .help("Bytes judged by a policy, including frame headers.")
        .each("policy", counters(|counter| counter.bytes));
}

fn files(to: &mut Exposition, lists: &[ListView]) {
    to.gauge("ratelimit_list_entries")
        .help("Number of entries in a list.")
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
        .help("Bytes that matched an entry of a list, including frame headers.")
        .each("list", counters(|list| list.counter.bytes));
    let from_files = lists.iter().filter(|list| list.file.is_some());
    to.counter("ratelimit_list_errors")
        .help("Failed attempts to load the file of a list.")
        .each("list", from_files.map(|list| (&list.name, list.errors)));
    let read = lists
        .iter()
        .filter_map(|list| Some((&list.name, seconds(list.read?))));
    to.gauge("ratelimit_list_last_success_timestamp_seconds")
        .help("Time when the file of a list was last loaded.")
        .each("list", read);
    let fetched = lists
        .iter()
        .filter_map(|list| Some((&list.name, seconds(list.fetched?))));
    let help = "Time when a list with a url was last downloaded or found unchanged.";
    to.gauge("ratelimit_list_fetched_timestamp_seconds")
        .help(help)
        .each("list", fetched);
}

fn automatic_bans(to: &mut Exposition, snapshot: &Snapshot) {
    to.gauge("ratelimit_automatic_bans")
        .help("Bans in force that policies or detection set.")
        .value(snapshot.status.automatic_bans);
    to.counter("ratelimit_policy_bans_made")
        .help("Bans set by policies since the daemon started.")
        .each("policy", &snapshot.policy_bans.by_policy);
    let results = BanResult::ALL.map(|it| (it.label(), snapshot.tally.results[it as usize]));
    to.counter("ratelimit_policy_bans")
        .help("Sources that reached the ban threshold of a policy, by result.")
        .each("result", results);
    to.counter("ratelimit_policy_ban_events_lost")
        .help("Bans by policies reported late because the event ring was full.")
        .value(snapshot.tally.events_lost);
}

fn attacks(to: &mut Exposition, snapshot: &Snapshot) {
    to.counter("ratelimit_attacks")
        .help("Attacks detected since the daemon started, by kind.")
        .each("kind", by_kind(&snapshot.attacks));
    to.gauge("ratelimit_detected_limits")
        .help("Attacking sources with an additional limit.")
        .value(snapshot.status.limited);
    to.counter("ratelimit_detected_limits_made")
        .help("Attacking sources that got an additional limit since the daemon started, by kind.")
        .each("kind", by_kind(&snapshot.limited));
}

fn keys(to: &mut Exposition, spaces: &[(String, Counts)]) {
    let of = |count: fn(&Counts) -> u64| {
        let spaces = spaces.iter();
        spaces.map(move |(space, counts)| (space, count(counts)))
    };
    to.counter("ratelimit_keys_allowed")
        .help("Requests of keys that obtained the full amount, by key space.")
        .each("space", of(|it| it.allowed));
    to.counter("ratelimit_keys_refused")
        .help("Requests of keys that obtained less than the amount, by key space.")
        .each("space", of(|it| it.refused));
    to.counter("ratelimit_keys_evicted")
        .help("Keys that were forgotten because the key space was full.")
        .each("space", of(|it| it.evicted));
    to.gauge("ratelimit_keys_held")
        .help("Keys with usage in a key space.")
        .each("space", of(|it| it.held));
}

fn upstream(to: &mut Exposition, routes: &UpstreamRoutes) {
    to.gauge("ratelimit_upstream_routes")
        .help("Bans that are routes for a BGP speaker.")
        .value(routes.routes.len());
    to.gauge("ratelimit_upstream_left_out")
        .help("Bans without a route because routes_max is reached.")
        .value(routes.left_out);
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
        .help("Entries that should be in the kernel tables.")
        .each("kind", intended.labelled());
    to.gauge("ratelimit_enforced")
        .help("Entries confirmed in the kernel tables.")
        .each("kind", intended.less(missing).labelled());
    to.counter("ratelimit_repaired")
        .help("Wrong entries in the kernel tables that were repaired.")
        .each("kind", repaired.labelled());
}

fn filling(to: &mut Exposition, filling: &Filling) {
    to.gauge("ratelimit_list_nearly_full")
        .help("1 if the table of bans, allows and policies is more than 80 % full.")
        .each("family", labels().zip(filling.nearly_full.map(u8::from)));
    to.counter("ratelimit_bans_given_way")
        .help("Bans evicted because the table was full.")
        .value(filling.evicted);
}

fn sources(to: &mut Exposition, snapshot: &Snapshot) {
    to.counter("ratelimit_sources_inserted")
        .help("Sources added to the state table.")
        .each("family", labels().zip(snapshot.totals.inserted));
    to.counter("ratelimit_sources_evicted")
        .help("Sources evicted from the state table, counted every 10 seconds.")
        .each("family", labels().zip(snapshot.sources.evicted));
}

/// Writes the budget, if there is one. Packets over budget are in the counters of packets.
fn new_sources(to: &mut Exposition, snapshot: &Snapshot) {
    let Some(budget) = &snapshot.status.new_sources else {
        return;
    };
    to.gauge("ratelimit_new_sources")
        .help("Budget for new sources per window.")
        .each("over_budget", [(budget.over_budget.as_str(), budget.count)]);
    to.gauge("ratelimit_new_sources_window_seconds")
        .help("Window of the budget for new sources.")
        .value(budget.per_seconds);
}

/// Whether sources are challenged, where they may be. The counters of packets say how many were,
/// and how many proved themselves.
fn challenge(to: &mut Exposition, snapshot: &Snapshot) {
    let Some(challenge) = &snapshot.status.challenge else {
        return;
    };
    to.gauge("ratelimit_challenge_on")
        .help("1 while unverified TCP clients are challenged.")
        .value(u8::from(challenge.is_on));
    if let Some(dns) = &challenge.dns {
        to.gauge("ratelimit_challenge_dns_on")
            .help("1 while unverified DNS clients are challenged.")
            .value(u8::from(dns.is_on));
    }
    to.gauge("ratelimit_challenge_verified_sources")
        .help("Verified sources.")
        .value(challenge.verified);
    let help = "SYNs and queries left unanswered because an answer budget was exhausted.";
    to.counter("ratelimit_challenge_over_budget")
        .help(help)
        .value(challenge.unanswered_packets);
    to.gauge("ratelimit_challenge_paused")
        .help("1 while the challenge is paused because no client answered it.")
        .value(u8::from(challenge.paused_until.is_some()));
    let troubles = &snapshot.status.troubles;
    to.gauge("ratelimit_challenge_unanswered")
        .help("1 while many clients are challenged and none answers.")
        .value(u8::from(troubles.iter().any(|it| it.what == UNANSWERED)));
}

fn events(to: &mut Exposition, snapshot: &Snapshot) {
    to.counter("ratelimit_events_sent")
        .help("Sampled drops sent to the daemon.")
        .value(snapshot.totals.events_sent);
    to.counter("ratelimit_events_lost")
        .help("Sampled drops lost because the event ring was full.")
        .value(snapshot.totals.events_lost);
}

fn interfaces(to: &mut Exposition, snapshot: &Snapshot) {
    let mut attached = to
        .gauge("ratelimit_interface_attached")
        .help("1 if the program is attached to an interface, by mode.");
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
        .help("1 if the CrowdSec local API answered the last request.")
        .value(u8::from(status.connected == Some(true)));
    to.gauge("ratelimit_crowdsec_bans")
        .help("Bans in force from CrowdSec decisions.")
        .value(status.bans);
    to.gauge("ratelimit_crowdsec_decisions")
        .help("Active CrowdSec decisions.")
        .value(status.decisions);
    to.counter("ratelimit_crowdsec_pulls")
        .help("Requests to the CrowdSec local API, by result.")
        .each(
            "result",
            [("answered", status.pulls), ("failed", status.failures)],
        );
    to.counter("ratelimit_crowdsec_ignored")
        .help("CrowdSec decisions without effect on this host, by reason.")
        .each("reason", &status.ignored);
    if let Some(pulled) = status.pulled {
        to.gauge("ratelimit_crowdsec_last_pull_timestamp_seconds")
            .help("Time when the CrowdSec local API last answered.")
            .value(seconds(pulled));
    }
}

fn cluster(to: &mut Exposition, status: &ClusterStatus) {
    to.gauge("ratelimit_cluster_connected")
        .help("1 if the cluster store is reachable.")
        .value(u8::from(status.connected == Some(true)));
    to.counter("ratelimit_cluster_failures")
        .help("Failed requests to the cluster store.")
        .value(status.failures);
    to.gauge("ratelimit_cluster_bans")
        .help("Bans in force that were set by other nodes.")
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
        .help("Cluster nodes, by state.")
        .each("state", states);
    to.counter("ratelimit_cluster_refused")
        .help("Refused cluster messages, by reason.")
        .each("reason", &status.refused);
    to.counter("ratelimit_cluster_denied")
        .help("Changes by other nodes that are ignored here.")
        .value(status.denied);
    if let Some(sharing) = &status.sharing {
        shares(to, sharing);
    }
}

fn shares(to: &mut Exposition, sharing: &SharingStatus) {
    to.gauge("ratelimit_cluster_configured_nodes")
        .help("Configured number of cluster nodes.")
        .value(sharing.configured_nodes);
    to.gauge("ratelimit_cluster_shares")
        .help("Shared limits of sources, prefixes and the node with a share on this node.")
        .value(sharing.keys);
    to.gauge("ratelimit_cluster_shares_without_room")
        .help("Shared limits without room for a share in the kernel.")
        .value(sharing.without_room);
    to.gauge("ratelimit_cluster_fallback")
        .help("1 while this node falls back to limit/nodes for shared limits.")
        .value(u8::from(sharing.fallback.is_some()));
    if let Some(at) = sharing.divided_at {
        to.gauge("ratelimit_cluster_last_division_timestamp_seconds")
            .help("Time when limits were last divided with reports of all nodes.")
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

/// Returns the map with the state of a family's sources: a `compact` table has more than the slots
/// of one set.
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
