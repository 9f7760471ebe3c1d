//! The lifetime of runtime settings.

use std::{fmt, str::FromStr, time::Duration};

use clap::Args;
use ratelimit_core::quantity;

/// `--for TIME`, forever by default.
#[derive(Args, Debug)]
pub struct LifetimeArgument {
    /// Lifetime: 90 (seconds), 10m, 1h30m, 1d, or forever
    #[arg(
        long = "for",
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value = "forever"
    )]
    pub lifetime: Lifetime,
}

/// A time, or forever.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lifetime {
    /// No expiry.
    Forever,
    Lasting(Duration),
}

impl Lifetime {
    /// The form in a request.
    pub fn seconds(self) -> Option<f64> {
        match self {
            Self::Forever => None,
            Self::Lasting(duration) => Some(duration.as_secs_f64()),
        }
    }
}

impl FromStr for Lifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self::Forever);
        }
        let duration = quantity::parse_duration(text).map_err(|error| error.to_string())?;
        if duration.is_zero() {
            return Err(
                "the duration must be greater than 0, for example `10m` or `forever`".to_owned(),
            );
        }
        Ok(Self::Lasting(duration))
    }
}

impl fmt::Display for Lifetime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forever => formatter.write_str("forever"),
            Self::Lasting(duration) => write!(formatter, "for {}", quantity::duration(*duration)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_a_time_or_forever() {
        check("forever", Ok((None, "forever")));
        check("10m", Ok((Some(600.0), "for 10m")));
        check("90", Ok((Some(90.0), "for 1m30s")));
        check(
            "0s",
            Err("the duration must be greater than 0, for example `10m` or `forever`"),
        );
    }

    fn check(text: &str, expected: Result<(Option<f64>, &str), &str>) {
        let lifetime = text.parse::<Lifetime>();
        let lifetime = lifetime.map(|lifetime| (lifetime.seconds(), lifetime.to_string()));
        let expected = expected.map(|(seconds, text)| (seconds, text.to_owned()));
        assert_eq!(lifetime, expected.map_err(str::to_owned));
    }
}
