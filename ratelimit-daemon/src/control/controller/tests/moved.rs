//! Regions of a `compact` table move, and the daemon dies at some step or the change fails: usage
//! is kept.

use ratelimit_common::compact::Region;
use ratelimit_core::{compile::regions::table_sets, intent::Intent};

use super::{
    retired::{compact, sliding},
    steps::State,
    *,
};

const SOURCES: [&str; 2] = ["8.8.8.8", "203.0.113.1"];

#[test]
fn a_daemon_that_dies_while_regions_move_leaves_what_was_used() {
    let mut unlimited = compact();
    unlimited.default_policy.limits.clear();
    let configs = [compact(), sliding(compact()), unlimited];
    let mut site = Site::new(&configs[0]);
    let (mut moved, mut came_back) = (0, 0);
    // The policy that retires first gets a smaller region to make room for the next one, and a
    // larger region when it comes back.
    for turn in 0..4 {
        let [from, to] = [turn, turn + 1].map(|at: usize| &configs[at % 3]);
        site.lab.replace(to.clone()).unwrap();
        let writes = site.lab.take_writes();
        let mut after = site.seen.clone();
        for write in &writes {
            after.take(write);
        }
        let lost = after.lost();
        for write in writes {
            if let Write::CopiedRegion(region, place) = &write {
                let is_in_force = site.seen.regions().contains(region);
                moved += usize::from(is_in_force);
                came_back += usize::from(!is_in_force && after.regions().contains(place));
            }
            site.seen.die(from, &write, &BTreeSet::new());
            site.seen.die(to, &write, &lost);
            site.seen.take(&write);
        }
        site.seen.forget(&lost);
        site.seen.send();
    }
    assert!(moved > 0 && came_back > 0, "{moved} and {came_back}");
}

#[test]
fn a_move_to_a_larger_region_that_fails_is_not_taken_for_one_that_was_made() {
    let mut site = Site::new(&compact());
    site.lab.switches().writes_left.insert("SETTINGS", 1);
    let mut config = sliding(compact());
    site.lab.replace(config.clone()).unwrap();
    site.follow();
    site.lab.refuse_settings(false);
    for amount in [7, 9] {
        config.default_policy.limits = vec![limit_by(amount, 1, Algorithm::SlidingWindow)];
        site.lab.replace(config.clone()).unwrap();
        site.follow();
    }
}

#[test]
fn a_change_that_fails_leaves_no_region_that_lacks_what_was_used() {
    let (before, after) = (compact(), sliding(compact()));
    for failures in 1..4 {
        let mut site = Site::new(&before);
        for (to, refused) in [(&after, false), (&before, true), (&before, false)] {
            site.lab.refuse_settings(refused);
            for _ in 0..if refused { failures } else { 1 } {
                assert_eq!(site.lab.replace(to.clone()).is_err(), refused);
                site.follow();
            }
        }
    }
}

struct Site {
    lab: Lab,
    seen: Seen,
}

impl Site {
    fn new(config: &Config) -> Self {
        let sets = table_sets(&Intent::new(config.clone()));
        let lab = Lab::with_sets(config.clone(), Some(sets));
        let mut seen = Seen {
            state: State::of(&lab),
            words: vec![None; sets as usize],
            used: BTreeMap::new(),
        };
        seen.send();
        Self { lab, seen }
    }

    /// Replays the writes, which must lose nothing, and sends packets.
    fn follow(&mut self) {
        for write in self.lab.take_writes() {
            self.seen.take(&write);
        }
        assert_eq!(self.seen.lost(), BTreeSet::new());
        self.seen.send();
    }
}

/// The tables as packets see them.
#[derive(Clone)]
struct Seen {
    state: State,
    /// The content of each set: the scope, and the usage.
    words: Vec<Option<(u32, u32)>>,
    /// The usage under each scope.
    used: BTreeMap<u32, u32>,
}

impl Seen {
    fn take(&mut self, write: &Write) {
        self.state.take(write);
        if let Write::Region(region) = write {
            self.fill(*region, None);
        } else if let Write::CopiedRegion(from, to) = write {
            let word = self.words[from.first_set() as usize];
            self.fill(*to, word);
        }
    }

    /// The daemon dies before `write`, packets come, and the next one starts with a configuration:
    /// all but what is `given_up` is there.
    fn die(&self, next: &Config, write: &Write, given_up: &BTreeSet<u32>) {
        let mut seen = self.clone();
        seen.send();
        let lab = seen.state.found_by(next);
        for write in lab.take_writes() {
            seen.take(&write);
        }
        let lost = seen.lost();
        assert!(lost.is_subset(given_up), "{lost:?} after {write:?}");
    }

    /// Packets use something under all that is in force.
    fn send(&mut self) {
        for policy in SOURCES.map(|address| self.state.policy_of(address)) {
            let scope = policy.scope();
            let used = self.used.entry(scope).or_default();
            *used += 1;
            let word = Some((scope, *used));
            for limit in policy.limits() {
                self.fill(limit.region(), word);
            }
        }
    }

    /// The scopes in force of which not all that was used is in their regions. Nothing else may be
    /// there.
    fn lost(&self) -> BTreeSet<u32> {
        let mut lost = BTreeSet::new();
        for policy in SOURCES.map(|address| self.state.policy_of(address)) {
            let scope = policy.scope();
            let expected = self.used.get(&scope).map(|used| (scope, *used));
            for region in policy.limits().map(ratelimit_common::Limit::region) {
                let sets = region.first_set() as usize..region.end() as usize;
                let words = &self.words[sets];
                assert!(words.iter().flatten().all(|word| word.0 == scope));
                if words.iter().any(|word| *word != expected) {
                    lost.insert(scope);
                }
            }
        }
        lost
    }

    fn forget(&mut self, lost: &BTreeSet<u32>) {
        self.used.retain(|scope, _| !lost.contains(scope));
    }

    /// The regions that packets are judged by.
    fn regions(&self) -> Vec<Region> {
        let policies = SOURCES.map(|address| self.state.policy_of(address));
        let limits = policies.iter().flat_map(Policy::limits);
        limits.map(ratelimit_common::Limit::region).collect()
    }

    fn fill(&mut self, region: Region, word: Option<(u32, u32)>) {
        self.words[region.first_set() as usize..region.end() as usize].fill(word);
    }
}
