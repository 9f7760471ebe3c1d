//! `rlctl check`: answers an operator whose customer cannot connect.
//!
//! Does the packet pass? By which rule? Until when, by whom, since when and why? How much of the
//! limits is used, and was anything refused before?

mod circumstances;
mod counter;

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use clap::Args;
use jiff::{SignedDuration, Timestamp, Zoned};
use ratelimit_core::{
    api::{
        Ban, Check, ClassVerdict, Covering, CoveringEntry, InterfaceVerdict, LimitState, Limited,
        Listed, NOT_ENFORCED, Origin, PacketRequest, RefusedBy, SeenDrops, SourceChallenge,
        StrikesView, Unenforced, What, WiderLimits,
    },
    challenge::narrowed,
    ip_family::IpFamily,
    limit::Algorithm,
    lists::Action,
    prefix::Prefix,
};

use self::circumstances::{Circumstances, aside};
use crate::{
    client::{self, Answer, Client},
    commands::events,
    completions,
    exit_code::ExitCode,
    failure::Failure,
    output::{BAD, GOOD, WARNING, printable, styled},
    phrase,
    report::Report,
};

/// `check IP [--proto P] [--dport N] [--sport N] [--flags F] [--iface NAME]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl check 203.0.113.7
  rlctl check 203.0.113.7 --proto udp --dport 53
  rlctl check 203.0.113.7 --dport 443 --flags syn --iface eth0
  rlctl check 2001:db8::1 > /dev/null || echo 'blocked, or no answer'

Without packet options the packet has no class, and the answer lists each class with a different \
verdict. A TCP packet without --flags belongs to an established connection. A port that is not \
given matches no class.

The exit code is 3 if the packets, or those of a listed class or on a listed interface, are \
dropped, and 0 if all pass. Packets in a dry run pass.")]
pub struct CheckArguments {
    /// The address, without a prefix length
    #[arg(value_name = "IP", value_parser = address)]
    pub address: IpAddr,
    /// Protocol of the packet: tcp, udp, icmp, or a number
    #[arg(long, value_name = "PROTOCOL")]
    pub proto: Option<String>,
    /// Destination port
    #[arg(long, value_name = "PORT")]
    pub dport: Option<u16>,
    /// Source port
    #[arg(long, value_name = "PORT")]
    pub sport: Option<u16>,
    /// Comma-separated TCP flags: syn,ack, or none
    #[arg(long, value_name = "FLAGS")]
    pub flags: Option<String>,
    /// Destination address, whose limits are checked too
    #[arg(long, value_name = "IP", value_parser = address)]
    pub to: Option<IpAddr>,
    /// Receiving interface
    #[arg(long, value_name = "NAME", add = completions::interfaces())]
    pub iface: Option<String>,
}

fn address(text: &str) -> Result<IpAddr, String> {
    let unknown =
        |_| "not an IPv4 or IPv6 address: write for example 203.0.113.7 or 2001:db8::1".to_owned();
    match text.split_once('/') {
        Some((address, _)) => Err(format!(
            "a prefix is no address: write one, such as {address}; `rlctl list bans --within \
             {text}` shows its bans"
        )),
        None => text.parse().map_err(unknown),
    }
}

/// The reason of drops over the budget for new sources.
const NEW_SOURCES: &str = "new-sources";
/// The reason of drops by a policy with `action = "drop"`.
const DROPPED: &str = "policy";

/// A source is refused at this moment, as operators say it, if it was within this time.
const RECENT: Duration = Duration::from_secs(10);

/// Asks about a packet. It ends as `Blocked` when that is dropped, or those of a class or on an
/// interface.
pub fn run(arguments: &CheckArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let address = arguments.address.to_canonical();
    let packet = PacketRequest {
        protocol: arguments.proto.clone(),
        source_port: arguments.sport,
        destination_port: arguments.dport,
        flags: arguments.flags.clone(),
        to: arguments.to.map(|to| to.to_canonical()),
        interface: arguments.iface.clone(),
    };
    packet
        .packet(IpFamily::of(address))
        .map_err(|refused| Failure {
            code: ExitCode::Usage,
            refused,
        })?;
    let mut path = format!("/v1/check/{address}");
    if packet != PacketRequest::default() {
        path = client::with_query(&path, &packet);
    }
    let answer: Answer<Check> = client.get(&path)?;
    let Check {
        classes,
        interfaces,
        ..
    } = &answer.value;
    let classes = classes.iter().map(|class| &class.action);
    let interfaces = interfaces.iter().map(|interface| &interface.action);
    let code = if classes
        .chain(interfaces)
        .chain([&answer.value.action])
        .any(|action| action == "drop")
    {
        ExitCode::Blocked
    } else {
        ExitCode::Done
    };
    let text = sentences(&answer.value, now).join("\n");
    let mut report = Report::new(answer, text);
    report.code = code;
    Ok(report)
}

fn sentences(check: &Check, now: &Zoned) -> Vec<String> {
    let mut sentences = vec![verdict(check, now)];
    sentences.extend(check.classes.iter().map(of_class));
    sentences.extend(check.interfaces.iter().map(on_interface));
    sentences.extend(check.unenforced.iter().map(|it| not_enforced(it, now)));
    if !check.source.is_address() {
        sentences.push(format!("source: counted as part of {}", check.source));
    }
    if let Some(place) = &check.place {
        sentences.push(format!("place: {}", printable(&place.to_string())));
    }
    sentences.push(format!("rule: {}", rule(check)));
    let mut deciding = check.covering.iter().filter(|entry| entry.decides);
    sentences.extend(deciding.find_map(|it| counter::sentence(&it.entry)));
    if let Some(ban) = &check.ban {
        sentences.extend(Circumstances::of_ban(ban).sentences(now));
        sentences.extend(folded(ban));
    }
    let deciding = check.covering.iter().filter(|entry| entry.decides);
    let runtime = deciding.filter_map(|entry| Circumstances::of_entry(&entry.entry));
    sentences.extend(runtime.flat_map(|runtime| runtime.sentences(now)));
    sentences.extend(check.protected.as_deref().map(protected));
    sentences.extend(check.limited.iter().map(|it| limited(it, now)));
    sentences.extend(
        check
            .covering
            .iter()
            .filter_map(|entry| beneath(entry, now)),
    );
    sentences.extend(check.lists.iter().map(|listed| list(listed, now)));
    let limits = check.limits.iter();
    let whose = if check.observe {
        "limit (dry run)"
    } else {
        "limit"
    };
    sentences.extend(limits.flat_map(|state| with_share(whose, state, now)));
    sentences.extend(check.wider.iter().flat_map(|it| wider(it, now)));
    sentences.extend(check.wider.iter().filter_map(refused_of_wider));
    if check.action != "drop" {
        sentences.extend(check.next.iter().map(next));
    }
    if !check.tunnels.is_empty() {
        let tunnels: Vec<String> = check.tunnels.iter().map(|it| printable(it)).collect();
        let tunnels = phrase::and(&tunnels);
        sentences.push(format!(
            "tunnels: packets in {tunnels} count for the inner source"
        ));
    }
    if let Some(budget) = &check.new_sources {
        let budget = printable(&budget.to_string());
        let spent = if check.reason == NEW_SOURCES {
            "; exhausted now, and this source has no state yet"
        } else {
            ", unless the source has state"
        };
        sentences.push(format!("{budget}{spent}"));
    }
    sentences.extend(check.challenge.as_ref().map(|it| challenge(it, now)));
    sentences.push(format!("refused by its limits: {}", refusals(check, now)));
    sentences.extend(check.strikes.as_ref().map(|it| strikes(it, check.dry_run)));
    sentences.extend(check.last_drops.iter().map(|drops| seen(drops, now)));
    sentences
}

/// `folded: 192 bans inside 192.0.2.0/24; to lift the fold and keep them: rlctl unban 192.0.2.0/24`
fn folded(ban: &Ban) -> Option<String> {
    let bans = phrase::count(ban.folded?, "ban", "bans");
    let prefix = ban.prefix;
    Some(format!(
        "folded: {bans} inside {prefix}; to lift the fold and keep them: rlctl unban {prefix}"
    ))
}

/// `next: packets that pass on eth0 go to the program at /sys/fs/bpf/other, which may drop them`
fn next((interface, path): (&String, &String)) -> String {
    format!(
        "next: packets that pass on {} go to the program at {}, which may drop them",
        printable(interface),
        printable(path)
    )
}

/// `not verified: SYNs are challenged since 14:02:11; half of each node limit is reserved for
/// verified sources`
fn challenge(challenge: &SourceChallenge, now: &Zoned) -> String {
    let kept = phrase::when(
        challenge.is_on && challenge.prefers_verified && !challenge.is_acknowledged,
        "; half of each node limit is reserved for verified sources",
    );
    if let Some(until) = challenge.verified_until {
        let until = phrase::moment(until, now);
        let queries = match &challenge.dns {
            Some(_) => ", nor are its DNS queries",
            None => "",
        };
        return format!("verified: SYNs are not challenged until {until}{queries}{kept}");
    }
    let queries = match &challenge.dns {
        Some(dns) if dns.is_on => "; DNS queries, and SYNs to the same ports, are challenged",
        Some(_) => "; DNS queries are not challenged now",
        None => "",
    };
    let narrowed = narrowed(challenge.classes.as_deref(), challenge.to.as_deref());
    let narrowed = printable(&narrowed);
    if !challenge.is_on {
        let only = if narrowed.is_empty() {
            String::new()
        } else {
            format!("; only SYNs{narrowed} can be")
        };
        return format!("not verified: SYNs are not challenged now{only}{queries}");
    }
    let since = challenge.since.map_or_else(String::new, |since| {
        format!(" since {}", phrase::moment(since, now))
    });
    format!("not verified: SYNs{narrowed} are challenged{since}{queries}{kept}")
}

/// `not enforced: packets that come by eth0 pass, since 14:22:07: there is no such interface`
fn not_enforced(unenforced: &Unenforced, now: &Zoned) -> String {
    format!(
        "{} on {} since {}: {}",
        styled(BAD, "not enforced"),
        printable(&unenforced.interface),
        phrase::moment(unenforced.since, now),
        printable(&unenforced.why)
    )
}

/// Whether packets pass, and the reason as the metrics call it.
fn verdict(check: &Check, now: &Zoned) -> String {
    let Check {
        address, reason, ..
    } = check;
    let packet = printable(&check.packet.to_string());
    let packets = if packet.is_empty() {
        format!("packets from {address}")
    } else {
        format!("packets from {address} ({packet})")
    };
    let reason = printable(reason);
    let full = check.refused_by.as_ref().map(full).unwrap_or_default() + &others_full(check);
    let is_other = |class: &ClassVerdict| class.action != check.action;
    let except = match &check.classes[..] {
        [] => "",
        classes if classes.iter().any(is_other) => ", except for",
        _ => ", and for other reasons",
    };
    match check.action.as_str() {
        "drop" => format!(
            "{packets} are {} ({reason}{full}){except}",
            styled(BAD, "dropped")
        ),
        "observe" => format!(
            "{packets} {} in a dry run; they would be dropped ({reason}{full}){except}",
            styled(WARNING, "pass")
        ),
        _ if !check.unenforced.is_empty() && check.reason == NOT_ENFORCED => {
            let nowhere = match &check.packet.interface {
                Some(_) => "because the interface is not protected",
                None => "because no interface is protected",
            };
            format!(
                "{packets} {}, {nowhere} ({reason})",
                styled(WARNING, "pass")
            )
        }
        _ => {
            let passes = if check.classes.is_empty() {
                styled(GOOD, "pass")
            } else {
                styled(WARNING, "pass")
            };
            // A limit may be exceeded again a moment later.
            let is_conforming = check.reason == "conforming";
            let when = phrase::when(is_conforming, " now");
            let refused = match refused_last(check).filter(|_| is_conforming) {
                Some(last) if was_just_refused(check, last, now) => {
                    format!(", last refused at {}", phrase::moment(last, now))
                }
                _ => String::new(),
            };
            let dry_run = phrase::when(check.dry_run, "; dry run");
            format!("{packets} {passes}{when}{refused} ({reason}{dry_run}){except}")
        }
    }
}

/// Returns when a limit last refused a packet of the source, also a limit of its destination, its
/// prefix or the node, as far as the sampled drops show it.
fn refused_last(check: &Check) -> Option<Timestamp> {
    let seen = check.last_drops.iter().filter_map(|drops| {
        let What::Drop(dropped) = &drops.last.what else {
            return None;
        };
        dropped.reason.contains("limited").then_some(drops.last.at)
    });
    check.refused_last.into_iter().chain(seen).max()
}

/// Whether limits refused packets of the source within the longest of their windows, but at least
/// ten seconds: one that sends too much conforms at the begin of each window.
fn was_just_refused(check: &Check, last: Timestamp, now: &Zoned) -> bool {
    let windows = check.limits.iter().map(|state| state.limit.window());
    let longest = windows.max().unwrap_or_default().max(RECENT);
    let ago = now.timestamp().duration_since(last);
    ago <= SignedDuration::try_from(longest).unwrap_or(SignedDuration::MAX)
}

/// `; 2 other limits are exceeded too`
fn others_full(check: &Check) -> String {
    let Some(refused) = &check.refused_by else {
        return String::new();
    };
    let wider = check.wider.iter().flat_map(|it| &it.limits);
    let full = check.limits.iter().chain(wider);
    let full = full.filter(|state| state.room_in_seconds > 0.0 && state.limit != refused.limit);
    // A limit of a class counts its packets alone.
    match full.filter(|state| state.limit.class().is_none()).count() {
        0 => String::new(),
        count => {
            let limits = phrase::count(count, "other limit is", "other limits are");
            format!("; {limits} exceeded too")
        }
    }
}

/// `: 10 packets per 1m of icmp, next packet in 58.0s`
fn full(refused: &RefusedBy) -> String {
    let limit = printable(&refused.limit.to_string());
    let room = refused.room_in_seconds.map(short);
    let room = room.map(|room| format!(", next packet in {room}"));
    format!(": {limit}{}", room.unwrap_or_default())
}

/// `  icmp: dropped (limited: 10 packets per 1m of icmp, next packet in 58.0s; 9 drops seen)`
fn of_class(verdict: &ClassVerdict) -> String {
    let full = verdict.refused_by.as_ref().map(full).unwrap_or_default();
    let seen = match verdict.drops_seen {
        0 => String::new(),
        drops => format!("; {} seen", phrase::count(drops, "drop", "drops")),
    };
    let (class, reason) = (printable(&verdict.class), printable(&verdict.reason));
    format!(
        "  {class}: {} ({reason}{full}{seen})",
        action(&verdict.action)
    )
}

/// `  on eth1, policy lan: dropped (limited)`
fn on_interface(verdict: &InterfaceVerdict) -> String {
    let (interface, policy) = (printable(&verdict.interface), printable(&verdict.policy));
    let (action, reason) = (action(&verdict.action), printable(&verdict.reason));
    format!("  on {interface}, policy {policy}: {action} ({reason})")
}

fn action(action: &str) -> String {
    match action {
        "drop" => styled(BAD, "dropped"),
        "pass" => styled(GOOD, "pass"),
        _ => styled(WARNING, "pass (dry run)"),
    }
}

/// `seen: 14:22:07 dropped 192.0.2.1 on eth0: limited, 9 times since 14:21:58`
fn seen(drops: &SeenDrops, now: &Zoned) -> String {
    format!("seen: {}", events::text::drops(drops, now))
}

/// `limited: 10 packets per 1s for syn-flood by 192.0.2.0/24, since 14:22:07, until 14:32:07 (9m
/// 59s left)`
fn limited(limited: &Limited, now: &Zoned) -> String {
    let Some(kind) = limited.kind else {
        return format!(
            "limited: no new TCP connections from {}, since {}: it has as many as `connections` of \
             its policy permits",
            limited.prefix,
            phrase::moment(limited.since, now)
        );
    };
    format!(
        "limited: to {} for {} by {}, since {}, until {} ({} left)",
        limited.limit,
        kind.label(),
        limited.prefix,
        phrase::moment(limited.since, now),
        phrase::moment(limited.until, now),
        phrase::span(now.timestamp(), limited.until)
    )
}

/// Returns the deciding rule, and the cluster node that set it.
fn rule(check: &Check) -> String {
    let node = check.covering.iter().find_map(|covering| {
        let origin = match &covering.entry {
            CoveringEntry::Allow(allow) => allow.origin.clone(),
            CoveringEntry::Policy { runtime, .. } => Origin::of_author(&runtime.as_ref()?.author),
            CoveringEntry::Ban(_) => return None,
        };
        if let Origin::Cluster(node) = origin {
            covering.decides.then_some(node)
        } else {
            None
        }
    });
    let node = node.map(|node| format!(", by node {} of the cluster", printable(&node)));
    format!("{}{}", deciding_rule(check), node.unwrap_or_default())
}

fn deciding_rule(check: &Check) -> String {
    let policy = printable(&check.policy);
    match (check.reason.as_str(), &check.ban, check.rule) {
        (_, Some(ban), _) => format!("the ban of {}", ban.prefix),
        ("allowed", _, Some(prefix)) => format!("the allow list entry {prefix}"),
        ("invalid-source", ..) => {
            "invalid source address: no allow, ban or limit applies".to_owned()
        }
        ("subnet-limited", ..) => {
            let prefixes: Vec<Prefix> = refusing_prefixes(check).collect();
            match &prefixes[..] {
                [] => "the limits that all sources of a wider prefix share".to_owned(),
                prefixes => format!(
                    "the limits that all sources of {} share",
                    phrase::and(prefixes)
                ),
            }
        }
        ("node-limited", ..) => match node_limits_of(check) {
            Some(name) => {
                format!("the limits of the interface {name}, for all its traffic")
            }
            None => "the limits of the node, for all traffic".to_owned(),
        },
        (NEW_SOURCES, ..) => "the budget for new sources (exhausted)".to_owned(),
        ("destination-limited", ..) => {
            "the limits of the destination, for all traffic to it".to_owned()
        }
        ("source-to-destination-limited", ..) => {
            "the limits of each source for this destination".to_owned()
        }
        (DROPPED, _, Some(prefix)) => format!("policy {policy}, for {prefix}: drops everything"),
        (DROPPED, _, None) => format!("policy {policy}: drops everything"),
        (_, _, Some(prefix)) => format!("policy {policy}, for {prefix}"),
        (_, _, None) => {
            let own = check
                .packet
                .interface
                .as_deref()
                .filter(|_| policy != "default");
            let own = own.map_or_else(String::new, |name| format!(" on {}", printable(name)));
            format!("policy {policy}{own}")
        }
    }
}

/// The prefixes around the source whose limits have no room.
fn refusing_prefixes(check: &Check) -> impl Iterator<Item = Prefix> {
    let is_full = |state: &LimitState| state.room_in_seconds > 0.0;
    let wider = check.wider.iter();
    let wider = wider.filter(move |it| it.destination.is_none() && it.limits.iter().any(is_full));
    wider.filter_map(|it| it.prefix)
}

/// The interface that was asked about, where it has its own limits instead of the node's.
fn node_limits_of(check: &Check) -> Option<String> {
    let asked = check.packet.interface.as_ref()?;
    let mut wider = check.wider.iter();
    let has_own = wider.any(|it| it.interface.as_ref() == Some(asked));
    has_own.then(|| printable(asked))
}

/// `protected (the default gateway of eth0): only bans with --force apply`
fn protected(why: &str) -> String {
    format!(
        "protected ({}): only bans with --force apply",
        printable(why)
    )
}

/// Describes an entry that covers the address and does not decide. The default policy covers
/// everything.
fn beneath(covering: &Covering, now: &Zoned) -> Option<String> {
    // Lists are reported by themselves.
    let is_of_list = match &covering.entry {
        CoveringEntry::Allow(allow) => allow.origin.list_name().is_some(),
        CoveringEntry::Ban(ban) => ban.origin.list_name().is_some(),
        CoveringEntry::Policy { .. } => false,
    };
    if covering.decides || is_of_list {
        return None;
    }
    let entry = match &covering.entry {
        CoveringEntry::Allow(allow) => format!(
            "the allow list entry {}{}",
            allow.prefix,
            aside(&covering.entry, now)
        ),
        CoveringEntry::Ban(ban) => {
            let reason = ban.reason.as_deref().map(printable);
            format!(
                "the ban of {} by {}, {}: {}",
                ban.prefix,
                phrase::author(ban),
                phrase::until(ban.until, now),
                reason.as_deref().unwrap_or("no reason given")
            )
        }
        CoveringEntry::Policy {
            policy,
            prefix: Some(prefix),
            ..
        } => format!(
            "policy {}, for {prefix}{}",
            printable(policy),
            aside(&covering.entry, now)
        ),
        CoveringEntry::Policy { prefix: None, .. } => return None,
    };
    Some(format!("beneath: {entry}"))
}

/// `list: spamhaus bans 192.0.2.0/24 (SBL1)`
fn list(listed: &Listed, now: &Zoned) -> String {
    let does = match listed.action {
        Action::Ban => "bans",
        Action::Allow => "allows",
        Action::Policy => "selects",
    };
    let until = listed
        .until
        .map(|until| format!(", until {}", phrase::moment(until, now)));
    let reason = listed
        .reason
        .as_deref()
        .map(|reason| format!(" ({})", printable(reason)));
    let (name, prefix) = (printable(&listed.list), listed.prefix);
    format!(
        "list: {name} {does} {prefix}{}{}",
        reason.unwrap_or_default(),
        until.unwrap_or_default()
    )
}

/// The limits that a source shares with others.
fn wider<'a>(limits: &'a WiderLimits, now: &'a Zoned) -> impl Iterator<Item = String> + 'a {
    let is_total = limits.prefix.is_none();
    let ahead = phrase::when(is_total, " (incl. per-CPU reserve)");
    let dry_run = phrase::when(limits.observe, " (dry run)");
    let whose = format!("limit of {}{ahead}{dry_run}", whose(limits));
    let states = limits.limits.iter();
    states.flat_map(move |state| with_share(&whose, state, now))
}

/// Returns the scope of the limits: a prefix, a destination, the node, or an interface that
/// replaces it.
fn whose(limits: &WiderLimits) -> String {
    match (limits.destination, limits.prefix, &limits.interface) {
        (Some(destination), Some(source), _) => format!("{source} to {destination}"),
        (Some(destination), None, _) => format!("all traffic to {destination}"),
        (None, Some(prefix), _) => format!("all of {prefix}"),
        (None, None, Some(interface)) => format!("the interface {}", printable(interface)),
        (None, None, None) => "the node".to_owned(),
    }
}

/// `limits of the node: 12 packets refused`
fn refused_of_wider(limits: &WiderLimits) -> Option<String> {
    let packets = limits.refused_packets.filter(|packets| *packets > 0)?;
    let packets = phrase::packets(packets);
    Some(format!("drops by limits of {}: {packets}", whose(limits)))
}

/// Formats the level of a limit, and the share of this node: `  share of this node: 334 packets
/// since 14:22:07, other nodes 666 packets`
fn with_share(whose: &str, state: &LimitState, now: &Zoned) -> Vec<String> {
    let share = state.share.map(|share| {
        let amount = |amount| state.limit.unit().amount(amount);
        let since = share.since.map_or_else(String::new, |since| {
            format!(" since {}", phrase::moment(since, now))
        });
        let others = share.others.map_or_else(
            || "shares of other nodes unknown".to_owned(),
            |others| format!("other nodes {}", amount(others)),
        );
        format!(
            "  share of this node: {}{since}, {others}",
            amount(share.here)
        )
    });
    let usage = format!("{whose}: {}", usage(state));
    std::iter::once(usage).chain(share).collect()
}

/// `1000 packets per 1s: 37 used, window ends in 0.4s`
fn usage(state: &LimitState) -> String {
    let limit = &state.limit;
    if state.used == 0 {
        return format!("{limit}: unused");
    }
    let used = limit.unit().amount(state.used);
    let used = match limit.algorithm() {
        Algorithm::FixedWindow | Algorithm::SlidingWindow | Algorithm::SlidingLog => {
            format!("{used} used")
        }
        Algorithm::TokenBucket { burst } => {
            format!("{used} of {} used", limit.unit().amount(burst))
        }
    };
    let clears = short(state.clears_in_seconds);
    let clears = match limit.algorithm() {
        Algorithm::FixedWindow => format!("window ends in {clears}"),
        Algorithm::SlidingWindow | Algorithm::SlidingLog => format!("empty in {clears}"),
        Algorithm::TokenBucket { .. } => format!("bucket full in {clears}"),
    };
    if state.room_in_seconds > 0.0 {
        let room = short(state.room_in_seconds);
        return format!("{limit}: {used}, next packet in {room}, {clears}");
    }
    format!("{limit}: {used}, {clears}")
}

/// Seconds to a tenth while that matters.
fn short(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1}s");
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a window has at most 31 days"
    )]
    let seconds = seconds as i64;
    let start = Timestamp::UNIX_EPOCH;
    phrase::span(start, start + SignedDuration::from_secs(seconds))
}

/// `strikes: 37; 5000 drops within 10s: banned for 10m`
fn strikes(view: &StrikesView, is_dry_run: bool) -> String {
    let before = match view.bans {
        0 => String::new(),
        1 => "; banned once already".to_owned(),
        bans => format!("; banned {bans} times already"),
    };
    let dry_run = phrase::when(is_dry_run, " (dry run, no ban)");
    format!("strikes{dry_run}: {}; {}{before}", view.strikes, view.ban)
}

/// Returns the other reasons among the recent drops of the source.
fn by_others(check: &Check) -> String {
    let reasons = check.last_drops.iter().filter_map(|drops| {
        let What::Drop(dropped) = &drops.last.what else {
            return None;
        };
        Some(dropped.reason.as_str())
    });
    let reasons: BTreeSet<&str> = reasons.collect();
    if reasons.is_empty() {
        return String::new();
    }
    let reasons: Vec<&str> = reasons.into_iter().collect();
    format!("; sampled drops: {}", printable(&reasons.join(", ")))
}

fn refusals(check: &Check, now: &Zoned) -> String {
    match (check.refused_packets, check.refused_last) {
        (0, _) => format!("none{}", by_others(check)),
        (packets, last) => {
            let dry_run = phrase::when(check.dry_run, "; now a dry run, so such packets pass");
            let last = last.map(|last| format!(", the last at {}", phrase::moment(last, now)));
            format!(
                "{}{}{dry_run}",
                phrase::packets(packets),
                last.unwrap_or_default()
            )
        }
    }
}
