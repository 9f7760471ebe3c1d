//! Whether answers can be explained: by some time within the bracket of each packet, and some order
//! of packets at once.
//!
//! Two CPUs judge packets at the same time. Their answers are right when there is an order, in
//! which none comes before a packet that was finished before it began, and in which each answer is
//! the definition's. This is linearizability (Herlihy and Wing, "Linearizability", 1990). The
//! search keeps all states that the packets so far can have led to; where it keeps too few it finds
//! too much wrong, and never too little.

use super::bracketed::{Bracket, Bracketed};

/// States that are kept at first.
const STATES: usize = 2_048;
/// States that are kept at most, where fewer find an answer wrong.
const STATES_MAX: usize = 32 * STATES;

/// A packet and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The time in which it was under way: of two packets whose times do not overlap here, one came
    /// first. The time at which a packet is judged says less, as another may be judged at a later
    /// time, and charged before it.
    pub under_way: Bracket,
    /// The time at which it was judged.
    pub at: Bracket,
    /// Whether it was admitted.
    pub is_admitted: bool,
}

/// The findings of a search.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Findings {
    /// Packets that were admitted, and that the definition refuses at any time and in any order.
    pub over_admitted: u64,
    /// Packets that were refused, and that the definition admits at any time and in any order.
    pub wrongly_refused: u64,
    /// Packets for which both answers can be explained.
    pub undecided: u64,
    /// Whether states were left out, so that what was found wrong may be right.
    pub is_cut_short: bool,
}

/// Explains the packets that each CPU judged in order, starting from the state `start`.
///
/// If a CPU was preempted, a packet has too many possible times to keep all states. An apparent
/// error is then searched again with more of them.
pub fn explain<D: Bracketed>(start: &D, by_cpu: &[Vec<Observation>; 2]) -> Findings {
    let mut kept = STATES;
    loop {
        let findings = search(start.clone(), by_cpu, kept);
        let is_right = findings.over_admitted + findings.wrongly_refused == 0;
        if is_right || !findings.is_cut_short || kept >= STATES_MAX {
            return findings;
        }
        kept *= 4;
    }
}

/// Explains the packets while keeping at most `states_max` states.
fn search<D: Bracketed>(start: D, by_cpu: &[Vec<Observation>; 2], states_max: usize) -> Findings {
    let mut findings = Findings::default();
    let mut worlds = vec![World {
        taken: [0, 0],
        state: start,
    }];
    let (mut next, mut states) = (vec![], vec![]);
    for _ in 0..by_cpu[0].len() + by_cpu[1].len() {
        let mut is_undecided = false;
        for world in &worlds {
            for cpu in world.first(by_cpu).into_iter().flatten() {
                let packet = by_cpu[cpu][world.taken[cpu]];
                world
                    .state
                    .follow(packet.at, !packet.is_admitted, &mut states);
                is_undecided |= !states.is_empty();
                states.clear();
                world
                    .state
                    .follow(packet.at, packet.is_admitted, &mut states);
                for state in states.drain(..) {
                    let is_kept = keep(&mut next, world.after(cpu, state), states_max);
                    findings.is_cut_short |= !is_kept;
                }
            }
        }
        if next.is_empty() {
            let (world, is_admitted) = worlds.swap_remove(0).forced(by_cpu);
            findings.over_admitted += u64::from(is_admitted);
            findings.wrongly_refused += u64::from(!is_admitted);
            next.push(world);
        } else {
            findings.undecided += u64::from(is_undecided);
        }
        worlds.clear();
        std::mem::swap(&mut worlds, &mut next);
    }
    findings
}

/// Adds a way unless it is known already, and drops those that it has in it. Whether there was room
/// for it.
fn keep<D: Bracketed>(worlds: &mut Vec<World<D>>, world: World<D>, states_max: usize) -> bool {
    if worlds.iter().any(|known| known.covers(&world)) {
        return true;
    }
    worlds.retain(|known| !world.covers(known));
    let has_room = worlds.len() < states_max;
    if has_room {
        worlds.push(world);
    }
    has_room
}

/// One way in which it can have been so far.
struct World<D> {
    /// The packets of each CPU that were judged.
    taken: [usize; 2],
    state: D,
}

impl<D: Bracketed> World<D> {
    /// The CPUs whose packet can be the next one; the likelier first.
    fn first(&self, by_cpu: &[Vec<Observation>; 2]) -> [Option<usize>; 2] {
        let packet = |cpu: usize| {
            by_cpu[cpu]
                .get(self.taken[cpu])
                .map(|packet| packet.under_way)
        };
        match (packet(0), packet(1)) {
            (Some(left), Some(right)) if left.latest_ns < right.earliest_ns => [Some(0), None],
            (Some(left), Some(right)) if right.latest_ns < left.earliest_ns => [Some(1), None],
            (Some(left), Some(right)) if left.latest_ns <= right.latest_ns => [Some(0), Some(1)],
            (Some(_), Some(_)) => [Some(1), Some(0)],
            (left, right) => [left.map(|_| 0), right.map(|_| 1)],
        }
    }

    fn covers(&self, other: &Self) -> bool {
        self.taken == other.taken && self.state.covers(&other.state)
    }

    fn after(&self, cpu: usize, state: D) -> Self {
        let mut taken = self.taken;
        taken[cpu] += 1;
        Self { taken, state }
    }

    /// Goes on after the likeliest packet although nothing explains its answer, which is reported.
    fn forced(mut self, by_cpu: &[Vec<Observation>; 2]) -> (Self, bool) {
        let mut cpus = self.first(by_cpu).into_iter().flatten();
        let cpu = cpus.next().expect("there is a packet that was not judged");
        let packet = by_cpu[cpu][self.taken[cpu]];
        self.state.force(packet.at, packet.is_admitted);
        self.taken[cpu] += 1;
        (self, packet.is_admitted)
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::exactness::{
        Arrivals, Load, bracketed,
        oracle::{self, Oracle},
    };

    const WINDOW_NS: u64 = 10_000;

    #[test]
    fn with_known_times_only_the_oracles_answers_are_explained() {
        for wrong in [None, Some(Admitted), Some(Refused)] {
            check_all(0, wrong);
        }
    }

    #[test]
    fn with_brackets_on_two_cpus_the_oracles_answers_are_explained() {
        for width_ns in [10, 300, 2_000] {
            check_all(width_ns, None);
        }
    }

    #[test]
    fn with_narrow_brackets_a_wrong_answer_is_found() {
        for wrong in [Admitted, Refused] {
            check_all(10, Some(wrong));
        }
    }

    /// An answer to a packet that the oracle answers otherwise.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Wrong {
        Admitted,
        Refused,
    }
    use Wrong::{Admitted, Refused};

    fn check_all(width_ns: u64, wrong: Option<Wrong>) {
        let (amount, window_ns, burst) = (20, WINDOW_NS, 7);
        let oracle = oracle::FixedWindow::new(amount, window_ns);
        check(
            oracle,
            &bracketed::FixedWindow::new(amount, window_ns),
            width_ns,
            wrong,
        );
        let oracle = oracle::SlidingLog::new(amount, window_ns);
        check(
            oracle,
            &bracketed::SlidingLog::new(amount, window_ns),
            width_ns,
            wrong,
        );
        let oracle = oracle::TokenBucket::new(amount, window_ns, burst);
        check(
            oracle,
            &bracketed::TokenBucket::new(amount, window_ns, burst),
            width_ns,
            wrong,
        );
    }

    /// Packets that the oracle answers, but for one, are explained but for that one.
    fn check<D: Bracketed>(
        mut oracle: impl Oracle,
        start: &D,
        width_ns: u64,
        wrong: Option<Wrong>,
    ) {
        let mut rng = Rng::with_seed(1);
        let mut by_cpu = [vec![], vec![]];
        let mut to_turn = wrong;
        let times = Arrivals::Poisson.times(Load::ALL[4], 20, WINDOW_NS, Rng::with_seed(2));
        let mut times: Vec<u64> = times.take(4_000).collect();
        times.dedup();
        for (number, at_ns) in times.into_iter().enumerate() {
            let at_ns = at_ns + 1_000_000;
            let mut is_admitted = oracle.admits(at_ns);
            let would_be = if is_admitted { Refused } else { Admitted };
            if number > 1_000 && to_turn == Some(would_be) {
                (is_admitted, to_turn) = (!is_admitted, None);
            }
            by_cpu[rng.usize(..2)].push((at_ns, is_admitted));
        }
        let by_cpu = by_cpu.map(|packets| bracketed(&mut rng, &packets, width_ns));
        let findings = explain(start, &by_cpu);
        let found = match wrong {
            None => findings.over_admitted + findings.wrongly_refused == 0,
            Some(Admitted) => findings.over_admitted > 0,
            Some(Refused) => findings.wrongly_refused > 0,
        };
        assert!(found, "{width_ns} {wrong:?} {findings:?}");
        assert_eq!(findings.undecided > 0, width_ns > 0, "{findings:?}");
    }

    /// Brackets around times, which do not overlap on one CPU.
    fn bracketed(rng: &mut Rng, packets: &[(u64, bool)], width_ns: u64) -> Vec<Observation> {
        let mut previous_ns = 0;
        let mut observations = vec![];
        for (number, &(at_ns, is_admitted)) in packets.iter().enumerate() {
            let next_ns = packets.get(number + 1).map_or(u64::MAX, |next| next.0);
            let at = Bracket {
                earliest_ns: previous_ns.max(at_ns - rng.u64(..=width_ns)),
                latest_ns: next_ns.min(at_ns + rng.u64(..=width_ns)),
            };
            previous_ns = at.latest_ns;
            observations.push(Observation {
                under_way: at,
                at,
                is_admitted,
            });
        }
        observations
    }
}
