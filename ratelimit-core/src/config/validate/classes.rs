//! Whether the classes fit together, and whether limits name existing ones.

use std::collections::{BTreeSet, HashMap};

use ratelimit_common::class::CLASSES_MAX;

use crate::{
    class::{BUILT_IN, Catalogue, Class, Match, Selected},
    config::{
        class::NamedClass,
        document::Document,
        report::{At, Report},
        suggestion,
    },
    diagnostic::Problem,
};

/// The classes that have names.
pub fn compile(document: &Document, report: &Report) -> Catalogue {
    let catalogue = named(&document.classes, report);
    check_mentions(document, &catalogue, report);
    check_challenged(document, &catalogue, report);
    check_count(document, &catalogue, report);
    catalogue
}

fn named(located: &[NamedClass], report: &Report) -> Catalogue {
    let mut catalogue = Catalogue::default();
    report.find_repeated(
        located
            .iter()
            .map(|named| (named.title.as_str(), &named.spot)),
        |title| format!("{title} is defined twice"),
        "make them one, or give one another name",
    );
    let mut classes: HashMap<&Class, &NamedClass> = HashMap::new();
    for named in located {
        if let Some(action) = named.action {
            catalogue.set_action(named.name.clone(), action);
        }
        let Some(class) = &named.class else { continue };
        if let Some(first) = classes
            .insert(class, named)
            .filter(|first| first.name != named.name)
        {
            let what = format!("{} has the same packets as {}", named.title, first.title);
            report.add_repeated(&named.spot, &first.spot, &what, "keep one of them");
        }
        if let Some(name) = built_in(class) {
            let message = format!(
                "{} has the same packets as the built-in class `{name}`",
                named.title
            );
            let hint = format!("remove it, and write match = \"{name}\"");
            report.add(&named.spot, Problem::new(message, hint));
        }
        catalogue.insert(named.name.clone(), class.clone());
    }
    catalogue
}

/// The built-in class that says the same.
fn built_in(class: &Class) -> Option<&'static str> {
    let catalogue = Catalogue::default();
    let selected = Ok(Selected::Class(class.clone()));
    let mut names = BUILT_IN.into_iter();
    names.find(|name| catalogue.select(&Match::Named((*name).to_owned())) == selected)
}

fn check_mentions(document: &Document, catalogue: &Catalogue, report: &Report) {
    // A wrong class was already reported; its use is not another problem.
    let defined: Vec<&str> = document
        .classes
        .iter()
        .map(|named| named.name.as_str())
        .collect();
    let challenged = document.challenged_classes().cloned();
    for name in report.take_mentions().into_iter().chain(challenged) {
        let known = catalogue.select(&Match::Named(name.value.clone())).is_ok();
        if known || defined.contains(&name.value.as_str()) {
            continue;
        }
        let names: Vec<&str> = catalogue.names().collect();
        let suggested = suggestion::word(&name.value, &names);
        let message = format!("there is no class `{}`", name.value);
        report.add(&name.spot, suggested.for_problem(&message));
    }
}

/// Refuses challenged classes without SYNs.
fn check_challenged(document: &Document, catalogue: &Catalogue, report: &Report) {
    for At { value, spot } in document.challenged_classes() {
        let problem = match catalogue.select(&Match::Named(value.clone())) {
            Ok(Selected::Class(class)) if !class.may_be_syn() => Problem::new(
                format!("the class `{value}` contains no SYN, so no client would be challenged"),
                "use a class that contains SYNs, such as tcp-syn, or remove it",
            ),
            Ok(Selected::Class(class)) if class.asks_destination() => Problem::new(
                format!(
                    "the class `{value}` selects destinations, for which the challenge has its own \
                     key"
                ),
                "use a class without `destination`, and list the prefixes in `destinations`",
            ),
            Ok(Selected::Other) => Problem::new(
                format!(
                    "`{value}` is what no limit counts, and the challenge is of single classes"
                ),
                "name classes, or remove `classes` to challenge all SYNs",
            ),
            // An unknown class was reported already.
            Ok(Selected::Class(_)) | Err(_) => continue,
        };
        report.add(spot, problem);
    }
}

fn check_count(document: &Document, catalogue: &Catalogue, report: &Report) {
    let acted_on = document
        .classes
        .iter()
        .filter(|named| named.action.is_some())
        .map(|named| (Match::Named(named.name.clone()), &named.spot));
    let mut used: BTreeSet<Class> = BTreeSet::new();
    for (wanted, spot) in acted_on.chain(document.used_classes()) {
        let Ok(Selected::Class(class)) = catalogue.select(&wanted) else {
            continue;
        };
        let parts = class.by_destination();
        let count = parts.len();
        let before = used.len();
        used.extend(parts);
        if before > CLASSES_MAX || used.len() <= CLASSES_MAX {
            continue;
        }
        let message = format!("with this one {} classes are used", used.len());
        let destinations = match count {
            1 => String::new(),
            _ => format!(": its destinations count as {count}"),
        };
        let hint = format!("keep {CLASSES_MAX}, the most that can be distinguished{destinations}");
        report.add(spot, Problem::new(message, hint));
    }
}
