//! What the challenge needs from the world.

use super::{Asked, Counted, Rules, Segment, Shared, Verified, cookie::Message};
use crate::{Address, Instant};

/// The state of the challenge, as sources of one family see it. Tables without a challenge have no rules, and are asked for nothing
/// else.
pub trait ChallengeState<A: Address> {
    /// When it is on; `None` where there is no challenge.
    #[inline(always)]
    fn rules(&self) -> Option<&Rules> {
        None
    }

    /// The [cookie](super::cookie::hash) of a message.
    #[inline(always)]
    fn cookie(&self, _: &Message) -> u32 {
        0
    }

    /// Whether a segment acknowledges a cookie of a listener of this host.
    #[inline(always)]
    fn acknowledges_listener(&self, _: &Segment<A>) -> bool {
        false
    }

    /// Takes one of what all CPUs share; `false` when it is spent.
    #[inline(always)]
    fn takes(&self, _: Shared, _now: Instant) -> bool {
        false
    }

    /// Whether a SYN, or a query, is judged as if there were no challenge, as far as this CPU knows what becomes of the next.
    /// It takes one of those that the CPU has drawn where all are counted, and nothing where the source is verified. A share ends with its
    /// second, and so does what another CPU does not know yet: that sources are challenged.
    #[inline(always)]
    fn passes(&self, _: Asked, _source: &A, _now: Instant) -> bool {
        false
    }

    /// The same of a SYN to a port of which no queries are challenged.
    #[inline(always)]
    fn passes_but_to_dns(&self, _now: Instant) -> bool {
        false
    }

    /// Notes which SYNs to [targets](super::Targets), or queries, that come to this CPU are counted and no more, whatever they are.
    #[inline(always)]
    fn set_counted(&self, _: Asked, _: Option<Counted>) {}

    /// Notes until when SYNs, or queries, of sources that this CPU knows as verified are not counted.
    #[inline(always)]
    fn set_passes_verified(&self, _: Asked, _until: Instant) {}

    /// Whether nobody is challenged, as far as this CPU knows.
    #[inline(always)]
    fn is_idle(&self, _now: Instant) -> bool {
        false
    }

    /// Notes until when nobody is.
    #[inline(always)]
    fn set_idle_until(&self, _until: Instant) {}

    /// Forgets what becomes of the next packets, as sources are challenged from now on.
    #[inline(always)]
    fn forget_next(&self) {}

    /// Takes one of the answers to a source; `false` when it had enough of them.
    #[inline(always)]
    fn may_answer(&self, _source: &A, _now: Instant) -> bool {
        false
    }

    /// Counts a question without an answer, as the answers are spent.
    #[inline(always)]
    fn count_unanswered(&self) {}

    /// Until when it is on, by what was seen last.
    #[inline(always)]
    fn until(&self, _: Asked) -> Instant {
        Instant::default()
    }

    /// Until when nobody is challenged, whatever comes.
    #[inline(always)]
    fn suspended_until(&self) -> Instant {
        Instant::default()
    }

    /// Notes until when it is on.
    #[inline(always)]
    fn set_until(&self, _: Asked, _until: Instant) {}

    /// Notes since when it is on.
    #[inline(always)]
    fn set_since(&self, _: Asked, _since: Instant) {}

    /// Until when a source is, or was, verified.
    #[inline(always)]
    fn verified(&self, _source: &A) -> Option<Verified> {
        None
    }

    /// Whether this CPU knows a source as verified without a look into the table, where that is less work. Where verified sources are
    /// preferred it knows those alone that [are](Self::is_acknowledged).
    #[inline(always)]
    fn knows_verified(&self, source: &A, now: Instant) -> bool {
        if self.rules().is_some_and(Rules::prefers_verified) {
            self.is_acknowledged(source, now)
        } else {
            self.is_verified(source, now)
        }
    }

    /// Whether a source is verified by more than a RST, so that what comes from its address is its own.
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

    /// Notes that a source is verified.
    #[inline(always)]
    fn verify(&self, _source: &A, _: Verified) {}
}
