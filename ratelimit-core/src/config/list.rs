//! A list that is read from a file: `[list.NAME]`, or the database of a `[policy.NAME]`.

use std::{path::PathBuf, time::Duration};

use super::{
    mmdb,
    report::At,
    table::{Section, Value},
};
use crate::{
    geo::Selection,
    lists::{Action, Connected},
    quantity,
};

/// The shortest time between two readings.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// Default interval for re-reading downloaded files.
const EVERY_OF_DOWNLOAD: Duration = Duration::from_mins(5);

/// A list that is read from a file.
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListConfig {
    /// The file.
    pub file: PathBuf,
    /// The countries and networks that are selected if the file is a database.
    pub selection: Option<Selection>,
    /// The URL from which `rlctl fetch` downloads it, if configured. The daemon itself downloads
    /// nothing.
    pub url: Option<String>,
    /// The interval of reads; `None` for at start and on reload only. Five minutes by default if
    /// there is a `url`.
    pub every: Option<Duration>,
    /// The action on packets of its sources.
    pub action: Action,
    /// Whether bad lines are left out; else they keep the whole file from being taken.
    pub skip_bad: bool,
    /// Whether very wide prefixes are taken.
    pub force: bool,
    /// Whether a file without entries is accepted as an empty list.
    pub allow_empty: bool,
    /// Whether it may cover more than 1/64 of an address space, or ten times as much as before.
    pub allow_wide: bool,
    /// Entries with a smaller number behind the address are left out.
    pub min_count: Option<u64>,
    /// The key of JSON under which its addresses are.
    pub json_path: Option<String>,
    /// The treatment of connected networks that its entries cover; `None` is [`Connected::Exempt`]
    /// with a warning.
    pub connected: Option<Connected>,
}

/// A list, with its name and the place of that.
pub struct NamedList {
    pub name: At<String>,
    pub list: Option<ListConfig>,
}

/// Reads the lists of a file.
pub fn read_all(section: Section<'_>) -> Vec<NamedList> {
    let read = |(name, value): (At<String>, Value<'_>)| NamedList {
        list: read(&name.value, value),
        name,
    };
    section.into_named("list").map(read).collect()
}

fn read(name: &str, value: Value<'_>) -> Option<ListConfig> {
    const FILE: &str = "file = \"/var/lib/lists/drop.txt\"";
    let mut section = value.table(format!("[list.{name}]"), "[list.spamhaus] above it")?;
    let (file, selection) = if let Some((file, selection)) = mmdb::read(&mut section) {
        refuse_keys_of_text(&mut section);
        (file, Some(selection))
    } else {
        let file = section.require("file", &format!("write {FILE}"));
        (file.and_then(|value| value.absolute_path(FILE)), None)
    };
    let url = section.take("url").and_then(|value| read_url(&value));
    let every = section.take("every").and_then(|value| read_every(&value));
    // A download takes effect only when it is read.
    let is_replaced = url.is_some() || selection.is_some();
    let every = every.or(is_replaced.then_some(EVERY_OF_DOWNLOAD));
    let action = section.take("action");
    let actions = [Action::Ban, Action::Allow].map(|action| (action.label(), action));
    let action = action.and_then(|value| value.one_of(&actions));
    let mut flag = |key| section.flag(key);
    let (skip_bad, force) = (flag("skip_bad"), flag("force"));
    let (allow_empty, allow_wide) = (flag("allow_empty"), flag("allow_wide"));
    let min_count = section.take("min_count");
    let min_count = min_count.and_then(|value| value.integer_in(1..=u32::MAX, 3));
    let json_path = section.take("json_path");
    let json_path = json_path.and_then(|value| {
        let path = value.text("json_path = \"prefixes.ip_prefix\"")?;
        Some(path.to_owned())
    });
    let connected = section.choice("connected");
    section.finish();
    Some(ListConfig {
        file: file?,
        selection,
        url,
        every,
        action: action.unwrap_or_default(),
        skip_bad,
        force,
        allow_empty,
        allow_wide,
        min_count: min_count.map(u64::from),
        json_path,
        connected,
    })
}

/// Refuses keys of lists from text files.
fn refuse_keys_of_text(section: &mut Section<'_>) {
    for key in ["file", "min_count", "json_path", "skip_bad", "force"] {
        if section.has(key)
            && let Some(value) = section.take(key)
        {
            let message = format!("`{key}` is not used with `mmdb`");
            value.complain(message, format!("remove `{key}`, or `mmdb`"));
        }
    }
}

/// Reads the database that selects sources of a policy, as a list; `None` if there is no `mmdb`.
pub fn read_database(section: &mut Section<'_>) -> Option<ListConfig> {
    let (file, selection) = mmdb::read(section)?;
    let every = section.take("every").and_then(|value| read_every(&value));
    let [allow_empty, allow_wide] = ["allow_empty", "allow_wide"].map(|key| section.flag(key));
    Some(ListConfig {
        file: file?,
        selection: Some(selection),
        url: None,
        every: every.or(Some(EVERY_OF_DOWNLOAD)),
        action: Action::Policy,
        skip_bad: false,
        force: false,
        allow_empty,
        allow_wide,
        min_count: None,
        json_path: None,
        connected: None,
    })
}

fn read_url(value: &Value<'_>) -> Option<String> {
    let text = value.text("url = \"https://example.com/drop.txt\"")?;
    let has_host = ["https://", "http://"]
        .iter()
        .filter_map(|scheme| text.strip_prefix(scheme))
        .any(|rest| !rest.is_empty() && !rest.starts_with('/'));
    if has_host && !text.contains(char::is_whitespace) {
        return Some(text.to_owned());
    }
    let hint = "write one that begins with https:// or http://";
    value.refuse(
        format!("`{}` is not the address of a list", public_url(text)),
        hint,
    )
}

/// A URL without its user, password and query, which are what a subscriber pays with.
pub fn public_url(url: &str) -> String {
    const LEFT_OUT: &str = "(secret)";
    let (place, query) = match url.split_once('?') {
        Some((place, _)) => (place, format!("?{LEFT_OUT}")),
        None => (url, String::new()),
    };
    let Some((scheme, rest)) = place.split_once("://") else {
        return place.to_owned() + &query;
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{LEFT_OUT}@{host}"),
        None => authority.to_owned(),
    };
    format!("{scheme}://{authority}{path}{query}")
}

fn read_every(value: &Value<'_>) -> Option<Duration> {
    let every = value.accept(quantity::parse_duration(value.text("every = \"1h\"")?))?;
    if every >= EVERY_MIN {
        return Some(every);
    }
    value.refuse(
        "a list is read at most once a second",
        "write for example \"1h\"",
    )
}
