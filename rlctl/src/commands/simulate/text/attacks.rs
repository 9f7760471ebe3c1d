//! Formats attacks that would have been named.

use ratelimit_core::{detection::Answer, simulation::answer::AttackRow};

use crate::{phrase, table::Table};

/// The number of sources to name.
const NAMED: usize = 3;

/// A line for each.
pub fn found(attacks: &[AttackRow]) -> String {
    if attacks.is_empty() {
        return "No attack would have been detected.".to_owned();
    }
    let mut table = Table::new("ATTACK | SUBJECT | >FROM | >TO | >PACKETS/S | >SOURCES | ANSWER");
    for attack in attacks {
        table.row([
            attack.kind.to_owned(),
            attack.subject.clone(),
            format!("{:.1}s", attack.start_seconds),
            format!("{:.1}s", attack.end_seconds),
            attack.packets_per_second.to_string(),
            attack.sources_seen.to_string(),
            answer(attack),
        ]);
    }
    let head = phrase::count(attacks.len(), "attack", "attacks");
    format!("{head} would have been detected:\n{table}")
}

fn answer(attack: &AttackRow) -> String {
    let verb = match attack.answer {
        Answer::Observe => return "observe".to_owned(),
        Answer::Limit => "limit",
        Answer::Ban => "ban",
    };
    let named: Vec<String> = attack
        .sources
        .iter()
        .take(NAMED)
        .map(ToString::to_string)
        .collect();
    match attack.sources.len() {
        0 => format!("{verb}: no source sends enough"),
        all if all > NAMED => format!("{verb} {} and {} more", named.join(", "), all - NAMED),
        _ => format!("{verb} {}", named.join(", ")),
    }
}
