//! The metrics that Prometheus scrapes. No label holds an address: their number does not grow with the sources.

use ratelimit_common::{Family as AddressFamily, detected::Detection};

use crate::{
    api::{CrowdsecStatus, ListView, Status},
    control::{Filling, Kind as TableKind, Reconciliation, Snapshot},
    exposition::{Exposition, Format, Kind},
};

/// All metrics, as text.
#[must_use]
pub fn render(snapshot: &Snapshot, format: Format) -> String {
    let mut exposition = Exposition::new(format);
    traffic(&mut exposition, snapshot);
    lists(&mut exposition, snapshot);
    detection(&mut exposition, snapshot);
    reconciliation(&mut exposition, &snapshot.reconciliation);
    filling(&mut exposition, &snapshot.filling);
    sources(&mut exposition, snapshot);
    new_sources(&mut exposition, snapshot);
    events(&mut exposition, snapshot);
    interfaces(&mut exposition, snapshot);
    if let Some(status) = &snapshot.status.crowdsec {
        crowdsec(&mut exposition, status);
    }
    daemon(&mut exposition, snapshot);
    exposition.finish()
}

fn traffic(exposition: &mut Exposition, snapshot: &Snapshot) {
    let mut packets = exposition.family(
        "ratelimit_packets",
        Kind::Counter,
        "Packets received, by what happened to them and why.",
    );
    each_counter(snapshot, |labels, count| {
        packets.labelled(labels, count.packets);
    });
    let mut bytes = exposition.family(
        "ratelimit_bytes",
        Kind::Counter,
        "Bytes of the frames received, by what happened to them and why.",
    );
    each_counter(snapshot, |labels, count| {
        bytes.labelled(labels, count.bytes);
    });
}

/// The budget, where there is one. What became of packets beyond it, the counters of packets say.
fn new_sources(exposition: &mut Exposition, snapshot: &Snapshot) {
    let Some(budget) = &snapshot.status.new_sources else {
        return;
    };
    let labels = [("beyond", budget.beyond.as_str())];
    exposition
        .family(
            "ratelimit_new_sources",
            Kind::Gauge,
            "The most sources that may get state within the window.",
        )
        .labelled(&labels, budget.count);
    exposition
        .family(
            "ratelimit_new_sources_window_seconds",
            Kind::Gauge,
            "The length of the window.",
        )
        .value(budget.per_seconds);
}

fn each_counter(
    snapshot: &Snapshot,
    mut visit: impl FnMut(&[(&str, &str)], &ratelimit_common::layout::Counter),
) {
    for (interface, row) in &snapshot.counters {
        let labels = [
            ("interface", interface.as_str()),
            ("family", row.family.label()),
            ("verdict", row.verdict.action()),
            ("reason", row.verdict.reason()),
        ];
        visit(&labels, &row.count);
    }
}

fn lists(exposition: &mut Exposition, snapshot: &Snapshot) {
    let status = &snapshot.status;
    exposition
        .family("ratelimit_bans", Kind::Gauge, "Bans in force.")
        .value(status.bans);
    exposition
        .family(
            "ratelimit_allows",
            Kind::Gauge,
            "Entries of the allow list.",
        )
        .value(status.allows);
    exposition
        .family(
            "ratelimit_policies",
            Kind::Gauge,
            "Policies, the default one included.",
        )
        .value(status.policies);
    files(exposition, &status.lists);
    let mut entries = exposition.family(
        "ratelimit_map_entries",
        Kind::Gauge,
        "Entries in use of a BPF map.",
    );
    for map in &status.maps {
        if let Some(count) = map.entries {
            entries.labelled(&[("map", &map.name)], count);
        }
    }
    for (family, count) in families().zip(snapshot.sources.held) {
        let map = sources_map(family, status);
        if !status
            .maps
            .iter()
            .any(|it| it.name == map && it.entries.is_some())
        {
            entries.labelled(&[("map", map)], count);
        }
    }
    let mut capacity = exposition.family(
        "ratelimit_map_capacity",
        Kind::Gauge,
        "The most entries of a BPF map.",
    );
    for map in &status.maps {
        capacity.labelled(&[("map", &map.name)], map.capacity);
    }
    let mut memory = exposition.family(
        "ratelimit_map_memory_bytes",
        Kind::Gauge,
        "Kernel memory of a BPF map.",
    );
    for map in &status.maps {
        memory.labelled(&[("map", &map.name)], map.memory_bytes);
    }
}

fn detection(exposition: &mut Exposition, snapshot: &Snapshot) {
    exposition
        .family(
            "ratelimit_detected_bans",
            Kind::Gauge,
            "Bans in force that policies made.",
        )
        .value(snapshot.status.detected_bans);
    let mut taken = exposition.family(
        "ratelimit_detected_bans_made",
        Kind::Counter,
        "Bans that policies made and the daemon took over, since it started.",
    );
    for (policy, count) in &snapshot.detections.by_policy {
        taken.labelled(&[("policy", policy)], *count);
    }
    let mut detections = exposition.family(
        "ratelimit_detections",
        Kind::Counter,
        "Sources that policies were to ban, by what became of them.",
    );
    for detection in Detection::ALL {
        let count = snapshot.tally.detections[detection as usize];
        detections.labelled(&[("result", detection.label())], count);
    }
    exposition
        .family(
            "ratelimit_detection_events_lost",
            Kind::Counter,
            "Bans by policies of which the daemon heard a moment later: their event found the ring full.",
        )
        .value(snapshot.tally.events_lost);
    let mut attacks = exposition.family(
        "ratelimit_attacks",
        Kind::Counter,
        "Attacks that were found, by what they are, since the daemon started.",
    );
    for (kind, count) in &snapshot.attacks {
        attacks.labelled(&[("kind", kind.label())], *count);
    }
    exposition
        .family(
            "ratelimit_detected_limits",
            Kind::Gauge,
            "Sources of attacks that have a further limit for a time.",
        )
        .value(snapshot.status.limited);
    let mut limited = exposition.family(
        "ratelimit_detected_limits_made",
        Kind::Counter,
        "Sources that got a further limit, by the attack, since the daemon started.",
    );
    for (kind, count) in &snapshot.limited {
        limited.labelled(&[("kind", kind.label())], *count);
    }
}

fn reconciliation(exposition: &mut Exposition, reconciliation: &Reconciliation) {
    let Reconciliation {
        intended,
        missing,
        repaired,
    } = reconciliation;
    let mut family = exposition.family(
        "ratelimit_intended",
        Kind::Gauge,
        "What is to be in the kernel's tables, by the kind of the table.",
    );
    for kind in TableKind::ALL {
        family.labelled(&[("kind", kind.label())], intended.of(kind));
    }
    let mut family = exposition.family(
        "ratelimit_enforced",
        Kind::Gauge,
        "What of it is there: all compared at most a second ago, but of more than 8192 entries their number and 8192 of them, and of classes a part.",
    );
    for kind in TableKind::ALL {
        let enforced = intended.of(kind).saturating_sub(missing.of(kind));
        family.labelled(&[("kind", kind.label())], enforced);
    }
    let mut family = exposition.family(
        "ratelimit_repaired",
        Kind::Counter,
        "What somebody else changed in the kernel's tables, and was put right.",
    );
    for kind in TableKind::ALL {
        family.labelled(&[("kind", kind.label())], repaired.of(kind));
    }
}

fn filling(exposition: &mut Exposition, filling: &Filling) {
    let mut family = exposition.family(
        "ratelimit_list_nearly_full",
        Kind::Gauge,
        "Whether more than 80 % of the entries for bans, allows and policies of a family are in use.",
    );
    for (label, nearly_full) in families().zip(filling.nearly_full) {
        family.labelled(&[("family", label.label())], u8::from(nearly_full));
    }
    exposition
        .family(
            "ratelimit_bans_given_way",
            Kind::Counter,
            "Automatic bans that ended early to make room for new ones.",
        )
        .value(filling.gave_way);
}

fn files(exposition: &mut Exposition, lists: &[ListView]) {
    let mut entries =
        exposition.family("ratelimit_list_entries", Kind::Gauge, "Entries of a list.");
    for list in lists {
        entries.labelled(&[("list", &list.name)], list.entries);
    }
    let mut errors = exposition.family(
        "ratelimit_list_errors",
        Kind::Counter,
        "How often the file of a list was not taken, and the list stayed as it was.",
    );
    for list in lists.iter().filter(|list| list.file.is_some()) {
        errors.labelled(&[("list", &list.name)], list.errors);
    }
    let mut read = exposition.family(
        "ratelimit_list_last_success_timestamp_seconds",
        Kind::Gauge,
        "When the file of a list was last read and taken.",
    );
    for list in lists {
        if let Some(time) = list.read {
            read.labelled(&[("list", &list.name)], seconds(time));
        }
    }
}

fn sources(exposition: &mut Exposition, snapshot: &Snapshot) {
    let inserted = snapshot.totals.inserted;
    let mut family = exposition.family(
        "ratelimit_sources_inserted",
        Kind::Counter,
        "Sources that got state.",
    );
    for (label, count) in families().zip(inserted) {
        family.labelled(&[("family", label.label())], count);
    }
    let mut family = exposition.family(
        "ratelimit_sources_evicted",
        Kind::Counter,
        "Sources whose state gave way to that of others, as counted at most 10 seconds ago.",
    );
    for (label, evicted) in families().zip(snapshot.sources.evicted) {
        family.labelled(&[("family", label.label())], evicted);
    }
}

fn events(exposition: &mut Exposition, snapshot: &Snapshot) {
    let totals = &snapshot.totals;
    exposition
        .family(
            "ratelimit_events_sent",
            Kind::Counter,
            "Sampled drops that were sent to the daemon.",
        )
        .value(totals.events_sent);
    exposition
        .family(
            "ratelimit_events_lost",
            Kind::Counter,
            "Sampled drops that found the ring full.",
        )
        .value(totals.events_lost);
}

fn interfaces(exposition: &mut Exposition, snapshot: &Snapshot) {
    let mut attached = exposition.family(
        "ratelimit_interface_attached",
        Kind::Gauge,
        "Whether the program runs on an interface, and in which mode: 1 where it does, 0 where it does not.",
    );
    for interface in &snapshot.status.interfaces {
        let mode = interface.mode.as_deref().unwrap_or("none");
        attached.labelled(
            &[("interface", &interface.name), ("mode", mode)],
            u8::from(interface.attached),
        );
    }
}

fn crowdsec(exposition: &mut Exposition, status: &CrowdsecStatus) {
    exposition
        .family(
            "ratelimit_crowdsec_connected",
            Kind::Gauge,
            "Whether the local API of CrowdSec gave the last answer that was asked for.",
        )
        .value(u8::from(status.connected == Some(true)));
    exposition
        .family(
            "ratelimit_crowdsec_bans",
            Kind::Gauge,
            "Bans in force that CrowdSec decided.",
        )
        .value(status.bans);
    exposition
        .family(
            "ratelimit_crowdsec_decisions",
            Kind::Gauge,
            "Decisions that these bans are made of.",
        )
        .value(status.decisions);
    let mut pulls = exposition.family(
        "ratelimit_crowdsec_pulls",
        Kind::Counter,
        "How often the local API of CrowdSec was asked, by what came of it.",
    );
    pulls.labelled(&[("result", "answered")], status.pulls);
    pulls.labelled(&[("result", "failed")], status.failures);
    let mut ignored = exposition.family(
        "ratelimit_crowdsec_ignored",
        Kind::Counter,
        "Decisions that were told and ban nobody here, by the reason.",
    );
    for (reason, count) in &status.ignored {
        ignored.labelled(&[("reason", reason)], count);
    }
    if let Some(pulled) = status.pulled {
        exposition
            .family(
                "ratelimit_crowdsec_last_pull_timestamp_seconds",
                Kind::Gauge,
                "When the local API of CrowdSec last answered.",
            )
            .value(seconds(pulled));
    }
}

fn daemon(exposition: &mut Exposition, snapshot: &Snapshot) {
    let status = &snapshot.status;
    exposition
        .family(
            "ratelimit_observe",
            Kind::Gauge,
            "Whether everything is a dry run.",
        )
        .value(u8::from(status.observe));
    exposition
        .family(
            "ratelimit_pass_all",
            Kind::Gauge,
            "Whether everything passes, by the word of an operator.",
        )
        .value(u8::from(status.pass_all.is_some()));
    exposition
        .family(
            "ratelimit_config_last_reload_successful",
            Kind::Gauge,
            "Whether the last attempt to apply the configuration succeeded.",
        )
        .value(u8::from(snapshot.reloads.error.is_none()));
    exposition
        .family(
            "ratelimit_config_last_reload_success_timestamp_seconds",
            Kind::Gauge,
            "When the configuration was last applied.",
        )
        .value(seconds(snapshot.reloads.applied));
    exposition
        .family(
            "ratelimit_database_damaged",
            Kind::Gauge,
            "Damaged databases that were put aside, in the directory of the database.",
        )
        .value(status.database.aside);
    exposition
        .family(
            "ratelimit_start_time_seconds",
            Kind::Gauge,
            "When the daemon started.",
        )
        .value(seconds(status.started));
    exposition
        .family(
            "ratelimit_clock",
            Kind::Info,
            "The clock that packets are judged by.",
        )
        .labelled(&[("clock", status.clock.clock.label())], 1);
    exposition
        .family("ratelimit_build", Kind::Info, "The version of the daemon.")
        .labelled(&[("version", &status.version)], 1);
}

/// The families that have sources.
fn families() -> impl Iterator<Item = AddressFamily> {
    [AddressFamily::Ipv4, AddressFamily::Ipv6].into_iter()
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
