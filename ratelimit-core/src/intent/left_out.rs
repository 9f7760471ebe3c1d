//! Limits by hand that the configuration has no place for: they are kept, and do not hold.

use ratelimit_common::Instant;

use super::{Intent, LimitRow};
use crate::{api::LimitsLeftOut, policies::DEFAULT, prefix::Prefix};

/// Whose limits they are; `None` is the default policy.
pub type Target = Option<Prefix>;

/// Limits that are left out.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// As they are: others of the same target hold.
    row: LimitRow,
    why: String,
}

impl LeftOut {
    /// When they end.
    pub(super) const fn until_mut(&mut self) -> &mut Instant {
        &mut self.row.until
    }
}

impl Intent {
    /// The limits by hand that hold.
    pub(super) fn limits_in_force(&self) -> impl Iterator<Item = (&Target, &LimitRow)> {
        let limits = self.limits().iter();
        limits.filter(|(target, row)| !self.is_left_out(**target, row))
    }

    /// Those of one target.
    #[must_use]
    pub fn limits_of(&self, target: Target) -> Option<&LimitRow> {
        let row = self.limits().get(&target)?;
        (!self.is_left_out(target, row)).then_some(row)
    }

    /// Those that do not hold.
    #[must_use]
    pub fn limits_left_out(&self) -> Vec<LimitsLeftOut> {
        let limits = self.limits().iter();
        let left_out = limits.filter(|(target, row)| self.is_left_out(**target, row));
        left_out
            .map(|(target, _)| LimitsLeftOut {
                policy: policy_name(*target),
                error: self.left_out[target].why.clone(),
            })
            .collect()
    }

    fn is_left_out(&self, target: Target, row: &LimitRow) -> bool {
        let left_out = self.left_out.get(&target);
        left_out.is_some_and(|left_out| left_out.row == *row)
    }

    /// Has those of one target not hold.
    pub fn leave_out(&mut self, target: Target, why: String) {
        if let Some(row) = self.limits().get(&target).cloned() {
            self.left_out.insert(target, LeftOut { row, why });
        }
    }
}

/// The name of the policy that such limits are.
#[must_use]
pub fn policy_name(target: Target) -> String {
    target.map_or_else(|| DEFAULT.to_owned(), |prefix| prefix.to_string())
}
