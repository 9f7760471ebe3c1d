//! Runtime limits that do not fit the configuration: they are kept, and do not hold.

use ratelimit_common::Instant;

use super::{Intent, LimitRow, Target};

/// Limits that are inactive.
#[derive(Clone, Debug)]
pub struct Inactive {
    /// The limits. Other limits of the same target are in force.
    row: LimitRow,
    why: String,
}

impl Inactive {
    /// The expiry.
    pub(super) const fn until_mut(&mut self) -> &mut Instant {
        &mut self.row.entry.until
    }
}

impl Intent {
    /// The runtime limits that hold.
    pub fn limits_in_force(&self) -> impl Iterator<Item = (&Target, &LimitRow)> {
        let limits = self.limits().iter();
        limits.filter(|(target, row)| !self.is_inactive(**target, row))
    }

    /// Returns the limits of one target, if they are in force.
    pub fn limits_of(&self, target: Target) -> Option<&LimitRow> {
        let row = self.limits().get(&target)?;
        (!self.is_inactive(target, row)).then_some(row)
    }

    /// Returns the targets of the inactive limits, and why they are inactive.
    pub fn inactive_limits(&self) -> impl Iterator<Item = (Target, &str)> {
        let limits = self.limits().iter();
        let inactive = limits.filter(|(target, row)| self.is_inactive(**target, row));
        inactive.map(|(target, _)| (*target, &*self.inactive[target].why))
    }

    fn is_inactive(&self, target: Target, row: &LimitRow) -> bool {
        let inactive = self.inactive.get(&target);
        inactive.is_some_and(|inactive| inactive.row == *row)
    }

    /// Deactivates the limits of one target.
    pub fn deactivate(&mut self, target: Target, why: String) {
        if let Some(row) = self.limits().get(&target).cloned() {
            self.inactive.insert(target, Inactive { row, why });
        }
    }
}
