//! The fields of a line of `rlctl export`.

use std::borrow::Cow;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// Whether a list bans or allows its entries, or selects them for a policy.
#[derive(Deserialize, IntoStaticStr, JsonSchema, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Action {
    /// Drops their packets.
    #[default]
    Ban,
    /// Passes their packets; overrides bans and limits.
    #[value(help = "Their packets pass")]
    Allow,
    /// Selects the policy whose database the list is read from.
    #[value(skip)]
    Policy,
}

impl Action {
    /// Returns the name of the action.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// Fields of a line other than prefix, expiry and reason.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// The action, if it is given.
    pub action: Option<Action>,
    /// The user or program that added it.
    pub author: Option<String>,
    /// The start.
    pub since: Option<Timestamp>,
    /// The origin: `manual`, `list:NAME`.
    pub origin: Option<String>,
}

/// A line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Line<'t> {
    /// The prefix.
    #[serde(borrow)]
    pub prefix: Cow<'t, str>,
    /// The action, if it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// The expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The reason.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'t, str>>,
    /// The user who set it.
    #[serde(
        borrow,
        default,
        rename = "by",
        skip_serializing_if = "Option::is_none"
    )]
    pub author: Option<Cow<'t, str>>,
    /// The start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The origin.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Cow<'t, str>>,
}

impl Line<'_> {
    /// All that is known, as JSON. Control characters are escaped, also those of C1 that JSON
    /// permits: a terminal may show an export.
    ///
    /// # Panics
    ///
    /// Never: lines have string keys.
    pub fn json(&self) -> String {
        let json = serde_json::to_string(self).expect("lines have string keys");
        if !json.contains(char::is_control) {
            return json;
        }
        let escaped = json.chars().map(|letter| {
            if letter.is_control() {
                format!("\\u{:04x}", u32::from(letter))
            } else {
                letter.into()
            }
        });
        escaped.collect()
    }

    /// The prefix with its reason as a comment, for other tools. A reason of several lines becomes
    /// one.
    pub fn plain(&self) -> String {
        let prefix = &self.prefix;
        self.reason.as_deref().map_or_else(
            || prefix.to_string(),
            |reason| format!("{prefix} # {}", reason.replace(char::is_control, " ")),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exported_reason_gives_no_commands_to_a_terminal_and_is_read_again() {
        let line = Line {
            prefix: "192.0.2.1".into(),
            action: None,
            until: None,
            reason: Some("a\u{9b}2J\u{1b}é".into()),
            author: None,
            since: None,
            origin: None,
        };
        let json = line.json();
        assert!(!json.contains(char::is_control), "{json:?}");
        let read: Line<'_> = serde_json::from_str(&json).unwrap();
        assert_eq!(read.reason, line.reason);
        assert_eq!(line.plain(), "192.0.2.1 # a 2J é");
    }
}
