//! A host: its clocks, its kernel, and the cluster's code where its daemon runs.

use std::collections::BTreeMap;

use ratelimit_cluster::budget::{Count, Division, Limit, Share, WindowUsage};
use ratelimit_cluster::cluster::Host;
use ratelimit_cluster::message::Secret;
use ratelimit_cluster::statements::{Bounds, Guard, Subject};
use ratelimit_cluster::{Cluster, Config, Memory, Millis, NodeName, Now};

use super::invariants::Used;

/// A key of the simulation.
pub type Key = Vec<u8>;

/// Keys from this first byte on are protected on every host.
pub const PROTECTED: u8 = 200;

/// The length of a period, in milliseconds.
pub const PERIOD: Millis = 1_000;

/// Bounds of each node.
pub const BOUNDS: Bounds = Bounds {
    per_minute: 600,
    at_once: 60,
    held: 80,
    longest: 3_600_000,
    revokers: 1,
};

/// The limits: keys 0 and 3 are divided equally, 1 and 4 in proportion, key 2 is a small one.
pub const LIMITS: [Limit; 5] = [
    limit(1000, Division::Equal, PERIOD),
    limit(1000, Division::Proportional, PERIOD),
    limit(50, Division::Equal, PERIOD),
    limit(1000, Division::Equal, WINDOW),
    limit(1000, Division::Proportional, WINDOW),
];

const fn limit(amount: u64, division: Division, window: Millis) -> Limit {
    Limit {
        amount,
        division,
        window,
    }
}

/// Keys from this one on have windows of [`WINDOW`] that begin with a packet. For the others, the
/// window is the period.
pub const WINDOWED: u8 = 3;

/// The length of such a window, in milliseconds.
pub const WINDOW: Millis = 4 * PERIOD;

/// A window of a key that is running, or was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    end: Millis,
    used: u64,
}

impl Window {
    /// The usage at `monotonic`.
    pub fn used(&self, monotonic: Millis) -> u64 {
        if monotonic < self.end { self.used } else { 0 }
    }
}

/// The state of the kernel: shares and counts.
#[derive(Default)]
pub struct Kernel {
    /// The shares as the daemon wrote them.
    pub shares: BTreeMap<Key, Share>,
    /// For each limit, the share of all other keys.
    pub defaults: Vec<Share>,
    /// The number of the period, and when it began.
    pub period: Option<(u64, Millis)>,
    /// The view and number of members by which the shares were divided, in this period and after
    /// it.
    pub divided_by: [(Option<u64>, u64); 2],
    counts: BTreeMap<Key, (u64, u64)>,
    /// The windows of keys from [`WINDOWED`] on.
    pub windows: BTreeMap<Key, Window>,
    /// The time of the monotonic clock.
    monotonic: Millis,
}

/// The usage of each node, by period and key.
pub type Ledger = BTreeMap<(u64, u8), BTreeMap<usize, Used>>;

impl Kernel {
    /// An offered packet passes or is refused; both are counted. Gives what passes.
    pub fn offer(
        &mut self,
        node: usize,
        is_alive: bool,
        monotonic: Millis,
        key: u8,
        amount: u64,
        ledger: &mut Ledger,
    ) -> u64 {
        self.monotonic = monotonic;
        let Some((entered, since)) = self.period else {
            return 0;
        };
        // A running daemon waits when the cluster's clock goes back; without a daemon the kernel
        // continues by itself.
        let over = ((monotonic - since) / PERIOD).min(if is_alive { 1 } else { u64::MAX });
        let share = self
            .shares
            .get(&vec![key])
            .or(self.defaults.get(usize::from(key)))
            .map_or(0, |share| share.at(monotonic));
        // The period after the last that the daemon began is divided as it was promised; nothing
        // was promised for later ones.
        let (view, size) = match over {
            0 => self.divided_by[0],
            1 => self.divided_by[1],
            _ => (None, self.divided_by[1].1),
        };
        let new = Used {
            share: 0,
            admitted: 0,
            view,
            size,
        };
        let used = ledger
            .entry((entered + over, key))
            .or_default()
            .entry(node)
            .or_insert(new);
        used.share = used.share.max(share);
        let window = self.windows.entry(vec![key]).or_default();
        let admitted = if key < WINDOWED {
            amount.min(share.saturating_sub(used.admitted))
        } else {
            if window.end <= monotonic {
                let end = monotonic + WINDOW;
                *window = Window { end, used: 0 };
            }
            amount.min(share.saturating_sub(window.used))
        };
        window.used += admitted;
        used.admitted += admitted;
        let (passed, refused) = self.counts.entry(vec![key]).or_default();
        *passed += admitted;
        *refused += amount - admitted;
        admitted
    }

    /// Takes over what the cluster says.
    pub fn write(
        &mut self,
        node: usize,
        cluster: &Cluster<Key>,
        monotonic: Millis,
        ledger: &mut Ledger,
    ) {
        self.monotonic = monotonic;
        self.divided_by = cluster.budget().divided_by();
        let period = cluster.budget().period();
        if let Some(period) =
            period.filter(|period| self.period.is_none_or(|(before, _)| before != *period))
        {
            self.period = Some((period, monotonic));
            // Its part of the next period is reserved for it by the others, whether it comes to use
            // it or not.
            let (view, size) = self.divided_by[1];
            for key in (0u8..).take(LIMITS.len()).filter(|_| view.is_some()) {
                ledger
                    .entry((period + 1, key))
                    .or_default()
                    .entry(node)
                    .or_insert(Used {
                        share: 0,
                        admitted: 0,
                        view,
                        size,
                    });
            }
        }
        self.shares = cluster
            .budget()
            .shares()
            .map(|(key, share)| (key.clone(), share))
            .collect();
        self.defaults = LIMITS
            .iter()
            .map(|limit| cluster.budget().default_share(limit))
            .collect();
    }
}

impl Guard<Key> for Kernel {
    fn permits(&self, subject: &Subject<Key>) -> Result<(), &'static str> {
        match subject {
            Subject::Ban(key) if key.first().is_some_and(|byte| *byte >= PROTECTED) => {
                Err("it is protected")
            }
            Subject::Ban(_) | Subject::Allow(_) | Subject::Limits(_) | Subject::Node(_) => Ok(()),
        }
    }
}

impl Host<Key> for Kernel {
    fn limit(&self, key: &Key) -> Option<Limit> {
        LIMITS.get(usize::from(*key.first()?)).copied()
    }

    fn limits(&self) -> u64 {
        1
    }

    fn counts(&mut self) -> Vec<Count<Key>> {
        let counts = core::mem::take(&mut self.counts);
        counts
            .into_iter()
            .map(|(key, (admitted, refused))| Count {
                key,
                admitted,
                refused,
                passed: admitted,
            })
            .collect()
    }

    fn held(&self, key: &Key, later: Millis) -> WindowUsage {
        let window = self.windows.get(key).copied().unwrap_or_default();
        let (now, then) = (self.monotonic, self.monotonic + later);
        let is_ending = window.end <= then;
        WindowUsage {
            then: window.used(then),
            ending: if is_ending { window.used(now) } else { 0 },
        }
    }
}

/// A host.
pub struct Node {
    /// Its place.
    pub place: usize,
    /// Its name.
    pub name: NodeName,
    /// The lead of its wall clock, in milliseconds.
    pub ahead: i64,
    /// The true time at which its monotonic clock began.
    pub booted: Millis,
    /// The cluster's code, while the daemon runs.
    pub cluster: Option<Cluster<Key>>,
    /// The memory that the daemon wrote before it stopped.
    pub memory: Memory<Key>,
    /// Its kernel.
    pub kernel: Kernel,
    /// The end of its isolation from the store.
    pub cut_until: Millis,
    /// The time at which its daemon stops hanging.
    pub hung_until: Millis,
    /// The time of the next start of its daemon.
    pub starts_at: Millis,
    /// The number of starts of its daemon.
    pub started: u32,
}

impl Node {
    /// The readings of its clocks at this true time.
    pub fn now(&self, now: Millis) -> Now {
        Now {
            wall: now.saturating_add_signed(self.ahead),
            monotonic: now - self.booted,
        }
    }

    /// Starts the daemon.
    pub fn start(&mut self, now: Millis) {
        let config = Config {
            node: self.name.clone(),
            secret: secret(),
            period: PERIOD,
            bounds: BOUNDS,
        };
        self.started += 1;
        self.cluster = Some(Cluster::new(config, self.now(now), self.memory.clone()));
    }

    /// Kills the daemon; its memory on disk and the kernel's state survive.
    pub fn kill(&mut self) {
        if let Some(cluster) = self.cluster.take() {
            self.memory = cluster.memory();
        }
    }
}

/// The secret of all.
pub fn secret() -> Secret {
    Secret::new(b"a secret of the simulation")
}
