//! Packets that the challenge does not concern, or only counts, told quickly.

use super::{ChallengeState, Traffic, is_wanted, query};
use crate::{
    Address, Cursor, Flow, Instant, Settings,
    parse::transport::{ACK, FIN, RST, SYN, UpperLayer},
};

/// The time for which a CPU remembers that the challenge is off, in nanoseconds. Then it checks
/// again, because another CPU may have turned it on, or the rules may have changed. With the coarse
/// clock it remembers for at least a tick.
pub const IDLE_NS: u64 = 1_000_000;

/// Records whether this CPU may skip the challenge for a while, because it is off.
#[inline(always)]
pub fn record_idle<A: Address, S: ChallengeState<A>>(now: Instant, state: &S) {
    let Some(rules) = state.rules() else {
        return;
    };
    let is_on = |asked| is_wanted(asked, rules, now, state);
    let idle_ns = if is_on(Traffic::Connections) || is_on(Traffic::Queries) {
        0
    } else {
        now.as_nanos().saturating_add(IDLE_NS)
    };
    state.set_idle_until(Instant::from_nanos(idle_ns));
}

/// Whether a packet is quickly known to be judged as if there were no challenge: by the settings,
/// or by this CPU's cached knowledge. So most packets cost little while the challenge is off.
///
/// If all packets are counted, it takes one of the CPU's drawn share. They are counted while
/// connections are not challenged, whatever `prefer` says. `frame` returns a cursor at its
/// beginning.
#[inline(always)]
pub fn is_unchallenged<'a, A: Address>(
    source: &A,
    frame: impl Fn() -> Cursor<'a>,
    flow: &Flow<A>,
    settings: Settings,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> bool {
    let upper = flow.upper;
    let is_unasked = if upper.is_segment() {
        let Some(segment) = upper.segment_front(frame()) else {
            return false;
        };
        if is_syn(segment.flags()) {
            let has_targets = settings.has_challenge_targets();
            if !has_targets {
                if state.passes(Traffic::Connections, source, now) {
                    return true;
                }
                if settings.challenges_only_tcp() {
                    return false;
                }
            }
            let port = segment.destination_port();
            let Some(rules) = state.rules() else {
                return true;
            };
            if !has_targets || rules.targets().include(flow.destination, port) {
                return has_targets && state.passes(Traffic::Connections, source, now)
                    || !rules.asks_queries_to(port) && state.passes_but_to_dns(now);
            }
            !rules.asks_queries_to(port)
        } else {
            segment.flags() & RST == 0 && settings.spares_acknowledgements()
        }
    } else if may_be_query(&frame, upper, settings, state) {
        return state.passes(Traffic::Queries, source, now);
    } else if upper.begins_segment() {
        return false;
    } else {
        true
    };
    // If verified sources are preferred, the source of every packet matters.
    is_unasked && !settings.prefers_verified()
        || state.is_idle(now)
        || state.knows_verified(source, now)
}

/// Whether a packet is a datagram to a port for which sources may be challenged.
#[inline(always)]
fn may_be_query<'a, A: Address>(
    frame: &impl Fn() -> Cursor<'a>,
    upper: UpperLayer,
    settings: Settings,
    state: &impl ChallengeState<A>,
) -> bool {
    if settings.challenges_only_tcp() || !upper.is_datagram() {
        return false;
    }
    let Some(port) = query::port(frame(), upper) else {
        return false;
    };
    if settings.challenges_only_tcp_and_dns() {
        return port == query::DNS_PORT;
    }
    state
        .rules()
        .is_some_and(|rules| rules.asks_queries_to(port))
}

#[inline(always)]
const fn is_syn(flags: u8) -> bool {
    flags & (SYN | ACK | RST | FIN) == SYN
}
