//! A list that is read from a file: `[list.NAME]`.

use std::{path::PathBuf, time::Duration};

use super::{
    report::{At, Report},
    table::{Section, Value, is_name},
};
use crate::{
    diagnostic::Problem,
    lists::{Action, Connected},
    quantity,
};

/// The shortest time between two readings.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// The time between two readings of what is downloaded, where the file does not say it.
const EVERY_OF_URL: Duration = Duration::from_mins(5);

const CONNECTED: [(&str, Connected); 2] = [
    ("exempt", Connected::Exempt),
    ("include", Connected::Include),
];
const ACTIONS: [(&str, Action); 2] = [("ban", Action::Ban), ("allow", Action::Allow)];

/// A list that is read from a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListConfig {
    /// The file.
    pub file: PathBuf,
    /// Where `rlctl lists fetch` downloads that from; `None` is nowhere. The daemon itself asks nobody.
    pub url: Option<String>,
    /// How often it is read again; `None` is at start and on reload only. Five minutes is the default where there is a `url`.
    pub every: Option<Duration>,
    /// What is done with the sources on it.
    pub action: Action,
    /// Whether bad lines are left out; else they keep the whole file from being taken.
    pub skip_bad: bool,
    /// Whether very wide prefixes are taken.
    pub force: bool,
    /// Whether a file without entries is taken for no entries.
    pub allow_empty: bool,
    /// What entries are to the connected networks that they cover; `None` is [`Connected::Exempt`] with a warning.
    pub connected: Option<Connected>,
}

/// A list, with its name and the place of that.
pub struct NamedList {
    pub name: At<String>,
    pub list: Option<ListConfig>,
}

/// Reads the lists of a file.
pub fn read_all(section: Section<'_>, report: &mut Report) -> Vec<NamedList> {
    let values = section.into_values().into_iter();
    let read = |(name, value): (At<String>, Value<'_>)| NamedList {
        list: read(&name, value, report),
        name,
    };
    values.map(read).collect()
}

fn read(name: &At<String>, value: Value<'_>, report: &mut Report) -> Option<ListConfig> {
    if !is_name(&name.value) {
        let message = format!("`{}` is no name for a list", name.value);
        let hint = "write letters, digits, `-` and `_`";
        report.add(&name.spot, Problem::new(message, hint));
    }
    let title = format!("[list.{}]", name.value);
    let mut section = value.table(title, "[list.spamhaus] above it", report)?;
    let hint = "write file = \"/var/lib/lists/drop.txt\"";
    let file = section.require("file", hint, report);
    let file = file.and_then(|value| read_file(value, report));
    let url = section.take("url");
    let url = url.and_then(|value| read_url(value, report));
    let every = section.take("every");
    let every = every.and_then(|value| read_every(value, report));
    // A download that nobody reads would not be enforced.
    let every = every.or(url.is_some().then_some(EVERY_OF_URL));
    let action = section.choice("action", &ACTIONS, report);
    let mut flag = |key| section.flag(key, report);
    let (skip_bad, force, allow_empty) = (flag("skip_bad"), flag("force"), flag("allow_empty"));
    let connected = section.choice("connected", &CONNECTED, report);
    section.finish(report);
    Some(ListConfig {
        file: file?,
        url,
        every,
        action: action.unwrap_or_default(),
        skip_bad,
        force,
        allow_empty,
        connected,
    })
}

fn read_file(value: Value<'_>, report: &mut Report) -> Option<PathBuf> {
    let text = value.text("file = \"/var/lib/lists/drop.txt\"", report)?;
    let path = PathBuf::from(&text.value);
    if path.is_absolute() {
        return Some(path);
    }
    let message = format!("`{}` is not an absolute path", text.value);
    let hint = "write one that begins with /, such as \"/var/lib/lists/drop.txt\"";
    report.add(&text.spot, Problem::new(message, hint));
    None
}

fn read_url(value: Value<'_>, report: &mut Report) -> Option<String> {
    let text = value.text("url = \"https://example.com/drop.txt\"", report)?;
    let has_host = ["https://", "http://"]
        .iter()
        .filter_map(|scheme| text.value.strip_prefix(scheme))
        .any(|rest| !rest.is_empty() && !rest.starts_with('/'));
    if has_host && !text.value.contains(char::is_whitespace) {
        return Some(text.value);
    }
    let message = format!("`{}` is no address of a list", text.value);
    let hint = "write one that begins with https:// or http://";
    report.add(&text.spot, Problem::new(message, hint));
    None
}

fn read_every(value: Value<'_>, report: &mut Report) -> Option<Duration> {
    let text = value.text("every = \"1h\"", report)?;
    let problem = match quantity::parse_duration(&text.value) {
        Ok(every) if every >= EVERY_MIN => return Some(every),
        Ok(_) => Problem::new(
            "a list is read at most once a second",
            "write for example \"1h\"",
        ),
        Err(error) => error.into(),
    };
    report.add(&text.spot, problem);
    None
}
