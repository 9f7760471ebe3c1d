//! Usage of limits that are removed and return, in a `compact` table.

use ratelimit_common::{Policy, compact::Region};
use ratelimit_core::{compile::regions::table_sets, intent::Intent};

use super::*;

#[test]
fn what_was_used_is_there_when_limits_come_back_also_after_a_crash() {
    let before = compact();
    let mut small = compact();
    small.source.capacity = 4_096;
    for (before, after) in [
        (before.clone(), sliding(before.clone())),
        (before.clone(), without_partner(before)),
        (small.clone(), without_partner(sliding(small))),
    ] {
        for restarts in 0..4 {
            let mut site = Site::new(&before);
            let scopes = site.scopes();
            site.put(&after, restarts & 1 != 0);
            site.put(&before, restarts & 2 != 0);
            assert_eq!(site.scopes(), scopes);
            assert_eq!(site.anew, Vec::<u32>::new(), "restarts {restarts}");
        }
    }
}

/// The room is for one of them, and the others are given up for it.
#[test]
fn limits_that_need_the_room_of_those_that_went_get_it() {
    let configs = [compact(), sliding(compact()), bucket(compact())];
    let mut site = Site::new(&configs[0]);
    for turn in 1..12 {
        site.put(&configs[turn % 3], turn % 4 == 0);
        let sets = site
            .lab
            .policy_of("8.8.8.8")
            .limit(0)
            .unwrap()
            .region()
            .sets();
        assert!(sets >= 1_407, "{sets} sets are too few for 10,000 sources");
    }
}

/// Whatever comes and goes, and whenever the daemon is started again, no limit reads words of
/// another one, and no two claim the same sets.
#[test]
fn no_limit_reads_the_words_of_another() {
    check_words(2);
}

#[test]
#[ignore = "thorough"]
fn no_limit_reads_the_words_of_another_in_many_orders() {
    check_words(60);
}

fn check_words(seeds: u64) {
    for seed in 0..seeds {
        let mut site = Site::new(&compact());
        for turn in 0..30u64 {
            let chance = (31 * seed + turn).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let mut config = compact();
            let changes = [sliding, bucket, without_partner, with_two];
            for (place, change) in changes.into_iter().enumerate() {
                if (chance >> (4 * place)).is_multiple_of(4) {
                    config = change(config);
                }
            }
            site.put(&config, (chance >> 16).is_multiple_of(4));
        }
    }
}

/// A controller, and the content of each set of the table.
struct Site {
    lab: Lab,
    /// The scope whose words there are.
    words: Vec<Option<u32>>,
    /// The policies as they were written.
    policies: BTreeMap<u32, Policy>,
    /// Scopes that were in force before, and have lost their usage.
    anew: Vec<u32>,
    seen: BTreeSet<u32>,
}

impl Site {
    fn new(config: &Config) -> Self {
        let sets = table_sets(&Intent::new(config.clone()));
        let lab = Lab::with_sets(config.clone(), Some(sets));
        let mut site = Self {
            lab,
            words: vec![None; sets as usize],
            policies: BTreeMap::new(),
            anew: Vec::new(),
            seen: BTreeSet::new(),
        };
        site.follow();
        site
    }

    /// Puts a configuration in force, and starts the daemon again if so.
    fn put(&mut self, config: &Config, restart: bool) {
        self.lab.replace(config.clone()).unwrap();
        self.follow();
        if restart {
            self.lab.restart_with(config.clone());
            self.follow();
        }
        assert_eq!(self.lab.state.enforce_all().unwrap(), 0);
    }

    /// Replays the writes, and has packets write words in all scopes in force.
    fn follow(&mut self) {
        let writes = self.lab.take_writes();
        for write in writes {
            match write {
                Write::Policy(index, policy) if *policy == Policy::default() => {
                    self.policies.remove(&index);
                }
                Write::Policy(index, policy) => {
                    self.policies.insert(index, *policy);
                    self.check_claims();
                }
                Write::Region(region) => self.fill(region, None),
                Write::CopiedRegion(from, to) => {
                    let word = self.words[from.first_set() as usize];
                    self.fill(to, word);
                }
                Write::Entry(..)
                | Write::Classes(_)
                | Write::Switched(_)
                | Write::Total(_)
                | Write::Settings(_)
                | Write::Attached => {}
            }
        }
        for policy in ["8.8.8.8", "203.0.113.1", "198.51.100.1"].map(|it| self.lab.policy_of(it)) {
            let scope = policy.scope();
            for limit in policy.limits() {
                let region = limit.region();
                let words = &self.words[region.first_set() as usize..region.end() as usize];
                let other = words.iter().flatten().find(|word| **word != scope);
                assert_eq!(other, None, "words of another scope than {scope}");
                if self.seen.contains(&scope) && words.iter().all(Option::is_none) {
                    self.anew.push(scope);
                }
                self.fill(region, Some(scope));
            }
            self.seen.insert(scope);
        }
    }

    fn fill(&mut self, region: Region, word: Option<u32>) {
        self.words[region.first_set() as usize..region.end() as usize].fill(word);
    }

    /// A daemon that starts at any time finds sets that one scope claims.
    fn check_claims(&self) {
        let mut claimed: Vec<(Region, u32)> = Vec::new();
        for policy in self.policies.values() {
            for region in policy.limits().map(ratelimit_common::Limit::region) {
                let overlaps = |other: &Region| {
                    other.first_set() < region.end() && region.first_set() < other.end()
                };
                let scope = policy.scope();
                let mut others = claimed.iter();
                let other = others.find(|(other, owner)| *owner != scope && overlaps(other));
                assert_eq!(other, None, "{region:?} of {scope}");
                claimed.push((region, scope));
            }
        }
    }

    fn scopes(&self) -> [u32; 2] {
        ["8.8.8.8", "203.0.113.1"].map(|address| self.lab.policy_of(address).scope())
    }
}

pub(super) fn compact() -> Config {
    let mut config = config();
    config.source.store = StateStore::Compact;
    config.source.capacity = 40_000;
    config
}

fn of(algorithm: Algorithm) -> LimitSpec {
    limit_by(10, 1, algorithm)
}

pub(super) fn sliding(mut config: Config) -> Config {
    config.default_policy.limits = vec![of(Algorithm::SlidingWindow)];
    config
}

fn bucket(mut config: Config) -> Config {
    config.default_policy.limits = vec![of(Algorithm::TokenBucket { burst: 20 })];
    config
}

fn without_partner(mut config: Config) -> Config {
    config.policies.clear();
    config
}

fn with_two(mut config: Config) -> Config {
    let limits = vec![of(Algorithm::FixedWindow), of(Algorithm::SlidingWindow)];
    let more = PolicyConfig {
        sources: vec![prefix("198.51.100.0/26")],
        limits,
        ..PolicyConfig::default()
    };
    config.policies.insert("more".to_owned(), more);
    config
}
