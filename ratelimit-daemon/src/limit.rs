//! A limit as people say it: so much, of this, per that.

use std::{fmt, time::Duration};

use ratelimit_common::{
    Limit, Unit,
    algorithm::{FixedWindow, FixedWindowError},
};
use serde::{Deserialize, Serialize};

use crate::quantity;

/// The shortest window.
pub const WINDOW_MIN: Duration = Duration::from_millis(10);
/// The longest window.
pub const WINDOW_MAX: Duration = Duration::from_hours(31 * 24);

/// One limit that the datapath can enforce.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "LimitText", into = "LimitText")]
pub struct LimitSpec {
    amount: u64,
    unit: LimitUnit,
    window: Duration,
    algorithm: Algorithm,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LimitUnit {
    /// Packets.
    Packets,
    /// Bytes of their frames.
    Bytes,
}

/// How a limit counts.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// At most the amount in the window that a source's first packet opens.
    #[default]
    FixedWindow,
}

/// Why a limit cannot be enforced.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LimitError {
    /// Neither or both of packets and bytes.
    #[error("a limit counts either `packets` or `bytes`")]
    Unit,
    /// Nothing could ever pass.
    #[error("the amount is 0, which would drop everything: use a ban, or write at least 1")]
    ZeroAmount,
    /// Shorter than [`WINDOW_MIN`].
    #[error("the window is shorter than 10ms, the shortest that can be kept")]
    WindowTooShort,
    /// Longer than [`WINDOW_MAX`].
    #[error("the window is longer than 31d, the longest that can be kept")]
    WindowTooLong,
    /// The state of a source is one word, which this limit does not fit.
    #[error(
        "the amount is too large for this window: one word of state holds at most {amount_max}; write a smaller amount or a longer window"
    )]
    Unrepresentable {
        /// The largest amount for the window.
        amount_max: u64,
    },
}

impl LimitSpec {
    /// A limit of `amount` units in each `window`.
    ///
    /// # Errors
    ///
    /// See [`LimitError`].
    pub fn new(
        amount: u64,
        unit: LimitUnit,
        window: Duration,
        algorithm: Algorithm,
    ) -> Result<Self, LimitError> {
        if window < WINDOW_MIN {
            return Err(LimitError::WindowTooShort);
        }
        if window > WINDOW_MAX {
            return Err(LimitError::WindowTooLong);
        }
        fixed_window(amount, window)?;
        Ok(Self {
            amount,
            unit,
            window,
            algorithm,
        })
    }

    /// The limit in the form that the datapath reads.
    ///
    /// # Panics
    ///
    /// Never: what cannot be compiled was refused by [`new`](Self::new).
    #[must_use]
    pub fn compile(&self) -> Limit {
        let Algorithm::FixedWindow = self.algorithm;
        let window = fixed_window(self.amount, self.window).expect("`new` tried it");
        let unit = match self.unit {
            LimitUnit::Packets => Unit::Packets,
            LimitUnit::Bytes => Unit::Bytes,
        };
        Limit::new(window, unit)
    }

    /// What one window admits.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// What is counted.
    #[must_use]
    pub fn unit(&self) -> LimitUnit {
        self.unit
    }

    /// The length of the window.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.window
    }
}

fn fixed_window(amount: u64, window: Duration) -> Result<FixedWindow, LimitError> {
    FixedWindow::new(amount, window).map_err(|error| match error {
        FixedWindowError::ZeroAmount => LimitError::ZeroAmount,
        FixedWindowError::Unrepresentable { amount_max } => {
            LimitError::Unrepresentable { amount_max }
        }
    })
}

impl fmt::Display for LimitSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = quantity::duration(self.window);
        match self.unit {
            LimitUnit::Packets => write!(formatter, "{} packets per {window}", self.amount),
            LimitUnit::Bytes => {
                write!(formatter, "{} per {window}", quantity::bytes(self.amount))
            }
        }
    }
}

/// The form in JSON: `{"packets": 1000, "per": "1s"}`.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LimitText {
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    per: String,
    #[serde(default)]
    algorithm: Algorithm,
}

impl TryFrom<LimitText> for LimitSpec {
    type Error = anyhow::Error;

    fn try_from(text: LimitText) -> anyhow::Result<Self> {
        let (amount, unit) = match (text.packets, text.bytes) {
            (Some(packets), None) => (packets, LimitUnit::Packets),
            (None, Some(bytes)) => (bytes, LimitUnit::Bytes),
            _ => return Err(LimitError::Unit.into()),
        };
        Ok(Self::new(
            amount,
            unit,
            quantity::parse_duration(&text.per)?,
            text.algorithm,
        )?)
    }
}

impl From<LimitSpec> for LimitText {
    fn from(limit: LimitSpec) -> Self {
        let amount = Some(limit.amount);
        let (packets, bytes) = match limit.unit {
            LimitUnit::Packets => (amount, None),
            LimitUnit::Bytes => (None, amount),
        };
        let per = quantity::duration(limit.window).to_string();
        Self {
            packets,
            bytes,
            per,
            algorithm: limit.algorithm,
        }
    }
}
