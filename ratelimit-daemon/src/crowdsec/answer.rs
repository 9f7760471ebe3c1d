//! Answers of the local API to `GET /v1/decisions/stream`.

use std::{
    borrow::Cow,
    fmt,
    io::{BufReader, Read},
};

use jiff::SignedDuration;
use ratelimit_core::prefix::{Prefix, PrefixError};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use strum::{IntoStaticStr, VariantArray};

/// The most decisions of an answer that are taken.
const DECISIONS_MAX: usize = 1_000_000;

/// One of the two lists of an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// It applies.
    New,
    /// It ended or was deleted. Each may be reported again for some seconds.
    Deleted,
}

/// Reads a response decision by decision as it arrives, so that neither it nor a whole decision
/// stays in memory. Both lists must be present: a missing list does not count as empty.
///
/// # Errors
///
/// If it is invalid, or has too many decisions. Some of them may have been reported.
pub fn read<'a>(
    answer: impl Read,
    mut take: impl FnMut(Side, &Decision<'a>),
) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::new(answer));
    deserializer.deserialize_map(Lists(&mut take))?;
    deserializer.end()
}

/// The two lists.
struct Lists<'f, F>(&'f mut F);

impl<'de, F: FnMut(Side, &Decision<'de>)> Visitor<'de> for Lists<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the lists `new` and `deleted`")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let mut reported = Vec::new();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let side = match &*key {
                "new" => Side::New,
                "deleted" => Side::Deleted,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let take = &mut *self.0;
            map.next_value_seed(List { side, take })?;
            reported.push(side);
        }
        for (side, name) in [(Side::New, "new"), (Side::Deleted, "deleted")] {
            if !reported.contains(&side) {
                return Err(de::Error::missing_field(name));
            }
        }
        Ok(())
    }
}

/// A list, or `null`, which is Go's encoding of an empty one.
struct List<'f, F> {
    side: Side,
    take: &'f mut F,
}

impl<'de, F: FnMut(Side, &Decision<'de>)> DeserializeSeed<'de> for List<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Side, &Decision<'de>)> Visitor<'de> for List<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "a list of at most {DECISIONS_MAX} decisions, or null"
        )
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        let mut count = 0;
        while let Some(decision) = list.next_element()? {
            count += 1;
            if count > DECISIONS_MAX {
                return Err(de::Error::invalid_length(count, &self));
            }
            (self.take)(self.side, &decision);
        }
        Ok(())
    }
}

/// A decision.
#[derive(Debug, Deserialize)]
pub struct Decision<'a> {
    /// The number of the decision; 0 if the API sends none, in which case a value has one decision.
    #[serde(default)]
    pub id: u64,
    /// The remaining time in Go's format: `3h59m50.5s`, negative if it has ended.
    #[serde(borrow)]
    pub duration: Cow<'a, str>,
    /// The kind of value: `Ip`, `Range`, `Country` ...
    #[serde(borrow)]
    pub scope: Cow<'a, str>,
    /// The action: `ban`, `captcha` ...
    #[serde(borrow, rename = "type")]
    pub kind: Cow<'a, str>,
    /// The target of the decision, in the form of its scope.
    #[serde(borrow)]
    pub value: Cow<'a, str>,
    /// The origin: `crowdsec`, `cscli`, `CAPI`, `lists` ...
    #[serde(borrow, default)]
    pub origin: Cow<'a, str>,
    /// The reason.
    #[serde(borrow, default)]
    pub scenario: Cow<'a, str>,
}

/// The reason a decision is ignored.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Ignored {
    /// The action is not a ban: the kernel cannot show a captcha.
    Type,
    /// It is about a country, a user, a session ...
    Scope,
    /// The value is not an address or a prefix.
    Value,
    /// The duration is invalid.
    Duration,
    /// The prefix is too wide to ban without force.
    Wide,
}

impl Ignored {
    /// The label in metrics.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

impl Decision<'_> {
    /// The banned prefix.
    pub fn banned(&self) -> Result<Prefix, Ignored> {
        if !self.kind.eq_ignore_ascii_case("ban") {
            return Err(Ignored::Type);
        }
        if !["ip", "range"].contains(&self.scope.to_ascii_lowercase().as_str()) {
            return Err(Ignored::Scope);
        }
        self.prefix().ok_or(Ignored::Value)
    }

    /// Returns the value as a prefix. The API accepts `203.0.113.7/24` as a range and reports it
    /// unchanged.
    pub fn prefix(&self) -> Option<Prefix> {
        match self.value.parse() {
            Ok(prefix) => Some(prefix),
            Err(PrefixError::HostBits { network, .. }) => Some(network),
            Err(_) => None,
        }
    }

    /// Returns the remaining time. jiff parses the output of Go's `Duration.String`: `1h2m3.5s`,
    /// `1.5ms`, `2µs`, `-4s`.
    pub fn lasts(&self) -> Result<SignedDuration, Ignored> {
        self.duration.parse().map_err(|_| Ignored::Duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let nanos = |text: &str| {
            let decision = decision("192.0.2.1", text);
            decision.lasts().ok().map(|lasts| lasts.as_nanos())
        };
        let second = 1_000_000_000;
        for (text, expected) in [
            (
                "3h59m50.5s",
                (3 * 3600 + 59 * 60 + 50) * second + second / 2,
            ),
            ("8759h59m59.097901711s", 31_535_999_097_901_711),
            ("-1.623323223s", -1_623_323_223),
            ("-3m20.849527116s", -200_849_527_116),
            ("1.5ms", 1_500_000),
            ("2µs", 2000),
            ("7ns", 7),
            ("0s", 0),
        ] {
            assert_eq!(nanos(text), Some(expected), "{text}");
        }
        for text in ["", "-", "--1s", "forever", "1h-2m"] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }

    #[test]
    fn a_range_is_read_with_host_bits_too() {
        for (value, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("203.0.113.7/24", "203.0.113.0/24"),
            ("2001:DB8::7/32", "2001:db8::/32"),
        ] {
            assert_eq!(prefix(value), Some(expected.parse().unwrap()), "{value}");
        }
        for value in ["", "FR", "192.0.2.1/33", "192.0.2.1-192.0.2.9"] {
            assert_eq!(prefix(value), None, "{value}");
        }
    }

    #[test]
    fn an_answer_without_a_list_is_none() {
        for text in ["{}", r#"{"new":[]}"#, r#"{"deleted":null}"#, "[]", "null"] {
            assert!(read(text.as_bytes(), |_, _| {}).is_err(), "{text}");
        }
    }

    #[test]
    fn an_answer_with_more_decisions_than_are_taken_is_none() {
        let decision = r#"{"duration":"1s","scope":"Ip","type":"ban","value":"192.0.2.1"}"#;
        let answer = |count| {
            format!(
                r#"{{"deleted":null,"new":[{}]}}"#,
                vec![decision; count].join(",")
            )
        };
        let mut taken = 0;
        read(answer(DECISIONS_MAX).as_bytes(), |_, _| taken += 1).unwrap();
        assert_eq!(taken, DECISIONS_MAX);
        let error = read(answer(DECISIONS_MAX + 1).as_bytes(), |_, _| {}).unwrap_err();
        let reported = "invalid length 1000001, expected a list of at most 1000000 decisions";
        assert!(error.to_string().starts_with(reported), "{error}");
    }

    fn prefix(value: &str) -> Option<Prefix> {
        decision(value, "1s").prefix()
    }

    fn decision<'a>(value: &'a str, duration: &'a str) -> Decision<'a> {
        Decision {
            id: 0,
            duration: duration.into(),
            scope: "Ip".into(),
            kind: "ban".into(),
            value: value.into(),
            origin: "".into(),
            scenario: "".into(),
        }
    }
}
