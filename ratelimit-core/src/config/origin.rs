//! The origin of each setting: a line of a file, or the default.

use std::{collections::BTreeSet, fmt::Write as _};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{cluster::Store, file::File, list::public_url, renamed};
use crate::{
    api::{Setting, SettingOrigin},
    limit::LimitSpec,
};

/// The file that is shipped, which has every key of a table that is always there with its default.
const SHIPPED: &str = include_str!("../../../contrib/config.toml");

/// Tables of the shipped file that are examples, and no defaults.
const EXAMPLES: [&str; 2] = ["interface.", "policy."];

/// Keys of tables that may be there, or several times, with their defaults.
const OPTIONAL: [(&str, &str, &str); 25] = [
    ("interface.*", "mode", "\"auto\""),
    ("interface.*", "jumbo", "false"),
    ("interface.*", "policy", "\"default\""),
    ("interface.*", "observe", "false"),
    ("interface.*.node", "observe", "false"),
    ("policy.*", "observe", "false"),
    ("subnet", "observe", "false"),
    ("destination.*", "observe", "false"),
    ("node", "observe", "false"),
    ("ban.*", "ipv4_prefix", "24"),
    ("ban.*", "ipv6_prefix", "56"),
    ("list.*", "action", "\"ban\""),
    ("list.*", "skip_bad", "false"),
    ("list.*", "force", "false"),
    ("list.*", "allow_empty", "false"),
    ("list.*", "allow_wide", "false"),
    ("crowdsec", "every", "\"10s\""),
    ("cluster", "period", "\"250ms\""),
    ("keys.*", "capacity", "100_000"),
    ("upstream", "communities", "[\"65535:666\"]"),
    ("upstream", "origins", "[\"manual\", \"automatic\"]"),
    ("upstream", "routes_max", "1000"),
    ("upstream", "for_min", "\"1m\""),
    ("upstream", "ipv4_prefix_min", "24"),
    ("upstream", "ipv6_prefix_min", "48"),
];

/// Keys with secret values.
const SECRETS: [&str; 2] = ["crowdsec.key", "cluster.secret"];

/// Every setting of files that were parsed without an error, in their order, and the defaults
/// behind. Secrets are left out.
pub fn settings(files: &[File]) -> Vec<Setting> {
    let mut settings: Vec<Setting> = files.iter().flat_map(of_file).collect();
    let shipped = File {
        path: "config.toml".into(),
        text: SHIPPED.to_owned(),
    };
    let shipped = of_file(&shipped).into_iter();
    let shipped = shipped.filter(|it| !EXAMPLES.iter().any(|table| it.key.starts_with(table)));
    let defaults = shipped.map(|it| (it.key, it.value));
    let defaults: Vec<_> = defaults.chain(optional(&settings)).collect();
    let set: BTreeSet<String> = settings.iter().map(|it| it.key.clone()).collect();
    let unset = defaults.into_iter().filter(|(key, _)| !set.contains(key));
    settings.extend(unset.map(|(key, value)| Setting {
        key,
        value,
        origin: SettingOrigin::Default,
    }));
    settings
}

/// Settings as a configuration that says the same. Runtime limits take the place of those of the
/// files where there are some, and are comments elsewhere.
pub fn toml(settings: &[Setting]) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    let mut interfaces: Vec<(&str, String)> = Vec::new();
    let mut comments = String::new();
    let is_runtime = |it: &Setting| matches!(it.origin, SettingOrigin::Runtime { .. });
    // The default of an interface is the value without one, and to name it is another thing.
    let is_unsaid = |it: &Setting| {
        it.origin == SettingOrigin::Default
            && it.key.starts_with("interface.")
            && it.key.ends_with(".policy")
    };
    for setting in settings.iter().filter(|it| !is_unsaid(it)) {
        let Setting { key, value, .. } = setting;
        let mut others = settings.iter().filter(|it| it.key == *key);
        if is_runtime(setting) && !others.any(|it| !is_runtime(it)) {
            let _ = writeln!(comments, "# {}: {key} = {value}", setting.origin);
        } else if let Some(rest) = key.strip_prefix("interface.") {
            let name = first_part(rest);
            let line = format!("{} = {value}\n", rest[name.len()..].trim_start_matches('.'));
            match interfaces.iter_mut().find(|(other, _)| *other == name) {
                Some((_, text)) => text.push_str(&line),
                None => interfaces.push((name, line)),
            }
        } else if let Some((_, first)) = lines.iter_mut().find(|(other, _)| other == key) {
            // Runtime limits come first. Lists of several files are one.
            let is_list = key.ends_with(".sources");
            if let Some(head) = first.strip_suffix(']').filter(|_| is_list) {
                let head = head.trim_end().trim_end_matches(',');
                let comma = if head.ends_with('[') { "" } else { ", " };
                *first = format!(
                    "{head}{comma}{}",
                    value.trim_start_matches('[').trim_start()
                );
            }
        } else {
            lines.push((key, value.clone()));
        }
    }
    let lines = lines
        .iter()
        .map(|(key, value)| format!("{key} = {value}\n"));
    let interfaces = interfaces.iter();
    let interfaces = interfaces.map(|(_, text)| format!("\n[[interface]]\n{text}"));
    comments.extend(lines.chain(interfaces));
    comments
}

/// Limits, as a configuration says them.
pub fn value_of(limits: &[LimitSpec]) -> String {
    toml::Value::try_from(limits).map_or_else(|error| error.to_string(), |value| value.to_string())
}

/// The defaults of the tables that are there.
fn optional(settings: &[Setting]) -> Vec<(String, String)> {
    let mut tables = BTreeSet::new();
    for setting in settings {
        let Some((first, rest)) = setting.key.split_once('.') else {
            continue;
        };
        let second = first_part(rest);
        tables.insert((first.to_owned(), first.to_owned()));
        let table = format!("{first}.{second}");
        if let Some((third, _)) = rest[second.len()..].trim_start_matches('.').split_once('.') {
            tables.insert((format!("{first}.*.{third}"), format!("{table}.{third}")));
        }
        // A key of the outer table, such as `keys.listen`, is not a table.
        if rest.len() > second.len() {
            tables.insert((format!("{first}.*"), table));
        }
    }
    let defaults = OPTIONAL.iter().flat_map(|(pattern, key, value)| {
        let tables = tables.iter().filter(move |(kind, _)| kind == pattern);
        tables.map(move |(_, table)| (format!("{table}.{key}"), (*value).to_owned()))
    });
    defaults.collect()
}

/// The first part of a key, in quotes where it has dots.
fn first_part(key: &str) -> &str {
    let end = match key.strip_prefix('"').and_then(|rest| rest.find('"')) {
        Some(quote) => Some(quote + 2),
        None => key.find('.'),
    };
    end.and_then(|end| key.get(..end)).unwrap_or(key)
}

/// A part of a key as TOML has it.
fn key_part(key: &str) -> String {
    let is_bare = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
    if key.chars().all(is_bare) {
        key.to_owned()
    } else {
        format!("\"{key}\"")
    }
}

fn of_file(file: &File) -> Vec<Setting> {
    let file = &File {
        path: file.path.clone(),
        text: renamed::upgrade(&file.text).0,
    };
    let (table, _) = DeTable::parse_recoverable(&file.text);
    let mut settings = Vec::new();
    let mut walk = Walk {
        file,
        settings: &mut settings,
    };
    walk.table("", table.get_ref());
    settings.sort_by_key(|setting| match setting.origin {
        SettingOrigin::File { line, .. } => line,
        SettingOrigin::Default | SettingOrigin::Runtime { .. } => 0,
    });
    settings
}

struct Walk<'a> {
    file: &'a File,
    settings: &'a mut Vec<Setting>,
}

impl Walk<'_> {
    fn table(&mut self, path: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = match path {
                "" => key_part(key.get_ref()),
                path => format!("{path}.{}", key_part(key.get_ref())),
            };
            self.value(path, key.span().start, value);
        }
    }

    fn setting(&mut self, path: String, start: usize, written: &str) {
        let line = 1 + self.file.text[..start].matches('\n').count();
        self.settings.push(Setting {
            value: without_secrets(&path, written),
            key: path,
            origin: SettingOrigin::File {
                file: self.file.path.display().to_string(),
                line,
            },
        });
    }

    fn value(&mut self, path: String, start: usize, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            // An empty table is a setting too: `[detection.syn_flood]`.
            DeValue::Table(table) if table.is_empty() => self.setting(path, start, "{}"),
            DeValue::Table(table) => self.table(&path, table),
            DeValue::Array(tables) if path == "interface" => {
                for (index, table) in tables.iter().enumerate() {
                    let DeValue::Table(table) = table.get_ref() else {
                        continue;
                    };
                    let name = table.get("name").and_then(|name| name.get_ref().as_str());
                    let name = name.map_or_else(|| index.to_string(), str::to_owned);
                    self.table(&format!("{path}.{}", key_part(&name)), table);
                }
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {
                let written = self.inline(value);
                self.setting(path, start, &written);
            }
        }
    }

    /// A value as it is written, and tables of their own, as `[[policy.default.limits]]`, within
    /// brackets.
    fn inline(&self, value: &Spanned<DeValue<'_>>) -> String {
        let written = self.written(value);
        match value.get_ref() {
            DeValue::Array(items) if !written.starts_with('[') || written.starts_with("[[") => {
                let items: Vec<String> = items.iter().map(|item| self.inline(item)).collect();
                format!("[{}]", items.join(", "))
            }
            DeValue::Table(table) if !written.starts_with('{') => {
                let pairs = table.iter();
                let pairs = pairs.map(|(key, value)| {
                    format!("{} = {}", key_part(key.get_ref()), self.inline(value))
                });
                format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => written,
        }
    }

    /// A value as it is written, on one line and without comments.
    fn written(&self, value: &Spanned<DeValue<'_>>) -> String {
        let text = self.file.text.get(value.span()).unwrap_or_default();
        if !text.contains('\n') {
            return text.to_owned();
        }
        let lines = text.lines().map(|line| {
            let comment = line.trim_start().starts_with('#');
            if comment { "" } else { line.trim() }
        });
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        lines.join(" ")
    }
}

fn without_secrets(key: &str, value: &str) -> String {
    let of_list = key.strip_prefix("list.");
    if SECRETS.contains(&key) {
        // At least as long as a secret must be.
        return "\"(secret-not-shown)\"".to_owned();
    }
    let store = value.trim_matches(['"', '\'']).parse::<Store>();
    match store {
        Ok(store) if key == "cluster.url" => format!("\"{store}\""),
        _ if of_list
            .and_then(|key| key.rsplit_once('.'))
            .is_some_and(|(_, key)| key == "url") =>
        {
            format!("\"{}\"", public_url(value.trim_matches(['"', '\''])))
        }
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    const MAIN: &str = "observe = true\n\n\
                        [[interface]]\n\
                        name = \"eth0\"\n\
                        [policy.default]\n\
                        limits = [\n  \
                        # a lot\n  \
                        { packets = 7, per = \"1s\" },\n\
                        ]\n";
    const PARTNER: &str = "[policy.partner]\n\
                           sources = [\"203.0.113.0/24\"]\n\
                           limits = []\n\
                           [crowdsec]\n\
                           url = \"http://host/\"\n\
                           key = \"topsecret\"\n\
                           [cluster]\n\
                           url = \"redis://u:pw@store/1\"\n\
                           [destination.\"198.51.100.7/32\"]\n\
                           limits = [{ packets = 9, per = \"1s\" }]\n";

    #[test]
    fn limits_are_reported_as_they_are_written() {
        let load = |limits: &str| {
            let text =
                format!("[[interface]]\nname = \"eth0\"\n[policy.default]\nlimits = {limits}\n");
            super::super::tests::load_text(&text).default_policy.limits
        };
        let limits = load(
            r#"[{ packets = 7, per = "1s", match = { protocol = "udp", length = ["9-99"] } },
                { bytes = "5kB", per = "1m", algorithm = "token-bucket", burst = "9kB", match = "tcp-syn" }]"#,
        );
        assert_eq!(limits.len(), 2);
        assert_eq!(load(&value_of(&limits)), limits);
    }

    #[test]
    fn what_a_subscriber_pays_a_list_with_is_not_told() {
        let list = "[list.a]\nfile = \"/a\"\nurl = 'https://u:pw@host/a?key=topsecret'\n";
        let reported = reported(&[("main.toml", MAIN), ("conf.d/list.toml", list)]);
        for expected in [
            "list.a.url = \"https://(secret)@host/a?(secret)\" conf.d/list.toml:3",
            "list.a.allow_wide = false default",
        ] {
            assert!(
                reported.iter().any(|line| line == expected),
                "{reported:#?}"
            );
        }
    }

    #[test]
    fn each_key_is_reported_with_its_file_and_line_or_as_a_default() {
        let reported = reported(&[("main.toml", MAIN), ("conf.d/partner.toml", PARTNER)]);
        for expected in [
            "observe = true main.toml:1",
            "interface.eth0.name = \"eth0\" main.toml:4",
            "interface.eth0.mode = \"auto\" default",
            "policy.default.limits = [ { packets = 7, per = \"1s\" }, ] main.toml:6",
            "policy.default.observe = false default",
            "policy.partner.sources = [\"203.0.113.0/24\"] conf.d/partner.toml:2",
            "policy.partner.observe = false default",
            "destination.\"198.51.100.7/32\".observe = false default",
            "crowdsec.every = \"10s\" default",
            "crowdsec.key = \"(secret-not-shown)\" conf.d/partner.toml:6",
            "crowdsec.url = \"http://host/\" conf.d/partner.toml:5",
            "cluster.url = \"redis://store:6379/1\" conf.d/partner.toml:8",
            "clock = \"auto\" default",
            "source.ipv6_prefix = 64 default",
            "paths.state = \"/var/lib/ratelimit\" default",
        ] {
            assert!(
                reported.iter().any(|line| line == expected),
                "{expected}: {reported:#?}"
            );
        }
        assert!(
            !reported
                .iter()
                .any(|line| line.contains("topsecret") || line.contains("pw@"))
        );
        assert!(
            !reported
                .iter()
                .any(|line| line.starts_with("list.") || line.starts_with("node."))
        );
    }

    #[test]
    fn what_is_shown_is_a_configuration_that_says_the_same() {
        let more = "[detection.syn_flood]\n\
                    [[policy.lan.limits]]\n\
                    packets = 5\n\
                    per = \"1s\"\n\
                    [[policy.lan.limits]]\n\
                    packets = 50\n\
                    per = \"1m\"\n\
                    [policy.lan]\n\
                    sources = [\"192.0.2.0/24\"]\n\
                    [allow]\n\
                    sources = [\"198.51.100.1\"]\n\
                    [[interface]]\n\
                    name = \"eth0.5\"\n\
                    [interface.node]\n\
                    limits = [{ packets = 7, per = \"1s\" }]\n\
                    [cluster]\n\
                    url = \"redis://store/1\"\n\
                    node = \"a\"\n\
                    secret_file = \"/s\"\n";
        let allow = "[allow]\nsources = [\n  \"198.51.100.2\",\n]\n";
        let file = |path: &str, text: &str| File {
            path: path.into(),
            text: text.to_owned(),
        };
        let files = [
            file("config.toml", MAIN),
            file("conf.d/a.toml", more),
            file("conf.d/b.toml", allow),
        ];
        let parse = |files: &[File]| {
            let mut config = config::parse(files).unwrap().0;
            config.files.clear();
            config
        };
        let mut all = settings(&files);
        let shown = toml(&all);
        assert_eq!(
            parse(&[file("shown.toml", &shown)]),
            parse(&files),
            "{shown}"
        );
        let runtime = |key: &str| Setting {
            key: key.to_owned(),
            value: "[{ packets = 3, per = \"1s\" }]".to_owned(),
            origin: SettingOrigin::Runtime {
                author: "root".to_owned(),
            },
        };
        let of = ["policy.default.limits", "policy.192.0.2.66.limits"].map(runtime);
        all.splice(0..0, of);
        let shown = toml(&all);
        let limits = parse(&[file("shown.toml", &shown)]).default_policy.limits;
        assert_eq!(limits[0].amount(), 3, "{shown}");
        assert!(
            shown.contains("# rlctl limit set, by root: policy.192.0.2.66.limits = ["),
            "{shown}"
        );
    }

    #[test]
    fn what_an_interface_has_of_its_own_is_reported_under_its_name() {
        let text = "[[interface]]\nname = \"eth0.5\"\n[interface.node]\nlimits = []\n";
        let reported = reported(&[("main.toml", text)]);
        let own: Vec<&String> = reported
            .iter()
            .filter(|line| line.starts_with("interface."))
            .collect();
        let expected = [
            "interface.\"eth0.5\".name = \"eth0.5\" main.toml:2",
            "interface.\"eth0.5\".node.limits = [] main.toml:4",
            "interface.\"eth0.5\".mode = \"auto\" default",
            "interface.\"eth0.5\".jumbo = false default",
            "interface.\"eth0.5\".policy = \"default\" default",
            "interface.\"eth0.5\".observe = false default",
            "interface.\"eth0.5\".node.observe = false default",
        ];
        assert_eq!(own, expected);
    }

    #[test]
    fn the_defaults_say_what_holds_without_them() {
        let rest = "policy.default.limits = []\n\
                    ban.fold.percent = 75\n\
                    list.a.file = \"/a\"\n\
                    destination.\"10.0.0.1\".limits = [{ packets = 9, per = \"1s\" }]\n\
                    node.limits = [{ packets = 9, per = \"1s\" }]\n\
                    subnet.ipv4 = [{ prefix = 24, packets = 9, per = \"1s\" }]\n\
                    crowdsec.url = \"/run/c\"\n\
                    crowdsec.key_file = \"/k\"\n\
                    keys.users.limits = [{ requests = 9, per = \"1s\" }]\n\
                    cluster.url = \"/run/r\"\n\
                    cluster.node = \"a\"\n\
                    cluster.secret_file = \"/s\"\n\
                    upstream.next_hop = \"192.0.2.1\"\n";
        let minimal = format!("{rest}[[interface]]\nname = \"eth0\"\n");
        let parse = |text: String| {
            let path = "config.toml".into();
            config::parse(&[File { path, text }]).unwrap().0
        };
        let path = "config.toml".into();
        let text = minimal.clone();
        let defaults = settings(&[File { path, text }]).into_iter();
        let defaults = defaults.filter(|it| it.origin == SettingOrigin::Default);
        let others = defaults.filter(|it| !it.key.starts_with("interface."));
        let lines = others.map(|it| format!("{} = {}", it.key, it.value));
        let top = lines.collect::<Vec<_>>().join("\n") + "\n";
        let interface = "[[interface]]\nname = \"eth0\"\nmode = \"auto\"\njumbo = false\n";
        for (table, key, value) in OPTIONAL {
            let table = table.replace(".*", ".");
            let has =
                |it: &str| it.starts_with(&table) && it.ends_with(&format!("{key} = {value}"));
            assert!(
                table.starts_with("interface.") || top.lines().any(has),
                "{table} {key}: {top}"
            );
        }
        assert_eq!(parse(format!("{top}{rest}{interface}")), parse(minimal));
    }

    fn reported(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| File {
            path: path.into(),
            text: (*text).to_owned(),
        });
        let files: Vec<File> = files.collect();
        let reported = settings(&files).into_iter().map(|setting| {
            let Setting { key, value, origin } = setting;
            format!("{key} = {value} {origin}")
        });
        reported.collect()
    }
}
