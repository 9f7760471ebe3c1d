//! Any JSON: the addresses are the texts under the keys that are called like one, or plain texts in
//! arrays. `json_path` says which keys they are where that is not what was meant.
//!
//! The text is walked over twice: which keys have addresses, and then what they are. Nothing is
//! kept of it but the keys.

use std::{collections::HashMap, fmt};

use serde::de::{DeserializeSeed, Deserializer as _, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Error, value::RawValue};

use super::{
    csv, json,
    rule::{has_address, lets_through},
};
use crate::lists::{
    address,
    reader::{Reader, Said},
};

/// Keys under which addresses are, in small letters and without `_` and `-`.
const KEYS: [&str; 49] = [
    "ip",
    "ips",
    "ipaddress",
    "ipaddresses",
    "ipaddr",
    "ipprefix",
    "ipv6prefix",
    "ipv4prefix",
    "ipv4",
    "ipv6",
    "ipv4s",
    "ipv6s",
    "cidr",
    "cidrs",
    "cidrblock",
    "cidrip",
    "cidripv6",
    "ipv4cidr",
    "ipv6cidr",
    "ipv4cidrs",
    "ipv6cidrs",
    "prefix",
    "prefixes",
    "network",
    "networks",
    "subnet",
    "subnets",
    "netblock",
    "address",
    "addresses",
    "addressprefix",
    "addressprefixes",
    "ipv6addresses",
    "iprange",
    "ipranges",
    "range",
    "ranges",
    "sourceip",
    "srcip",
    "attackerip",
    "iplist",
    "ipstr",
    "clientip",
    "remoteip",
    "remoteaddr",
    "remoteaddress",
    "blocklist",
    "indicator",
    "value",
];
/// Maximum number of different keys to examine. With more, keys are addresses or names.
const KEYS_MAX: usize = 10_000;
/// The most keys that a note names.
const SHOWN: usize = 6;

const RANGES: &str = "a range needs two addresses of one family in their order; take one of the \
                      keys with --json-path KEY";

const CHOOSE: &str = "select the others with jq, or take all with --json-path KEY";

/// The keys that lead to a text. Arrays between them do not count.
#[derive(Default)]
struct Keys {
    all: Vec<Key>,
    by_name: HashMap<(usize, String), usize>,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other"
)]
struct Key {
    parent: usize,
    name: String,
    /// Number of its texts that are addresses, and of others.
    addresses: usize,
    others: usize,
    is_array: bool,
    /// Whether its texts were put together of two ends.
    is_range: bool,
    is_chosen: bool,
    /// Whether an address has no length.
    has_bare: bool,
    /// Whether a number or a mask says how long one is.
    is_mask: bool,
    /// The name or value that marks some of its addresses as allowed.
    lets_through: Option<String>,
}

/// Reads all addresses.
pub fn read(reader: &mut Reader<'_>) {
    let text = reader.text();
    let mut keys = Keys::new();
    let counted = walk(text, &mut keys, &mut |keys, key, value, is_array| {
        let key = &mut keys.all[key];
        key.is_array |= is_array;
        key.is_mask |= csv::is_mask(value);
        if lets_through(value) && csv::ACTIONS.contains(&csv::name(&key.name).as_str()) {
            key.lets_through = Some(value.to_owned());
        }
        if csv::address_of(value).is_some() || address::is_one(value, true) {
            key.addresses += 1;
            key.has_bare |= !value.contains(['/', '-']);
        } else {
            key.others += 1;
        }
    });
    if let Err(error) = counted {
        return json::report(text, &error, "write JSON", reader);
    }
    let path = reader.vetting().json_path.as_deref();
    if let Err((what, hint)) = keys.choose(path).and_then(|()| keys.check(path)) {
        return reader.bad(text.trim().lines().next().unwrap_or_default(), what, hint);
    }
    reader.note(keys.note(path.is_none()));
    let walked = walk(text, &mut keys, &mut |keys, key, value, _| {
        if !keys.all[key].is_chosen || value.is_empty() {
            return;
        }
        // A part of the text, unless it was written with escapes.
        match csv::address_of(value) {
            Some(address) => reader.take(value, address, Said::default()),
            None if !has_address(value) => reader.skip("of no address but something else"),
            None => reader.take(value, value, Said::default()),
        }
    });
    // It could be read before.
    drop(walked);
}

/// Says of JSON without an address whether it is the answer of a server that refused to give a
/// list.
pub fn refusal(text: &str) -> Option<String> {
    let mut keys = Keys::new();
    let mut said = None;
    let mut has_address = false;
    let walked = walk(text, &mut keys, &mut |keys, key, value, _| {
        has_address |= address::is_one(value, true);
        let name = keys.all[key].name.to_lowercase();
        let is_message = [
            "message",
            "error",
            "errors",
            "detail",
            "title",
            "msg",
            "description",
            "reason",
            "errormessage",
        ]
        .contains(&name.as_str());
        if is_message && said.is_none() && !value.is_empty() {
            said = Some(value.chars().take(200).collect());
        }
    });
    walked.ok()?;
    said.filter(|_| !has_address)
}

impl Keys {
    fn new() -> Self {
        let mut keys = Self::default();
        keys.child(0, String::new());
        keys
    }

    /// Returns the key `name` below another. Keys beyond the maximum map to the first, which is
    /// never chosen.
    fn child(&mut self, parent: usize, name: String) -> usize {
        if let Some(known) = self.by_name.get(&(parent, name.clone())) {
            return *known;
        }
        if self.all.len() > KEYS_MAX {
            return 0;
        }
        self.all.push(Key {
            parent,
            name: name.clone(),
            addresses: 0,
            others: 0,
            is_array: false,
            is_range: false,
            is_chosen: false,
            has_bare: false,
            is_mask: false,
            lets_through: None,
        });
        let index = self.all.len() - 1;
        self.by_name.insert((parent, name), index);
        index
    }

    /// The names from the outermost to a key.
    fn path(&self, mut key: usize) -> Vec<&str> {
        let mut path = Vec::new();
        while key != 0 {
            path.push(self.all[key].name.as_str());
            key = self.all[key].parent;
        }
        path.reverse();
        path
    }

    /// Chooses the keys under which addresses are.
    fn choose(&mut self, path: Option<&str>) -> Result<(), (String, &'static str)> {
        const HINT: &str = "name the key of the addresses: --json-path KEY, or json_path = \"KEY\"";
        if let Some(end) = self.end_alone().filter(|_| path.is_none()) {
            return Err((format!("`{}` is an end of no range", end.name), RANGES));
        }
        let chosen: Vec<usize> = match path {
            Some(path) => self.of_path(path),
            None => self.of_names(),
        };
        for key in &chosen {
            self.all[*key].is_chosen = true;
        }
        let with_addresses = self.with_addresses();
        let others: Vec<String> = with_addresses
            .iter()
            .map(|key| self.path(*key).join("."))
            .collect();
        match path {
            Some(path) if chosen.is_empty() => {
                let named = if others.is_empty() {
                    "none has addresses".to_owned()
                } else {
                    format!("addresses are under `{}`", others.join(", "))
                };
                Err((
                    format!("there is no text under the key `{path}`: {named}"),
                    HINT,
                ))
            }
            None if chosen.is_empty() && others.is_empty() => {
                Err(("there is no address in this JSON".to_owned(), HINT))
            }
            None if chosen.is_empty() => {
                let others = others.join(", ");
                Err((format!("several keys have addresses: `{others}`"), HINT))
            }
            _ => Ok(()),
        }
    }

    /// Finds what would be lost or banned by mistake if the chosen keys were read alone.
    fn check(&self, path: Option<&str>) -> Result<(), (String, &'static str)> {
        let beside = |key: usize, is_one: &dyn Fn(&Key) -> bool| {
            let parent = self.all[key].parent;
            self.all.iter().find(|it| it.parent == parent && is_one(it))
        };
        let is_named = |key: &Key, names: &[&str]| names.contains(&csv::name(&key.name).as_str());
        let is_mask = |it: &Key| it.is_mask && is_named(it, &csv::MASKS);
        for (index, key) in self.all.iter().enumerate().filter(|(_, key)| key.is_chosen) {
            let name = &key.name;
            if let Some(mask) = beside(index, &is_mask).filter(|_| key.has_bare) {
                return Err((
                    format!("the key `{}` has the lengths of `{name}`", mask.name),
                    "write ADDRESS/LENGTH: jq -r '.[] | \"\\(.address)/\\(.length)\"' FILE | rlctl \
                     import -",
                ));
            }
            // Rules of Google's cloud say what they do with a key.
            if path.is_none() && beside(index, &|it| it.name == "allowed").is_some() {
                return Err((
                    "some of these are let through: there is a key `allowed`".to_owned(),
                    CHOOSE,
                ));
            }
        }
        let said = self
            .all
            .iter()
            .find_map(|key| Some((&key.name, key.lets_through.as_ref()?)));
        match said.filter(|_| path.is_none()) {
            Some((name, value)) => Err((
                format!("some of these are let through: `{name}` is `{value}`"),
                CHOOSE,
            )),
            None => Ok(()),
        }
    }

    /// Finds an end of a range that has no other end, or comes before it.
    fn end_alone(&self) -> Option<&Key> {
        let is_end = |it: &&Key| it.addresses > 0 && end_of_range(&it.name).is_some();
        self.all.iter().filter(is_end).find(|end| {
            let mut beside = self.all.iter().filter(|it| it.parent == end.parent);
            beside.any(|it| it.is_range || it.name != end.name && is_end(&it))
        })
    }

    fn with_addresses(&self) -> Vec<usize> {
        let all = 0..self.all.len();
        all.filter(|key| self.all[*key].addresses > 0).collect()
    }

    /// Returns the columns with such names, those in arrays, or the only one.
    fn of_names(&self) -> Vec<usize> {
        let all = self.with_addresses();
        let is_named = |key: &usize| {
            let name = self.all[*key].name.to_lowercase().replace(['_', '-'], "");
            // `ipaddr4` and `ipaddr6`
            let names = [name.as_str(), name.trim_end_matches(['4', '6'])];
            names.iter().any(|name| KEYS.contains(name))
        };
        let lets_through = |key: &usize| {
            let path = self.path(*key).join(".").to_lowercase();
            let words = [
                "allow",
                "whitelist",
                "safelist",
                "trusted",
                "except",
                "exclu",
                "permit",
            ];
            words.iter().any(|word| path.contains(word))
        };
        let is_chosen = |key: &usize| is_named(key) || self.all[*key].is_array;
        let chosen: Vec<usize> = all.iter().copied().filter(is_chosen).collect();
        match all.as_slice() {
            [_] => all,
            _ if chosen.iter().any(lets_through) && !chosen.iter().all(lets_through) => Vec::new(),
            _ => chosen,
        }
    }

    /// Returns the columns whose last names match a path: `ip_prefix`, `prefixes.ip_prefix`,
    /// `$.prefixes[*].ip_prefix`.
    fn of_path(&self, path: &str) -> Vec<usize> {
        let is_whole = path.starts_with(['$', '.']);
        let names = path.replace("[*]", ".").replace("[]", ".");
        let names: Vec<&str> = names
            .split('.')
            .filter(|name| !name.is_empty() && *name != "$")
            .collect();
        let has_texts = |key: &usize| self.all[*key].addresses + self.all[*key].others > 0;
        let all = (0..self.all.len()).filter(has_texts);
        let is_meant = |key: &usize| {
            let path = self.path(*key);
            if is_whole {
                path == names
            } else {
                path.ends_with(&names)
            }
        };
        all.filter(is_meant).collect()
    }

    fn note(&self, names_others: bool) -> String {
        let chosen = (0..self.all.len()).filter(|key| self.all[*key].is_chosen);
        let mut paths: Vec<String> = chosen
            .map(|key| match self.path(key).join(".") {
                path if path.is_empty() => "the array".to_owned(),
                path => path,
            })
            .collect();
        let more = paths.len().saturating_sub(SHOWN);
        paths.truncate(SHOWN);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let others = self.with_addresses().into_iter();
        let others = others.filter(|key| names_others && !self.all[*key].is_chosen);
        let mut others: Vec<String> = others.map(|key| self.path(key).join(".")).collect();
        others.truncate(SHOWN);
        let others = match others.as_slice() {
            [] => String::new(),
            others => format!(", not from {}", others.join(", ")),
        };
        format!(
            "addresses from {}{more}{others}; --json-path chooses others",
            paths.join(", ")
        )
    }
}

/// A callback for each text: the keys so far, its own key, the text, and whether it is in an array.
type Each<'e> = dyn FnMut(&mut Keys, usize, &str, bool) + 'e;

/// Walks over all values of a text, one behind the other.
fn walk(text: &str, keys: &mut Keys, each: &mut Each<'_>) -> Result<(), Error> {
    let mut values = Deserializer::from_str(text);
    while !text[..].is_empty() && values.end().is_err() {
        let value = Value {
            keys,
            key: 0,
            is_array: false,
            each,
        };
        value.deserialize(&mut values)?;
    }
    Ok(())
}

/// The addresses of a text that has several: in lines, as `OPNsense` writes them, or in a pattern
/// of STIX, `[ipv4-addr:value = '192.0.2.1' OR ipv4-addr:value = '192.0.2.2']`.
fn several(text: &str) -> Option<Vec<&str>> {
    let negates = text.contains("!=") || text.contains(" NOT ");
    let is_pattern = text.starts_with('[') && text.contains("addr:value") && !negates;
    let all: Vec<&str> = if is_pattern {
        text.split('\'').skip(1).step_by(2).collect()
    } else {
        let lines = text.split(['\n', ',']).map(str::trim);
        lines.filter(|line| !line.is_empty()).collect()
    };
    let is_several = is_pattern || all.len() > 1;
    (is_several && all.iter().all(|it| address::is_one(it, true))).then_some(all)
}

struct Value<'w, 'e> {
    keys: &'w mut Keys,
    key: usize,
    is_array: bool,
    each: &'w mut Each<'e>,
}

impl<'de> DeserializeSeed<'de> for Value<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        match several(text) {
            Some(all) => all
                .iter()
                .for_each(|it| (self.each)(self.keys, self.key, it, true)),
            None => (self.each)(self.keys, self.key, text.trim(), self.is_array),
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.keys.all[self.key].is_mask |= number <= 128;
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        loop {
            let item = Value {
                keys: &mut *self.keys,
                key: self.key,
                is_array: true,
                each: &mut *self.each,
            };
            if items.next_element_seed(item)?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        // The ends of a range, under their keys.
        let mut ends: [Option<(usize, &'de str)>; 2] = [None, None];
        while let Some(name) = entries.next_key::<String>()? {
            let end = end_of_range(&name);
            // An object may have addresses as keys, with values of one kind.
            let key = if address::is_one(&name, true) {
                let key = self.keys.child(self.key, "*".to_owned());
                (self.each)(self.keys, key, &name, true);
                key
            } else {
                self.keys.child(self.key, name)
            };
            let value = Value {
                keys: &mut *self.keys,
                key,
                is_array: false,
                each: &mut *self.each,
            };
            let Some(end) = end else {
                entries.next_value_seed(value)?;
                continue;
            };
            let raw = entries.next_value::<&'de RawValue>()?.get();
            match raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) {
                Some(text) if ends[end].is_none() => ends[end] = Some((key, text)),
                _ => value
                    .deserialize(&mut Deserializer::from_str(raw))
                    .map_err(A::Error::custom)?,
            }
        }
        if let [Some((first_key, first)), Some((last_key, last))] = ends
            && let range = format!("{first}-{last}")
            && address::is_one(&range, false)
        {
            let [first, last] = [first_key, last_key].map(|key| &self.keys.all[key].name);
            let name = format!("{first}-{last}");
            let key = self.keys.child(self.key, name);
            self.keys.all[key].is_range = true;
            (self.each)(self.keys, key, &range, true);
            return Ok(());
        }
        for (key, text) in ends.into_iter().flatten() {
            (self.each)(self.keys, key, text.trim(), false);
        }
        Ok(())
    }
}

/// Which end of a range a key has: 0 is the first address, and 1 the last.
fn end_of_range(name: &str) -> Option<usize> {
    let name = csv::name(name);
    let ends = [&csv::FIRSTS, &csv::LASTS];
    ends.iter().position(|names| names.contains(&name.as_str()))
}

/// The keys of the first object of a text, in it or in an array, however much of the text is JSON.
pub fn first_keys(text: &str) -> Vec<String> {
    struct First<'k>(&'k mut Vec<String>);
    impl<'de> DeserializeSeed<'de> for First<'_> {
        type Value = ();

        fn deserialize<D: serde::Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
            value.deserialize_any(self)
        }
    }
    impl<'de> Visitor<'de> for First<'_> {
        type Value = ();

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
            items.next_element_seed(First(self.0)).map(drop)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
            while let Some(name) = entries.next_key::<String>()? {
                self.0.push(name);
                if self.0.len() >= 64 {
                    return Ok(());
                }
                entries.next_value::<serde::de::IgnoredAny>()?;
            }
            Ok(())
        }
    }
    let mut keys = Vec::new();
    // Errors behind them are reported by the full parse.
    let _ = Deserializer::from_str(text).deserialize_any(First(&mut keys));
    keys
}
