//! The sets that a text names. All of them together become one list, so there may be one for each family and no more. What is
//! saved beside a set of bad addresses may well be one of good ones.

use std::ops::Range;

use crate::{diagnostic::Problem, ip_family::IpFamily, prefix::Prefix};

/// The sets so far.
#[derive(Debug, Default)]
pub struct Sets {
    all: Vec<Set>,
    current: Option<usize>,
    /// What to run to get one set.
    command: &'static str,
}

#[derive(Debug)]
struct Set {
    name: String,
    span: Range<usize>,
    families: [bool; 2],
}

impl Sets {
    /// The entries that follow are of the set `name`, which stands at `span`.
    pub fn begin(&mut self, name: &str, span: Range<usize>, command: &'static str) {
        self.command = command;
        let known = self.all.iter().position(|set| set.name == name);
        self.current = Some(known.unwrap_or_else(|| {
            self.all.push(Set {
                name: name.to_owned(),
                span,
                families: [false; 2],
            });
            self.all.len() - 1
        }));
    }

    /// An entry of the current set.
    pub fn enter(&mut self, prefix: Prefix) {
        let family = usize::from(IpFamily::of(prefix.address()) == IpFamily::V6);
        if let Some(set) = self.current.and_then(|index| self.all.get_mut(index)) {
            set.families[family] = true;
        }
    }

    /// What is wrong when two sets have entries of the same family, and where the second stands.
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
