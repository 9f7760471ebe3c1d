//! Random changes of limits, compared with a small model: usage survives all of them.

use std::net::IpAddr;

use proptest::prelude::*;
use ratelimit_common::{Policy, algorithm, compact::Region};

use super::*;

const SOURCES: [&str; 4] = ["203.0.113.7", "203.0.113.9", "198.51.100.1", "8.8.8.8"];
const TARGETS: [Option<&str>; 5] = [
    None,
    Some("203.0.113.0/24"),
    Some("203.0.113.7"),
    Some("198.51.100.0/24"),
    Some("198.51.0.0/16"),
];

#[derive(Clone, Debug)]
enum Step {
    Set(usize, u64),
    Unset(usize),
    /// A reload, an `apply` or a `rollback`: another configuration. Without an amount, the partner
    /// has no policy.
    Replace(u64, Option<u64>),
    Restart,
    Send(usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let amount = || 1u64..12;
    let target = || 0..TARGETS.len();
    let step = prop_oneof![
        3 => (target(), amount()).prop_map(|(target, amount)| Step::Set(target, amount)),
        2 => target().prop_map(Step::Unset),
        1 => (
            amount(), prop::option::of(amount()),
        ).prop_map(|(default, partner)| Step::Replace(default, partner)),
        1 => Just(Step::Restart),
        6 => (0..SOURCES.len(), 1u64..10).prop_map(|(source, packets)| Step::Send(source, packets)),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn nobody_gets_more_or_less_than_a_model_that_counts(
        which in 0usize..4, is_compact: bool, steps in steps(),
    ) {
        let mut bench = Bench::new(which, is_compact);
        for step in steps {
            bench.take(&step);
        }
    }
}

#[test]
fn each_algorithm_keeps_what_was_used_in_either_store_through_all_that_can_happen() {
    for (which, is_compact) in (0..4).flat_map(|which| [(which, false), (which, true)]) {
        let mut bench = Bench::new(which, is_compact);
        let [everybody, partner, host] = [0, 1, 2];
        for step in [
            Step::Send(0, 4),
            Step::Send(3, 9),
            Step::Set(everybody, 7),
            Step::Set(everybody, 8),
            Step::Set(partner, 6),
            Step::Send(0, 9),
            Step::Set(host, 9),
            Step::Send(0, 9),
            Step::Restart,
            Step::Set(host, 3),
            Step::Send(0, 9),
            Step::Unset(partner),
            Step::Send(1, 9),
            Step::Unset(host),
            Step::Send(0, 9),
            Step::Replace(11, Some(11)),
            Step::Send(0, 9),
            Step::Send(3, 9),
            Step::Unset(everybody),
            Step::Send(3, 9),
            Step::Replace(11, None),
            Step::Send(0, 9),
            Step::Restart,
            Step::Replace(11, Some(12)),
            Step::Send(0, 9),
            Step::Set(host, 12),
            Step::Send(0, 9),
        ] {
            bench.take(&step);
        }
    }
}

/// The daemon over tables in memory, packets that are judged by them, and the model.
struct Bench {
    lab: Lab,
    which: usize,
    config: Config,
    /// The state of sources, by where it is kept.
    words: BTreeMap<(Kept, IpAddr), u64>,
    /// The usage of sources, by state.
    used: BTreeMap<(String, usize), u64>,
    /// States whose policy was removed in between, so that their region may have been reused.
    gone: BTreeSet<(String, usize)>,
}

/// The location of state.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kept {
    Scope(u32),
    Region(u32),
}

impl Bench {
    fn new(which: usize, is_compact: bool) -> Self {
        let mut bench = Self {
            lab: Lab::with_sets(config(), is_compact.then_some(1 << 16)),
            which,
            config: config(),
            words: BTreeMap::new(),
            used: BTreeMap::new(),
            gone: BTreeSet::new(),
        };
        bench.take(&Step::Replace(8, Some(9)));
        bench
    }

    fn is_compact(&self) -> bool {
        self.lab.tables().sources.is_compact()
    }

    fn has_clock(&self) -> bool {
        self.which == 2
    }

    /// Windows are so long that nothing is over, and nothing flows in.
    fn limit(&self, amount: u64) -> LimitSpec {
        let bucket = Algorithm::TokenBucket { burst: amount };
        let algorithm = [
            Algorithm::FixedWindow,
            Algorithm::SlidingWindow,
            bucket,
            Algorithm::SlidingLog,
        ][self.which];
        limit_by(amount, 31 * 24 * 3600, algorithm)
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Set(target, amount) => {
                let limit = self.limit(*amount);
                self.lab.set_limit(TARGETS[*target], limit).unwrap();
            }
            Step::Unset(target) => {
                // There may be none.
                let _ = self.lab.unlimit(TARGETS[*target]);
            }
            Step::Replace(default, partner) => {
                self.config.default_policy.limits = vec![self.limit(*default)];
                self.config.policies = config().policies;
                match partner {
                    Some(amount) => {
                        let limit = self.limit(*amount);
                        self.config.policies.get_mut("partner").unwrap().limits = vec![limit];
                    }
                    None => self.config.policies.clear(),
                }
                self.lab.replace(self.config.clone()).unwrap();
                self.lab.config = self.config.clone();
            }
            Step::Restart => self.lab.start_again(),
            Step::Send(source, packets) => {
                for _ in 0..*packets {
                    self.send(*source);
                }
            }
        }
        self.follow_regions();
        self.forget();
    }

    /// A packet is admitted exactly where the model says so.
    fn send(&mut self, source: usize) {
        let address: IpAddr = SOURCES[source].parse().unwrap();
        let policy = self.lab.policy_of(SOURCES[source]);
        let key = (self.kept(&policy), address);
        let word = self.words.get(&key).copied().unwrap_or_default();
        let algorithm = policy.limit(0).unwrap().algorithm();
        // For a log from which nothing expires, only the number of times counts.
        let next = if let algorithm::Algorithm::SlidingLog(log) = algorithm {
            (word < log.amount()).then_some(word + 1)
        } else {
            algorithm.step(word, clock::now(), 1).ok()
        };
        let (owner, amount) = self.model_of(source);
        let used = self.used.entry((owner.clone(), source)).or_default();
        if self.gone.remove(&(owner.clone(), source)) && word == 0 {
            *used = 0;
        }
        let is_admitted = *used < amount;
        assert_eq!(
            next.is_some(),
            is_admitted,
            "{address} by {owner}: {used} of {amount}"
        );
        *used += u64::from(is_admitted);
        if let Some(next) = next {
            self.words.insert(key, next);
        }
    }

    fn kept(&self, policy: &Policy) -> Kept {
        let region = policy.limit(0).unwrap().region();
        if self.is_compact() && !policy.has_log() {
            assert!(region.sets() > 0);
            Kept::Region(region.first_set())
        } else {
            Kept::Scope(policy.scope())
        }
    }

    /// The owner of a source's state, and its expected amount.
    fn model_of(&self, source: usize) -> (String, u64) {
        let intent = &self.lab.state.intent;
        let address = Prefix::from(SOURCES[source].parse::<IpAddr>().unwrap());
        let partner = self.config.policies.get("partner");
        let partner = partner.filter(|_| prefix("203.0.113.0/24").covers(address));
        let configured = partner.unwrap_or(&self.config.default_policy);
        let owner = if partner.is_some() {
            "partner"
        } else {
            "default"
        };
        let runtime =
            |target: Option<Prefix>| intent.limits().get(&target.into()).map(|row| &row.limits);
        let mut around = address.supernets().rev();
        // Runtime limits of all others than the partner's sources are those of the default policy.
        let own = around.find_map(|outer| runtime(Some(outer)));
        let default = runtime(None).filter(|_| partner.is_none());
        let limits = own.or(default);
        let amount = limits.unwrap_or(&configured.limits)[0].amount();
        let mut owner = owner.to_owned();
        if self.has_clock() {
            // Each rate has a clock.
            let mut rate = default.unwrap_or(&configured.limits)[0].amount();
            for outer in address.supernets() {
                if let Some(limits) = runtime(Some(outer)) {
                    if limits[0].amount() != rate {
                        owner = outer.to_string();
                    }
                    rate = limits[0].amount();
                }
            }
        }
        (owner, amount)
    }

    /// Applies writes of regions to the modelled state.
    fn follow_regions(&mut self) {
        let writes = self.lab.take_writes();
        let first = |region: Region| Kept::Region(region.first_set());
        for write in writes {
            if let Write::Region(region) = write {
                self.words.retain(|(kept, _), _| *kept != first(region));
            } else if let Write::CopiedRegion(from, to) = write {
                let words = self.words.iter();
                let copied = words.filter(|((kept, _), _)| *kept == first(from));
                let copied = copied.map(|((_, address), word)| ((first(to), *address), *word));
                let copied: Vec<_> = copied.collect();
                self.words.extend(copied);
            }
        }
    }

    /// A policy that is gone may take its region along. In `lru` the kernel keeps its clock.
    fn forget(&mut self) {
        let policies = &self.lab.state.compiled.policies;
        let is_gone = |owner: &str| {
            policies
                .get(owner)
                .is_none_or(|named| named.has_state_of_another)
        };
        if self.is_compact() {
            let gone = self.used.keys().filter(|(owner, _)| is_gone(owner));
            self.gone.extend(gone.cloned());
        }
    }
}
