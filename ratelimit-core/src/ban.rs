//! The ban of a policy in configuration: the number of drops, the time, the duration and its
//! growth.

use std::{fmt, num::NonZeroU32, time::Duration};

use ratelimit_common::{
    BanRule,
    strikes::{AFTER_MAX, WITHIN_MIN},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity;

/// The shortest time that drops are counted in.
pub const SHORTEST_WITHIN: Duration = Duration::from_millis(100);
/// The longest time that drops are counted in.
pub const LONGEST_WITHIN: Duration = Duration::from_hours(31 * 24);
/// The shortest ban.
pub const LENGTH_MIN: Duration = Duration::from_secs(1);
/// The longest ban.
pub const LENGTH_MAX: Duration = Duration::from_hours(366 * 24);
/// The longest ban of a policy that does not say one.
pub const LENGTH_MAX_DEFAULT: Duration = Duration::from_hours(24);
/// The default factor by which the next ban of a source is longer.
pub const FACTOR_DEFAULT: u32 = 2;
/// The most by which it may be longer.
pub const FACTOR_MAX: u32 = 100;

const _: () = assert!(SHORTEST_WITHIN.as_nanos() >= WITHIN_MIN.as_nanos());

/// When a policy bans a source, and for how long.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "BanText", into = "BanText")]
pub struct BanSpec {
    after: NonZeroU32,
    within: Duration,
    length: Duration,
    factor: NonZeroU32,
    length_max: Duration,
    forgeable: Forgeable,
}

/// A ban as JSON has it, with the words of the configuration.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct BanText {
    after: NonZeroU32,
    within: String,
    r#for: String,
    factor: NonZeroU32,
    max: String,
    #[serde(alias = "unverified")]
    forgeable: Forgeable,
}

impl From<BanSpec> for BanText {
    fn from(spec: BanSpec) -> Self {
        let [within, length, max] =
            [spec.within, spec.length, spec.length_max].map(quantity::duration);
        Self {
            after: spec.after,
            within,
            r#for: length,
            factor: spec.factor,
            max,
            forgeable: spec.forgeable,
        }
    }
}

impl TryFrom<BanText> for BanSpec {
    type Error = String;

    fn try_from(text: BanText) -> Result<Self, String> {
        let duration = |text: &str| {
            quantity::parse_duration(text).map_err(|error| error.problem().to_string())
        };
        let (within, length) = (duration(&text.within)?, duration(&text.r#for)?);
        let longest = duration(&text.max)?;
        let spec = Self::new(
            (text.after, within),
            length,
            (text.factor, longest),
            text.forgeable,
        );
        spec.ok_or_else(|| "a ban is out of range".to_owned())
    }
}

/// How a ban treats sources without an established TCP connection, which may be forged.
#[derive(Deserialize, strum::IntoStaticStr, JsonSchema, Serialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Forgeable {
    /// Limits them without a ban.
    #[default]
    Limit,
    /// Bans them like any source.
    Ban,
}

impl BanSpec {
    /// A ban of the length `length` with the drop number `after` within `within`, each next one of
    /// a source longer by `factor`, up to `length_max`. `None` when one of them is beyond what the
    /// constants of this module allow, or `length_max` is shorter than `length`.
    pub fn new(
        (after, within): (NonZeroU32, Duration),
        length: Duration,
        (factor, length_max): (NonZeroU32, Duration),
        forgeable: Forgeable,
    ) -> Option<Self> {
        let fits = after.get() <= AFTER_MAX
            && (SHORTEST_WITHIN..=LONGEST_WITHIN).contains(&within)
            && (LENGTH_MIN..=length_max).contains(&length)
            && length_max <= LENGTH_MAX
            && factor.get() <= FACTOR_MAX;
        fits.then_some(Self {
            after,
            within,
            length,
            factor,
            length_max,
            forgeable,
        })
    }

    /// The rule, in the form that the datapath reads.
    ///
    /// # Panics
    ///
    /// Never: what cannot be compiled was refused by [`new`](Self::new).
    pub fn compile(&self) -> BanRule {
        let rule = BanRule::new(self.after, self.within, self.length);
        let rule = rule.expect("`new` compared everything with what can be had");
        match self.forgeable {
            Forgeable::Limit => rule,
            Forgeable::Ban => rule.including_forgeable(),
        }
    }

    /// The drops that it takes.
    pub const fn after(&self) -> u32 {
        self.after.get()
    }

    /// Returns the length of a ban for a source that was banned `level` times before.
    ///
    /// ```
    /// use std::{num::NonZeroU32, time::Duration};
    ///
    /// use ratelimit_core::ban::{BanSpec, Forgeable};
    ///
    /// let number = |number| NonZeroU32::new(number).unwrap();
    /// let (minute, day) = (Duration::from_secs(60), Duration::from_secs(86_400));
    /// let ban = BanSpec::new((number(100), minute), minute, (number(2), day), Forgeable::Limit);
    /// let ban = ban.expect("within the bounds");
    /// assert_eq!(ban.length(0), minute);
    /// assert_eq!(ban.length(3), minute * 8);
    /// assert_eq!(ban.length(99), day);
    /// ```
    pub fn length(&self, level: u32) -> Duration {
        let factor = self.factor.get().checked_pow(level);
        let length = factor.and_then(|factor| self.length.checked_mul(factor));
        length.map_or(self.length_max, |length| length.min(self.length_max))
    }

    /// The time without a new ban after which a source's history is forgotten: as long as the
    /// longest ban.
    pub const fn forgotten_after(&self) -> Duration {
        self.length_max
    }
}

impl fmt::Display for BanSpec {
    /// `5000 drops within 10s: banned for 10m, then 2 times as long, up to 1d`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [within, length, length_max] =
            [self.within, self.length, self.length_max].map(quantity::duration);
        let drops = if self.after() == 1 { "drop" } else { "drops" };
        write!(
            formatter,
            "{} {drops} within {within}: banned for {length}",
            self.after
        )?;
        if self.factor.get() > 1 && self.length < self.length_max {
            write!(
                formatter,
                ", then {} times as long, up to {length_max}",
                self.factor
            )?;
        }
        match self.forgeable {
            Forgeable::Limit => Ok(()),
            Forgeable::Ban => write!(formatter, ", forgeable sources too"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_ban_is_longer_up_to_the_longest() {
        let spec = spec(600, 2, 86_400);
        let seconds: Vec<u64> = (0..10).map(|level| spec.length(level).as_secs()).collect();
        assert_eq!(
            seconds,
            [
                600, 1200, 2400, 4800, 9600, 19_200, 38_400, 76_800, 86_400, 86_400
            ]
        );
        assert_eq!(spec.length(u32::MAX), Duration::from_hours(24));
    }

    #[test]
    fn a_ban_says_what_it_is() {
        let expected = "5000 drops within 10s: banned for 10m, then 2 times as long, up to 1d";
        assert_eq!(spec(600, 2, 86_400).to_string(), expected);
        let expected = "5000 drops within 10s: banned for 10m";
        assert_eq!(spec(600, 1, 86_400).to_string(), expected);
        assert_eq!(spec(600, 2, 600).to_string(), expected);
    }

    #[test]
    fn json_says_what_the_configuration_does() {
        let json = r#"{"after":5000,"within":"10s","for":"10m","factor":2,"max":"1d","forgeable":"limit"}"#;
        let spec = spec(600, 2, 86_400);
        assert_eq!(serde_json::to_string(&spec).unwrap(), json);
        assert_eq!(serde_json::from_str::<BanSpec>(json).unwrap(), spec);
        let old = json.replace("forgeable", "unverified");
        assert_eq!(serde_json::from_str::<BanSpec>(&old).unwrap(), spec);
        assert!(serde_json::from_str::<BanSpec>(&json.replace("10m", "10ms")).is_err());
    }

    proptest! {
        #[test]
        fn what_can_be_said_can_be_compiled(
            after: u32, within_ms in 0u64..3_000_000_000, length in 0u64..40_000_000,
            max in 0u64..40_000_000, factor: u32,
        ) {
            let numbers = (NonZeroU32::new(after), NonZeroU32::new(factor));
            if let (Some(after), Some(factor)) = numbers {
                let spec = BanSpec::new(
                    (after, Duration::from_millis(within_ms)),
                    Duration::from_secs(length),
                    (factor, Duration::from_secs(max)),
                    Forgeable::Limit,
                );
                if let Some(spec) = spec {
                    prop_assert_eq!(spec.compile().length(), spec.length(0));
                    prop_assert!(spec.length(1) >= spec.length(0));
                }
            }
        }
    }

    fn spec(seconds: u64, factor: u32, max: u64) -> BanSpec {
        let [after, factor] = [5000, factor].map(|number| NonZeroU32::new(number).unwrap());
        BanSpec::new(
            (after, Duration::from_secs(10)),
            Duration::from_secs(seconds),
            (factor, Duration::from_secs(max)),
            Forgeable::Limit,
        )
        .unwrap()
    }
}
