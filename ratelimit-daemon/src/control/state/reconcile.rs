//! Brings the kernel's tables back to what is intended when somebody else changed them.
//!
//! Each second the policies and what there is one of are compared with what was written, and lists of up to [`ENTRIES_QUICK`] entries
//! whole, some of them at once. Commands come in between. The arrays of classes have 133,122 elements, and there are 16,384 indices
//! of policies, most of which nothing names. To read all of them takes 45 ms: a part of them is read in a second, and all within 67.
//! Reading a million entries takes a good part of a second. So of longer lists the kernel is asked how many entries there
//! are, and [`PART`] of them are read. What was put in or taken out is found within a second, what was changed in place or swapped
//! when its turn comes. Of a million entries that is within two minutes. A list in which something is found is
//! compared whole and put right at once. Own writes need no comparison: the kernel answers each, and one that fails and cannot be
//! taken back has everything compared in the next second.
//!
//! A kernel before 6.4 does not say how many entries there are. There what was taken out is found every [`WHOLE`].

use std::time::{Duration, Instant};

use smart_default::SmartDefault;
use tracing::warn;

use super::State;
use crate::{
    clock,
    control::enforcement::enforcer::verify::{ByKind, Extent, PART, Turn},
};

/// Lists with more entries are not read whole each second.
const ENTRIES_QUICK: u64 = PART as u64;
/// How often all are read where the kernel does not count them.
const WHOLE: Duration = Duration::from_mins(5);
/// How often where something is wrong that could not be put right.
const AGAIN: Duration = Duration::from_secs(10);

/// How what is enforced stands to what is intended.
#[derive(Clone, Debug)]
pub struct Reconciliation {
    /// What is to be in the tables.
    pub intended: ByKind,
    /// What of it is not there, and could not be put there.
    pub missing: ByKind,
    /// What was different so far, and was put right.
    pub repaired: ByKind,
}

/// What is remembered of comparisons.
#[derive(Debug, SmartDefault)]
pub(crate) struct Comparisons {
    missing: ByKind,
    repaired: ByKind,
    /// When all was compared last.
    #[default(clock::monotonic())]
    begun: Instant,
    /// What is left to compare in this second.
    turn: Turn,
}

impl Comparisons {
    /// Begins to compare what the kernel holds with what is intended, as far as that is cheap, and puts right what is different.
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

    /// Compares the next part, and answers whether there is another in this second: commands come in between.
    pub fn go_on(&mut self, state: &mut State) -> bool {
        let different = state.enforcer.compare_some(&mut self.turn);
        // What cannot be read says so in the comparison.
        if different.unwrap_or(true) {
            self.turn = Turn::End;
            self.whole(state, Extent::All);
        }
        let has_ended = matches!(self.turn, Turn::End);
        if has_ended {
            state.enforcer.datapath_mut().release();
        }
        !has_ended
    }

    /// Whether everything is to be compared at once: something is wrong, or may be.
    fn is_whole_due(&self, state: &State) -> bool {
        let is_short = state.enforcer.len() <= ENTRIES_QUICK;
        let since = clock::elapsed(self.begun);
        if self.missing.sum() > 0 {
            return is_short || since >= AGAIN;
        }
        let is_blind = !state.enforcer.is_counted();
        state.enforcer.is_suspicious() || (is_blind && (is_short || since >= WHOLE))
    }

    /// Compares all that the kernel holds with what is intended, and puts right what is different.
    pub fn whole(&mut self, state: &mut State, extent: Extent) {
        self.begun = clock::monotonic();
        let different = state.enforcer.verify(extent);
        self.repair(state, different.map_err(Into::into), true);
    }

    /// How what is enforced stands to what is intended.
    pub fn reconciliation(&self, state: &State) -> Reconciliation {
        Reconciliation {
            intended: state.enforcer.written(),
            missing: self.missing,
            repaired: self.repaired,
        }
    }

    /// Puts `different` right, and where `again`, also what could not be put right before.
    fn repair(&mut self, state: &mut State, different: anyhow::Result<ByKind>, again: bool) {
        let answer = different.and_then(|different| {
            let due = again && self.missing.sum() > 0;
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
