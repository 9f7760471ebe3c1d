//! The sets in a text. They become one list, so at most one set for each family is accepted: a set
//! next to one of bad addresses may contain good ones.

use std::{collections::HashMap, ops::Range};

use crate::{diagnostic::Problem, ip_family::IpFamily, prefix::Prefix};

/// The sets so far.
#[derive(Debug, Default)]
pub struct Sets {
    all: Vec<Set>,
    by_name: HashMap<String, usize>,
    current: Option<usize>,
    /// The command that prints one set.
    command: &'static str,
}

#[derive(Debug)]
struct Set {
    name: String,
    span: Range<usize>,
    families: [bool; 2],
}

impl Sets {
    /// Begins the set `name` at `span`.
    pub fn begin(&mut self, name: &str, span: Range<usize>, command: &'static str) {
        self.command = command;
        let known = self.by_name.get(name).copied();
        self.current = Some(known.unwrap_or_else(|| {
            self.all.push(Set {
                name: name.to_owned(),
                span,
                families: [false; 2],
            });
            let index = self.all.len() - 1;
            self.by_name.insert(name.to_owned(), index);
            index
        }));
    }

    /// Ends the current set. Further entries are of none.
    pub fn end(&mut self) {
        self.current = None;
    }

    /// An entry of the current set.
    pub fn enter(&mut self, prefix: Prefix) {
        let family = usize::from(IpFamily::of(prefix.address()) == IpFamily::V6);
        if let Some(set) = self.current.and_then(|index| self.all.get_mut(index)) {
            set.families[family] = true;
        }
    }

    /// Returns the error if two sets have entries of the same family, and the position of the
    /// second.
    pub fn conflict(&self) -> Option<(Range<usize>, Problem)> {
        for family in 0..2 {
            let mut sets = self.all.iter().filter(|set| set.families[family]);
            if let (Some(first), Some(second)) = (sets.next(), sets.next()) {
                let (first, name) = (&first.name, &second.name);
                let message = format!("there is a second set, `{name}`, after `{first}`");
                let command = self.command;
                let hint = format!("import one of them: {command} {first}");
                return Some((second.span.clone(), Problem::new(message, hint)));
            }
        }
        None
    }
}
