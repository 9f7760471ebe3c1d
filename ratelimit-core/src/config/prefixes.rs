//! Lists of prefixes: sources of a policy, allow list, and protected prefixes.

use std::collections::HashMap;

use super::{
    report::{At, Report, Spot},
    table::Value,
};
use crate::{diagnostic::Problem, prefix::Prefix};

/// The most prefixes of `[protected]`: each ban is compared with all of them.
const PROTECTED_MAX: usize = 256;

const EXAMPLE: &str = "sources = [\"192.0.2.0/24\", \"2001:db8::1\"]";

/// Reads a list of prefixes.
pub fn read(value: Value<'_>) -> Vec<At<Prefix>> {
    let items = value.list(EXAMPLE).unwrap_or_default();
    let read = |item: &Value<'_>| item.located(|item| item.parsed(EXAMPLE));
    items.iter().filter_map(read).collect()
}

/// Reports what `[protected]` cannot hold: everything, and more than are looked through for each
/// ban.
pub fn check_protected(list: &[At<Prefix>], report: &Report) {
    Places::default().enter("[protected]", list, report);
    if let Some(more) = list.get(PROTECTED_MAX) {
        let message = format!("[protected] has more than {PROTECTED_MAX} prefixes");
        let hint = "write wider prefixes, or fewer";
        report.add(&more.spot, Problem::new(message, hint));
    }
    for everything in list.iter().filter(|at| at.value.is_empty()) {
        let message = format!(
            "{} covers every address: no ban would apply",
            everything.value
        );
        let hint = "name the networks, or write observe = true for a dry run";
        report.add(&everything.spot, Problem::new(message, hint));
    }
}

/// Prefixes that may occur once, with their positions.
#[derive(Default)]
pub struct Places<'d> {
    places: HashMap<Prefix, (&'d str, &'d Spot)>,
}

impl<'d> Places<'d> {
    /// Adds the prefixes of the table `title`, and reports duplicates.
    pub fn enter(&mut self, title: &'d str, list: &'d [At<Prefix>], report: &Report) {
        for At { value, spot } in list {
            let Some((first_title, first)) = self.places.insert(*value, (title, spot)) else {
                continue;
            };
            let (what, hint) = if first_title == title {
                (format!("{value} is listed twice in {title}"), "remove it")
            } else {
                let what = format!("{value} is in both {first_title} and {title}");
                (what, "remove it from one of them: a source has one policy")
            };
            report.add_repeated(spot, first, &what, hint);
        }
    }
}
