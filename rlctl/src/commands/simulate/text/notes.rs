//! Notes about a simulation.

use ratelimit_core::{config::StateStore, simulation::answer::Answer};

use crate::phrase;

pub fn notes(answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    let time = &answer.time;
    if answer.packets == 0 {
        notes.push("the capture has no packets".to_owned());
    }
    if answer.observe {
        notes.push("the configuration is a dry run: observed packets would pass".to_owned());
    }
    if answer.cut > 0 {
        let cut = phrase::count(answer.cut, "packet was", "packets were");
        notes.push(format!(
            "{cut} truncated by the capture; they count with their length on the wire"
        ));
    }
    if answer.cut_headers > 0 {
        let cut = phrase::count(answer.cut_headers, "packet", "packets");
        let is_truncated = answer.verdicts.iter().any(|row| row.reason == "truncated");
        let truncated = if is_truncated {
            "; those without addresses are `truncated` here, and not in the kernel"
        } else {
            ""
        };
        notes.push(format!(
            "{cut} have incomplete headers and may be missed by limits with `match`{truncated}: \
             capture with `tcpdump -s 128` or more"
        ));
    }
    if let Some(challenged) = answer.challenged.filter(|it| it.sources > 0) {
        notes.push(format!(
            "{} challenged; of these, {} later and would have been verified",
            phrase::count(challenged.sources, "source is", "sources are"),
            phrase::count(challenged.verified, "acknowledges", "acknowledge")
        ));
    }
    if answer.would_be_banned > 0 {
        let sources = phrase::count(answer.would_be_banned, "source", "sources");
        notes.push(format!(
            "policies would have banned {sources}; a dry run does not ban"
        ));
    }
    if answer.verdicts.iter().any(|row| row.reason == "banned") {
        notes.push(
            "protected addresses are not simulated; the daemon exempts them from bans (`rlctl list \
             protected`)"
                .to_owned(),
        );
    }
    if let Some(tick) = answer.tick {
        notes.push(format!(
            "the clock is coarse, with a tick of {} ms as on this machine",
            tick.as_secs_f64() * 1000.0
        ));
    }
    notes.extend(evicted(answer));
    if answer.bans_connected {
        notes.push(
            "captures do not show established connections: a `ban` without forgeable = \"ban\" \
             has no effect here"
                .to_owned(),
        );
    }
    if time.backwards > 0 {
        notes.push(phrase::count(
            time.backwards,
            "packet is out of order and was judged by its own time",
            "packets are out of order and were judged by their own times",
        ));
    }
    if time.untimed > 0 {
        notes.push(format!(
            "packets without a timestamp: {}, judged at the time of the previous packet",
            time.untimed
        ));
    }
    notes
}

/// Describes what happened to sources without room.
fn evicted(answer: &Answer) -> Option<String> {
    let Answer {
        evicted,
        sources_seen,
        sources_capacity,
        ..
    } = answer;
    let what = match answer.store {
        StateStore::Lru => {
            "the least recently seen source was evicted and starts with fresh counters"
        }
        StateStore::Compact => {
            "a new source took over a slot with its usage, and the evicted one shares the next slot"
        }
    };
    (*evicted > 0).then(|| {
        format!(
            "the capture has {sources_seen} sources, and there is room for {sources_capacity} of a \
             family (`[source] capacity`): {} {what}; the kernel does nearly the same",
            phrase::count(*evicted, "time", "times"),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratelimit_core::{
        capture::Packet,
        config,
        simulation::{Configured, Simulation},
    };

    use super::*;

    #[test]
    fn sources_that_lost_their_state_are_told_by_store() {
        check(
            "[source]\ncapacity = 7\n[policy.default]\nlimits = []",
            3,
            "the capture has 9 sources, and there is room for 7 of a family (`[source] capacity`): \
             3 times the least recently seen source was evicted",
        );
        check(
            "[source]\ncapacity = 7\nstore = \"compact\"\n[policy.default]\nlimits = []",
            1,
            "1 time a new source took over a slot with its usage",
        );
        let mut answer = answer("[policy.default]\nlimits = []");
        answer.sources_seen = 1_000_000;
        assert_eq!(notes(&answer).len(), 1, "only that there are no packets");
    }

    #[test]
    fn packets_cut_before_their_addresses_are_told_from_those_of_the_wire() {
        let reported = |captured_bytes: usize| {
            let mut frame = [0; 60];
            frame[12..14].copy_from_slice(&[0x08, 0x00]);
            frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
            frame[26..30].copy_from_slice(&[203, 0, 113, 7]);
            let packet = Packet {
                time_ns: Some(1),
                frame: &frame[..captured_bytes],
                frame_bytes: 60,
            };
            let mut simulation = simulation("[policy.default]\nlimits = []");
            simulation.packet(packet).unwrap();
            notes(&simulation.answer(1)).join("\n")
        };
        let cut = "1 packet was truncated by the capture";
        let truncated = "`truncated` here, and not in the kernel";
        assert_eq!(reported(60), "");
        let headers = reported(36);
        assert!(headers.contains(cut) && headers.contains("incomplete headers"));
        assert!(!headers.contains(truncated), "{headers}");
        let addresses = reported(26);
        assert!(
            addresses.contains(cut) && addresses.contains(truncated),
            "{addresses}"
        );
    }

    #[test]
    fn it_is_reported_that_nobody_is_connected_where_a_ban_asks_for_it() {
        let ban = |more: &str| {
            format!(
                "[policy.default]\nlimits = [{{ packets = 9, per = \"1s\" }}]\n\
                 ban = {{ after = 5, within = \"10s\", for = \"10m\"{more} }}"
            )
        };
        let reported = |config: &str| {
            notes(&answer(config))
                .join(" ")
                .contains("show established connections")
        };
        assert!(reported(&ban("")));
        assert!(!reported(&ban(", forgeable = \"ban\"")));
    }

    fn check(text: &str, evicted: u64, expected: &str) {
        let mut answer = answer(text);
        (answer.evicted, answer.sources_seen) = (evicted, 9);
        let reported = notes(&answer).join("\n");
        assert!(reported.contains(expected), "{reported}");
    }

    /// An answer without packets.
    fn answer(text: &str) -> Answer {
        simulation(text).answer(1)
    }

    fn simulation(text: &str) -> Simulation {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        let interface = "[[interface]]\nname = \"eth0\"";
        std::fs::write(&path, format!("{interface}\n{text}\n")).unwrap();
        let configured = Configured {
            config: config::load(&path).unwrap(),
            lists: Vec::new(),
            tick: Duration::from_millis(4),
        };
        Simulation::new(configured, None, None).unwrap()
    }
}
