//! The problems of a configuration, gathered while it is read, and the names in it that are looked
//! up at the end.

use std::{cell::RefCell, collections::HashMap, hash::Hash, ops::Range};

use super::file::File;
use crate::diagnostic::{Diagnostic, Position, Problem};

/// Problems that are shown; a broken list of a million prefixes is reported by its first hundred.
const PROBLEMS_MAX: usize = 100;

/// A position: the index of a file, and a range of bytes.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Spot {
    pub file: usize,
    pub start: usize,
    pub end: usize,
}

/// A value with its position.
#[derive(Clone, Debug)]
pub struct At<T> {
    pub value: T,
    pub spot: Spot,
}

impl Spot {
    pub fn new(file: usize, span: &Range<usize>) -> Self {
        Self {
            file,
            start: span.start,
            end: span.end,
        }
    }
}

impl<T> At<T> {
    /// Another value at the same place.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> At<U> {
        At {
            value: make(self.value),
            spot: self.spot,
        }
    }
}

/// Returns the values without their places.
pub fn values<T: Clone>(located: &[At<T>]) -> Vec<T> {
    located.iter().map(|at| at.value.clone()).collect()
}

/// The problems found so far.
pub struct Report<'f> {
    files: &'f [File],
    problems: RefCell<Vec<(Spot, Problem)>>,
    absent: RefCell<Vec<Problem>>,
    mentions: RefCell<Vec<At<String>>>,
}

impl<'f> Report<'f> {
    pub fn new(files: &'f [File]) -> Self {
        Self {
            files,
            problems: RefCell::default(),
            absent: RefCell::default(),
            mentions: RefCell::default(),
        }
    }

    /// Records a problem at `spot`.
    pub fn add(&self, spot: &Spot, problem: Problem) {
        if self.has_room() {
            self.problems.borrow_mut().push((spot.clone(), problem));
        }
    }

    /// Records the error at `spot`, if there is one.
    pub fn accept<T>(&self, spot: &Spot, answer: Result<T, Problem>) -> Option<T> {
        answer.map_err(|problem| self.add(spot, problem)).ok()
    }

    /// Notes that something is in none of the files.
    pub fn add_absent(&self, problem: Problem) {
        self.absent.borrow_mut().push(problem);
    }

    /// Records that the value at `spot` repeats the one at `first`.
    pub fn add_repeated(&self, spot: &Spot, first: &Spot, what: &str, hint: &str) {
        if self.has_room() {
            let message = format!("{what}, first at {}", self.name(first));
            self.add(spot, Problem::new(message, hint));
        }
    }

    /// Records which of `all` are repeated.
    pub fn find_repeated<'d, K: Copy + Eq + Hash>(
        &self,
        all: impl IntoIterator<Item = (K, &'d Spot)>,
        what: impl Fn(K) -> String,
        hint: &str,
    ) {
        let mut places: HashMap<K, &Spot> = HashMap::new();
        for (it, spot) in all {
            if let Some(first) = places.insert(it, spot) {
                self.add_repeated(spot, first, &what(it), hint);
            }
        }
    }

    /// Notes the name of a class: whether one has it is not known yet.
    pub fn mention(&self, class: At<String>) {
        self.mentions.borrow_mut().push(class);
    }

    /// The names of classes that were mentioned so far.
    pub fn take_mentions(&self) -> Vec<At<String>> {
        self.mentions.take()
    }

    /// Returns the place of `spot` for a message.
    pub fn name(&self, spot: &Spot) -> String {
        let File { path, text } = &self.files[spot.file];
        let position = Position::new(text, &(spot.start..spot.end));
        format!("{}:{}:{}", path.display(), position.line, position.column)
    }

    pub fn is_empty(&self) -> bool {
        self.problems.borrow().is_empty() && self.absent.borrow().is_empty()
    }

    /// Returns the problems in file order, missing values last.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        let mut problems = self.problems.into_inner();
        problems.sort_by(|a, b| a.0.cmp(&b.0));
        let located = problems.into_iter().map(|(spot, problem)| {
            let File { path, text } = &self.files[spot.file];
            Diagnostic {
                position: Some(Position::new(text, &(spot.start..spot.end))),
                ..Diagnostic::of_file(path, problem)
            }
        });
        // A configuration without files lacks everything.
        let main = self.files.first().map(|file| &file.path);
        let absent = self.absent.into_inner().into_iter();
        let absent = absent.map(|problem| Diagnostic {
            file: main.cloned(),
            position: None,
            problem,
        });
        located.chain(absent).collect()
    }

    fn has_room(&self) -> bool {
        self.problems.borrow().len() < PROBLEMS_MAX
    }
}
