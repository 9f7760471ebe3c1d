//! Lists of prefixes: the sources of a policy, the allow list, and what is never banned.

use std::collections::HashMap;

use super::{
    report::{At, Report, Spot},
    table::Value,
};
use crate::{
    diagnostic::Problem,
    prefix::{Prefix, PrefixError},
};

/// The most prefixes of `[protected]`: each ban is compared with all of them.
const PROTECTED_MAX: usize = 256;

const EXAMPLE: &str = "sources = [\"192.0.2.0/24\", \"2001:db8::1\"]";

/// Reads a list of prefixes.
pub fn read(value: Value<'_>, report: &mut Report) -> Vec<At<Prefix>> {
    let items = value.list(EXAMPLE, report).unwrap_or_default();
    items
        .into_iter()
        .filter_map(|item| read_prefix(item, report))
        .collect()
}

/// Reports what `[protected]` cannot hold: everything, and more than are looked through for each ban.
pub fn check_protected(list: &[At<Prefix>], report: &mut Report) {
    Places::default().enter("[protected]", list, report);
    if let Some(more) = list.get(PROTECTED_MAX) {
        let message = format!("[protected] has more than {PROTECTED_MAX} prefixes");
        let hint = "write wider prefixes, or fewer";
        report.add(&more.spot, Problem::new(message, hint));
    }
    for everything in list.iter().filter(|at| at.value.is_empty()) {
        let message = format!("{} is every address: no ban would hold", everything.value);
        let hint = "name the networks, or write observe = true for a dry run";
        report.add(&everything.spot, Problem::new(message, hint));
    }
}

fn read_prefix(value: Value<'_>, report: &mut Report) -> Option<At<Prefix>> {
    let text = value.text(EXAMPLE, report)?;
    match text.value.parse() {
        Ok(prefix) => Some(text.map(|_| prefix)),
        Err(error) => {
            let replacement = match &error {
                PrefixError::HostBits { network, .. } => Some(format!("\"{network}\"")),
                PrefixError::Syntax(_) | PrefixError::Length { .. } => None,
            };
            report.add(&text.spot, Problem::from(error).replaced_by(replacement));
            None
        }
    }
}

/// Prefixes that may stand once, and where they do.
#[derive(Default)]
pub struct Places<'d> {
    places: HashMap<Prefix, (&'d str, &'d Spot)>,
}

impl<'d> Places<'d> {
    /// Enters the prefixes of the table `title`, and reports those that were entered before.
    pub fn enter(&mut self, title: &'d str, list: &'d [At<Prefix>], report: &mut Report) {
        for At { value, spot } in list {
            let Some((first_title, first)) = self.places.insert(*value, (title, spot)) else {
                continue;
            };
            let (what, hint) = if first_title == title {
                (format!("{value} stands twice in {title}"), "remove it")
            } else {
                let what = format!("{value} stands in {first_title} and in {title}");
                (what, "remove it from one of them: a source has one policy")
            };
            report.add_repeated(spot, first, &what, hint);
        }
    }
}
