//! Sets of nft as JSON: `nft -j list set`, `nft -j list ruleset`, and what `nft -j -f` reads. The
//! format is in libnftables-json(5).

use std::borrow::Cow;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, value::RawValue};

use super::json;
use crate::lists::reader::{Reader, Said};

const COMMAND: &str = "nft -j list set FAMILY TABLE";

#[derive(Deserialize)]
struct Document<'t> {
    #[serde(borrow)]
    nftables: Vec<&'t RawValue>,
}

/// An object of the document; objects other than sets are skipped.
#[derive(Deserialize)]
struct Object<'t> {
    #[serde(borrow)]
    set: Option<Set<'t>>,
    #[serde(borrow)]
    element: Option<Set<'t>>,
    #[serde(borrow)]
    add: Option<&'t RawValue>,
    #[serde(borrow)]
    rule: Option<&'t RawValue>,
}

#[derive(Deserialize)]
struct Set<'t> {
    #[serde(borrow)]
    name: Cow<'t, str>,
    #[serde(rename = "type", borrow)]
    kind: Option<&'t RawValue>,
    #[serde(borrow)]
    elem: Option<&'t RawValue>,
}

/// An element that is more than an address.
#[derive(Default, Deserialize)]
struct Element<'t> {
    prefix: Option<Network>,
    range: Option<[String; 2]>,
    #[serde(borrow)]
    elem: Option<Detailed<'t>>,
}

#[derive(Deserialize)]
struct Network {
    addr: String,
    #[serde(deserialize_with = "number")]
    len: Option<u8>,
}

#[derive(Deserialize)]
struct Detailed<'t> {
    #[serde(borrow)]
    val: &'t RawValue,
    #[serde(default, deserialize_with = "number")]
    timeout: Option<i64>,
    #[serde(default, deserialize_with = "number")]
    expires: Option<i64>,
    #[serde(borrow)]
    comment: Option<Cow<'t, str>>,
}

/// A number, which some versions of nft write as a text.
fn number<'t, D: Deserializer<'t>, N: TryFrom<i64>>(value: D) -> Result<Option<N>, D::Error> {
    let value = Value::deserialize(value)?;
    let number = value
        .as_i64()
        .or_else(|| value.as_str()?.trim().parse().ok());
    let number = number.and_then(|number| N::try_from(number).ok());
    if number.is_none() && !value.is_null() {
        return Err(serde::de::Error::custom(format!(
            "`{value}` is not a number"
        )));
    }
    Ok(number)
}

/// Reads all sets.
pub fn read(reader: &mut Reader<'_>) {
    let documents = json::documents(reader.text()).into_iter();
    let documents = documents.filter_map(|text| json::parse::<Document<'_>>(text, reader));
    let documents: Vec<_> = documents.collect();
    for object in documents.into_iter().flat_map(|it| it.nftables) {
        let Some(mut object) = json::parse::<Object<'_>>(object.get(), reader) else {
            continue;
        };
        if let Some(added) = object.add {
            match json::parse(added.get(), reader) {
                Some(inner) => object = inner,
                None => continue,
            }
        }
        let names = object
            .rule
            .is_some_and(|rule| rule.get().contains("\"saddr\"") && !rule.get().contains("\"@"));
        if names {
            reader.skip("of a rule, not of a set");
        }
        if let Some(set) = object.set.or(object.element) {
            read_set(&set, reader);
        }
    }
}

/// Whether a type is one of addresses. Since nft 1.1 it may be `{"typeof": {"payload": {"protocol":
/// "ip", "field": "saddr"}}}`.
fn is_of_addresses(kind: &str) -> bool {
    if matches!(kind, "\"ipv4_addr\"" | "\"ipv6_addr\"") {
        return true;
    }
    let kind: Value = serde_json::from_str(kind).unwrap_or_default();
    let payload = &kind["typeof"]["payload"];
    let [protocol, field] = ["protocol", "field"].map(|key| payload[key].as_str());
    matches!(protocol, Some("ip" | "ip6")) && matches!(field, Some("saddr" | "daddr"))
}

fn read_set(set: &Set<'_>, reader: &mut Reader<'_>) {
    let Some(elements) = set.elem else { return };
    let elements = json::items(elements.get(), reader);
    if set.kind.is_some_and(|kind| !is_of_addresses(kind.get())) {
        for _ in elements {
            reader.skip("of a set of another type");
        }
        return;
    }
    let span = set.elem.map_or(0..0, |part| reader.span(part.get()));
    reader
        .sets
        .begin(&set.name, span.start..span.start + 1, COMMAND);
    for element in elements {
        take(element.get(), Said::default(), reader);
    }
}

/// Adds an element. Its options wrap its value, so this recurses once.
fn take(part: &str, said: Said<'_>, reader: &mut Reader<'_>) {
    if part.starts_with('"') {
        if let Some(address) = json::parse::<Cow<'_, str>>(part, reader) {
            reader.take(part, &address, said);
        }
        return;
    }
    let element = if part.starts_with('{') {
        json::parse::<Element<'_>>(part, reader)
    } else {
        Some(Element::default())
    };
    let Some(element) = element else { return };
    match element {
        Element {
            prefix:
                Some(Network {
                    addr,
                    len: Some(len),
                }),
            ..
        } => reader.take(part, &format!("{addr}/{len}"), said),
        Element {
            range: Some([first, last]),
            ..
        } => reader.take(part, &format!("{first}-{last}"), said),
        Element {
            elem: Some(detailed),
            ..
        } if !detailed.val.get().contains("\"elem\"") => {
            let left = detailed.expires.or(detailed.timeout);
            let said = Said {
                until: left.map(|seconds| reader.after(SignedDuration::from_secs(seconds))),
                reason: detailed.comment.as_deref().unwrap_or_default(),
                ..Said::default()
            };
            take(detailed.val.get(), said, reader);
        }
        _ => reader.bad(
            part,
            "this element is not an address, prefix or range",
            "keep sets of the type ipv4_addr or ipv6_addr",
        ),
    }
}
