//! How the API reports the clock that packets are judged by.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::{config::ClockWish, limit::LimitSpec, quantity};

/// The clock used for limits, and why.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClockStatus {
    /// The clock in use.
    pub clock: KernelClock,
    /// The configured clock.
    pub wish: ClockWish,
    /// Tick of the coarse clock in seconds.
    pub tick_seconds: f64,
    /// Whether the coarse clock keeps every limit within the promised error.
    pub suits: bool,
    /// The limit with the largest error; unset if there are no limits.
    pub decides: Option<CoarseError>,
}

/// A clock of the kernel.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum KernelClock {
    /// Resolution of a nanosecond.
    Precise,
    /// Resolution of a tick, at a third of the cost.
    Coarse,
}

/// The error of a limit under the coarse clock.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CoarseError {
    /// Policy of the limit.
    pub policy: String,
    /// Definition of the limit.
    pub limit: LimitSpec,
    /// Largest relative error in either direction: 0.004 is 0.4 %.
    pub error: f64,
}

impl KernelClock {
    /// Returns the name of the clock.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for ClockStatus {
    /// `clock: coarse (4ms tick; error <= 0.4%, largest for 1000 packets per 1s in policy default)`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tick = Duration::try_from_secs_f64(self.tick_seconds).unwrap_or_default();
        let tick = quantity::duration(tick);
        let clock = self.clock.label();
        let asked = match self.wish {
            ClockWish::Auto => "",
            ClockWish::Precise | ClockWish::Coarse => " as configured",
        };
        write!(formatter, "clock: {clock}{asked}")?;
        let Some(CoarseError {
            policy,
            limit,
            error,
        }) = &self.decides
        else {
            return match self.clock {
                KernelClock::Coarse => write!(formatter, " ({tick} tick)"),
                KernelClock::Precise => Ok(()),
            };
        };
        let decides = format!("{limit} in policy {policy}");
        let error = Percent(*error);
        match (self.clock, self.suits, limit.log_times() > 0) {
            (KernelClock::Coarse, true, _) => write!(
                formatter,
                " ({tick} tick; error <= {error}, largest for {decides})"
            ),
            (KernelClock::Coarse, false, _) => write!(
                formatter,
                ", too coarse: a {tick} tick gives {decides} an error of up to {error}"
            ),
            (KernelClock::Precise, false, true) => {
                write!(formatter, ", because {decides} must be exact")
            }
            (KernelClock::Precise, false, false) => write!(
                formatter,
                ", because a {tick} tick would give {decides} an error of up to {error}"
            ),
            (KernelClock::Precise, true, _) => write!(
                formatter,
                "; the coarse clock would suffice ({tick} tick; error <= {error})"
            ),
        }
    }
}

/// A share in per cent, to two digits.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        if percent >= 10.0 {
            write!(formatter, "{percent:.0}%")
        } else if percent >= 0.1 {
            let text = format!("{percent:.1}");
            write!(formatter, "{}%", text.trim_end_matches(".0"))
        } else {
            formatter.write_str("0.1%")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::{Algorithm, LimitUnit};

    use ClockWish::{Auto, Coarse, Precise};
    use KernelClock::{Coarse as COARSE, Precise as PRECISE};

    #[test]
    fn a_clock_is_reported_with_its_reason() {
        let tiny = decides(500, Algorithm::TokenBucket { burst: 1 }, 2.0);
        let second = decides(1000, Algorithm::FixedWindow, 0.004);
        let log = decides(5, Algorithm::SlidingLog, 0.004);
        for (clock, wish, suits, decides, expected) in [
            (
                PRECISE,
                Auto,
                false,
                Some(tiny.clone()),
                "clock: precise, because a 4ms tick would give 500 packets per 1s (token-bucket, \
                 burst 1) in policy default an error of up to 200%",
            ),
            (
                PRECISE,
                Auto,
                false,
                Some(log),
                "clock: precise, because 5 packets per 1s (sliding-log) in policy default must be \
                 exact",
            ),
            (
                COARSE,
                Auto,
                true,
                Some(second.clone()),
                "clock: coarse (4ms tick; error <= 0.4%, largest for 1000 packets per 1s in policy \
                 default)",
            ),
            (
                COARSE,
                Coarse,
                false,
                Some(tiny),
                "clock: coarse as configured, too coarse: a 4ms tick gives 500 packets per 1s \
                 (token-bucket, burst 1) in policy default an error of up to 200%",
            ),
            (
                PRECISE,
                Precise,
                true,
                Some(second),
                "clock: precise as configured; the coarse clock would suffice (4ms tick; error <= \
                 0.4%)",
            ),
            (COARSE, Auto, true, None, "clock: coarse (4ms tick)"),
            (PRECISE, Precise, true, None, "clock: precise as configured"),
        ] {
            let status = ClockStatus {
                clock,
                wish,
                tick_seconds: 0.004,
                suits,
                decides,
            };
            assert_eq!(status.to_string(), expected);
        }
    }

    #[test]
    fn a_share_is_told_to_two_digits_and_never_as_none() {
        for (share, expected) in [
            (0.004, "0.4%"),
            (0.005, "0.5%"),
            (0.000_000_1, "0.1%"),
            (0.02, "2%"),
            (0.0333, "3.3%"),
            (2.0, "200%"),
        ] {
            assert_eq!(Percent(share).to_string(), expected);
        }
    }

    fn decides(amount: u64, algorithm: Algorithm, error: f64) -> CoarseError {
        let window = Duration::from_secs(1);
        CoarseError {
            policy: "default".to_owned(),
            limit: LimitSpec::new(amount, LimitUnit::Packets, window, algorithm).unwrap(),
            error,
        }
    }
}
