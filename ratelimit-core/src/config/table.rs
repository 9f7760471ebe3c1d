//! TOML tables, read key by key. Keys that were never read are unknown.
//!
//! serde stops at the first problem; this finds all of them, each with its position.

use std::{ops::RangeInclusive, path::PathBuf, str::FromStr, time::Duration};

use strum::VariantArray;
use toml::de::{DeTable, DeValue};

use super::{
    number_suggestion,
    report::{At, Report, Spot},
    suggestion,
};
use crate::{diagnostic::Problem, quantity};

/// A table of a file.
pub struct Section<'a> {
    /// The name in messages: `[policy.partner]`.
    pub title: String,
    /// Position of its header, or of its braces.
    pub spot: Spot,
    pub report: &'a Report<'a>,
    entries: DeTable<'a>,
    known: Vec<&'static str>,
}

/// Whether a table may have this name: names become labels of metrics and arguments of `rlctl`.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.chars().all(fits)
}

/// A value of a file. Errors are reported when it is read.
pub struct Value<'a> {
    key: String,
    pub spot: Spot,
    pub report: &'a Report<'a>,
    content: DeValue<'a>,
}

impl<'a> Section<'a> {
    /// Whether nothing is left that was not taken.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The table that is the whole of a file.
    pub fn root(file: usize, entries: DeTable<'a>, report: &'a Report<'a>) -> Self {
        Self {
            title: "the top level".to_owned(),
            spot: Spot::new(file, &(0..0)),
            report,
            entries,
            known: vec![],
        }
    }

    /// Takes the value of `key` out.
    pub fn take(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.known.push(key);
        let value = self.entries.remove(key)?;
        Some(self.value(key, value))
    }

    /// Whether there is a value of `key` that was not taken.
    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Removes the value of `key`, and reports a missing one.
    pub fn require(&mut self, key: &'static str, hint: &str) -> Option<Value<'a>> {
        let value = self.take(key);
        if value.is_none() {
            self.lacks(key, hint);
        }
        value
    }

    /// Takes `key` out: whether it is `true`.
    pub fn flag(&mut self, key: &'static str) -> bool {
        let value = self.take(key);
        value.is_some_and(|value| value.boolean() == Some(true))
    }

    /// Removes `key`, and returns it as a variant.
    pub fn choice<T: Choice>(&mut self, key: &'static str) -> Option<T> {
        self.take(key)?.choice()
    }

    /// Takes `key` out as an integer of `range`, or the default.
    pub fn integer(&mut self, key: &'static str, range: RangeInclusive<u32>, default: u32) -> u32 {
        let value = self.take(key);
        let value = value.and_then(|value| value.integer_in(range, default));
        value.unwrap_or(default)
    }

    /// Takes `key` out as a time of `range`, or the default.
    pub fn duration(
        &mut self,
        key: &'static str,
        range: &RangeInclusive<Duration>,
        default: Duration,
    ) -> Duration {
        let value = self.take(key);
        let example = quantity::duration(default);
        let value = value.and_then(|value| value.duration_in(range, &example));
        value.unwrap_or(default)
    }

    /// Takes out every value, with its key.
    pub fn into_values(mut self) -> impl Iterator<Item = (At<String>, Value<'a>)> {
        let entries = std::mem::take(&mut self.entries).into_iter();
        entries.map(move |(key, value)| {
            let spot = Spot::new(self.spot.file, &key.span());
            let name = key.into_inner().into_owned();
            let value = self.value(&name, value);
            (At { value: name, spot }, value)
        })
    }

    /// Takes out every value under the name of a policy, a class or a list.
    pub fn into_named(self, what: &str) -> impl Iterator<Item = (At<String>, Value<'a>)> {
        let report = self.report;
        self.into_values().inspect(move |(name, _)| {
            if !is_name(&name.value) {
                let message = format!("`{}` is not a valid name for a {what}", name.value);
                let hint = "write letters, digits, `-` and `_`";
                report.add(&name.spot, Problem::new(message, hint));
            }
        })
    }

    /// Takes the table under `key` out.
    pub fn take_table(&mut self, key: &'static str) -> Option<Self> {
        let example = format!("[{key}]");
        self.take(key)?.table(&example, &example)
    }

    /// Reports unknown keys, and returns the position of the table.
    pub fn finish(self) -> Spot {
        for key in self.entries.keys() {
            let spot = Spot::new(self.spot.file, &key.span());
            let message = format!("unknown key `{}` in {}", key.get_ref(), self.title);
            let suggested = suggestion::key(key.get_ref(), &self.known);
            self.report.add(&spot, suggested.for_problem(&message));
        }
        self.spot
    }

    /// Reports a missing key, unless an unknown key is probably a typo of it.
    pub fn lacks(&self, key: &str, hint: &str) {
        let mut unknown = self.entries.keys();
        if !unknown.any(|it| suggestion::is_close(it.get_ref(), key)) {
            self.complain(format!("{} has no `{key}`", self.title), hint);
        }
    }

    /// Reports what is wrong with the table.
    pub fn complain(&self, message: impl AsRef<str>, hint: impl AsRef<str>) {
        self.report.add(&self.spot, Problem::new(message, hint));
    }

    fn value(&self, key: &str, value: toml::Spanned<DeValue<'a>>) -> Value<'a> {
        Value {
            key: key.to_owned(),
            spot: Spot::new(self.spot.file, &value.span()),
            report: self.report,
            content: value.into_inner(),
        }
    }
}

/// An optional value; the outer `None` means that it is invalid.
#[expect(clippy::option_option, reason = "wrong is not the same as not given")]
pub fn given<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        None => Some(None),
        Some(value) => value.map(Some),
    }
}

/// An enum that is selected by name.
pub trait Choice: Copy + Into<&'static str> + VariantArray {}

impl<T: Copy + Into<&'static str> + VariantArray> Choice for T {}

impl<'a> Value<'a> {
    /// Reports what is wrong with the value.
    pub fn complain(&self, message: impl AsRef<str>, hint: impl AsRef<str>) {
        self.report.add(&self.spot, Problem::new(message, hint));
    }

    /// Reports an error and returns nothing.
    pub fn refuse<T>(&self, message: impl AsRef<str>, hint: impl AsRef<str>) -> Option<T> {
        self.complain(message, hint);
        None
    }

    /// Returns the value, or reports the error.
    pub fn accept<T>(&self, answer: Result<T, impl Into<Problem>>) -> Option<T> {
        self.report.accept(&self.spot, answer.map_err(Into::into))
    }

    /// Something at the place of the value.
    pub fn at<T>(&self, value: T) -> At<T> {
        let spot = self.spot.clone();
        At { value, spot }
    }

    /// Returns the value with its position.
    pub fn located<T>(&self, read: impl FnOnce(&Self) -> Option<T>) -> Option<At<T>> {
        read(self).map(|value| self.at(value))
    }

    /// Whether it is `true` or `false`.
    pub const fn is_boolean(&self) -> bool {
        matches!(self.content, DeValue::Boolean(_))
    }

    /// The value as `true` or `false`.
    pub fn boolean(&self) -> Option<bool> {
        let DeValue::Boolean(value) = self.content else {
            return self.has_wrong_type("true or false", &format!("{} = true", self.key));
        };
        Some(value)
    }

    /// Reads the value unless it is `false`. `true` is an error.
    #[expect(clippy::option_option, reason = "wrong is not the same as false")]
    pub fn unless_false<T>(
        &self,
        unsaid: &str,
        hint: &str,
        read: impl FnOnce(&Self) -> Option<T>,
    ) -> Option<Option<T>> {
        let DeValue::Boolean(is_true) = self.content else {
            return read(self).map(Some);
        };
        if is_true {
            return self.refuse(format!("`{}` is true: {unsaid}", self.key), hint);
        }
        Some(None)
    }

    /// The value as an integer of any size.
    pub fn integer(&self, example: &str) -> Option<i128> {
        let DeValue::Integer(digits) = &self.content else {
            // A number in quotes is meant as the number.
            let quoted = self
                .content
                .as_str()
                .and_then(|text| text.trim().parse::<u64>().ok());
            let meant = quoted.map(|number| format!("{} = {number}", self.key));
            return self.has_wrong_type("an integer", meant.as_deref().unwrap_or(example));
        };
        // Only digits are there: what `i128` cannot hold is as wrong as its largest value.
        let value = i128::from_str_radix(digits.as_str(), digits.radix());
        Some(value.unwrap_or(i128::MAX))
    }

    /// The value as an integer of `range`.
    pub fn integer_in(&self, range: RangeInclusive<u32>, example: u32) -> Option<u32> {
        let key = &self.key;
        let value = self.integer(&format!("{key} = {example}"))?;
        let fitting = u32::try_from(value).ok();
        if let Some(value) = fitting.filter(|value| range.contains(value)) {
            return Some(value);
        }
        let (first, last) = range.into_inner();
        let hint = format!("write a number from {first} to {last}");
        let nearest = value.clamp(first.into(), last.into()).to_string();
        let problem = Problem::new(format!("`{key}` is out of range"), hint);
        self.accept(Err(problem.replaced_by(nearest)))
    }

    /// The value as a text.
    pub fn text(&self, example: &str) -> Option<&str> {
        let DeValue::String(text) = &self.content else {
            return self.has_wrong_type("a string", example);
        };
        Some(text)
    }

    /// The value as what its text says.
    pub fn parsed<T: FromStr<Err: Into<Problem>>>(&self, example: &str) -> Option<T> {
        self.accept(self.text(example)?.parse())
    }

    /// The value as a time of `range`. A plain number may have been meant as seconds.
    pub fn duration_in(&self, range: &RangeInclusive<Duration>, example: &str) -> Option<Duration> {
        let key = &self.key;
        let example = match self.digits() {
            Some(digits) => format!("{key} = \"{digits}s\""),
            None => format!("{key} = \"{example}\""),
        };
        let time = self.accept(quantity::parse_duration(self.text(&example)?))?;
        if range.contains(&time) {
            return Some(time);
        }
        let [least, most] = [*range.start(), *range.end()].map(quantity::duration);
        let hint = format!("write a time from {least} to {most}");
        self.refuse(format!("`{key}` is out of range"), hint)
    }

    /// The value as a path that begins at the root.
    pub fn absolute_path(&self, example: &str) -> Option<PathBuf> {
        let text = self.text(example)?;
        let path = PathBuf::from(text);
        if path.is_absolute() {
            return Some(path);
        }
        let hint = format!("write one that begins with /, such as {example}");
        self.refuse(format!("`{text}` is not an absolute path"), hint)
    }

    /// The value as the name of a variant.
    pub fn choice<T: Choice>(&self) -> Option<T> {
        let choices = T::VARIANTS.iter().map(|it| ((*it).into(), *it));
        self.one_of(&choices.collect::<Vec<_>>())
    }

    /// The value as one of a few words.
    pub fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let key = &self.key;
        let text = self.text(&format!("{key} = \"{}\"", choices[0].0))?;
        if let Some(choice) = choices.iter().find(|choice| choice.0 == text) {
            return Some(choice.1);
        }
        let words: Vec<&str> = choices.iter().map(|choice| choice.0).collect();
        let message = format!("unknown {key} `{text}`");
        self.accept(Err(suggestion::word(text, &words).for_problem(&message)))
    }

    /// The value as a list.
    pub fn list(self, example: &str) -> Option<Vec<Self>> {
        let DeValue::Array(items) = self.content else {
            return self.has_wrong_type("a list", example);
        };
        let items = items.into_iter().map(|item| Self {
            key: self.key.clone(),
            spot: Spot::new(self.spot.file, &item.span()),
            report: self.report,
            content: item.into_inner(),
        });
        Some(items.collect())
    }

    /// Reads each item of a list, or a single value; `None` if one is invalid.
    pub fn each<T, C: FromIterator<T>>(
        self,
        example: &str,
        read: impl FnMut(&Self) -> Option<T>,
    ) -> Option<C> {
        let is_list = matches!(self.content, DeValue::Array(_));
        let items = if is_list {
            self.list(example)?
        } else {
            vec![self]
        };
        let read: Vec<Option<T>> = items.iter().map(read).collect();
        read.into_iter().collect()
    }

    /// Reads a copy of the value as a table, like [`table`](Self::table).
    pub fn as_table(&self, title: impl Into<String>, example: &str) -> Option<Section<'a>> {
        let copy = Self {
            key: self.key.clone(),
            spot: self.spot.clone(),
            report: self.report,
            content: self.content.clone(),
        };
        copy.table(title, example)
    }

    /// The value as a table, which messages name `title`.
    pub fn table(self, title: impl Into<String>, example: &str) -> Option<Section<'a>> {
        let DeValue::Table(entries) = self.content else {
            return self.has_wrong_type("a table", example);
        };
        Some(Section {
            title: title.into(),
            spot: self.spot,
            report: self.report,
            entries,
            known: vec![],
        })
    }

    /// Whether the value is a string, and not a number or a table.
    pub fn is_text(&self) -> bool {
        self.content.is_str()
    }

    /// Whether the value is a table.
    pub fn is_table(&self) -> bool {
        self.content.is_table()
    }

    /// Returns the number of items, if the value is a list.
    pub fn len(&self) -> Option<usize> {
        self.content.as_array().map(|items| items.len())
    }

    /// The digits of an integer.
    pub fn digits(&self) -> Option<&str> {
        Some(self.content.as_integer()?.as_str())
    }

    fn has_wrong_type<T>(&self, wanted: &str, example: &str) -> Option<T> {
        let found = match self.content {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let message = format!("`{}` is {found}, not {wanted}", self.key);
        let replacement = self.as_wanted(wanted);
        // The example with the value that was meant.
        let hint = match &replacement {
            Some(meant) if wanted == "an integer" => format!("write {} = {meant}", self.key),
            _ => format!("write {example}"),
        };
        self.accept(Err(Problem::new(message, hint).replaced_by(replacement)))
    }

    /// Returns the value as the wanted kind, if only quotation marks or brackets are missing.
    fn as_wanted(&self, wanted: &str) -> Option<String> {
        let is_plain = |text: &str| !text.contains(['"', '\\']) && !text.contains(char::is_control);
        match (&self.content, wanted) {
            (DeValue::String(text), "true or false") => {
                matches!(&**text, "true" | "false").then(|| text.to_string())
            }
            (DeValue::String(text), "an integer") => number_suggestion::integer(text),
            (DeValue::Float(digits), "an integer") => number_suggestion::integer(digits.as_str()),
            (DeValue::String(text), "a list") if is_plain(text) => Some(format!("[\"{text}\"]")),
            (DeValue::Integer(digits), "a string") => Some(format!("\"{digits}\"")),
            _ => None,
        }
    }
}
