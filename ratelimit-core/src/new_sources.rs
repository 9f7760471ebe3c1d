//! The budget for new sources, as people say it.

use std::{fmt, num::NonZeroU32, time::Duration};

use ratelimit_common::{new_sources::Budget, settings::OverBudget};

use crate::quantity;

/// The budget for new sources, and the action over budget.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NewSources {
    /// New sources in a window, on all CPUs together.
    pub count: NonZeroU32,
    /// The length of the window.
    pub per: Duration,
    /// The action for packets of new sources over budget.
    pub over_budget: OverBudget,
}

/// The verdict over budget, as they are written.
pub const OVER_BUDGET: [(&str, OverBudget); 3] = [
    ("pass", OverBudget::Pass),
    ("drop", OverBudget::Drop),
    ("aggregate", OverBudget::Aggregate),
];

impl NewSources {
    /// Compiles the budget, shared by `cpus` CPUs.
    ///
    /// # Panics
    ///
    /// If the configuration would not accept the count and time.
    pub fn compile(&self, cpus: u32) -> Budget {
        Budget::new(self.count, self.per, cpus).expect("the configuration refuses more")
    }

    /// The verdict over budget, as the configuration spells it.
    pub fn over_budget_label(&self) -> &'static str {
        let same = |(_, over_budget): &&(&str, OverBudget)| *over_budget == self.over_budget;
        OVER_BUDGET.iter().find(same).map_or("", |(label, _)| label)
    }
}

impl fmt::Display for NewSources {
    /// `100000 per 1s, over budget drop`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, per) = (self.count, quantity::duration(self.per));
        write!(
            formatter,
            "{count} per {per}, over budget {}",
            self.over_budget_label()
        )
    }
}
