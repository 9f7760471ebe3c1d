//! Assigns the sets of the `compact` table to limits.
//!
//! The policies in the kernel record which sets are in use, so a starting daemon finds the regions
//! and their usage again.
//!
//! A retired policy keeps its regions, because it may come back and its usage should survive. If
//! others need the room, it gets a smaller region for the highest usage, or none.

use std::collections::{BTreeMap, BTreeSet};

use ratelimit_common::{
    Limit, Policy,
    compact::{Region, SLOTS},
};

use crate::{
    intent::{Intent, WantedPolicy},
    ip_family::IpFamily,
    policies::{DEFAULT, Role, list_name},
    prefix::Prefix,
};

/// Slots for eight sources of a large region. With two bytes of the reserve, a source and limit
/// takes 20 bytes.
const SLOTS_PER_EIGHT: u64 = 9;

/// Regions of up to this many sets have two slots for each source, which costs little.
const ROOMY_SETS: u64 = 1024;

/// The default policy reserves one part in this many for limits that are added while the daemon
/// runs.
const RESERVE_PART: u64 = 8;

/// The least reserve, in sets: two regions in a small table, at 256 KiB for each family.
const RESERVE_SETS_MIN: u64 = 2 * ROOMY_SETS;

/// A region that is added at run time may be halved this often; its sources share more.
const HALVES_MAX: u32 = 5;

/// The same where other limits retire with the change: once they have, the region is moved to where
/// it has its full size.
const HALVES_MAX_MEANWHILE: u32 = 10;

/// The region of a retired policy may be halved this often.
const HALVES_MAX_RETIRED: u32 = 10;

/// The number of attacking sources that a further limit has room for: it is not known how many
/// there will be.
const LIMITED_SOURCES: u64 = 8192;

/// The table has no room for the region of a limit.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the compact store has no room for the limits of {policy}: {wanted} contiguous sets of {SLOTS} \
     slots needed, {free} free; restart ratelimitd to make room"
)]
pub struct NoRoom {
    policy: String,
    wanted: u32,
    free: u32,
}

/// The regions of the table: those of each scope, and those that are free.
#[derive(Clone, Debug)]
pub struct Regions {
    by_scope: BTreeMap<u32, Vec<Region>>,
    /// Scopes with their final regions.
    placed: BTreeSet<u32>,
    /// The sets that are free, by the first set of each range.
    free: BTreeMap<u32, u32>,
    /// Whether some of the allocated ones become free after the change.
    retiring: bool,
    small: BTreeSet<u32>,
    /// The policies that have retired, by index: their regions can be reused.
    retired: BTreeMap<u32, Policy>,
    /// The number of retired policies that had to make room, in the order of their indices.
    asked: u32,
    /// How often the regions of new scopes are halved from the start, so that all fit.
    halves: u32,
}

impl Regions {
    /// The regions that `policies` have in a table of `sets` sets, before a change after which
    /// there are those of `scopes`, and the regions of those that have `retired`.
    pub fn held<'a>(
        sets: u32,
        policies: impl Iterator<Item = &'a Policy>,
        retired: &BTreeMap<u32, Policy>,
        scopes: &BTreeSet<u32>,
    ) -> Self {
        let mut regions = Self {
            by_scope: BTreeMap::new(),
            placed: BTreeSet::new(),
            free: BTreeMap::from([(0, sets)]),
            retiring: false,
            small: BTreeSet::new(),
            retired: BTreeMap::new(),
            asked: 0,
            halves: 0,
        };
        for policy in policies.filter(|policy| is_placed(policy, sets)) {
            regions.take_all(policy);
            regions.retiring |= !scopes.contains(&policy.scope());
            regions.by_scope.insert(policy.scope(), of(policy));
        }
        for (index, policy) in retired {
            if is_placed(policy, sets) && !regions.by_scope.contains_key(&policy.scope()) {
                regions.take_all(policy);
                regions.by_scope.insert(policy.scope(), of(policy));
                regions.retired.insert(*index, *policy);
            }
        }
        regions
    }

    /// Returns the scopes whose regions are too small because others have not retired yet, and the
    /// retired policies with their remaining regions.
    pub fn into_parts(self) -> (BTreeSet<u32>, BTreeMap<u32, Policy>) {
        (self.small, self.retired)
    }

    /// Places all `policies`, each with its name and number of sources. Where one would find no
    /// room, the regions of all new ones are smaller.
    ///
    /// # Errors
    ///
    /// If there is no room for the smallest regions either.
    pub fn place_all(
        &self,
        policies: &mut [(&str, &mut Policy, u64)],
        moving: &BTreeSet<u32>,
    ) -> Result<Self, NoRoom> {
        let mut place_halved = |halves| {
            let mut regions = self.clone();
            regions.halves = halves;
            for (name, policy, sources) in policies.iter_mut() {
                **policy = regions.place(name, policy, *sources, moving)?;
            }
            Ok(regions)
        };
        (1..=self.halves_max()).fold(place_halved(0), |placed, halves| {
            placed.or_else(|refused| place_halved(halves).map_err(|_| refused))
        })
    }

    /// Returns how often a region that is added at run time may be halved.
    fn halves_max(&self) -> u32 {
        if self.retiring {
            HALVES_MAX_MEANWHILE
        } else {
            HALVES_MAX
        }
    }

    /// Returns the policy `name` with regions for the limits of `sources` sources: those of its
    /// scope, or new ones. If its scope is to be moved or returns, it gets regions of full size, if
    /// there is room.
    ///
    /// # Errors
    ///
    /// If there is no room.
    fn place(
        &mut self,
        name: &str,
        policy: &Policy,
        sources: u64,
        moving: &BTreeSet<u32>,
    ) -> Result<Policy, NoRoom> {
        let scope = policy.scope();
        let is_first = self.placed.insert(scope);
        let retired = self.retired.len();
        self.retired.retain(|_, retired| retired.scope() != scope);
        let comes_back = self.retired.len() < retired;
        if let Some(held) = self.by_scope.get(&scope) {
            let held = policy.in_regions(held);
            let may_move = is_first && (moving.contains(&scope) || comes_back);
            if !may_move || is_whole(&held, sources) {
                return Ok(held);
            }
            let larger = (self.halves == 0)
                .then(|| self.find_or_make_room(policy, sets_for(sources)))
                .flatten();
            if let Some(larger) = larger {
                self.by_scope.insert(scope, larger);
            } else if self.retiring {
                self.small.insert(scope);
            }
            return Ok(policy.in_regions(&self.by_scope[&scope]));
        }
        let wanted = sets_for(sources).div_ceil(1 << self.halves);
        let halves_max = self.halves_max() - self.halves;
        let placed = self
            .find_or_make_room(policy, wanted)
            .or_else(|| self.find_temporary(policy, wanted))
            .or_else(|| self.find(policy, wanted, halves_max))
            .or_else(|| {
                (1..=halves_max)
                    .map(|halves| wanted.div_ceil(1 << halves))
                    .find_map(|sets| self.find_or_make_room(policy, sets))
            })
            .ok_or_else(|| NoRoom {
                policy: name.to_owned(),
                wanted,
                free: self.free.values().copied().max().unwrap_or_default(),
            })?;
        let policy = policy.in_regions(&placed);
        if self.retiring && !is_whole(&policy, sources) {
            self.small.insert(policy.scope());
        }
        self.by_scope.insert(policy.scope(), placed);
        Ok(policy)
    }

    /// Finds temporary regions until others have retired: at most half of the free space, so that
    /// usage of retired policies still fits.
    fn find_temporary(&mut self, policy: &Policy, wanted: u32) -> Option<Vec<Region>> {
        if !self.retiring {
            return None;
        }
        let words = policy.limits().filter(|limit| !limit.is_log()).count();
        let free: u32 = self.free.values().sum();
        let sizes = (1..=HALVES_MAX_MEANWHILE).map(|halves| wanted.div_ceil(1 << halves));
        sizes
            .filter(|sets| *sets as usize * words <= free as usize / 2)
            .find_map(|sets| self.find(policy, sets, 0))
    }

    /// A region of full size for each limit, for which those that have retired make room: one of
    /// them if that does, else as many as it takes.
    fn find_or_make_room(&mut self, policy: &Policy, wanted: u32) -> Option<Vec<Region>> {
        if let Some(found) = self.find(policy, wanted, 0) {
            return Some(found);
        }
        let retired: Vec<u32> = self.retired.range(self.asked..).map(|it| *it.0).collect();
        for index in &retired {
            if let Some(found) = self.find_in_place_of(*index, policy, wanted) {
                self.asked = index + 1;
                return Some(found);
            }
        }
        let before = self.free.clone();
        for (count, index) in retired.iter().enumerate() {
            self.give(&self.retired[index].clone());
            if let Some(found) = self.find(policy, wanted, 0) {
                self.asked = index + 1;
                for gone in &retired[..=count] {
                    self.forget(*gone);
                }
                return Some(found);
            }
        }
        self.free = before;
        None
    }

    /// The same where the policy at `index`, which has retired, gets a smaller place, as large as
    /// can be, or goes.
    fn find_in_place_of(
        &mut self,
        index: u32,
        policy: &Policy,
        wanted: u32,
    ) -> Option<Vec<Region>> {
        let retired = self.retired[&index];
        let sets = of(&retired).iter().map(|region| region.sets()).max()?;
        let before = self.free.clone();
        for halves in 1..=HALVES_MAX_RETIRED {
            // In addition to its current place, from which it is copied.
            if let Some(smaller) = self.find(&retired, sets >> halves, 0) {
                self.give(&retired);
                if let Some(found) = self.find(policy, wanted, 0) {
                    let retired = retired.in_regions(&smaller);
                    self.by_scope.insert(retired.scope(), smaller);
                    self.retired.insert(index, retired);
                    return Some(found);
                }
            }
            self.free.clone_from(&before);
        }
        self.give(&retired);
        let found = self.find(policy, wanted, 0);
        match found {
            Some(_) => self.forget(index),
            None => self.free = before,
        }
        found
    }

    fn forget(&mut self, index: u32) {
        if let Some(gone) = self.retired.remove(&index) {
            self.by_scope.remove(&gone.scope());
        }
    }

    /// A region for each limit, all halved as often as it takes, or none.
    fn find(&mut self, policy: &Policy, wanted: u32, halves_max: u32) -> Option<Vec<Region>> {
        (0..=halves_max).find_map(|halves| {
            let before = self.free.clone();
            let regions: Option<Vec<Region>> = policy
                .limits()
                .map(|limit| {
                    if limit.is_log() {
                        Some(Region::default())
                    } else {
                        self.first_fit(wanted.div_ceil(1 << halves))
                    }
                })
                .collect();
            if regions.is_none() {
                self.free = before;
            }
            regions
        })
    }

    fn first_fit(&mut self, sets: u32) -> Option<Region> {
        let (first, _) = self.free.iter().find(|(_, free)| **free >= sets)?;
        let region = Region::new(*first, sets);
        self.take(region);
        Some(region)
    }

    fn take_all(&mut self, policy: &Policy) {
        for region in of(policy) {
            self.take(region);
        }
    }

    /// Frees the regions of a policy.
    fn give(&mut self, policy: &Policy) {
        for region in of(policy).iter().filter(|region| region.sets() > 0) {
            let (mut first, mut end) = (region.first_set(), region.end());
            if let Some((before, sets)) = self.free.range(..first).next_back()
                && before + sets == first
            {
                first = *before;
            }
            if let Some(sets) = self.free.remove(&end) {
                end += sets;
            }
            self.free.insert(first, end - first);
        }
    }

    /// Allocates a region.
    fn take(&mut self, region: Region) {
        let Some((first, sets)) = self.free.range(..=region.first_set()).next_back() else {
            return;
        };
        let (first, end) = (*first, *first + *sets);
        if region.sets() == 0 || region.end() > end {
            return;
        }
        self.free.remove(&first);
        for (first, end) in [(first, region.first_set()), (region.end(), end)] {
            if first < end {
                self.free.insert(first, end - first);
            }
        }
    }
}

/// The regions of a policy, in the order of its limits.
fn of(policy: &Policy) -> Vec<Region> {
    policy.limits().map(Limit::region).collect()
}

/// Whether the limits of a policy have regions in a table with this many sets.
pub fn is_placed(policy: &Policy, sets: u32) -> bool {
    let is_placed = |limit: &Limit| {
        let region = limit.region();
        limit.is_log() || (region.sets() > 0 && region.end() <= sets)
    };
    !policy.is_empty() && policy.limits().all(is_placed)
}

/// The sets of a table with room for all that is intended, and a reserve.
pub fn table_sets(intent: &Intent) -> u32 {
    let regions = intent.policies().into_iter().map(|policy| {
        let own = policy.limits.iter().filter(|_| policy.base.is_none());
        let own = own.map(|limit| (limit, sources_of(&policy, intent)));
        let further = policy.further.iter();
        let further = further.map(|limit| (limit, limited_sources(intent)));
        let words = own
            .chain(further)
            .filter(|(limit, _)| !limit.compile().is_log());
        words
            .map(|(_, sources)| u64::from(sets_for(sources)))
            .sum::<u64>()
    });
    let reserve = u64::from(intent.config.source.capacity) / RESERVE_PART / SLOTS as u64;
    let sets = regions.sum::<u64>() + reserve.max(RESERVE_SETS_MIN);
    u32::try_from(sets).unwrap_or(u32::MAX)
}

/// Returns the number of attacking sources with room under a further limit.
pub fn limited_sources(intent: &Intent) -> u64 {
    LIMITED_SOURCES.min(intent.config.source.capacity.into())
}

/// The most sources that a policy has state of under its own limits.
pub fn sources_of(policy: &WantedPolicy<'_>, intent: &Intent) -> u64 {
    let source = &intent.config.source;
    let capacity = u64::from(source.capacity);
    let within = |prefix: &Prefix| {
        let bits = match IpFamily::of(prefix.address()) {
            IpFamily::V4 => source.ipv4_prefix,
            IpFamily::V6 => source.ipv6_prefix,
        };
        2f64.powi(i32::from(bits.saturating_sub(prefix.len())))
    };
    let name = policy.base.as_deref().unwrap_or(&policy.name);
    let most = match policy.role {
        Role::Node | Role::Interface | Role::Destination(_) => 0.0,
        Role::Prefixes(_, length) => 2f64.powi(length.into()),
        Role::Sources if name == DEFAULT || intent.config.is_of_interface(name) => f64::INFINITY,
        // The database may have other prefixes tomorrow.
        Role::Sources if intent.config.lists.contains_key(&list_name(name)) => f64::INFINITY,
        // Each has a connection with this host.
        Role::Established => return limited_sources(intent),
        Role::Sources => intent.prefixes_of(name).iter().map(within).sum(),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count, cut off at the capacity"
    )]
    let most = most.ceil() as u64;
    most.min(capacity)
}

/// Whether the regions of a policy are large enough for this many sources.
pub fn is_whole(policy: &Policy, sources: u64) -> bool {
    let mut limits = policy.limits();
    limits.all(|limit| limit.is_log() || limit.region().sets() >= sets_for(sources))
}

/// Returns the number of sets for a limit with this many sources.
pub(super) fn sets_for(sources: u64) -> u32 {
    let slots = SLOTS as u64;
    let tight = (sources * SLOTS_PER_EIGHT).div_ceil(8 * slots);
    let roomy = (sources * 2).div_ceil(slots).min(ROOMY_SETS);
    u32::try_from(tight.max(roomy).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratelimit_common::{
        Unit,
        algorithm::{FixedWindow, SlidingLog},
    };

    use super::*;

    const NONE: BTreeSet<u32> = BTreeSet::new();

    #[test]
    fn regions_do_not_overlap_and_are_found_again() {
        let mut regions = empty(10_000);
        let policies: Vec<Policy> = (1..=5)
            .map(|scope| {
                regions
                    .place("", &policy(scope, 2), 1_000 * u64::from(scope), &NONE)
                    .unwrap()
            })
            .collect();
        let mut taken: Vec<Region> = policies
            .iter()
            .flat_map(Policy::limits)
            .map(Limit::region)
            .collect();
        taken.sort_by_key(|region| region.first_set());
        assert!(
            taken
                .windows(2)
                .all(|pair| pair[0].end() <= pair[1].first_set()),
            "{taken:?}"
        );
        let mut adopted = held(10_000, &policies, &[1, 2, 3, 4, 5]);
        for held in &policies {
            assert_eq!(
                adopted.place("", &policy(held.scope(), 2), 7, &NONE),
                Ok(*held)
            );
        }
        let other = adopted.place("", &policy(9, 1), 8, &NONE).unwrap();
        let other = other.limit(0).unwrap().region();
        assert!(
            taken.iter().all(
                |region| other.end() <= region.first_set() || region.end() <= other.first_set()
            )
        );
    }

    #[test]
    fn what_retires_is_free_for_the_next() {
        let first = empty(100).place("", &policy(1, 1), 400, &NONE).unwrap();
        let mut full = held(100, &[first], &[1]);
        assert!(full.place("", &policy(2, 1), 400, &NONE).is_err());
        let mut empty = empty(100);
        let second = empty.place("", &policy(2, 1), 400, &NONE).unwrap();
        assert_eq!(
            second.limit(0).unwrap().region(),
            first.limit(0).unwrap().region()
        );
    }

    #[test]
    fn a_table_without_room_says_how_much_is_wanted_and_how_much_is_free() {
        let mut regions = empty(10);
        let error = regions
            .place("partner", &policy(1, 1), 10_000, &NONE)
            .unwrap_err();
        let expected = "the compact store has no room for the limits of partner: 1407 contiguous \
                        sets of 8 slots needed, 10 free; restart ratelimitd to make room";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_region_that_does_not_fit_is_smaller_and_not_refused() {
        let mut regions = empty(400);
        let placed = regions.place("", &policy(1, 1), 10_000, &NONE).unwrap();
        assert_eq!(placed.limit(0).unwrap().region(), Region::new(0, 352));
    }

    #[test]
    fn what_takes_the_place_of_another_is_small_until_that_is_gone() {
        let first = empty(1_500)
            .place("", &policy(1, 1), 10_000, &NONE)
            .unwrap();
        let mut beside = held(1_500, &[first], &[2]);
        let second = beside.place("", &policy(2, 1), 10_000, &NONE).unwrap();
        assert!(!is_whole(&second, 10_000));
        assert_eq!(beside.into_parts().0, BTreeSet::from([2]));
        let mut alone = held(1_500, &[second], &[2]);
        let third = alone
            .place("", &policy(2, 1), 10_000, &BTreeSet::from([2]))
            .unwrap();
        assert!(is_whole(&third, 10_000));
        assert_eq!(third.limit(0).unwrap().region().first_set(), 0);
    }

    #[test]
    fn policies_that_come_at_once_are_all_smaller_where_the_last_would_find_no_room() {
        let stays = empty(1_500)
            .place("", &policy(1, 1), 10_000, &NONE)
            .unwrap();
        let scopes: Vec<u32> = (2..=20).collect();
        let regions = held(1_500, &[stays], &scopes);
        let mut placed: Vec<Policy> = scopes.iter().map(|scope| policy(*scope, 1)).collect();
        let mut parts: Vec<_> = placed.iter_mut().map(|it| ("", it, 10_000)).collect();
        let after = regions.place_all(&mut parts, &NONE).unwrap();
        assert_eq!(after.small, BTreeSet::from_iter(scopes));
        assert!(placed.iter().all(|policy| is_placed(policy, 1_500)));
    }

    #[test]
    fn a_sliding_log_takes_no_region() {
        let log = SlidingLog::new(5, Duration::from_secs(1)).unwrap();
        let logs = Policy::new(&[Limit::new(log, Unit::Packets)], 3, false).unwrap();
        let placed = empty(1).place("", &logs, 1 << 20, &NONE).unwrap();
        assert_eq!(placed, logs);
    }

    #[test]
    fn a_source_and_limit_takes_at_most_20_bytes() {
        for sources in [1u64 << 18, 1_000_000, 1 << 27] {
            let sets = u64::from(sets_for(sources)) + (sources / 64).max(RESERVE_SETS_MIN);
            assert!(sets * 128 <= 20 * sources, "{sets} for {sources}");
        }
    }

    /// The sources of ten thousand are counted by two policies in turns, in a table with room for
    /// one.
    #[test]
    fn what_has_retired_gets_a_smaller_place_when_another_needs_its_own() {
        let first = empty(2_000)
            .place("", &policy(1, 1), 10_000, &NONE)
            .unwrap();
        let mut held = [first, policy(2, 1)];
        let mut moving = BTreeSet::new();
        for turn in 0..6 {
            let (stays, comes) = (held[turn % 2], held[(turn + 1) % 2]);
            let scope = comes.scope();
            let retired = BTreeMap::from([(7, comes)]);
            // Next to the active policy, the other one returns with its old regions or smaller
            // ones.
            let mut beside =
                Regions::held(2_000, [stays].iter(), &retired, &BTreeSet::from([scope]));
            let small = beside.place("", &comes, 10_000, &moving).unwrap();
            moving = beside.into_parts().0;
            assert_eq!(moving, BTreeSet::from([scope]));
            // And when that one has retired.
            let retired = BTreeMap::from([(8, stays)]);
            let mut alone =
                Regions::held(2_000, [small].iter(), &retired, &BTreeSet::from([scope]));
            let whole = alone.place("", &small, 10_000, &moving).unwrap();
            assert!(is_whole(&whole, 10_000));
            let left = alone.into_parts().1[&8];
            let [region, left_region, meanwhile] = [&whole, &left, &small].map(|it| of(it)[0]);
            assert!(left_region.sets() > 80, "{left_region:?}");
            for other in [region, meanwhile] {
                assert!(
                    left_region.end() <= other.first_set()
                        || other.end() <= left_region.first_set()
                );
            }
            held[turn % 2] = left;
            held[(turn + 1) % 2] = whole;
            moving = BTreeSet::new();
        }
    }

    #[test]
    fn what_has_retired_goes_when_there_is_no_room_beside_it() {
        let first = empty(100).place("", &policy(1, 1), 400, &NONE).unwrap();
        let retired = BTreeMap::from([(3, first)]);
        let mut regions = Regions::held(100, [].iter(), &retired, &BTreeSet::from([2]));
        let second = regions.place("", &policy(2, 1), 400, &NONE).unwrap();
        assert!(is_whole(&second, 400));
        assert!(regions.into_parts().1.is_empty());
    }

    #[test]
    fn what_comes_back_finds_its_regions() {
        let first = empty(1_500).place("", &policy(1, 2), 1_000, &NONE).unwrap();
        let retired = BTreeMap::from([(3, first)]);
        let mut regions = Regions::held(1_500, [].iter(), &retired, &BTreeSet::from([1]));
        assert_eq!(regions.place("", &policy(1, 2), 1_000, &NONE), Ok(first));
        assert!(regions.into_parts().1.is_empty());
    }

    fn empty(sets: u32) -> Regions {
        held(sets, &[], &[])
    }

    fn held(sets: u32, policies: &[Policy], scopes: &[u32]) -> Regions {
        let scopes = scopes.iter().copied().collect();
        Regions::held(sets, policies.iter(), &BTreeMap::new(), &scopes)
    }

    fn policy(scope: u32, limits: usize) -> Policy {
        let window = FixedWindow::new(10, Duration::from_secs(1)).unwrap();
        Policy::new(
            &vec![Limit::new(window, Unit::Packets); limits],
            scope,
            false,
        )
        .unwrap()
    }
}
