//! `rlctl check`: what would happen to a packet of an address, by which rule, and why.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use jiff::Timestamp;
use ratelimit_common::{
    ClassSet, DropReason, Instant, PassReason, Policy, Verdict, charge::Refusal,
    interface::InterfaceRule, source::LogKey,
};
use ratelimit_core::{
    api::{
        Ban, Check, ClassVerdict, Covering, CoveringEntry, EntryCounter, InterfaceVerdict,
        LimitState, Listed, NOT_ENFORCED, PacketRequest, Refused, RefusedBy, SeenDrops,
        StrikesView, Unenforced, What,
    },
    config::{Interface, tunnels},
    intent::{EntryRow, FOREVER, renewed},
    ip_family::IpFamily,
    limit::LimitSpec,
    lists::Action,
    origin::Origin,
    policies::Named,
    prefix::Prefix,
};

use super::{
    bans, covering, drops,
    levels::{self, Shares},
    limited, new_sources,
    preview::{self, PacketOrClasses, Way},
};
use crate::{
    clock,
    control::{
        controller::Controller,
        feeds::{challenge, policy_bans::Sentence},
        reports::rows::ban,
        state::State,
    },
    links::Links,
};

/// The most kinds of drops reported for a source.
const DROPS_TOLD: usize = 5;

/// A packet from an address.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The source address.
    pub address: IpAddr,
    /// The other properties of the packet.
    pub packet: PacketRequest,
}

impl From<IpAddr> for Packet {
    /// Returns a packet of no class.
    fn from(address: IpAddr) -> Self {
        let packet = PacketRequest::default();
        Self { address, packet }
    }
}

/// Returns the verdict on a packet, with the reason.
pub fn check(controller: &Controller, question: Packet) -> Result<Check, Refused> {
    let (state, links) = (&controller.state, &controller.interfaces.links);
    let Packet { address, packet } = question;
    let asked = packet.packet(IpFamily::of(address))?;
    let named_interface = packet.interface.as_deref();
    let mut way = way(state, address, &packet)?;
    let unenforced = unenforced(links, named_interface)?;
    let now = clock::now();
    let source = state.intent.config.source.around(address);
    let asked = asked.map_or(
        PacketOrClasses::Classes(ClassSet::NONE),
        PacketOrClasses::Packet,
    );
    let shares = Shares::at(state, &controller.feeds.cluster, now)?;
    let leased = &shares.leased;
    let interface = named_interface.or_else(|| {
        let rule_in = |rule| preview(state, leased, Way { rule, ..way }, asked, now).0;
        let (name, rule) = agreeing_interface(state, links, rule_in)?;
        way.rule = rule;
        Some(name)
    });
    let (verdict, refusal) = preview(state, leased, way, asked, now);
    let next = next(links, named_interface);
    let ban = ban_of(state, address, now).or_else(|| ban_in_kernel(state, source));
    let ban = ban.filter(|_| verdict_is_ban(verdict));
    let covering = covering::covering(state, (address, interface), verdict);
    let named = levels::policy_of(state, interface, address);
    let datapath = state.enforcer.datapath();
    let refusals = datapath.sources.refusals(source.address())?;
    let strikes = datapath.sources.strikes(source.address())?;
    let limits = match named {
        Some((_, named)) => levels::limit_states(state, &shares, source, named, now)?,
        None => Vec::new(),
    };
    let strikes_view =
        named.and_then(|(_, named)| strikes_view(state, source, named, strikes, now));
    let is_conforming = verdict == Verdict::Pass(PassReason::Conforming);
    let is_over_budget = verdict.reason() == PassReason::NewSources.label();
    let needs_state = is_over_budget
        || is_conforming && !limits.is_empty() && limits.iter().all(|limit| limit.used == 0);
    let wider = levels::wider(state, &shares, (source, way.to), interface, now)?;
    let last_drops = covering::last_drops(state, source, interface);
    let is_enforced = match named_interface {
        Some(_) => unenforced.is_empty(),
        None => links.enforces_anywhere(),
    };
    let enforced = is_enforced.then(|| (verdict.action(), verdict.reason()));
    let (action, reason) = enforced.unwrap_or(("pass", NOT_ENFORCED));
    let levels = || limits.iter().chain(wider.iter().flat_map(|it| &it.limits));
    let refused_by = |refusal| refused_by(state, (address, way.to), interface, refusal, levels());
    let other_classes = match asked {
        PacketOrClasses::Classes(_) => other_classes(state, leased, way, verdict, now),
        PacketOrClasses::Packet(_) => Vec::new(),
    };
    let other_classes = other_classes.into_iter();
    let classes = other_classes.map(|(class, verdict, refusal)| ClassVerdict {
        drops_seen: drops_of_class(&last_drops, &class),
        class,
        action: verdict.action().to_owned(),
        reason: verdict.reason().to_owned(),
        refused_by: refused_by(refusal),
    });
    Ok(Check {
        address,
        source,
        place: None,
        action: action.to_owned(),
        reason: reason.to_owned(),
        unenforced,
        classes: classes.collect(),
        interfaces: other_interfaces(state, interface, leased, way, asked, verdict, now),
        refused_by: refused_by(refusal),
        dry_run: named.is_some_and(|(_, named)| named.policy.observe())
            || state.intent.config.observes_on(interface),
        challenge: may_be_challenged(state, address, verdict)
            .then(|| challenge::status::of_source(state, source.address(), &packet))
            .flatten(),
        policy: policy_name(state, named.map(|(name, _)| name), interface),
        packet,
        rule: deciding_rule(state, address, verdict, ban.as_ref(), &covering),
        until: match &ban {
            Some(ban) => ban.until,
            None => deciding_end(&covering),
        },
        ban,
        protected: state.protection.why(address).map(ToString::to_string),
        lists: listed(state, address.into(), now),
        limited: named.and_then(|(_, named)| limited::limited(state, source, named)),
        observe: named.is_some_and(|(_, named)| named.policy.observe()),
        limits,
        wider,
        covering,
        last_drops: last_drops.into_iter().take(DROPS_TOLD).collect(),
        strikes: strikes_view,
        tunnels: tunnels::words(state.intent.config.source.tunnels),
        next,
        new_sources: new_sources::new_sources(state).filter(|_| needs_state),
        refused_packets: refusals.map_or(0, |refusals| refusals.packets),
        refused_last: refusals
            .map(|refusals| clock::to_wall(Instant::from_nanos(refusals.last_ns))),
    })
}

/// Returns the name of the policy of a source, which is the default if no other is selected.
fn policy_name(state: &State, named: Option<&str>, interface: Option<&str>) -> String {
    named
        .unwrap_or_else(|| state.intent.config.policy_on(interface))
        .to_owned()
}

/// Returns the programs that receive passed packets on one interface or on all.
fn next(links: &Links, interface: Option<&str>) -> BTreeMap<String, String> {
    let all = links.next_programs();
    let asked = all.filter(|(name, _)| interface.is_none_or(|interface| *name == interface));
    asked
        .map(|(name, next)| (name.clone(), next.display().to_string()))
        .collect()
}

/// Returns the ban of a source that only the kernel knows.
fn ban_in_kernel(state: &State, source: Prefix) -> Option<Ban> {
    let datapath = state.enforcer.datapath();
    let found = datapath.policy_bans.get(source.address()).ok().flatten()?;
    let row = EntryRow {
        until: Instant::from_nanos(found.until_ns),
        ..Sentence::new(state, source, &found).row()
    };
    Some(ban(
        source,
        &Origin::Automatic,
        &row,
        EntryCounter::default(),
    ))
}

/// Returns the strikes of a source, if its policy bans.
fn strikes_view(
    state: &State,
    source: Prefix,
    named: &Named,
    word: u64,
    now: Instant,
) -> Option<StrikesView> {
    let rule = named.policy.ban()?;
    let offence = state.intent.offence(source);
    Some(StrikesView {
        strikes: rule.strikes(word, now),
        ban: named.ban?,
        bans: offence.map_or(0, |offence| offence.bans),
    })
}

/// Returns the list entries that contain an address.
fn listed(state: &State, prefix: Prefix, now: Instant) -> Vec<Listed> {
    let lists = state.intent.lists().iter();
    let entries = lists.flat_map(|(name, list)| {
        list.around(prefix, now).map(move |entry| Listed {
            list: Arc::clone(name),
            action: list.action,
            prefix: entry.prefix,
            until: (entry.until != FOREVER).then(|| clock::to_wall(entry.until)),
            reason: list.reasons.get(entry.reason).map(str::to_owned),
        })
    });
    entries.collect()
}

/// Returns where packets are not judged, on all interfaces or on one.
fn unenforced(links: &Links, interface: Option<&str>) -> Result<Vec<Unenforced>, Refused> {
    let mut unenforced = links.unenforced();
    if let Some(interface) = interface {
        let known: Vec<&str> = links.wanted().map(|wanted| wanted.name.as_str()).collect();
        if !known.contains(&interface) {
            let known = known.join(", ");
            return Err(Refused::because(format!(
                "interface `{interface}` is not configured: its packets pass"
            ))
            .hint(format!("configured interfaces: {known}")));
        }
        unenforced.retain(|it| it.interface == interface);
    }
    Ok(unenforced)
}

/// Returns the rule of an interface.
fn rule_of(state: &State, interface: Option<&str>) -> InterfaceRule {
    let rules = &state.enforcer.held().switched.interfaces;
    let rule = interface.and_then(|name| rules.get(name));
    rule.copied().unwrap_or_default()
}

/// Returns the interface to answer for if none was named: each has a rule of its own, and these are
/// the same, or come to the same verdict, which is not that of packets without a rule.
fn agreeing_interface<'a>(
    state: &'a State,
    links: &Links,
    verdict: impl Fn(InterfaceRule) -> Verdict,
) -> Option<(&'a str, InterfaceRule)> {
    let rules = &state.enforcer.held().switched.interfaces;
    let has_rule = |wanted: &Interface| rules.contains_key(&wanted.name);
    let mut all = rules.iter();
    let (name, first) = all.next().filter(|_| links.wanted().all(has_rule))?;
    let agreed = verdict(*first);
    let differs = verdict(InterfaceRule::default()) != agreed;
    let agree = all.all(|(_, rule)| rule == first || differs && verdict(*rule) == agreed);
    agree.then_some((name.as_str(), *first))
}

/// If no interface was named, returns the verdicts on interfaces with rules of their own, where
/// they differ.
fn other_interfaces(
    state: &State,
    interface: Option<&str>,
    leased: &HashMap<LogKey, Policy>,
    way: Way,
    asked: PacketOrClasses,
    verdict: Verdict,
    now: Instant,
) -> Vec<InterfaceVerdict> {
    let rules = state.enforcer.held().switched.interfaces.iter();
    let rules = rules.filter(|_| interface.is_none());
    let verdicts = rules.map(|(name, rule)| {
        let way = Way { rule: *rule, ..way };
        (name, preview(state, leased, way, asked, now).0)
    });
    let others = verdicts.filter(|(_, other)| *other != verdict);
    let reported = others.map(|(name, other)| InterfaceVerdict {
        interface: name.clone(),
        policy: state.intent.config.policy_on(Some(name)).to_owned(),
        action: other.action().to_owned(),
        reason: other.reason().to_owned(),
    });
    reported.collect()
}

/// Returns where the packet comes from and goes to.
fn way(state: &State, from: IpAddr, packet: &PacketRequest) -> Result<Way, Refused> {
    match packet.to.map(|to| to.to_canonical()) {
        Some(to) if IpFamily::of(to) != IpFamily::of(from) => Err(Refused::because(format!(
            "{from} and {to} are of different address families"
        ))
        .hint("use two addresses of the same family")),
        to => Ok(Way {
            from,
            to,
            rule: rule_of(state, packet.interface.as_deref()),
        }),
    }
}

fn preview(
    state: &State,
    leased: &HashMap<LogKey, Policy>,
    way: Way,
    asked: PacketOrClasses,
    now: Instant,
) -> (Verdict, Option<Refusal>) {
    let source = &state.intent.config.source;
    let (rules, enforcer) = (&state.compiled.rules, &state.enforcer);
    preview::preview(way, asked, now, rules, enforcer, leased, source)
}

/// Returns the classes whose packets have another verdict than those of no class.
fn other_classes(
    state: &State,
    leased: &HashMap<LogKey, Policy>,
    way: Way,
    verdict: Verdict,
    now: Instant,
) -> Vec<(String, Verdict, Option<Refusal>)> {
    let mut classes: BTreeMap<String, ClassSet> = BTreeMap::new();
    for (_, named) in state.compiled.policies.iter() {
        let parts = named.parts();
        for (limit, written) in parts.flat_map(|part| part.policy.limits().zip(part.limits)) {
            // A packet of no class is the one in the question.
            let set = limit.classes();
            if let Some(class) = written.class().filter(|_| !set.is_none_of()) {
                classes.insert(class.to_string(), set);
            }
        }
    }
    for (name, class, _) in state.intent.config.classes.actions() {
        let set = state.compiled.set_of(class);
        classes.insert(name.to_owned(), set);
    }
    let verdicts = classes.into_iter().map(|(class, set)| {
        let (verdict, refusal) = preview(state, leased, way, PacketOrClasses::Classes(set), now);
        (class, verdict, refusal)
    });
    let passes = matches!(verdict, Verdict::Pass(_));
    verdicts
        .filter(|(_, of_class, _)| {
            let both_pass = passes && matches!(of_class, Verdict::Pass(_));
            !both_pass && *of_class != verdict
        })
        .collect()
}

/// Returns the limit of a refusal, with its level among those that were read.
fn refused_by<'a>(
    state: &State,
    (from, to): (IpAddr, Option<IpAddr>),
    interface: Option<&str>,
    refusal: Option<Refusal>,
    mut levels: impl Iterator<Item = &'a LimitState>,
) -> Option<RefusedBy> {
    let refusal = refusal?;
    let destination = to.and_then(|to| levels::destination_of(state, to));
    let to_destination = matches!(
        refusal.reason,
        DropReason::DestinationLimited | DropReason::SourceToDestinationLimited
    );
    let (_, named) = if to_destination {
        destination.map(|(_, name, named)| (name, named))
    } else {
        drops::refuser(state, interface, from, refusal.reason)
    }?;
    let limit = drops::limit(named, refusal.reason, refusal.limit)?;
    let level = levels.find(|level| level.limit == *limit && level.room_in_seconds > 0.0);
    Some(RefusedBy {
        limit: limit.clone(),
        room_in_seconds: level.map(|level| level.room_in_seconds),
    })
}

/// Counts the drops by limits of this class.
fn drops_of_class(drops: &[SeenDrops], class: &str) -> usize {
    let is_of_class = |drops: &&SeenDrops| {
        let What::Drop(dropped) = &drops.last.what else {
            return false;
        };
        let limit = dropped.limit.as_ref();
        let of_limit = limit.and_then(LimitSpec::class).map(ToString::to_string);
        of_limit.as_deref() == Some(class)
    };
    drops.iter().filter(is_of_class).map(|it| it.count).sum()
}

/// Returns the ban of an address: of the prefixes around it, the ban that ends last. For a
/// protected address, only forced bans count.
pub(super) fn ban_of(state: &State, address: IpAddr, now: Instant) -> Option<Ban> {
    let is_protected = state.protection.why(address).is_some();
    let mut bans = covering::bans_around(state, address, now).into_iter();
    bans.find(|ban| !is_protected || ban.origin == Origin::Forced)
}

/// Returns the list entries that ban an address, with their ends in the kernel.
pub(crate) fn listed_bans(
    state: &State,
    address: IpAddr,
    now: Instant,
) -> impl Iterator<Item = (Instant, Ban)> {
    let lists = state.intent.lists_for(Action::Ban);
    let entries = lists.flat_map(move |(name, list)| {
        let entries = list.around(address.into(), now);
        entries.map(move |entry| (name, list, entry))
    });
    entries.map(|(name, list, entry)| {
        let row = EntryRow {
            until: entry.until,
            since: list.since,
            reason: list.reasons.get(entry.reason).map(Into::into),
            author: Arc::clone(&list.author),
        };
        let origin = Origin::List(Arc::clone(name));
        let until = renewed::end_in_list(list, entry.until);
        (
            until,
            bans::reported_ban(state, entry.prefix, &origin, &row),
        )
    })
}

/// Returns the prefix of the deciding ban, allow or policy.
fn deciding_rule(
    state: &State,
    address: IpAddr,
    verdict: Verdict,
    ban: Option<&Ban>,
    covering: &[Covering],
) -> Option<Prefix> {
    let mut around = Prefix::from(address).supernets().rev();
    let mut allows = covering.iter().filter_map(|it| match &it.entry {
        CoveringEntry::Allow(allow) => Some(allow.prefix),
        CoveringEntry::Ban(_) | CoveringEntry::Policy { .. } => None,
    });
    match verdict {
        Verdict::Pass(PassReason::Allowed) => allows.next(),
        Verdict::Drop(DropReason::Banned) | Verdict::Observe(DropReason::Banned) => {
            ban.map(|ban| ban.prefix)
        }
        Verdict::Drop(reason) | Verdict::Observe(reason) if reason.is_of_others() => None,
        Verdict::Pass(_) | Verdict::Drop(_) | Verdict::Observe(_) => {
            around.find(|prefix| state.intent.policy_name(*prefix).is_some())
        }
    }
}

/// Returns the end of the deciding entry.
fn deciding_end(covering: &[Covering]) -> Option<Timestamp> {
    let deciding = covering.iter().find(|entry| entry.decides)?;
    match &deciding.entry {
        CoveringEntry::Allow(allow) => allow.until,
        CoveringEntry::Ban(ban) => ban.until,
        CoveringEntry::Policy { runtime, .. } => runtime.as_ref()?.until,
    }
}

fn may_be_challenged(state: &State, address: IpAddr, verdict: Verdict) -> bool {
    verdict != Verdict::Pass(PassReason::Allowed)
        && !verdict_is_ban(verdict)
        && verdict.reason() != DropReason::Policy.label()
        && state.protection.why(address).is_none()
}

fn verdict_is_ban(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Drop(DropReason::Banned) | Verdict::Observe(DropReason::Banned)
    )
}
