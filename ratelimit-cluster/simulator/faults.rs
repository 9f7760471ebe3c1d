//! The faults of a run, and their times.

use ratelimit_cluster::Millis;

use super::random::Random;
use super::store::Network;

/// Faults begin and end at these times after the start; then all is well until [`LENGTH`].
pub const FROM: Millis = 6_000;
/// The end of faults.
pub const TO: Millis = 14_000;
/// The end of a run.
pub const LENGTH: Millis = 26_000;

/// A fault of a node, the store or a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node does not reach the store for so long.
    Cut(usize, Millis),
    /// The store is split in two, each half with the nodes before or from this one, until all is
    /// well.
    Split(usize),
    /// A node's daemon is killed, and started again so much later.
    Restart(usize, Millis),
    /// A node's daemon hangs for so long.
    Hang(usize, Millis),
    /// A node's wall clock is set.
    SetClock(usize, i64),
    /// The store's clock is set.
    SetStoreClock(i64),
    /// A replica of the store takes over.
    FailOver,
    /// The store loses everything.
    Flush,
}

/// The faults of a run.
#[derive(Clone, Debug)]
pub struct Faults {
    /// The number of nodes.
    pub nodes: usize,
    /// The faults and their times, in chronological order.
    pub events: Vec<(Millis, Fault)>,
    /// The network meanwhile.
    pub network: Network,
    /// The only fault: a partition cuts off this number of nodes.
    pub only_partition: Option<usize>,
}

impl Faults {
    /// Faults of a seed.
    pub fn draw(random: &mut Random) -> Self {
        let nodes = 2 + random.place(4);
        if random.percent(15) {
            return Self::partition(nodes, random);
        }
        let network = Network {
            loss: [0, 0, 5, 30][random.place(4)],
            twice: [0, 10][random.place(2)],
            delay: [50, 300, 900, 2_500][random.place(4)],
        };
        let count = random.below(5);
        let mut events: Vec<_> = (0..count)
            .map(|_| (FROM + random.below(TO - FROM), Fault::draw(nodes, random)))
            .collect();
        events.sort_by_key(|(at, _)| *at);
        Self {
            nodes,
            events,
            network,
            only_partition: None,
        }
    }

    fn partition(nodes: usize, random: &mut Random) -> Self {
        let mut behind = 1 + random.place(nodes - 1);
        let cut = |node| (FROM, Fault::Cut(nodes - 1 - node, TO - FROM));
        let mut events = (0..behind).map(cut).collect();
        if random.percent(50) {
            // If both halves have a store, the smaller half is cut off.
            events = vec![(FROM, Fault::Split(nodes - behind))];
            behind = behind.min(nodes - behind);
        }
        let network = Network {
            loss: 0,
            twice: 0,
            delay: 50,
        };
        Self {
            nodes,
            events,
            network,
            only_partition: Some(behind),
        }
    }
}

impl Fault {
    fn draw(nodes: usize, random: &mut Random) -> Self {
        let node = random.place(nodes);
        let length = 500 + random.below(7_000);
        match random.below(11) {
            0..3 => Self::Cut(node, length),
            3..5 => Self::Restart(node, length),
            5 => Self::Hang(node, length),
            6 => Self::SetClock(node, random.between(-5_000, 5_000)),
            7 => Self::SetStoreClock(random.between(-4_000, 4_000)),
            8 => Self::FailOver,
            9 => Self::Split(1 + random.place(nodes - 1)),
            _ => Self::Flush,
        }
    }
}
