//! Allows, bans and policies of prefixes, compiled into one list entry for each.

mod exempt;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ratelimit_common::{
    Instant, ListEntry,
    list::{PolicyAction, Slots},
};

use self::exempt::Exemptions;
use crate::{ip_family::IpFamily, prefix::Prefix};

/// The expiry of a rule, and the slot that counts its packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counted {
    /// The expiry.
    pub until: Instant,
    /// The slot; 0 for none.
    pub slot: u16,
}

/// Returns the one that lasts longer; the later one of two that last equally long.
pub fn longer(one: Option<Counted>, other: Option<Counted>) -> Option<Counted> {
    let end = |counted: Option<Counted>| counted.map(|counted| counted.until);
    if end(other) >= end(one) { other } else { one }
}

/// A policy by its index, and the slot that counts the packets that meet it.
pub type CountedPolicy = (u32, u16);

/// The rules of a prefix itself.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Said {
    allowed: Option<Counted>,
    banned: Option<Counted>,
    policy: Option<CountedPolicy>,
    destination: Option<u32>,
    action: Option<PolicyAction>,
}

impl From<ListEntry> for Said {
    fn from(kept: ListEntry) -> Self {
        let slots = kept.slots();
        let counted = |slot| move |until| Counted { until, slot };
        Self {
            allowed: kept.allowed_until().map(counted(slots.allow())),
            banned: kept.banned_until().map(counted(slots.ban())),
            policy: kept.policy().map(|index| (index, slots.policy())),
            destination: kept.destination(),
            action: kept.action(),
        }
    }
}

impl Said {
    /// Returns the entry as the datapath stores it, in half of the memory. An allow ends there
    /// within a tick of its end.
    fn kept(self) -> ListEntry {
        let slot = |counted: Option<Counted>| counted.map_or(0, |counted| counted.slot);
        let (policy, of_policy) = self.policy.unzip();
        let slots = Slots::new(
            slot(self.allowed),
            slot(self.banned),
            of_policy.unwrap_or_default(),
        );
        let entry = ListEntry::new(false, self.banned.map(|banned| banned.until), policy);
        self.allowed
            .map_or(entry, |allowed| entry.with_allow_until(allowed.until))
            .counted_in(slots)
            .as_destination(self.destination)
            .with_action(self.action)
    }

    /// Combines the rules with those of a nested prefix.
    fn with(self, inner: &Self) -> Self {
        Self {
            allowed: longer(self.allowed, inner.allowed),
            banned: longer(self.banned, inner.banned),
            policy: inner.policy.or(self.policy),
            destination: inner.destination.or(self.destination),
            action: inner.action.or(self.action),
        }
    }
}

/// A statement about the addresses of a prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Statement {
    /// They are on the allow list until then.
    Allowed(Counted),
    /// They are banned until then.
    Banned(Counted),
    /// They are under this policy.
    Policy(CountedPolicy),
    /// Packets that go to them are under this policy.
    Destination(u32),
    /// The action of their policy on every packet.
    Action(PolicyAction),
}

impl Statement {
    fn said(self, said: Said) -> Said {
        match self {
            Self::Allowed(until) => Said {
                allowed: longer(said.allowed, Some(until)),
                ..said
            },
            Self::Banned(until) => Said {
                banned: longer(said.banned, Some(until)),
                ..said
            },
            Self::Policy(policy) => Said {
                policy: said.policy.or(Some(policy)),
                ..said
            },
            Self::Destination(policy) => Said {
                destination: said.destination.or(Some(policy)),
                ..said
            },
            Self::Action(action) => Said {
                action: said.action.or(Some(action)),
                ..said
            },
        }
    }
}

/// All statements, by prefix.
///
/// The datapath looks up only the longest match. So the entry of a prefix also includes the
/// statements about the prefixes around it: it is allowed or banned as long as one of them is, and
/// without its own policy it has that of the narrowest one around it. A protected prefix always has
/// an entry: bans around it or inside exempt it, unless they are forced, and so does a policy that
/// drops every packet.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Entries only in form: what prefixes around them say is not in there.
    said: BTreeMap<Prefix, ListEntry>,
    /// The number of prefixes of each length, to limit the search around a prefix.
    lengths: BTreeMap<(IpFamily, u8), usize>,
    exempt: Exemptions,
}

impl Rules {
    /// Builds the rules from statements. If a prefix has several bans or allows, the one that ends
    /// last applies, and the last of those that end together. If it has several policies, the first
    /// applies.
    pub fn of(statements: impl IntoIterator<Item = (Prefix, Statement)>) -> Self {
        let mut statements: Vec<_> = statements.into_iter().collect();
        statements.sort_by_key(|(prefix, _)| *prefix);
        let mut rules = Self::default();
        let same = statements.chunk_by(|(left, _), (right, _)| left == right);
        let said = same.map(|about| {
            let said = about
                .iter()
                .fold(Said::default(), |said, (_, statement)| statement.said(said));
            (about[0].0, said.kept())
        });
        rules.said = said.collect();
        for prefix in rules.said.keys() {
            let length = (IpFamily::of(prefix.address()), prefix.len());
            *rules.lengths.entry(length).or_default() += 1;
        }
        rules
    }

    /// Sets the rules of a prefix, except forced bans.
    pub fn set(
        &mut self,
        prefix: Prefix,
        allowed: Option<Counted>,
        banned: Option<Counted>,
        policy: Option<CountedPolicy>,
    ) {
        self.change(prefix, |said| {
            *said = Said {
                allowed,
                banned,
                policy,
                ..*said
            };
        });
    }

    /// Puts packets that go to a prefix under a policy, or under that of the prefix around it.
    pub fn set_destination(&mut self, prefix: Prefix, policy: Option<u32>) {
        self.change(prefix, |said| said.destination = policy);
    }

    /// Sets the action of the policy of a prefix on every packet; `None` inherits the action of the
    /// wider prefix.
    pub fn set_action(&mut self, prefix: Prefix, action: Option<PolicyAction>) {
        self.change(prefix, |said| said.action = action);
    }

    /// Sets the expiry of a forced ban of a prefix, which is one of those of [`set`](Self::set).
    pub fn set_forced_ban(&mut self, prefix: Prefix, until: Option<Counted>) {
        self.exempt.set_forced(prefix, until);
    }

    /// Protects exactly these prefixes, and returns those that changed.
    pub fn set_protected(&mut self, protected: BTreeSet<Prefix>) -> Vec<Prefix> {
        let before = self.exempt.protected();
        let different = before.symmetric_difference(&protected).copied().collect();
        self.exempt.set_protected(protected);
        different
    }

    /// The protected prefixes that a ban around them stops at.
    pub fn exempt(&self) -> impl Iterator<Item = Prefix> + '_ {
        let protected = self.exempt.protected().iter().copied();
        protected.filter(|prefix| {
            let banned = self
                .around(*prefix)
                .filter_map(|(_, said)| said.banned)
                .map(|banned| banned.until)
                .max();
            let forced = self.exempt.forced_around(*prefix);
            banned > forced.map(|forced| forced.until)
        })
    }

    /// Returns the entry that the datapath needs for `prefix`; `None` if the prefix itself has no
    /// rule.
    pub fn entry(&self, prefix: Prefix) -> Option<ListEntry> {
        self.is_named(prefix).then(|| self.sum(prefix))
    }

    /// Returns the rules of the addresses of `prefix`, including those of wider prefixes.
    pub fn sum(&self, prefix: Prefix) -> ListEntry {
        let around = self.around(prefix);
        let sum = around.fold(Said::default(), |sum, (_, said)| sum.with(&said));
        self.entry_of(prefix, sum)
    }

    /// Returns the longest matching prefix of `address` and its entry, as the datapath finds it.
    pub fn longest_match(&self, address: IpAddr) -> Option<(Prefix, ListEntry)> {
        let said = self.around(address.into()).last();
        let said = said.map(|(prefix, _)| prefix);
        let named = said.into_iter().chain(self.exempt.around(address));
        let prefix = named.max_by_key(|prefix| prefix.len())?;
        Some((prefix, self.sum(prefix)))
    }

    /// Returns the prefixes whose entries depend on the rules of `prefix`: itself and nested ones.
    pub fn within(&self, prefix: Prefix) -> impl Iterator<Item = Prefix> + '_ {
        let from_here = self.said.range(prefix..).map(|(inner, _)| *inner);
        let said = from_here.take_while(move |inner| prefix.covers(*inner));
        said.chain(self.only_protected().filter(move |own| prefix.covers(*own)))
    }

    /// Every prefix with the entry that the datapath needs, in the order of prefixes: the wider
    /// ones before those inside.
    pub fn entries(&self) -> Vec<(Prefix, ListEntry)> {
        let protected = self.only_protected();
        let mut entries: Vec<_> = protected.map(|prefix| (prefix, self.sum(prefix))).collect();
        entries.reserve_exact(self.said.len());
        // The accumulated rules of wider prefixes, the widest first.
        let mut around: Vec<(Prefix, Said)> = Vec::new();
        for (prefix, said) in &self.said {
            while around.pop_if(|(outer, _)| !outer.covers(*prefix)).is_some() {}
            let outer = around.last().map(|(_, sum)| *sum).unwrap_or_default();
            let sum = outer.with(&Said::from(*said));
            around.push((*prefix, sum));
            entries.push((*prefix, self.entry_of(*prefix, sum)));
        }
        entries.sort_unstable_by_key(|(prefix, _)| *prefix);
        entries
    }

    /// Returns the entry of a prefix with these rules, including those of the prefixes around it.
    fn entry_of(&self, prefix: Prefix, sum: Said) -> ListEntry {
        if !self.exempt.is_protected(prefix) {
            let action = sum.action.filter(|action| *action != PolicyAction::Limit);
            return Said { action, ..sum }.kept();
        }
        let banned = self.exempt.forced_around(prefix);
        let action = None;
        let said = Said {
            banned,
            action,
            ..sum
        };
        said.kept().protected()
    }

    /// Whether the datapath has an entry for just this prefix.
    fn is_named(&self, prefix: Prefix) -> bool {
        self.said.contains_key(&prefix) || self.exempt.protected().contains(&prefix)
    }

    /// Returns the protected prefixes without other rules.
    fn only_protected(&self) -> impl Iterator<Item = Prefix> + '_ {
        let protected = self.exempt.protected().iter().copied();
        protected.filter(|prefix| !self.said.contains_key(prefix))
    }

    /// Returns the rules of `prefix` and wider prefixes, the widest first.
    fn around(&self, prefix: Prefix) -> impl Iterator<Item = (Prefix, Said)> {
        let family = IpFamily::of(prefix.address());
        let lengths = self.lengths.range((family, 0)..=(family, prefix.len()));
        lengths.filter_map(move |((_, length), _)| {
            let outer = Prefix::around(prefix.address(), *length)?;
            self.said.get(&outer).map(|said| (outer, Said::from(*said)))
        })
    }

    fn change(&mut self, prefix: Prefix, change: impl FnOnce(&mut Said)) {
        let before = self.said.get(&prefix).copied();
        let mut said = Said::from(before.unwrap_or_default());
        change(&mut said);
        let length = (IpFamily::of(prefix.address()), prefix.len());
        match (before.is_some(), said != Said::default()) {
            (true, false) => {
                self.said.remove(&prefix);
                let count = self.lengths.entry(length).or_default();
                *count -= 1;
                if *count == 0 {
                    self.lengths.remove(&length);
                }
            }
            (false, false) => {}
            (existed, true) => {
                self.said.insert(prefix, said.kept());
                if !existed {
                    *self.lengths.entry(length).or_default() += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::FOREVER;

    impl Rules {
        /// Puts a prefix on the allow list, or takes it off.
        pub fn set_allowed(&mut self, prefix: Prefix, allowed: bool) {
            let until = allowed.then_some(FOREVER).map(uncounted);
            self.change(prefix, |said| said.allowed = until);
        }

        /// Bans a prefix until a time, or ends its ban.
        pub fn set_ban(&mut self, prefix: Prefix, until: Option<Instant>) {
            self.change(prefix, |said| said.banned = until.map(uncounted));
        }

        /// Puts the sources of a prefix under a policy, or under that of the prefix around it.
        pub fn set_policy(&mut self, prefix: Prefix, policy: Option<u32>) {
            self.change(prefix, |said| said.policy = policy.map(|index| (index, 0)));
        }
    }

    fn uncounted(until: Instant) -> Counted {
        Counted { until, slot: 0 }
    }

    #[test]
    fn rules_of_many_statements_are_those_of_one_after_the_other() {
        let texts = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.0/24",
            "10.1.2.3",
            "10.2.0.0/16",
            "2001:db8::/32",
        ];
        let prefixes = texts.map(prefix);
        let [wide, _, narrow, address, beside, ipv6] = prefixes;
        let statements = [
            (narrow, Statement::Policy((3, 0))),
            (address, Statement::Banned(uncounted(at(9)))),
            (wide, Statement::Banned(uncounted(at(5)))),
            (address, Statement::Allowed(uncounted(FOREVER))),
            (narrow, Statement::Policy((4, 0))),
            (wide, Statement::Banned(uncounted(at(7)))),
            (wide, Statement::Policy((1, 0))),
            (beside, Statement::Allowed(uncounted(at(3)))),
            (beside, Statement::Allowed(uncounted(FOREVER))),
            (ipv6, Statement::Banned(uncounted(at(1)))),
        ];
        let mut bulk = Rules::of(statements);
        let mut single = Rules::default();
        single.set_policy(narrow, Some(3));
        single.set_ban(address, Some(at(9)));
        single.set_allowed(address, true);
        single.set_ban(wide, Some(at(7)));
        single.set_policy(wide, Some(1));
        single.set_allowed(beside, true);
        single.set_ban(ipv6, Some(at(1)));
        for rules in [&mut bulk, &mut single] {
            rules.set_protected([narrow, prefix("192.0.2.1")].into());
        }
        assert_eq!(bulk.lengths, single.lengths);
        assert_eq!(bulk.entries(), single.entries());
        let one_by_one = single
            .entries()
            .into_iter()
            .map(|(prefix, _)| (prefix, single.entry(prefix).unwrap()));
        assert_eq!(one_by_one.collect::<Vec<_>>(), single.entries());
        assert_eq!(single.entries().len(), 6);
    }

    #[test]
    fn an_entry_carries_what_the_prefixes_around_it_say() {
        let mut rules = Rules::default();
        rules.set_ban(prefix("10.0.0.0/8"), Some(at(50)));
        rules.set_policy(prefix("10.1.0.0/16"), Some(7));
        rules.set_allowed(prefix("10.1.2.3"), true);
        check(&rules, "10.9.9.9", false, Some(50), None);
        check(&rules, "10.1.9.9", false, Some(50), Some(7));
        check(&rules, "10.1.2.3", true, Some(50), Some(7));
        assert_eq!(rules.longest_match("11.0.0.1".parse().unwrap()), None);
    }

    #[test]
    fn an_allow_holds_as_long_as_the_longest_around_it() {
        let mut rules = Rules::default();
        rules.set(
            prefix("10.0.0.0/8"),
            Some(uncounted(second(50))),
            None,
            None,
        );
        let [allowed, banned] = [second(10), FOREVER].map(|until| Some(uncounted(until)));
        rules.set(prefix("10.1.2.3"), allowed, banned, None);
        let until = |rules: &Rules| rules.entry(prefix("10.1.2.3")).unwrap().allowed_until();
        assert!(until(&rules) >= Some(second(50)) && until(&rules) < Some(second(51)));
        rules.set(prefix("10.0.0.0/8"), None, None, None);
        let entry = rules.entry(prefix("10.1.2.3")).unwrap();
        assert!(entry.is_allowed(second(9)) && !entry.is_allowed(second(11)));
        assert!(entry.is_banned(second(11)));
    }

    #[test]
    fn packets_are_counted_for_the_ban_that_lasts_longest() {
        let counted = |seconds, slot| {
            let until = second(seconds);
            Some(Counted { until, slot })
        };
        let mut rules = Rules::default();
        rules.set(
            prefix("10.0.0.0/8"),
            counted(5, 1),
            counted(50, 2),
            Some((7, 4)),
        );
        rules.set(prefix("10.1.0.0/16"), None, counted(40, 3), None);
        rules.set(prefix("10.2.0.0/16"), None, counted(50, 5), Some((8, 6)));
        for (text, slots) in [
            ("10.0.0.0/8", Slots::new(1, 2, 4)),
            ("10.1.0.0/16", Slots::new(1, 2, 4)),
            ("10.2.0.0/16", Slots::new(1, 5, 6)),
        ] {
            assert_eq!(rules.entry(prefix(text)).unwrap().slots(), slots, "{text}");
        }
        rules.set_forced_ban(prefix("10.0.0.0/8"), counted(9, 9));
        rules.set_protected([prefix("10.2.0.0/16")].into());
        let entry = rules.entry(prefix("10.2.0.0/16")).unwrap();
        assert_eq!(entry.slots(), Slots::new(1, 9, 6));
    }

    #[test]
    fn a_destination_is_that_of_the_narrowest_prefix_beside_all_that_is_said_of_sources() {
        let mut rules = Rules::of([
            (prefix("10.0.0.0/8"), Statement::Destination(3)),
            (prefix("10.1.0.0/16"), Statement::Banned(uncounted(at(9)))),
            (prefix("10.1.2.0/24"), Statement::Destination(4)),
        ]);
        rules.set_protected([prefix("10.1.2.3")].into());
        let destination = |rules: &Rules, text: &str| {
            let (_, entry) = rules.longest_match(text.parse().unwrap()).unwrap();
            (entry.destination(), entry.banned_until())
        };
        assert_eq!(destination(&rules, "10.9.9.9"), (Some(3), None));
        assert_eq!(destination(&rules, "10.1.9.9"), (Some(3), Some(at(9))));
        assert_eq!(destination(&rules, "10.1.2.9"), (Some(4), Some(at(9))));
        assert_eq!(destination(&rules, "10.1.2.3"), (Some(4), None));
        rules.set(prefix("10.1.2.0/24"), None, None, Some((7, 0)));
        assert_eq!(destination(&rules, "10.1.2.9"), (Some(4), Some(at(9))));
        rules.set_destination(prefix("10.1.2.0/24"), None);
        assert_eq!(destination(&rules, "10.1.2.9"), (Some(3), Some(at(9))));
    }

    #[test]
    fn the_longest_ban_holds_whichever_prefix_it_is_of() {
        let mut rules = Rules::default();
        rules.set_ban(prefix("2001:db8::/32"), Some(at(90)));
        rules.set_ban(prefix("2001:db8::1"), Some(at(10)));
        check(&rules, "2001:db8::1", false, Some(90), None);
        rules.set_ban(prefix("2001:db8::/32"), None);
        check(&rules, "2001:db8::1", false, Some(10), None);
    }

    #[test]
    fn the_prefixes_within_are_those_inside_and_itself() {
        let mut rules = Rules::default();
        for text in [
            "10.0.0.0/8",
            "10.0.0.0/16",
            "10.1.0.0/16",
            "10.255.255.255",
            "11.0.0.0/8",
            "9.0.0.0/8",
        ] {
            rules.set_allowed(prefix(text), true);
        }
        let within: Vec<String> = rules
            .within(prefix("10.0.0.0/8"))
            .map(|p| p.to_string())
            .collect();
        assert_eq!(
            within,
            ["10.0.0.0/8", "10.0.0.0/16", "10.1.0.0/16", "10.255.255.255"]
        );
        let within: Vec<String> = rules
            .within(prefix("10.0.0.0/16"))
            .map(|p| p.to_string())
            .collect();
        assert_eq!(within, ["10.0.0.0/16"]);
    }

    #[test]
    fn a_ban_stops_at_a_protected_address_unless_it_is_forced() {
        let mut rules = Rules::default();
        let own = ["10.0.0.1", "127.0.0.0/8"].map(prefix);
        let different = rules.set_protected(own.into());
        assert_eq!(different, own);
        assert_eq!(rules.exempt().next(), None);
        rules.set_policy(prefix("10.0.0.0/16"), Some(7));
        rules.set_ban(prefix("10.0.0.0/8"), Some(at(50)));
        rules.set_ban(prefix("127.0.0.1"), Some(at(50)));
        check(&rules, "10.0.0.2", false, Some(50), Some(7));
        check_protected(&rules, "10.0.0.1", None, Some(7));
        check_protected(&rules, "127.0.0.1", None, None);
        assert_eq!(rules.exempt().collect::<Vec<_>>(), [prefix("10.0.0.1")]);
        rules.set_ban(prefix("10.0.0.1"), Some(at(40)));
        rules.set_forced_ban(prefix("10.0.0.1"), Some(uncounted(at(40))));
        check_protected(&rules, "10.0.0.1", Some(40), Some(7));
        rules.set_forced_ban(prefix("10.0.0.0/8"), Some(uncounted(at(50))));
        check_protected(&rules, "10.0.0.1", Some(50), Some(7));
        assert_eq!(rules.exempt().next(), None);
        assert_eq!(rules.set_protected(BTreeSet::new()), own);
        check(&rules, "127.0.0.1", false, Some(50), None);
    }

    #[test]
    fn a_protected_prefix_has_an_entry_of_its_own() {
        let mut rules = Rules::default();
        rules.set_protected([prefix("10.0.0.1")].into());
        rules.set_allowed(prefix("10.0.0.2"), true);
        let named = |rules: &Rules| -> Vec<String> {
            rules
                .entries()
                .iter()
                .map(|(prefix, _)| prefix.to_string())
                .collect()
        };
        assert_eq!(named(&rules), ["10.0.0.1", "10.0.0.2"]);
        assert!(rules.entry(prefix("10.0.0.1")).unwrap().is_protected());
        let within: Vec<Prefix> = rules.within(prefix("10.0.0.0/8")).collect();
        assert_eq!(within, ["10.0.0.2", "10.0.0.1"].map(prefix));
        rules.set_allowed(prefix("10.0.0.1"), true);
        assert_eq!(named(&rules), ["10.0.0.1", "10.0.0.2"]);
    }

    #[test]
    fn what_is_taken_back_leaves_nothing() {
        let mut rules = Rules::default();
        rules.set_ban(prefix("10.0.0.0/8"), Some(at(1)));
        rules.set_ban(prefix("10.0.0.0/8"), None);
        rules.set_ban(prefix("10.0.0.0/8"), None);
        assert_eq!(rules.entry(prefix("10.0.0.0/8")), None);
        assert!(rules.lengths.is_empty());
    }

    fn check(rules: &Rules, address: &str, allowed: bool, until: Option<u64>, policy: Option<u32>) {
        let (_, entry) = rules.longest_match(address.parse().unwrap()).unwrap();
        assert_eq!(
            entry,
            ListEntry::new(allowed, until.map(at), policy),
            "{address}"
        );
    }

    fn check_protected(rules: &Rules, address: &str, until: Option<u64>, policy: Option<u32>) {
        let (_, entry) = rules.longest_match(address.parse().unwrap()).unwrap();
        let expected = ListEntry::new(false, until.map(at), policy).protected();
        assert_eq!(entry, expected, "{address}");
    }

    fn second(number: u64) -> Instant {
        at(number * 1_000_000_000)
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }
}
