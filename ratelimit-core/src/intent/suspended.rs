//! Runtime limits that the configuration has no place for: they are kept, and do not hold.

use ratelimit_common::Instant;

use super::{Intent, LimitRow, Target};

/// Limits that are suspended.
#[derive(Clone, Debug)]
pub struct Suspended {
    /// The limits. Other limits of the same target are in force.
    row: LimitRow,
    why: String,
}

impl Suspended {
    /// The expiry.
    pub(super) const fn until_mut(&mut self) -> &mut Instant {
        &mut self.row.entry.until
    }
}

impl Intent {
    /// The runtime limits that hold.
    pub fn limits_in_force(&self) -> impl Iterator<Item = (&Target, &LimitRow)> {
        let limits = self.limits().iter();
        limits.filter(|(target, row)| !self.is_suspended(**target, row))
    }

    /// Returns the suspended limits of one target.
    pub fn limits_of(&self, target: Target) -> Option<&LimitRow> {
        let row = self.limits().get(&target)?;
        (!self.is_suspended(target, row)).then_some(row)
    }

    /// The targets of those that are not in force, and why.
    pub fn suspended_limits(&self) -> impl Iterator<Item = (Target, &str)> {
        let limits = self.limits().iter();
        let suspended = limits.filter(|(target, row)| self.is_suspended(**target, row));
        suspended.map(|(target, _)| (*target, &*self.suspended[target].why))
    }

    fn is_suspended(&self, target: Target, row: &LimitRow) -> bool {
        let suspended = self.suspended.get(&target);
        suspended.is_some_and(|suspended| suspended.row == *row)
    }

    /// Has those of one target not hold.
    pub fn leave_out(&mut self, target: Target, why: String) {
        if let Some(row) = self.limits().get(&target).cloned() {
            self.suspended.insert(target, Suspended { row, why });
        }
    }
}
