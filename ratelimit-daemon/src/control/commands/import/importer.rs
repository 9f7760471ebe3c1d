//! `rlctl import`: turns a list into bans, allows or lists, in one change.

use std::{collections::BTreeMap, sync::Arc};

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Code, ImportInto, ImportRequest, Imported, ImportedInto, Refused},
    config::Config,
    intent::{
        Edit, EntryRow, Intent,
        list::{Difference, List},
    },
    lists::{Action, Connected, Coverage, Entry, Facts, Reading, Reasons},
    origin::Origin,
    prefix::Prefix,
};

use crate::{
    clock,
    control::{
        lists::{fill, require_no_file, too_wide},
        state::protected_now::Protection,
        time::expiry::Ends,
    },
    protected::Requester,
};

/// The longest name of an imported list: the name of its copy has to fit into a directory.
const LIST_NAME_MAX: usize = 64;

/// The destination of an entry.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Target {
    Bans(Origin),
    Allows,
    List(Arc<str>, Action),
}

/// The state that an import is compared with.
pub struct Importer<'a> {
    pub intent: &'a Intent,
    /// Prefixes that bans exempt.
    pub protection: &'a Protection,
    /// The configuration that returns unless the trial is confirmed.
    pub before_trial: Option<Config>,
}

impl Importer<'_> {
    pub fn list(
        &self,
        request: &ImportRequest,
        mut reading: Reading,
        ends: &Ends,
        author: &str,
        answer: &mut Imported,
    ) -> Result<Vec<Edit>, Refused> {
        let name = self.list_name(request.list.as_deref().unwrap_or_default())?;
        if request.action == Action::Policy {
            let error = "an import cannot select sources of a policy";
            return Err(Refused::because(error).hint("use `mmdb` in [policy.NAME]"));
        }
        default_reason(request, &mut reading.entries, &mut reading.reasons);
        let mut list = List::new(request.action, None, clock::wall(), author.into());
        let cut = self.cut(request, request.action, &mut reading.entries, answer);
        require_word(request, &cut, self.protection)?;
        list.cut = cut;
        self.one_list(
            request,
            &name,
            list,
            (reading.entries, reading.reasons),
            ends,
            answer,
        )
    }

    fn one_list(
        &self,
        request: &ImportRequest,
        name: &Arc<str>,
        list: List,
        (entries, reasons): (Vec<Entry>, Reasons),
        ends: &Ends,
        answer: &mut Imported,
    ) -> Result<Vec<Edit>, Refused> {
        let (list, merged) = fill(list, entries, reasons, ends);
        let coverage = list.coverage();
        if !request.allow_wide {
            let before = self.intent.lists().get(name);
            let before = before.map(|list| list.coverage());
            let vetted = coverage.vet(&format!("the list {name}"), before);
            vetted.map_err(too_wide)?;
        }
        answer.coverage.add(coverage);
        answer.duplicates += merged.duplicates;
        answer.covered += merged.covered;
        answer.exempt.add(self.protection.all().exempt_of(&list));
        let (difference, edit) = self.intent.list_edit(name, Some(list));
        answer.targets.push(reported(
            Origin::List(Arc::clone(name)).to_string(),
            &difference,
        ));
        Ok(edit.into_iter().collect())
    }

    pub fn all(
        &self,
        request: &ImportRequest,
        mut reading: Reading,
        ends: &Ends,
        author: &str,
        answer: &mut Imported,
    ) -> Result<Vec<Edit>, Refused> {
        default_reason(request, &mut reading.entries, &mut reading.reasons);
        let targets = self.targets(request.into, &reading.facts)?;
        let mut groups: BTreeMap<&Target, Vec<Entry>> = BTreeMap::new();
        for entry in &reading.entries {
            let index = usize::try_from(entry.facts).unwrap_or_default();
            match targets.get(index) {
                Some(Ok(target)) => groups.entry(target).or_default().push(*entry),
                Some(Err(why)) => *answer.skipped.entry(why.clone()).or_default() += 1,
                None => {}
            }
        }
        let texts: Vec<Arc<str>> = reading.reasons.iter().map(Arc::from).collect();
        let mut edits = Vec::new();
        let mut all_cut = Vec::new();
        for (target, mut entries) in groups {
            let first = entries[0];
            // An entry that is already banned as a whole is accepted, so an export can be imported
            // again.
            let said = request.connected.is_some();
            let is_here = |entry: &mut Entry| !said && self.is_here(target, entry.prefix);
            let here: Vec<Entry> = entries.extract_if(.., is_here).collect();
            let cut = match target {
                Target::Bans(origin) if *origin != Origin::Forced => {
                    self.cut(request, Action::Ban, &mut entries, answer)
                }
                Target::List(_, action) => self.cut(request, *action, &mut entries, answer),
                Target::Bans(_) | Target::Allows => Vec::new(),
            };
            entries.extend(here);
            all_cut.extend(&cut);
            if *target == Target::Bans(Origin::Forced) && !request.force {
                self.vet_forced(&entries)?;
            }
            if let Target::List(name, action) = target {
                let facts = facts_of(&first, &reading);
                let by = facts.author.as_deref().unwrap_or(author);
                let since = facts.since.unwrap_or_else(clock::wall);
                let mut list = List::new(*action, None, since, by.into());
                list.cut = self.cut_before(name, cut, &entries);
                let own = own_reasons(entries, &reading.reasons);
                edits.extend(self.one_list(request, name, list, own, ends, answer)?);
                continue;
            }
            let now = clock::wall();
            let arrived = entries.iter().map(|entry| {
                let facts = facts_of(entry, &reading);
                let row = EntryRow {
                    until: ends.of(entry.until),
                    reason: text_of(entry, &texts).cloned(),
                    since: facts.since.unwrap_or(now),
                    author: facts.author.as_deref().unwrap_or(author).into(),
                };
                (entry.prefix, row)
            });
            let arrived = self.rows(target, arrived, answer);
            let coverage = Coverage::of(arrived.iter().flat_map(Edit::prefixes));
            answer.coverage.add(coverage);
            if !request.allow_wide {
                coverage.vet("the list", None).map_err(too_wide)?;
            }
            edits.extend(arrived);
            // Forced bans have no exemptions.
            if matches!(target, Target::Bans(origin) if *origin != Origin::Forced) {
                answer.exempt.add(self.protection.all().describe_cut(&cut));
                let mut prefixes: Vec<Prefix> = entries.iter().map(|entry| entry.prefix).collect();
                prefixes.sort_unstable();
                prefixes.dedup();
                answer
                    .exempt
                    .add(self.protection.all().exempt(&prefixes, |prefix| *prefix));
            }
        }
        require_word(request, &all_cut, self.protection)?;
        Ok(edits)
    }

    /// Cuts connected networks out of entries that ban, unless the request includes them.
    fn cut(
        &self,
        request: &ImportRequest,
        action: Action,
        entries: &mut Vec<Entry>,
        answer: &mut Imported,
    ) -> Vec<Prefix> {
        if action == Action::Allow || request.connected == Some(Connected::Include) {
            return Vec::new();
        }
        let (cut, left) = self.protection.all().cut(entries);
        let whole = match cut.as_slice() {
            // An entry within a connected network disappears. The report names the network.
            _ if left == 0 => return cut,
            [entry] => format!("{entry} is"),
            several => format!("{} entries are", several.len()),
        };
        answer.notes.push(format!(
            "{whole} {left} prefixes without the connected networks inside"
        ));
        cut
    }

    /// Returns whether the target already contains this prefix.
    fn is_here(&self, target: &Target, prefix: Prefix) -> bool {
        match target {
            Target::Bans(origin) => self.intent.ban_of(prefix, origin).is_some(),
            Target::Allows => false,
            Target::List(name, action) => {
                let list = self.intent.lists().get(name);
                list.is_some_and(|list| list.action == *action && list.get(prefix).is_some())
            }
        }
    }

    /// Returns the connected networks that were cut out of the list, including those of an earlier
    /// import whose remaining parts are imported again.
    fn cut_before(&self, name: &Arc<str>, mut cut: Vec<Prefix>, entries: &[Entry]) -> Vec<Prefix> {
        let before = self.intent.lists().get(name);
        let before = before.into_iter().flat_map(|list| list.cut.iter().copied());
        let is_rest = |prefix: &Prefix| {
            let mut inner = entries
                .iter()
                .filter(|entry| prefix.covers(entry.prefix))
                .peekable();
            inner.peek().is_some() && inner.all(|entry| entry.prefix != *prefix)
        };
        cut.extend(before.filter(is_rest));
        cut.sort_unstable();
        cut.dedup();
        cut
    }

    /// Refuses entries that were forced where they were exported, unless they are forced here as
    /// well.
    fn vet_forced(&self, entries: &[Entry]) -> Result<(), Refused> {
        let is_here = |prefix| self.intent.bans().contains_key(&(prefix, Origin::Forced));
        for entry in entries.iter().filter(|entry| !is_here(entry.prefix)) {
            let requester = Requester::Operator { forced: false };
            self.protection.vet(entry.prefix, requester)?;
        }
        Ok(())
    }

    /// Returns the targets of each kind of entry, or why it is skipped.
    fn targets(
        &self,
        into: ImportInto,
        facts: &[Facts],
    ) -> Result<Vec<Result<Target, String>>, Refused> {
        let mut targets = Vec::new();
        for facts in facts {
            let action = facts.action.unwrap_or_default();
            let origin = facts
                .origin
                .as_deref()
                .unwrap_or("manual")
                .parse::<Origin>();
            let origin = origin.map_err(|error| {
                Refused::because(error.to_string()).hint("write \"origin\":\"manual\", or none")
            })?;
            targets.push(Ok(match (into, origin, action) {
                (ImportInto::Bans, ..) => Target::Bans(Origin::Manual),
                (ImportInto::Allows, ..) => Target::Allows,
                (_, Origin::Config, _) => {
                    targets.push(Err("of the configuration".to_owned()));
                    continue;
                }
                (_, Origin::Folded, _) => {
                    targets.push(Err("of folding, which bans them itself".to_owned()));
                    continue;
                }
                (_, Origin::List(name), _) if self.intent.config.lists.contains_key(&*name) => {
                    targets.push(Err(format!(
                        "of the list {name}, which is read from its file"
                    )));
                    continue;
                }
                (_, _, Action::Policy) => {
                    targets.push(Err("of a policy, which selects them itself".to_owned()));
                    continue;
                }
                (_, Origin::List(name), action) => Target::List(self.list_name(&name)?, action),
                (_, _, Action::Allow) => Target::Allows,
                (_, origin, Action::Ban) => Target::Bans(origin),
            }));
        }
        Ok(targets)
    }

    /// Returns the edits of bans or allows, one per prefix: the longest wins. An import shortens no
    /// ban of the same prefix and origin.
    fn rows(
        &self,
        target: &Target,
        arrived: impl Iterator<Item = (Prefix, EntryRow)>,
        answer: &mut Imported,
    ) -> Vec<Edit> {
        let mut longest: BTreeMap<Prefix, EntryRow> = BTreeMap::new();
        for (prefix, row) in arrived {
            if let Some(first) = longest.get_mut(&prefix) {
                answer.duplicates += 1;
                if row.until > first.until {
                    *first = row;
                }
            } else {
                longest.insert(prefix, row);
            }
        }
        let mut difference = Difference::default();
        let mut longer = 0;
        let mut edits = Vec::new();
        for (prefix, row) in longest {
            let before = match target {
                Target::Bans(origin) => self.intent.ban_of(prefix, origin),
                Target::Allows | Target::List(..) => self.intent.allows().get(&prefix),
            };
            match before {
                Some(before) if same_end(before.until, row.until) => {
                    if before.reason == row.reason {
                        difference.kept += 1;
                        continue;
                    }
                    difference.updated += 1;
                }
                Some(before) if before.until > row.until && matches!(target, Target::Bans(_)) => {
                    longer += 1;
                    continue;
                }
                Some(_) => difference.updated += 1,
                None => difference.added += 1,
            }
            edits.push(match target {
                Target::Bans(origin) => Edit::Ban(prefix, origin.clone(), Some(row)),
                Target::Allows | Target::List(..) => Edit::Allow(prefix, Some(row)),
            });
        }
        let into = match target {
            Target::Bans(Origin::Manual) => "bans".to_owned(),
            Target::Bans(origin) => format!("bans, {origin}"),
            Target::Allows | Target::List(..) => "allows".to_owned(),
        };
        answer.targets.push(ImportedInto {
            longer,
            ..reported(into, &difference)
        });
        edits
    }

    /// Checks the name of an imported list.
    fn list_name(&self, name: &str) -> Result<Arc<str>, Refused> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !(1..=LIST_NAME_MAX).contains(&name.len()) || !name.chars().all(fits) {
            return Err(
                Refused::because(format!("`{name}` is not a valid list name")).hint(format!(
                    "write letters, digits, `-` and `_`, at most {LIST_NAME_MAX}"
                )),
            );
        }
        require_no_file(&self.intent.config, name)?;
        let before = self.before_trial.as_ref();
        if before.is_some_and(|before| before.lists.contains_key(name)) {
            return Err(Refused::because(format!(
                "the configuration before the trial loads the list `{name}` from a file and would \
                 replace the import"
            ))
            .hint("give it another name, or run `rlctl confirm` first"));
        }
        Ok(name.into())
    }
}

/// Refuses to cut connected networks out of entries unless the request says what to do with them.
fn require_word(
    request: &ImportRequest,
    cut: &[Prefix],
    protection: &Protection,
) -> Result<(), Refused> {
    if cut.is_empty() || request.connected.is_some() {
        return Ok(());
    }
    let exempt = protection.all().describe_cut(cut);
    let mut lines = vec!["the list covers networks that this host is connected to:".to_owned()];
    lines.extend(exempt.first.iter().map(|entry| {
        let (prefix, protected, why) = (entry.prefix, entry.protected, &entry.why);
        format!("  {prefix} would ban {protected}, {why}")
    }));
    if exempt.count > exempt.first.len() {
        lines.push(format!("  and {} more", exempt.count - exempt.first.len()));
    }
    Err(Refused::because(lines.join("\n"))
        .hint(
            "nothing was imported; exempt these networks with --exempt-connected, or ban them with \
             --include-connected",
        )
        .code(Code::ConnectedNetwork))
}

fn reported(into: String, difference: &Difference) -> ImportedInto {
    ImportedInto {
        into,
        added: difference.added,
        removed: difference.removed,
        updated: difference.updated,
        kept: difference.kept,
        longer: 0,
    }
}

/// Gives the reason of the request to entries without one.
fn default_reason(request: &ImportRequest, entries: &mut [Entry], reasons: &mut Reasons) {
    let Some(reason) = request.reason.as_deref() else {
        return;
    };
    let reason = reasons.add(reason);
    for entry in entries {
        if reasons.get(entry.reason).is_none() {
            entry.reason = reason;
        }
    }
}

/// Splits off the entries of one list with only the reasons that they use.
fn own_reasons(mut entries: Vec<Entry>, all: &Reasons) -> (Vec<Entry>, Reasons) {
    let mut reasons = Reasons::default();
    for entry in &mut entries {
        entry.reason = reasons.add(all.get(entry.reason).unwrap_or_default());
    }
    (entries, reasons)
}

fn facts_of<'r>(entry: &Entry, reading: &'r Reading) -> &'r Facts {
    &reading.facts[usize::try_from(entry.facts).unwrap_or_default()]
}

fn text_of<'r>(entry: &Entry, texts: &'r [Arc<str>]) -> Option<&'r Arc<str>> {
    let index = usize::try_from(entry.reason.number())
        .ok()?
        .checked_sub(1)?;
    texts.get(index)
}

/// Ends reported in seconds, or measured by two clocks, are equal within a second.
fn same_end(one: Instant, other: Instant) -> bool {
    one.as_nanos().abs_diff(other.as_nanos()) <= 1_000_000_000
}
