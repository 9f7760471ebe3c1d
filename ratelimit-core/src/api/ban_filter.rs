//! Filters of bans.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Ban;
use crate::{origin::Origin, prefix::Prefix};

/// Selects bans that match all given conditions.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct BanFilter {
    /// Bans within this prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Prefix>,
    /// Bans with this origin: `manual`, `program:sshd`, or `program` for all programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Bans whose reason contains this text, ignoring case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bans that expire within this number of seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending_in_seconds: Option<f64>,
}

/// Removes all bans that match a filter, except entries of lists.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UnbanMatchingRequest {
    /// Bans to remove.
    pub filter: BanFilter,
    /// Confirms that an empty filter removes every ban.
    #[serde(default)]
    pub all: bool,
}

impl BanFilter {
    /// Returns whether the filter is empty and matches every ban.
    pub fn has_all(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the filter also matches entries of lists, which needs a prefix or the origin
    /// `list`.
    pub fn looks_into_lists(&self) -> bool {
        let origin = self.origin.as_deref();
        match origin.map(|text| text.split_once(':').map_or(text, |(kind, _)| kind)) {
            Some(kind) => kind == "list",
            None => self.within.is_some(),
        }
    }

    /// Returns whether the filter matches `ban` at the time `now`.
    pub fn has(&self, ban: &Ban, now: Timestamp) -> bool {
        let within = self.within.is_none_or(|within| within.covers(ban.prefix));
        let origin = self.origin.as_deref();
        let reason = self.reason.as_ref().is_none_or(|part| {
            let reason = ban.reason.as_deref().unwrap_or_default();
            reason.to_lowercase().contains(&part.to_lowercase())
        });
        let ending = self.ending_in_seconds.is_none_or(|seconds| {
            let latest = SignedDuration::try_from_secs_f64(seconds);
            let latest = latest.ok().and_then(|span| now.checked_add(span).ok());
            match (ban.until, latest) {
                (Some(until), Some(latest)) => until <= latest,
                (until, None) => until.is_some(),
                (None, Some(_)) => false,
            }
        });
        within && reason && ending && origin.is_none_or(|text| is_of(&ban.origin, text))
    }
}

/// A search for bans, as typed by a user.
#[derive(Clone, Debug)]
pub struct BanSearch {
    text: String,
    prefix: Option<Prefix>,
}

impl BanSearch {
    /// Creates a search that ignores case.
    pub fn new(text: &str) -> Self {
        let text = text.trim().to_lowercase();
        let prefix = text.parse().ok();
        Self { text, prefix }
    }

    /// Returns whether the text matches the prefix, origin, reason or author of `ban`, or is a
    /// prefix around or within it.
    pub fn finds(&self, ban: &Ban) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.text);
        let is_near = |it: Prefix| it.covers(ban.prefix) || ban.prefix.covers(it);
        self.text.is_empty()
            || self.prefix.is_some_and(is_near)
            || has(&ban.prefix.to_string())
            || has(&ban.origin.to_string())
            || ban.reason.as_deref().is_some_and(has)
            || has(&ban.author)
    }
}

/// Returns whether `text` is the origin or its kind.
fn is_of(origin: &Origin, text: &str) -> bool {
    let own = origin.to_string();
    let kind = own.split_once(':').map_or(own.as_str(), |(kind, _)| kind);
    own == text || kind == text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::EntryCounter;

    #[test]
    fn a_filter_has_the_bans_of_which_everything_holds() {
        let (within, origin, reason, ending) = (None, None, None, None);
        check(&filter(within, origin, reason, ending), true);
        check(&filter(Some("203.0.0.0/16"), origin, reason, ending), true);
        check(
            &filter(Some("203.0.113.0/25"), origin, reason, ending),
            false,
        );
        check(&filter(within, Some("program"), reason, ending), true);
        check(&filter(within, Some("program:sshd"), reason, ending), true);
        check(&filter(within, Some("program:ssh"), reason, ending), false);
        check(&filter(within, Some("manual"), reason, ending), false);
        check(&filter(within, origin, Some("SCAN"), ending), true);
        check(&filter(within, origin, Some("flood"), ending), false);
        check(&filter(within, origin, reason, Some(60.0)), true);
        check(&filter(within, origin, reason, Some(59.0)), false);
        check(&filter(within, Some("manual"), Some("scan"), ending), false);
    }

    #[test]
    fn a_search_finds_what_is_typed_and_what_covers_it() {
        for text in [
            "",
            " 203.0.113.9 ",
            "203.0.0.0/16",
            "203.0.113",
            "PROGRAM:",
            "Scan",
            "hd",
        ] {
            assert!(BanSearch::new(text).finds(&ban()), "{text}");
        }
        for text in ["203.0.114.9", "198.51.100.0/24", "manual", "flood"] {
            assert!(!BanSearch::new(text).finds(&ban()), "{text}");
        }
    }

    fn ban() -> Ban {
        let since = Timestamp::UNIX_EPOCH;
        Ban {
            counter: EntryCounter::default(),
            prefix: "203.0.113.0/24".parse().unwrap(),
            until: Some(since + SignedDuration::from_secs(60)),
            since,
            reason: Some("port scan".into()),
            author: "sshd".into(),
            origin: Origin::program("sshd"),
            folded: None,
        }
    }

    fn check(filter: &BanFilter, expected: bool) {
        let now = Timestamp::UNIX_EPOCH;
        let ban = ban();
        assert_eq!(filter.has(&ban, now), expected, "{filter:?}");
        let endless = Ban { until: None, ..ban };
        let expected = expected && filter.ending_in_seconds.is_none();
        assert_eq!(
            filter.has(&endless, now),
            expected,
            "{filter:?} of an endless ban"
        );
    }

    fn filter(
        within: Option<&str>,
        origin: Option<&str>,
        reason: Option<&str>,
        ending_in_seconds: Option<f64>,
    ) -> BanFilter {
        BanFilter {
            within: within.map(|within| within.parse().unwrap()),
            origin: origin.map(str::to_owned),
            reason: reason.map(str::to_owned),
            ending_in_seconds,
        }
    }
}
