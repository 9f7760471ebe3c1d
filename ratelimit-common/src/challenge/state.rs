//! The environment of the challenge.

use super::{
    Counted, Rules, Segment, Shared, Traffic, Verified,
    answer::ListenerCookie,
    cookie::Message,
    options::{Request, Written},
};
use crate::{Address, Instant};

/// The state of the challenge for sources of one family. Tables without a challenge have no rules,
/// and receive no other calls.
pub trait ChallengeState<A: Address> {
    /// The rules; `None` without a challenge.
    #[inline(always)]
    fn rules(&self) -> Option<&Rules> {
        None
    }

    /// The [cookie](super::cookie::hash) of a message.
    #[inline(always)]
    fn cookie(&self, _: &Message) -> u32 {
        0
    }

    /// The answer of its listener to a SYN. `None` if there is no listener, or it is not asked.
    #[inline(always)]
    fn listener_cookie(&self, _: &Segment<A>) -> Option<ListenerCookie> {
        None
    }

    /// [Writes](super::options::write) the options of a listener's answer into the frame. `None` if
    /// it has no room for them.
    #[inline(always)]
    fn write_options(&self, _: Request, _now: Instant) -> Option<Written> {
        None
    }

    /// Whether a segment acknowledges a cookie of a listener on this host.
    #[inline(always)]
    fn acknowledges_listener(&self, _: &Segment<A>) -> bool {
        false
    }

    /// Takes one from a shared budget. `false` if it is spent.
    #[inline(always)]
    fn takes(&self, _: Shared, _now: Instant) -> bool {
        false
    }

    /// Whether a SYN or query is judged as if there were no challenge, by this CPU's knowledge
    /// about the next packets. If all are counted, it takes one of the CPU's drawn share; for a
    /// verified source it takes nothing. A share ends with its second, which is also when this CPU
    /// learns that another one turned the challenge on.
    #[inline(always)]
    fn passes(&self, _: Traffic, _source: &A, _now: Instant) -> bool {
        false
    }

    /// Like `passes`, for a SYN to a port whose queries are not challenged.
    #[inline(always)]
    fn passes_but_to_dns(&self, _now: Instant) -> bool {
        false
    }

    /// Records which SYNs to [targets](super::Targets), or queries, are only counted on this CPU,
    /// whatever they are.
    #[inline(always)]
    fn set_counted(&self, _: Traffic, _: Option<Counted>) {}

    /// Records the time until which SYNs or queries of sources that this CPU knows as verified are
    /// not counted.
    #[inline(always)]
    fn set_passes_verified(&self, _: Traffic, _until: Instant) {}

    /// Whether the challenge is off, as far as this CPU knows.
    #[inline(always)]
    fn is_idle(&self, _now: Instant) -> bool {
        false
    }

    /// Records the time until which the challenge is off.
    #[inline(always)]
    fn set_idle_until(&self, _until: Instant) {}

    /// Discards all knowledge about the next packets, because the challenge is on from now.
    #[inline(always)]
    fn invalidate_next(&self) {}

    /// Takes an answer to a source. `false` if it had enough.
    #[inline(always)]
    fn may_answer(&self, _source: &A, _now: Instant) -> bool {
        false
    }

    /// Counts a request that was not answered because the budget was spent.
    #[inline(always)]
    fn count_unanswered(&self) {}

    /// The last seen end of the challenge.
    #[inline(always)]
    fn until(&self, _: Traffic) -> Instant {
        Instant::default()
    }

    /// The end of the pause.
    #[inline(always)]
    fn paused_until(&self) -> Instant {
        Instant::default()
    }

    /// Records the end of the challenge.
    #[inline(always)]
    fn set_until(&self, _: Traffic, _until: Instant) {}

    /// Records the beginning of the challenge.
    #[inline(always)]
    fn set_since(&self, _: Traffic, _since: Instant) {}

    /// The expiry of the verification of a source, which may be in the past.
    #[inline(always)]
    fn verified(&self, _source: &A) -> Option<Verified> {
        None
    }

    /// Whether this CPU knows a source as verified without reading the table, if that is cheaper.
    /// If verified sources are preferred, it knows only those that are
    /// [acknowledged](Self::is_acknowledged).
    #[inline(always)]
    fn knows_verified(&self, source: &A, now: Instant) -> bool {
        if self.rules().is_some_and(Rules::prefers_verified) {
            self.is_acknowledged(source, now)
        } else {
            self.is_verified(source, now)
        }
    }

    /// Whether a source was verified by more than a RST, so that packets from its address are its
    /// own.
    #[inline(always)]
    fn is_acknowledged(&self, source: &A, now: Instant) -> bool {
        self.verified(source)
            .is_some_and(|verified| now < verified.until() && !verified.is_by_reset())
    }

    /// Whether a source is verified.
    #[inline(always)]
    fn is_verified(&self, source: &A, now: Instant) -> bool {
        self.verified(source)
            .is_some_and(|verified| now < verified.until())
    }

    /// Records that a source is verified.
    #[inline(always)]
    fn verify(&self, _source: &A, _: Verified) {}
}
