//! Adds the policy and the limit to dropped packets in reports.

use std::net::{IpAddr, Ipv6Addr};

use ratelimit_common::{Cursor, DropReason, Family, Instant, event::DropEvent, parse::LinkLayer};
use ratelimit_core::{
    api::{Dropped, PacketRequest},
    ip_family::IpFamily,
    limit::LimitSpec,
    policies::Named,
};

use super::levels;
use crate::control::state::State;

/// Describes a packet that the kernel reported as dropped. The limit is omitted if it may be one of
/// earlier policies, because the event contains only its index.
pub fn dropped(state: &State, drop: &DropEvent) -> Dropped {
    let source = source(drop);
    let reason = DropReason::from_number(drop.reason);
    let interface = state.reports.journal.interface(drop.interface);
    let link_layer = LinkLayer::from_number(drop.link_layer);
    let frame = Cursor::with_frame_bytes(drop.frame(), drop.frame_bytes);
    let (from, packet) = PacketRequest::of_frame(frame, link_layer).unzip();
    // The source may be a prefix, and its policy that of an address within.
    let address = from.unwrap_or(source);
    let is_of_now = Instant::from_nanos(drop.at_ns) >= state.noted.policies_since;
    let refuser = reason
        .filter(|_| is_of_now)
        .and_then(|reason| refuser(state, Some(&interface), address, reason));
    let limit = refuser.and_then(|(_, named)| limit(named, reason?, drop.limit));
    // No limit refuses a packet over the budget for new sources, but a dry run of its policy
    // applies.
    let judge = if is_of_now && reason == Some(DropReason::NewSources) {
        levels::policy_of(state, Some(&interface), address)
    } else {
        refuser
    };
    Dropped {
        source,
        from,
        packet: packet.unwrap_or_default(),
        reason: reason.map_or("unknown", DropReason::label).to_owned(),
        observed: state.intent.config.observes_on(Some(&interface))
            || judge.is_some_and(|(_, named)| is_dry_run(named, reason)),
        policy: refuser.map(|(name, _)| name.to_owned()),
        limit: limit.cloned(),
        interface,
    }
}

/// Returns the policy that refuses packets of `source` on an interface for a reason. `None` if
/// there is none, or there are several candidates.
pub fn refuser<'a>(
    state: &'a State,
    interface: Option<&str>,
    source: IpAddr,
    reason: DropReason,
) -> Option<(&'a str, &'a Named)> {
    match reason {
        DropReason::Limited
        | DropReason::Contended
        | DropReason::NoState
        | DropReason::Class
        | DropReason::Policy => levels::policy_of(state, interface, source),
        DropReason::AggregateLimited => {
            match state.compiled.policies.of_prefixes(IpFamily::of(source))[..] {
                [(_, name, named)] => Some((name, named)),
                _ => None,
            }
        }
        // The event does not name the destination.
        DropReason::DestinationLimited | DropReason::SourceToDestinationLimited => {
            state.compiled.policies.only_destination()
        }
        DropReason::NodeLimited => state.compiled.policies.node_on(interface),
        DropReason::Banned
        | DropReason::Truncated
        | DropReason::VlanDepth
        | DropReason::ExtensionDepth
        | DropReason::TunnelTruncated
        | DropReason::TunnelDepth
        | DropReason::NewSources
        | DropReason::Challenged
        | DropReason::InvalidSource
        | DropReason::NeighbourDiscovery => None,
    }
}

/// Whether what a policy refuses for this reason passes.
fn is_dry_run(named: &Named, reason: Option<DropReason>) -> bool {
    let further = named.further.as_ref();
    let of_each = further.filter(|_| reason == Some(DropReason::SourceToDestinationLimited));
    of_each
        .map_or(&named.policy, |further| &further.policy)
        .observe()
}

/// Returns the limit at `index` that refuses for a reason. A class and the action of a policy
/// refuse without a limit.
pub fn limit(named: &Named, reason: DropReason, index: u8) -> Option<&LimitSpec> {
    // Limits of each source to a destination come after the limits of the destination.
    let before = if reason == DropReason::SourceToDestinationLimited {
        named.policy.len()
    } else {
        0
    };
    let limit = named.limits.get(before + usize::from(index))?;
    (!matches!(reason, DropReason::Class | DropReason::Policy)).then_some(limit)
}

/// Returns the source of a packet. An IPv6 source may look like a mapped IPv4 address.
fn source(drop: &DropEvent) -> IpAddr {
    let source = IpAddr::V6(Ipv6Addr::from(drop.source));
    if drop.family == Family::Ipv4 as u8 {
        source.to_canonical()
    } else {
        source
    }
}
