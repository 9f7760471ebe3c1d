//! Classes that are not used, and classes that share packets.

use crate::{
    class::{Catalogue, Match, Selected},
    config::{document::Document, limit::Group, report::Report},
    diagnostic::Problem,
    limit::LimitSpec,
};

/// Reports what is suspicious about the classes of `document`.
pub fn find(document: &Document, classes: &Catalogue, warnings: &Report) {
    for named in &document.classes {
        let name = Match::Named(named.name.clone());
        let is_used = document.used_classes().any(|(class, _)| class == name);
        if !is_used && classes.action(&named.name).is_none() {
            let message = format!("no limit counts {}", named.title);
            let hint = format!(
                "write match = \"{}\" in a limit, give it an action, or remove it",
                named.name
            );
            warnings.add(&named.spot, Problem::new(message, hint));
        }
    }
    for group in document.groups() {
        warn_of_overlaps(&group, classes, warnings);
    }
}

/// Warns of limits side by side of whose classes neither is a part of the other, and that have
/// packets in common.
fn warn_of_overlaps(group: &Group<'_>, classes: &Catalogue, warnings: &Report) {
    let mut seen: Vec<(&Match, &LimitSpec)> = vec![];
    for limit in &group.limits {
        let Some(class) = limit.value.class() else {
            continue;
        };
        if seen.iter().any(|(other, _)| *other == class) {
            continue;
        }
        for (other, first) in &seen {
            if let Some(example) = overlap(class, other, classes) {
                let message = format!(
                    "the classes {other} and {class} share packets, which both limits count: \
                     {example} is charged to {first} and to {}",
                    limit.value
                );
                let hint = "narrow one of them if that is not meant";
                warnings.add(&limit.spot, Problem::new(message, hint));
            }
        }
        seen.push((class, &limit.value));
    }
}

/// A packet of both classes, where neither is a part of the other.
fn overlap(one: &Match, other: &Match, classes: &Catalogue) -> Option<String> {
    let (Ok(Selected::Class(one)), Ok(Selected::Class(other))) =
        (classes.select(one), classes.select(other))
    else {
        return None;
    };
    if one.is_within(&other) || other.is_within(&one) {
        return None;
    }
    one.example_in_both(&other)
}

/// Whether `wide` counts every packet that `narrow` counts.
pub fn counts_all_of(wide: &LimitSpec, narrow: &LimitSpec, classes: &Catalogue) -> bool {
    let (wide, narrow) = match (wide.class(), narrow.class()) {
        (None, _) => return true,
        (Some(_), None) => return false,
        (Some(wide), Some(narrow)) => (classes.select(wide), classes.select(narrow)),
    };
    match (wide, narrow) {
        (Ok(Selected::Class(wide)), Ok(Selected::Class(narrow))) => narrow.is_within(&wide),
        (wide, narrow) => wide == narrow,
    }
}
