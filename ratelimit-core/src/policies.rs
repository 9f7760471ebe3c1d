//! The policies by name, and the indices under which the datapath knows them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    iter,
    net::IpAddr,
};

use ratelimit_common::{Instant, Limit, Policy, algorithm::Algorithm, layout::POLICIES_MAX};

use crate::{ban::BanSpec, class::Selected, ip_family::IpFamily, limit::LimitSpec, prefix::Prefix};

/// The name of the policy for sources that no other is for.
pub const DEFAULT: &str = "default";

/// The name of the policy of the node. No policy of a configuration can have it.
pub const NODE: &str = "[node]";

/// Returns the name of an interface's policy that replaces the node's. No configured policy can
/// have it.
pub fn interface_name(interface: &str) -> String {
    format!("[interface] {interface}")
}

/// The prefix of the names of policies for sources of attacks. A configured policy cannot have such
/// a name.
pub const DETECTED: &str = "[detected] ";

/// The name of the second allowance that the sources of a policy have for established connections.
/// No policy of a configuration can have it.
pub fn established_name(policy: &str) -> String {
    format!("[established] {policy}")
}

/// Returns the name of the list of the prefixes that a policy takes from a database. No other list
/// can have it.
pub fn list_name(policy: &str) -> String {
    format!("[policy.{policy}]")
}

/// Returns the policy whose database a list is read from, if its name is a [`list_name`].
pub fn policy_of_list(list: &str) -> Option<&str> {
    list.strip_prefix("[policy.")?.strip_suffix(']')
}

/// A policy under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Index in the datapath.
    pub index: u32,
    /// The role of its limits.
    pub role: Role,
    /// Compiled form for the datapath.
    pub policy: Policy,
    /// The limits as configured, followed by further ones.
    pub limits: Vec<LimitSpec>,
    /// The ban rule, as people write it.
    pub ban: Option<BanSpec>,
    /// The further limits, where it has some: a policy beside it.
    pub further: Option<Further>,
    /// Whether it has the state of another policy, for some of the sources of that.
    pub has_state_of_another: bool,
}

/// A part with state, with the name and role of its policy.
pub type Stateful<'a> = (&'a str, Role, Part<'a>);

/// Runtime limits for prefixes and have the state of the policy around them.
pub struct Sharing<'a>(BTreeMap<u32, BTreeMap<Prefix, Stateful<'a>>>);

impl<'a> Sharing<'a> {
    /// Whether there are some of this scope.
    pub fn has(&self, scope: u32) -> bool {
        self.0.contains_key(&scope)
    }

    /// Returns the limits that judge a source in this scope.
    pub fn at(&self, scope: u32, source: IpAddr) -> Option<Stateful<'a>> {
        let by_prefix = self.0.get(&scope)?;
        let mut around = Prefix::from(source).supernets().rev();
        around.find_map(|prefix| by_prefix.get(&prefix).copied())
    }
}

/// A policy of further limits, beside another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Further {
    /// Index in the datapath.
    pub index: u32,
    /// Compiled form for the datapath.
    pub policy: Policy,
}

/// Limits that have state together.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Compiled form for the datapath.
    pub policy: &'a Policy,
    /// The limits as people say them.
    pub limits: &'a [LimitSpec],
}

impl Part<'_> {
    /// Returns the algorithm that reads the words of the limit at `index` with the amount of
    /// `spec`. A token bucket uses its clock in the datapath.
    pub fn algorithm(&self, index: usize, spec: &LimitSpec, now: Instant) -> Algorithm {
        let algorithm = spec.compile().algorithm();
        let held = self.policy.limit(index).map(Limit::algorithm);
        held.map_or(algorithm, |held| algorithm.after(&held, now))
    }
}

impl Named {
    /// Returns its index, and that of the further limits.
    fn indices(&self) -> impl Iterator<Item = u32> + use<> {
        let further = self.further.map(|further| further.index);
        iter::once(self.index).chain(further)
    }

    /// Returns its limits, and the further ones.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let (own, further) = self.limits.split_at(self.policy.len());
        let own = Part {
            policy: &self.policy,
            limits: own,
        };
        let further = self.further.as_ref().map(|it| Part {
            policy: &it.policy,
            limits: further,
        });
        iter::once(own).chain(further)
    }
}

/// Whether a policy is that of sources that have part in an attack.
pub fn is_detected(name: &str) -> bool {
    name.starts_with(DETECTED)
}

/// The traffic that the limits of a policy apply to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// Limits of each of its sources.
    Sources,
    /// Second limits of each source, for packets of established connections that exceed the
    /// limits of its policy.
    Established,
    /// Limits of each prefix of a length.
    Prefixes(IpFamily, u8),
    /// All addresses of a prefix together, as destinations.
    Destination(Prefix),
    /// Limits of an interface, which replace the node's.
    Interface,
    /// Limits of the node.
    Node,
}

impl Role {
    /// The prefix around `address` whose limits they are; `None` where they are of no wider prefix.
    pub fn prefix_around(self, address: IpAddr) -> Option<Prefix> {
        let Self::Prefixes(family, length) = self else {
            return None;
        };
        let is_of_it = family == IpFamily::of(address);
        is_of_it.then(|| Prefix::around(address, length)).flatten()
    }

    /// Whether its limits are those of all packets together, of which CPUs draw shares.
    pub const fn is_total(self) -> bool {
        matches!(self, Self::Destination(_) | Self::Interface | Self::Node)
    }
}

/// The name of the policy for prefixes of a length. No policy of a configuration can have it.
pub fn aggregate_name(family: IpFamily, length: u8) -> String {
    match family {
        IpFamily::V4 => format!("[subnet] ipv4/{length}"),
        IpFamily::V6 => format!("[subnet] ipv6/{length}"),
    }
}

/// The name of the policy of a destination. No policy of a configuration can have it.
pub fn destination_name(prefix: Prefix) -> String {
    format!("[destination] {prefix}")
}

/// The policies in force, or the desired ones.
///
/// A policy is never changed in place, because packets in progress would see a mix. A policy with
/// other limits gets another index; then the entries that refer to it are changed atomically, one
/// by one.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    by_name: BTreeMap<String, Named>,
    /// The indices of all of them.
    taken: BTreeSet<u32>,
    /// The start of the search for a free index, so that an index is reused as late as possible.
    next: u32,
    /// An index that is given, and not yet by name.
    reserved: Option<u32>,
    /// The last policy with token buckets in the datapath for each scope. Its clocks are needed to
    /// read remaining words.
    clocks: BTreeMap<u32, Policy>,
}

/// The policies in the datapath.
pub struct Used<'a> {
    by_index: &'a BTreeMap<u32, Policy>,
    by_scope: HashMap<u32, Vec<u32>>,
}

impl<'a> Used<'a> {
    /// These, by index.
    pub fn new(by_index: &'a BTreeMap<u32, Policy>) -> Self {
        let mut by_scope: HashMap<u32, Vec<u32>> = HashMap::new();
        for (index, policy) in by_index {
            by_scope.entry(policy.scope()).or_default().push(*index);
        }
        Self { by_index, by_scope }
    }

    /// Returns the policies of a scope in the order of their indices.
    fn of_scope(&self, scope: u32) -> impl Iterator<Item = (u32, &'a Policy)> {
        let indices = self.by_scope.get(&scope).map_or(&[][..], Vec::as_slice);
        indices.iter().map(|index| (*index, &self.by_index[index]))
    }
}

/// More policies than the datapath holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "too many policies (maximum {POLICIES_MAX}); changed policies count twice during a reload: \
     change fewer at once"
)]
pub struct TooManyPolicies;

impl Policies {
    /// Assigns an index to `wanted` under a name: the index of that name if the policies are the
    /// same, otherwise a free one.
    ///
    /// `used` are the policies in the datapath. An index is free if none of them has it. An equal
    /// policy that exists from before a restart is adopted.
    ///
    /// # Errors
    ///
    /// If no index is free.
    pub fn assign(
        &mut self,
        name: &str,
        wanted: Named,
        used: &Used<'_>,
    ) -> Result<u32, TooManyPolicies> {
        let mut wanted = wanted;
        if let Some(further) = &mut wanted.further {
            let held = self.get(name).and_then(|named| named.further);
            let held = held.map(|held| (held.index, held.policy));
            further.index = self.index_for(&further.policy, held, used)?;
            self.reserved = Some(further.index);
            wanted.policy = wanted.policy.with_further(further.index);
        }
        let held = self.get(name).map(|named| (named.index, named.policy));
        let index = self.index_for(&wanted.policy, held, used);
        self.reserved = None;
        let index = index?;
        wanted.index = index;
        let indices = wanted.indices();
        if let Some(before) = self.by_name.insert(name.to_owned(), wanted) {
            for index in before.indices() {
                self.taken.remove(&index);
            }
        }
        self.taken.extend(indices);
        Ok(index)
    }

    /// Returns the index of a policy: that of an equal policy in `held`, otherwise a free one.
    #[expect(
        clippy::large_types_passed_by_value,
        reason = "a policy for each name, when a configuration is read"
    )]
    fn index_for(
        &mut self,
        wanted: &Policy,
        held: Option<(u32, Policy)>,
        used: &Used<'_>,
    ) -> Result<u32, TooManyPolicies> {
        if let Some((index, _)) = held.filter(|(_, policy)| policy == wanted) {
            return Ok(index);
        }
        let index = match self.adoptable(wanted, used) {
            Some(index) => index,
            None => self.free(used)?,
        };
        self.next = (index + 1) % POLICIES_MAX;
        Ok(index)
    }

    /// Remembers the clocks of the token buckets that are in the datapath.
    pub fn keep_clocks(&mut self, used: &Used<'_>) {
        let with_clocks = used.by_index.values().filter(|policy| policy.has_clock());
        self.clocks
            .extend(with_clocks.map(|policy| (policy.scope(), *policy)));
    }

    /// Returns the policy with token bucket clocks that continue at `now` from those of its scope.
    /// These are the clocks of `used`, the policies in the datapath or at the time it was removed.
    /// If the datapath has two of them, the one with the same rate counts.
    pub fn with_clocks(&self, policy: &Policy, used: &Used<'_>, now: Instant) -> Policy {
        let same = || used.of_scope(policy.scope()).map(|(_, it)| it);
        let mut at_its_rate = same().filter(|it| policy.has_rates_of(it));
        let before = at_its_rate.next().or_else(|| same().next());
        let policy = policy.after(before.or_else(|| self.clocks.get(&policy.scope())), now);
        at_its_rate.fold(policy, Policy::reading)
    }

    /// Keeps the names that `keep` says, and forgets the others.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.by_name.retain(|name, _| keep(name));
        self.taken = self.by_name.values().flat_map(Named::indices).collect();
    }

    /// The policy of a name.
    pub fn get(&self, name: &str) -> Option<&Named> {
        self.by_name.get(name)
    }

    /// The name and policy at an index.
    pub fn at(&self, index: u32) -> Option<(&str, &Named)> {
        self.iter().find(|(_, named)| named.index == index)
    }

    /// The name and policy whose bans have this scope.
    pub fn banning(&self, scope: u32) -> Option<(&str, &Named)> {
        // Sources that have part in an attack are banned as their policy says.
        let policies = self.iter().filter(|(name, _)| !is_detected(name));
        let banning =
            policies.filter(|(_, named)| named.policy.scope() == scope && named.ban.is_some());
        // Runtime limits with the state of the policy around them have its ban as well.
        banning.min_by_key(|(_, named)| named.has_state_of_another)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Named)> {
        self.by_name
            .iter()
            .map(|(name, named)| (name.as_str(), named))
    }

    /// Returns the number of policies for sources.
    pub fn of_sources(&self) -> usize {
        let named = self.by_name.values();
        named.filter(|named| named.role == Role::Sources).count()
    }

    /// The policy of the node for packets that come by an interface: that of the interface, where
    /// it has one.
    pub fn node_on(&self, interface: Option<&str>) -> Option<(&str, &Named)> {
        let own = interface.and_then(|name| self.by_name.get_key_value(&interface_name(name)));
        let found = own.or_else(|| self.by_name.get_key_value(NODE));
        found.map(|(name, named)| (name.as_str(), named))
    }

    /// The limits of prefixes of a family, the narrowest first, by name.
    pub fn of_prefixes(&self, wanted: IpFamily) -> Vec<(u8, &str, &Named)> {
        let all = self.iter().filter_map(|(name, named)| {
            let Role::Prefixes(family, length) = named.role else {
                return None;
            };
            (family == wanted).then_some((length, name, named))
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(length, ..)| std::cmp::Reverse(*length));
        all
    }

    /// The policies of destinations, with their prefixes.
    pub fn of_destinations(&self) -> impl Iterator<Item = (Prefix, &str, &Named)> {
        self.iter().filter_map(|(name, named)| match named.role {
            Role::Destination(prefix) => Some((prefix, name, named)),
            Role::Prefixes(..)
            | Role::Sources
            | Role::Established
            | Role::Interface
            | Role::Node => None,
        })
    }

    /// The policy of the only destination that has one.
    pub fn only_destination(&self) -> Option<(&str, &Named)> {
        let mut all = self.of_destinations();
        let (_, name, named) = all.next()?;
        all.next().is_none().then_some((name, named))
    }

    /// Returns the desired contents of the datapath, by index.
    pub fn by_index(&self) -> BTreeMap<u32, Policy> {
        let named = self.by_name.values();
        let all = named.flat_map(|named| {
            let further = named.further.map(|it| (it.index, it.policy));
            iter::once((named.index, named.policy)).chain(further)
        });
        all.collect()
    }

    /// Returns the parts with state by scope, with the name of the policy: attacking sources have
    /// the state of their policy, and further limits in addition.
    pub fn parts(&self) -> BTreeMap<u32, Stateful<'_>> {
        let (sharing, own): (Vec<_>, Vec<_>) =
            (self.iter()).partition(|(_, named)| named.has_state_of_another);
        let mut parts = BTreeMap::new();
        for (name, named) in own.into_iter().chain(sharing) {
            for part in named.parts() {
                let scope = part.policy.scope();
                parts.entry(scope).or_insert((name, named.role, part));
            }
        }
        parts
    }

    /// Limits of prefixes that have the state of the policy around them.
    pub fn sharing(&self) -> Sharing<'_> {
        let mut sharing: BTreeMap<u32, BTreeMap<Prefix, Stateful<'_>>> = BTreeMap::new();
        for (name, named) in self.iter().filter(|(_, named)| named.has_state_of_another) {
            let part = named.parts().next();
            if let (Ok(prefix), Some(part)) = (name.parse(), part) {
                let of_scope = sharing.entry(part.policy.scope()).or_default();
                of_scope.insert(prefix, (name, named.role, part));
            }
        }
        Sharing(sharing)
    }

    fn adoptable(&self, policy: &Policy, used: &Used<'_>) -> Option<u32> {
        let same = used.of_scope(policy.scope());
        let mut same = same.filter(|(_, used)| *used == policy);
        same.find_map(|(index, _)| (!self.is_taken(index)).then_some(index))
    }

    fn free(&self, used: &Used<'_>) -> Result<u32, TooManyPolicies> {
        (0..POLICIES_MAX)
            .map(|step| (self.next + step) % POLICIES_MAX)
            .find(|index| !self.is_taken(*index) && !used.by_index.contains_key(index))
            .ok_or(TooManyPolicies)
    }

    fn is_taken(&self, index: u32) -> bool {
        self.taken.contains(&index) || self.reserved == Some(index)
    }
}

/// Returns the scope of the state under a policy, independent of its position.
///
/// It is derived from the name and the meaning of the words, so it is the same after a restart and
/// usage survives. A change of an amount, a burst, or the window of a bucket or a log also keeps
/// it. Another algorithm or window, or a class of other packets does not, and usage is reset. Two
/// policies with the same scope (one pair in 2^32) matter only for a source that moves from one to
/// the other.
///
/// # Panics
///
/// Never: a class consists of lists and words, which JSON can represent.
pub fn scope<'a>(
    name: &str,
    limits: impl Iterator<Item = (&'a Limit, Option<&'a Selected>)>,
) -> u32 {
    let mut hash = Fnv(0x811c_9dc5);
    hash.write(name.as_bytes());
    for (limit, selected) in limits {
        hash.write(&[0xff, limit.unit() as u8]);
        for part in limit.algorithm().meaning() {
            hash.write(&part.to_le_bytes());
        }
        match selected {
            None => {}
            Some(Selected::Other) => hash.write(b"other"),
            Some(Selected::Class(class)) => {
                hash.write(&serde_json::to_vec(class).expect("lists and words"));
            }
        }
    }
    hash.0
}

/// FNV-1a, 64 bits.
pub fn wide_hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// FNV-1a, 32 bits (Fowler, Noll, Vo; RFC 9923): the standard library's hashes may change between
/// releases.
struct Fnv(u32);

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limit::{Algorithm, LimitUnit};

    #[test]
    fn other_limits_get_another_index_and_the_same_ones_keep_theirs() {
        let mut policies = Policies::default();
        let first = policies
            .assign("a", named("a", 10), &Used::new(&BTreeMap::new()))
            .unwrap();
        let used = policies.by_index();
        assert_eq!(
            policies.assign("a", named("a", 10), &Used::new(&used)),
            Ok(first)
        );
        let second = policies
            .assign("a", named("a", 2000), &Used::new(&used))
            .unwrap();
        assert_ne!(second, first);
        assert_ne!(
            policies.assign("b", named("b", 10), &Used::new(&used)),
            Ok(first)
        );
    }

    #[test]
    fn what_is_in_the_datapath_from_before_a_restart_is_taken_over() {
        let mut before = Policies::default();
        before
            .assign("x", named("x", 1), &Used::new(&BTreeMap::new()))
            .unwrap();
        let index = before
            .assign("a", named("a", 10), &Used::new(&BTreeMap::new()))
            .unwrap();
        let mut after = Policies::default();
        assert_eq!(
            after.assign("a", named("a", 10), &Used::new(&before.by_index())),
            Ok(index)
        );
    }

    #[test]
    fn an_amount_may_change_without_the_sources_losing_their_state() {
        let scope = |name, amount| named(name, amount).policy.scope();
        assert_eq!(scope("a", 600), scope("a", 1000));
        assert_eq!(scope("a", 600), scope("a", 60));
        assert_ne!(scope("a", 600), scope("b", 600));
    }

    fn named(name: &str, amount: u64) -> Named {
        let limit = limit(amount);
        let compiled = [limit.compile()];
        let scope = scope(name, compiled.iter().map(|limit| (limit, None)));
        Named {
            index: 0,
            role: Role::Sources,
            policy: Policy::new(&compiled, scope, false).unwrap(),
            limits: vec![limit],
            ban: None,
            further: None,
            has_state_of_another: false,
        }
    }

    fn limit(amount: u64) -> LimitSpec {
        LimitSpec::new(
            amount,
            LimitUnit::Packets,
            Duration::from_secs(1),
            Algorithm::FixedWindow,
        )
        .unwrap()
    }
}
