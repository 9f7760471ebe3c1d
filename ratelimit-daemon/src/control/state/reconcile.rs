//! Restores the kernel's tables when another process changed them.
//!
//! Each second, the policies in use and all single values are compared with what was written, and
//! lists of up to [`ENTRIES_QUICK`] entries completely, a few at a time so that commands can run in
//! between. The class arrays have 133,122 elements, and there are 16,384 indices of policies, most
//! of them unused. Reading all of them takes 45 ms, so a part is read each second, and all within
//! 67 s. Reading a million entries takes a good part of a second. So for longer lists, the kernel
//! is asked for the number of entries, and [`PART`] of them are read. Added or removed entries are
//! found within a second, modified ones when their turn comes: for a million entries within two
//! minutes. A list with a difference is compared completely and repaired at once. The daemon's own
//! writes need no comparison: the kernel confirms each, and a failed one that cannot be undone
//! triggers a full comparison in the next second. A plan that could not be enforced also triggers
//! one, and is applied again.
//!
//! Before 6.4, the kernel does not report the number of entries. Removed entries are then found
//! every [`WHOLE`].

use std::time::{Duration, Instant};

use smart_default::SmartDefault;
use tracing::warn;

use super::State;
use crate::{
    clock,
    control::enforcement::enforcer::verify::{ByKind, Extent, PART, Turn},
};

/// Longer lists are not read completely each second.
const ENTRIES_QUICK: u64 = PART as u64;
/// The interval of full comparisons if the kernel does not count entries.
const WHOLE: Duration = Duration::from_mins(5);
/// The interval of retries for differences that could not be repaired.
const AGAIN: Duration = Duration::from_secs(10);

/// Differences between the kernel and the intent.
#[derive(Clone, Debug)]
pub struct Reconciliation {
    /// The sizes of the tables as intended.
    pub intended: ByKind,
    /// Missing elements that could not be restored.
    pub missing: ByKind,
    /// Repaired differences so far.
    pub repaired: ByKind,
}

/// The state of the comparisons.
#[derive(Debug, SmartDefault)]
pub(crate) struct Comparisons {
    missing: ByKind,
    repaired: ByKind,
    /// The time of the last full comparison.
    #[default(clock::monotonic())]
    begun: Instant,
    /// The rest of the comparison of this second.
    turn: Turn,
}

impl Comparisons {
    /// Compares the kernel with the intent as far as that is cheap, and repairs differences.
    pub fn begin(&mut self, state: &mut State) {
        if self.is_whole_due(state) {
            self.whole(state, Extent::InUse);
            self.turn = Turn::Spare;
            return;
        }
        let different = state.enforcer.verify_tables(Extent::InUse);
        self.repair(state, different.map_err(Into::into), false);
        self.turn = state.enforcer.turn();
    }

    /// Compares the next part, and returns whether more is due in this second, after waiting
    /// commands.
    pub fn go_on(&mut self, state: &mut State) -> bool {
        let different = state.enforcer.compare_some(&mut self.turn);
        // The comparison reports what cannot be read.
        if different.unwrap_or(true) {
            self.turn = Turn::End;
            self.whole(state, Extent::All);
        }
        let has_ended = matches!(self.turn, Turn::End);
        if has_ended {
            state.enforcer.datapath_mut().lists.release();
        }
        !has_ended
    }

    /// Returns whether a full comparison is due, because there is a difference or may be one.
    fn is_whole_due(&self, state: &State) -> bool {
        let is_short = state.enforcer.len() <= ENTRIES_QUICK;
        let since = clock::elapsed(self.begun);
        if self.missing.sum() > 0 || state.noted.is_behind {
            return is_short || since >= AGAIN;
        }
        let is_blind = !state.enforcer.is_counted();
        state.enforcer.is_suspicious() || (is_blind && (is_short || since >= WHOLE))
    }

    /// Compares everything in the kernel with the intent, and repairs differences.
    pub fn whole(&mut self, state: &mut State, extent: Extent) {
        self.begun = clock::monotonic();
        let different = state.enforcer.verify(extent);
        self.repair(state, different.map_err(Into::into), true);
    }

    /// Returns the differences between the kernel and the intent.
    pub fn reconciliation(&self, state: &State) -> Reconciliation {
        Reconciliation {
            intended: state.enforcer.written(),
            missing: self.missing,
            repaired: self.repaired,
        }
    }

    /// Repairs `different` and, with `again`, what could not be repaired or enforced before.
    fn repair(&mut self, state: &mut State, different: anyhow::Result<ByKind>, again: bool) {
        let answer = different.and_then(|different| {
            let due = again && (self.missing.sum() > 0 || state.noted.is_behind);
            if different.sum() == 0 && !due {
                return Ok(());
            }
            let mut wrong = different;
            wrong.add(&self.missing);
            self.missing = wrong;
            state.enforce_all()?;
            self.repaired.add(&wrong);
            self.missing = ByKind::default();
            for (kind, different) in wrong.labelled().filter(|(_, different)| *different > 0) {
                warn!(kind, different, "repaired the kernel tables");
            }
            Ok(())
        });
        if let Err(error) = answer {
            let error = format!("{error:#}");
            warn!(error, "cannot check and repair the kernel tables");
        }
    }
}
