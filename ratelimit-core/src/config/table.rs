//! TOML tables, read key by key. Every key that is asked for is known; what is left at the end is not.
//!
//! serde would stop at the first problem, and name keys of its own accord; here all of them are found, each with its place.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use toml::de::{DeTable, DeValue};

use super::{
    report::{At, Report, Spot},
    suggestion,
};
use crate::{diagnostic::Problem, quantity};

/// A table of a file.
pub struct Section<'a> {
    /// As a message names it: `[policy.partner]`.
    pub title: String,
    /// Its header, or the braces around it.
    pub spot: Spot,
    entries: DeTable<'a>,
    known: Vec<&'static str>,
}

/// Whether a table may have this name: names become labels of metrics and arguments of `rlctl`.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.chars().all(fits)
}

/// A value of a file.
pub struct Value<'a> {
    key: String,
    pub spot: Spot,
    content: DeValue<'a>,
}

impl<'a> Section<'a> {
    /// Whether nothing is left that was not taken.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The table that is the whole of a file.
    pub fn root(file: usize, entries: DeTable<'a>) -> Self {
        Self {
            title: "the top level".to_owned(),
            spot: Spot::new(file, &(0..0)),
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

    /// Takes the value of `key` out, and reports where there is none.
    pub fn require(
        &mut self,
        key: &'static str,
        hint: &str,
        report: &mut Report,
    ) -> Option<Value<'a>> {
        let value = self.take(key);
        if value.is_none() {
            self.lacks(key, hint, report);
        }
        value
    }

    /// Takes `key` out: whether it is `true`.
    pub fn flag(&mut self, key: &'static str, report: &mut Report) -> bool {
        let value = self.take(key);
        let value = value.and_then(|value| value.boolean(report));
        value.is_some_and(|value| value.value)
    }

    /// Takes `key` out as one of a few words.
    pub fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
        report: &mut Report,
    ) -> Option<T> {
        let choice = self.take(key)?.choice(choices, report)?;
        Some(choice.value)
    }

    /// Takes out every value, with its key.
    pub fn into_values(mut self) -> Vec<(At<String>, Value<'a>)> {
        let entries = std::mem::take(&mut self.entries).into_iter();
        let values = entries.map(|(key, value)| {
            let spot = Spot::new(self.spot.file, &key.span());
            let name = key.into_inner().into_owned();
            let value = self.value(&name, value);
            (At { value: name, spot }, value)
        });
        values.collect()
    }

    /// Takes the table under `key` out.
    pub fn take_table(&mut self, key: &'static str, report: &mut Report) -> Option<Self> {
        let example = format!("[{key}]");
        self.take(key)?.table(example.clone(), &example, report)
    }

    /// Reports the keys that nobody asked for.
    pub fn finish(self, report: &mut Report) {
        for key in self.entries.keys() {
            let spot = Spot::new(self.spot.file, &key.span());
            let message = format!("unknown key `{}` in {}", key.get_ref(), self.title);
            let suggested = suggestion::key(key.get_ref(), &self.known);
            report.add(&spot, suggested.for_problem(&message));
        }
    }

    /// Reports that the table lacks something, unless a key that nobody knows is a slip of the finger away: that one is reported.
    pub fn lacks(&self, key: &str, hint: &str, report: &mut Report) {
        let mut unknown = self.entries.keys();
        if unknown.any(|it| suggestion::is_close(it.get_ref(), key)) {
            return;
        }
        let message = format!("{} has no `{key}`", self.title);
        report.add(&self.spot, Problem::new(message, hint));
    }

    fn value(&self, key: &str, value: toml::Spanned<DeValue<'a>>) -> Value<'a> {
        Value {
            key: key.to_owned(),
            spot: Spot::new(self.spot.file, &value.span()),
            content: value.into_inner(),
        }
    }
}

impl<'a> Value<'a> {
    /// The value as `true` or `false`.
    pub fn boolean(self, report: &mut Report) -> Option<At<bool>> {
        let DeValue::Boolean(value) = self.content else {
            let example = format!("{} = true", self.key);
            return self.has_wrong_type("true or false", &example, report);
        };
        let spot = self.spot;
        Some(At { value, spot })
    }

    /// The value as an integer of any size.
    pub fn integer(self, example: &str, report: &mut Report) -> Option<At<i128>> {
        let DeValue::Integer(digits) = &self.content else {
            return self.has_wrong_type("an integer", example, report);
        };
        // Only digits are there: what `i128` cannot hold is as wrong as its largest value.
        let value = i128::from_str_radix(digits.as_str(), digits.radix()).unwrap_or(i128::MAX);
        Some(At {
            value,
            spot: self.spot,
        })
    }

    /// The value as an integer of `range`.
    pub fn integer_in(
        self,
        range: RangeInclusive<u32>,
        example: u32,
        report: &mut Report,
    ) -> Option<u32> {
        let (first, last) = range.into_inner();
        let key = self.key.clone();
        let At { value, spot } = self.integer(&format!("{key} = {example}"), report)?;
        let fitting = u32::try_from(value).ok();
        if let Some(value) = fitting.filter(|value| (first..=last).contains(value)) {
            return Some(value);
        }
        let message = format!("`{key}` is out of range");
        let hint = format!("write a number from {first} to {last}");
        let nearest = value.clamp(first.into(), last.into()).to_string();
        let problem = Problem::new(message, hint).replaced_by(nearest);
        report.add(&spot, problem);
        None
    }

    /// The value as a text.
    pub fn text(self, example: &str, report: &mut Report) -> Option<At<String>> {
        let DeValue::String(text) = self.content else {
            return self.has_wrong_type("a string", example, report);
        };
        Some(At {
            value: text.into_owned(),
            spot: self.spot,
        })
    }

    /// The value as a time of `range`. A plain number may have been meant as seconds.
    pub fn duration_in(
        self,
        range: &RangeInclusive<Duration>,
        example: &str,
        report: &mut Report,
    ) -> Option<At<Duration>> {
        let key = self.key.clone();
        let example = match self.digits() {
            Some(digits) => format!("{key} = \"{digits}s\""),
            None => format!("{key} = \"{example}\""),
        };
        let text = self.text(&example, report)?;
        let problem = match quantity::parse_duration(&text.value) {
            Ok(time) if range.contains(&time) => return Some(text.map(|_| time)),
            Ok(_) => {
                let [least, most] = [*range.start(), *range.end()].map(quantity::duration);
                let hint = format!("write a time from {least} to {most}");
                Problem::new(format!("`{key}` is out of range"), hint)
            }
            Err(error) => error.into(),
        };
        report.add(&text.spot, problem);
        None
    }

    /// The value as a path that begins at the root.
    pub fn absolute_path(self, example: &str, report: &mut Report) -> Option<At<PathBuf>> {
        let At { value, spot } = self.text(example, report)?;
        let path = PathBuf::from(&value);
        if !path.is_absolute() {
            let message = format!("`{value}` is not an absolute path");
            report.add(&spot, Problem::new(message, format!("write {example}")));
            return None;
        }
        Some(At { value: path, spot })
    }

    /// The value as one of a few words.
    pub fn choice<T: Copy>(self, choices: &[(&str, T)], report: &mut Report) -> Option<At<T>> {
        let key = self.key.clone();
        let text = self.text(&format!("{key} = \"{}\"", choices[0].0), report)?;
        if let Some(choice) = choices.iter().find(|choice| choice.0 == text.value) {
            return Some(At {
                value: choice.1,
                spot: text.spot,
            });
        }
        let words: Vec<&str> = choices.iter().map(|choice| choice.0).collect();
        let message = format!("unknown {key} `{}`", text.value);
        let suggested = suggestion::word(&text.value, &words);
        report.add(&text.spot, suggested.for_problem(&message));
        None
    }

    /// The value as a list.
    pub fn list(self, example: &str, report: &mut Report) -> Option<Vec<Self>> {
        let DeValue::Array(items) = self.content else {
            return self.has_wrong_type("a list", example, report);
        };
        let items = items.into_iter().map(|item| Self {
            key: self.key.clone(),
            spot: Spot::new(self.spot.file, &item.span()),
            content: item.into_inner(),
        });
        Some(items.collect())
    }

    /// The value as a table, which messages name `title`.
    pub fn table(self, title: String, example: &str, report: &mut Report) -> Option<Section<'a>> {
        let DeValue::Table(entries) = self.content else {
            return self.has_wrong_type("a table", example, report);
        };
        Some(Section {
            title,
            spot: self.spot,
            entries,
            known: vec![],
        })
    }

    /// Whether the value is a string, and not a number or a table.
    pub fn is_text(&self) -> bool {
        self.content.is_str()
    }

    /// Whether the value is a list.
    pub fn is_list(&self) -> bool {
        self.content.is_array()
    }

    /// Whether the value is a table.
    pub fn is_table(&self) -> bool {
        self.content.is_table()
    }

    /// Whether the value is `true` or `false`.
    pub fn is_boolean(&self) -> bool {
        self.content.is_bool()
    }

    /// Whether the value is `[]`.
    pub fn is_empty_list(&self) -> bool {
        self.content
            .as_array()
            .is_some_and(|items| items.is_empty())
    }

    /// The digits of an integer.
    pub fn digits(&self) -> Option<&str> {
        Some(self.content.as_integer()?.as_str())
    }

    fn has_wrong_type<T>(self, wanted: &str, example: &str, report: &mut Report) -> Option<T> {
        let found = match self.content {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let message = format!("`{}` is {found}, not {wanted}", self.key);
        let problem = Problem::new(message, format!("write {example}"));
        let replacement = self.as_wanted(wanted);
        report.add(&self.spot, problem.replaced_by(replacement));
        None
    }

    /// The same value as one of the kind that is wanted, where it only lacks or has quotation marks or brackets.
    fn as_wanted(&self, wanted: &str) -> Option<String> {
        let is_plain = |text: &str| !text.contains(['"', '\\']) && !text.contains(char::is_control);
        match (&self.content, wanted) {
            (DeValue::String(text), "true or false") => {
                matches!(&**text, "true" | "false").then(|| text.to_string())
            }
            (DeValue::String(text), "an integer") => {
                let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
                let number = text.trim_start_matches('0');
                (is_number && !number.is_empty()).then(|| number.to_owned())
            }
            (DeValue::String(text), "a list") if is_plain(text) => Some(format!("[\"{text}\"]")),
            (DeValue::Integer(digits), "a string") => Some(format!("\"{digits}\"")),
            _ => None,
        }
    }
}
