//! Key spaces: `[keys]` and `[keys.users]`.

use std::{collections::BTreeMap, net::SocketAddr, ops::RangeInclusive, time::Duration};

use ratelimit_common::{algorithm::FixedWindow, limit::LIMITS_MAX};

use super::{
    limit, prefixes,
    report::{At, Report, values},
    table::{Section, Value},
};
use crate::{
    diagnostic::Problem,
    keys::{CAPACITY_DEFAULT, KeysConfig, OnRefused, Part, RequestLimit, SpaceConfig, words_of},
    limit::LimitSpec,
    prefix::Prefix,
    quantity,
};

/// The most keys of a space.
const CAPACITY_MAX: u32 = 1 << 24;
/// The most memory that the usage of a space may take, beside the names of its keys.
const BYTES_MAX: u64 = 1 << 30;
/// The most refusals that are counted before a ban.
const AFTER_MAX: u32 = 1_000_000;
const WITHIN: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);
const BAN: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(366 * 24);

const LIMITS: &str = "limits = [{ requests = 15, per = \"1s\" }]";
const KEY: &str = "key = \"client\", key = { header = \"X-User\" }, key = { cookie = \"session\" } \
                   or key = { path = \"/api/{}/...\" }";
const ON_REFUSED: &str = "{ after = 100, within = \"1m\", ban = \"10m\" }";
const LISTEN: &str = "listen = \"127.0.0.1:9180\"";

/// The tables of all files.
#[derive(Default)]
pub struct Located {
    pub listen: Vec<At<SocketAddr>>,
    pub trusted_proxies: Option<Vec<At<Prefix>>>,
    pub spaces: Vec<(At<String>, Option<SpaceConfig>)>,
    /// The limits of all spaces.
    pub limits: Vec<At<LimitSpec>>,
}

impl Located {
    /// Reads `[keys]` of a file.
    pub fn read(&mut self, mut section: Section<'_>) {
        let listen = section.take("listen");
        let listen = listen.and_then(|value| value.located(read_listen));
        self.listen.extend(listen);
        if let Some(trusted) = section.take("trusted_proxies") {
            let all = self.trusted_proxies.get_or_insert_default();
            all.extend(prefixes::read(trusted));
        }
        for (name, value) in section.into_named("key space") {
            let space = read_space(&name.value, value, &mut self.limits);
            self.spaces.push((name, space));
        }
    }

    /// Returns the configuration of a node of as many. It is valid only if no error was reported.
    pub fn compile(&self, nodes: u32, report: &Report) -> KeysConfig {
        let listen = self.listen.iter().map(|_| "`listen` of [keys]");
        report.find_repeated(
            listen.zip(self.listen.iter().map(|at| &at.spot)),
            |what| format!("{what} is set twice"),
            "keep one of them",
        );
        let names = self.spaces.iter();
        report.find_repeated(
            names.map(|(name, _)| (name.value.as_str(), &name.spot)),
            |name| format!("[keys.{name}] is defined twice"),
            "give one of them another name",
        );
        // The API has `/v1/keys/check` and `/v1/keys/SPACE`.
        for (name, _) in self.spaces.iter().filter(|(name, _)| name.value == "check") {
            let message = "a key space cannot have the name `check`";
            report.add(&name.spot, Problem::new(message, "give it another name"));
        }
        let spaces = self.spaces.iter();
        let spaces = spaces.filter_map(|(name, space)| {
            let space = SpaceConfig {
                nodes: nodes.max(1).into(),
                ..space.clone()?
            };
            Some((name.value.clone(), space))
        });
        if let (Some(listen), None) = (self.listen.first(), &self.trusted_proxies)
            && !listen.value.ip().is_loopback()
        {
            let message = format!(
                "`listen` of [keys] is {}, but `trusted_proxies` is missing",
                listen.value
            );
            let hint = "write for example trusted_proxies = [\"192.0.2.8\"]";
            report.add(&listen.spot, Problem::new(message, hint));
        }
        let default = KeysConfig::default();
        let trusted = self.trusted_proxies.as_ref();
        KeysConfig {
            listen: self.listen.first().map(|at| at.value),
            trusted_proxies: trusted.map_or(default.trusted_proxies, |it| values(it)),
            spaces: spaces.collect::<BTreeMap<_, _>>(),
        }
    }
}

fn read_listen(value: &Value<'_>) -> Option<SocketAddr> {
    let text = value.text(LISTEN)?;
    let wrong = |_| {
        let message = format!("`{text}` is not an address with a port");
        Problem::new(message, format!("write {LISTEN}"))
    };
    value.accept(text.parse().map_err(wrong))
}

fn read_space(name: &str, value: Value<'_>, all: &mut Vec<At<LimitSpec>>) -> Option<SpaceConfig> {
    let title = format!("[keys.{name}]");
    let mut section = value.table(&title, "[keys.users] above it")?;
    let limits = section.require("limits", &format!("write {LIMITS}"))?;
    if limits.len() == Some(0) {
        let message = format!("`limits` of {title} is empty");
        limits.complain(message, format!("write {LIMITS}"));
    }
    let items = limits.list(LIMITS).unwrap_or_default();
    if let Some(ninth) = items.get(LIMITS_MAX) {
        let message = format!("{title} has {} limits", items.len());
        ninth.complain(
            message,
            format!("keep {LIMITS_MAX}, the most that a key can have"),
        );
    }
    let limits = items.into_iter().filter_map(limit::read_requests);
    let own = all.len();
    all.extend(limits);
    let limits = all[own..].iter().map(|at| RequestLimit(at.value.clone()));
    let limits: Vec<RequestLimit> = limits.collect();
    let capacity = section.take("capacity");
    let capacity = read_capacity(capacity.as_ref(), &limits, &section);
    let key = section
        .take("key")
        .and_then(|value| value.each(KEY, read_part));
    let on_refused = section.take("on_refused").and_then(read_on_refused);
    section.finish();
    Some(SpaceConfig {
        limits,
        capacity,
        key: key.unwrap_or_default(),
        on_refused,
        nodes: 1,
    })
}

/// Reads the number of keys, and reports one whose usage takes too much memory.
fn read_capacity(value: Option<&Value<'_>>, limits: &[RequestLimit], section: &Section<'_>) -> u32 {
    let words: usize = limits.iter().map(|limit| words_of(&limit.0)).sum();
    let bytes = 8 * words.max(1) as u64;
    let most = u32::try_from(BYTES_MAX / bytes).unwrap_or(CAPACITY_MAX);
    let most = most.min(CAPACITY_MAX);
    let capacity = value.and_then(|it| it.integer_in(1..=CAPACITY_MAX, CAPACITY_DEFAULT));
    let capacity = capacity.unwrap_or(CAPACITY_DEFAULT);
    if capacity > most {
        let each = quantity::bytes(bytes);
        let message = format!(
            "the usage of {capacity} keys takes {each} each with these limits, more than 1 GiB in \
             all"
        );
        let hint =
            format!("write capacity = {most} or less, or another algorithm than sliding-log");
        match value {
            Some(value) => value.complain(message, hint),
            None => section.complain(message, hint),
        }
    }
    capacity
}

fn read_part(value: &Value<'_>) -> Option<Part> {
    if value.is_text() {
        return value.one_of(&[("client", ())]).map(|()| Part::Client);
    }
    let mut section = value.as_table("a part of a key", KEY)?;
    let mut text = |key, example| section.take(key).map(|value| name(&value, example));
    let header = text("header", "header = \"X-User\"");
    let cookie = text("cookie", "cookie = \"session\"");
    let path = section.take("path");
    let path = path.map(|value| value.parsed("path = \"/api/{}/...\""));
    section.finish();
    match (header, cookie, path) {
        (Some(header), None, None) => Some(Part::Header(header?.to_ascii_lowercase())),
        (None, Some(cookie), None) => Some(Part::Cookie(cookie?)),
        (None, None, Some(path)) => Some(Part::Path(path?)),
        _ => value.refuse(
            "a part of a key is either a header, a cookie or a path",
            format!("write {KEY}; a list of them is a key of several parts"),
        ),
    }
}

/// Reads the name of a header or a cookie: a token of RFC 9110.
fn name(value: &Value<'_>, example: &str) -> Option<String> {
    let text = value.text(example)?;
    let fits = |c: char| c.is_ascii_graphic() && !"\"(),/:;<=>?@[\\]{}".contains(c);
    if text.is_empty() || !text.chars().all(fits) {
        let message = format!("`{text}` is not a valid name of a header or cookie");
        return value.refuse(message, format!("write for example {example}"));
    }
    Some(text.to_owned())
}

fn read_on_refused(value: Value<'_>) -> Option<OnRefused> {
    let mut section = value.table("`on_refused`", ON_REFUSED)?;
    let after = section.require("after", "write how many refusals ban: after = 100");
    let after = after.and_then(|value| value.integer_in(1..=AFTER_MAX, 100));
    let within = section.require("within", "write for example within = \"1m\"");
    let within = within.and_then(|value| value.duration_in(&WITHIN, "1m"));
    let ban = section.require("ban", "write for example ban = \"10m\"");
    let ban = ban.and_then(|value| value.duration_in(&BAN, "10m"));
    let on_refused = OnRefused {
        after: after?,
        within: within?,
        ban: ban?,
    };
    if FixedWindow::new(on_refused.after.into(), on_refused.within).is_err() {
        let message = "`after` is too large for this window";
        section.complain(message, "write a smaller number, or a longer window");
    }
    section.finish();
    Some(on_refused)
}
