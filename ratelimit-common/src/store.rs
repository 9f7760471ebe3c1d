//! The stored data of one family's sources: the state of their limits, the budget for new ones, and
//! cached denials.
//!
//! A store only reports what it contains. [`source_limits`](crate::source_limits) decides what that
//! means for a packet.

use crate::{
    Address, Arrival, Instant, Policy, charge::words::Words, limit::LIMITS_MAX,
    new_sources::Newcomer,
};

/// The reason the state of a new source was not stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InsertError {
    /// Another CPU stored it first.
    Exists,
    /// There is no room, for the moment.
    Full,
}

/// The store of sources' state.
pub trait Store<A: Address> {
    /// A source under the policy of a scope, as it is looked up.
    type Key<'a>: Copy
    where
        Self: 'a;

    /// The state of one source.
    type Words<'a>: Words
    where
        Self: 'a;

    /// The word by which a limit refused a source before.
    type Denial<'a>: Words
    where
        Self: 'a;

    /// The key of `source`, which is masked, under the policy of this scope.
    fn key<'a>(&self, source: &'a A, scope: u32) -> Self::Key<'a>;

    /// The state of a source, its own or the one that it would inherit; `None` where there is
    /// neither.
    fn words<'a>(&'a self, key: &'a Self::Key<'a>) -> Option<Self::Words<'a>>;

    /// Makes the state of a source that was not seen before: nothing is used.
    ///
    /// # Errors
    ///
    /// See [`InsertError`].
    fn insert(&self, key: &Self::Key<'_>) -> Result<(), InsertError>;

    /// Takes one of the budget for state; `false` when it is spent. See
    /// [`new_sources`](crate::new_sources).
    fn admits(&self, newcomer: Newcomer, arrival: &Arrival) -> bool;

    /// Whether it is known that nothing is left of the budget for sources. [`admits`](Self::admits)
    /// refuses one then.
    #[inline(always)]
    fn is_budget_spent(&self, _: &Arrival) -> bool {
        false
    }

    /// Whether the word by which the only limit of the policy with this scope refused a source is
    /// cached, and `refuses` the packet again. This is counted like in
    /// [`count_refusal`](crate::tables::FamilyTables::count_refusal).
    #[inline(always)]
    fn is_denied(
        &self,
        _source: &A,
        _scope: u32,
        _at: Instant,
        _refuses: impl FnOnce(Self::Denial<'_>) -> bool,
    ) -> bool {
        false
    }

    /// Caches the word by which the only limit of a policy has refused a source at this time.
    #[inline(always)]
    fn keep_denial(&self, _: &Self::Key<'_>, _: &Self::Words<'_>, _at: Instant) {}
}

/// Whether state is the source's own: that of the first limit of the policy that counts the packet
/// is, or that of any. A budget counts sources, and not their limits.
#[inline(always)]
pub fn is_own(words: &impl Words, policy: &Policy, arrival: &Arrival) -> bool {
    let Some((index, limit)) = policy.first_counting(arrival) else {
        return true;
    };
    if words.has_own(index, limit) {
        return true;
    }
    for index in 0..LIMITS_MAX {
        let Some(limit) = policy.limit(index) else {
            return false;
        };
        if words.has_own(index, limit) {
            return true;
        }
    }
    false
}
