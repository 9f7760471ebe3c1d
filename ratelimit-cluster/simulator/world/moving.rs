//! A source that goes from node to node while nothing goes wrong.

use super::super::faults::Faults;
use super::super::invariants::{Invariant, Violation};
use super::super::node::{LIMITS, PERIOD, WINDOW, WINDOWED};
use super::super::random::Random;
use super::{BEGIN, TICK, WELL, World};
use ratelimit_cluster::Millis;

/// The time until the nodes know each other.
const SETTLED: Millis = 10 * PERIOD;
/// The time that is counted after that.
const COUNTED: Millis = 30 * WINDOW;

/// Returns the admitted part, in thousandths, of a limit with a long window for a source that asks
/// for ten times as much. The source moves to a random other node after at least `stays`, and at
/// most `varies` later.
///
/// # Errors
/// More than the limit was used of the windows that were running on the nodes.
pub fn run_moving(seed: u64, stays: Millis, varies: Millis) -> Result<u64, Box<Violation>> {
    let mut random = Random(seed);
    let faults = Faults {
        nodes: 2 + random.place(4),
        events: Vec::new(),
        network: WELL,
        only_partition: None,
    };
    let mut world = World::with(seed, random, faults, false);
    let key = WINDOWED + u8::from(seed.is_multiple_of(2));
    let limit = LIMITS[usize::from(key)].amount;
    let (mut place, mut leaves, mut admitted) = (0, BEGIN, 0);
    while world.now < BEGIN + SETTLED + COUNTED {
        world.now += TICK;
        if world.now >= leaves {
            place = (place + 1) % world.nodes.len();
            leaves = world.now + stays + TICK * world.random.below((varies / TICK).max(1));
        }
        for (at, node) in world.nodes.iter_mut().enumerate() {
            let amount = if at == place { limit } else { 0 };
            let monotonic = world.now - node.booted;
            let ledger = &mut world.ledger;
            let passed = node.kernel.offer(at, true, monotonic, key, amount, ledger);
            if world.now > BEGIN + SETTLED {
                admitted += passed;
            }
        }
        if world.now > BEGIN + SETTLED {
            let used = world.used_in_windows(key);
            if used.iter().sum::<u64>() > limit {
                let what = format!("key {key}: {used:?}");
                world.fail(Invariant::WindowsWithinLimit, what)?;
            }
        }
        world.deliver()?;
        world.run_daemons();
        if world.now.is_multiple_of(1_000) {
            world.store.replicate();
        }
    }
    Ok(admitted * 1000 * WINDOW / (limit * COUNTED))
}
