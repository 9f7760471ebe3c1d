//! What is good to know about a simulation.

use crate::simulation::answer::Answer;

/// What is good to know.
pub fn notes(answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    let time = &answer.time;
    if answer.packets == 0 {
        notes.push("the capture has no packets".to_owned());
    }
    if answer.observe {
        notes.push("the configuration is a dry run: what is observed would pass".to_owned());
    }
    if answer.sources_seen > answer.sources_capacity as usize {
        notes.push(format!(
            "the capture has {} sources, of which the kernel would remember {} of a family (`[source] capacity`): \
             those that it forgets start anew, here they do not",
            answer.sources_seen, answer.sources_capacity
        ));
    }
    if time.backwards == 1 {
        notes.push(
            "1 packet is older than the one before, and was judged by its own time".to_owned(),
        );
    } else if time.backwards > 1 {
        let packets = time.backwards;
        notes.push(format!(
            "{packets} packets are older than the one before, and were judged by their own times"
        ));
    }
    if time.untimed > 0 {
        notes.push(format!(
            "packets without a time: {}, judged at the time of the one before",
            time.untimed
        ));
    }
    notes
}
