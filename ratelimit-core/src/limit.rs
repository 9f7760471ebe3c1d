//! A limit as people say it: so much, of this, per that.

pub mod sharing;
pub mod throughput;

use std::{fmt, str::FromStr, time::Duration};

use ratelimit_common::{
    Limit, Unit,
    algorithm::{
        self, FixedWindow, ParameterError, SlidingLog, SlidingWindow, TokenBucket,
        sliding_log::TIMES_MAX,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

use crate::{class::Match, quantity};

/// The shortest window.
pub const WINDOW_MIN: Duration = Duration::from_millis(10);
/// Bytes of the largest frame on a link with the usual MTU of 1500.
pub const FRAME_BYTES: u64 = 1514;
/// The longest window.
pub const WINDOW_MAX: Duration = Duration::from_hours(31 * 24);

/// A limit that the datapath enforces.
#[derive(Clone, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "LimitText", into = "LimitText")]
pub struct LimitSpec {
    amount: u64,
    unit: LimitUnit,
    window: Duration,
    algorithm: Algorithm,
    class: Option<Match>,
    shared: Option<Division>,
}

/// How cluster nodes divide a shared limit.
#[derive(Deserialize, strum::IntoStaticStr, JsonSchema, Serialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Division {
    /// Equal shares, capped by demand.
    #[default]
    Equal,
    /// Shares in proportion to the traffic each node receives.
    Proportional,
}

/// Whether the cluster shares a limit.
#[derive(Deserialize, strum::IntoStaticStr, JsonSchema, Serialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scope {
    /// Each node enforces the limit separately.
    #[default]
    Node,
    /// All nodes of the cluster share the limit.
    Cluster,
}

/// The unit of a limit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LimitUnit {
    /// Packets.
    Packets,
    /// Bytes including the frame header.
    Bytes,
}

/// The algorithm by which a limit counts.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Algorithm {
    /// At most the amount in the window that a source's first packet opens.
    FixedWindow,
    /// At most the amount in a window and the weighted one before it.
    SlidingWindow,
    /// At most a burst, and the amount in a window behind it, evenly.
    TokenBucket {
        /// Capacity of the bucket.
        burst: u64,
    },
    /// At most the amount in any window of time: the time of each admitted packet is stored.
    SlidingLog,
}

/// The algorithm of a limit.
#[derive(Deserialize, strum::IntoStaticStr, JsonSchema, Serialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AlgorithmName {
    /// Counts in windows that start with the first packet of a source.
    FixedWindow,
    /// Counts in a window plus the weighted previous one.
    SlidingWindow,
    /// Admits a burst, then the configured rate evenly.
    TokenBucket,
    /// Keeps the time of each packet, so that no window ever exceeds the amount.
    SlidingLog,
}

impl Algorithm {
    /// The name by which it is chosen.
    pub fn name(self) -> AlgorithmName {
        match self {
            Self::FixedWindow => AlgorithmName::FixedWindow,
            Self::SlidingWindow => AlgorithmName::SlidingWindow,
            Self::TokenBucket { .. } => AlgorithmName::TokenBucket,
            Self::SlidingLog => AlgorithmName::SlidingLog,
        }
    }
}

/// The reason a limit cannot be enforced.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LimitError {
    /// Both or neither of packets and bytes are given.
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
        "the amount is too large for this window (maximum {amount_max}): reduce it, or use a \
         longer window"
    )]
    Unrepresentable {
        /// The largest amount for the window.
        amount_max: u64,
    },
    /// A burst of something that has none.
    #[error("only a token-bucket has a burst: write the algorithm, or remove the burst")]
    BurstWithoutBucket,
    /// No packet would ever fit.
    #[error("the burst is 0, which would drop everything: write at least 1")]
    ZeroBurst,
    /// The bucket holds more than a word.
    #[error("the burst does not fit into one word of state; write at most {burst_max}")]
    BurstTooLarge {
        /// The largest burst.
        burst_max: u64,
    },
    /// A log of bytes.
    #[error("a sliding-log counts packets, not bytes: use `packets`, or another algorithm")]
    LogOfBytes,
    /// More times than a log holds.
    #[error(
        "a sliding-log holds at most {TIMES_MAX} packets: reduce the amount, or use sliding-window"
    )]
    LogTooLong,
}

impl AlgorithmName {
    /// The name in the configuration.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// Returns the default of a limit. TCP keeps up with a token bucket of bytes, and stalls at the
    /// end of a fixed window. Nodes cannot share a bucket.
    fn default_of(unit: LimitUnit, scope: Scope) -> Self {
        match (unit, scope) {
            (LimitUnit::Bytes, Scope::Node) => Self::TokenBucket,
            (LimitUnit::Packets, _) | (_, Scope::Cluster) => Self::FixedWindow,
        }
    }
}

/// The algorithm of a limit as configured; the rest has defaults.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counting {
    /// The algorithm. The default is a token bucket for bytes of one node, and a fixed window
    /// otherwise.
    pub algorithm: Option<AlgorithmName>,
    /// The burst of a token bucket, see [`automatic_burst`].
    pub burst: Burst,
    /// The sources that the limit applies to.
    pub scope: Scope,
}

/// A burst as it is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Burst {
    /// Nothing is written.
    #[default]
    Unset,
    /// `auto`
    Auto,
    /// A number of packets or bytes.
    Of(u64),
}

/// The least time in which the automatic burst of bytes refills. It is longer than the shortest
/// retransmission timeout of TCP, which is 200 ms in Linux. So the bucket is full again when a
/// sender that has lost everything in flight returns. With 100 ms, a connection with a short
/// round-trip time gets 48 % of the rate, with 250 ms 95 % (`docs/limits.md`, "TCP under a limit of
/// bytes").
pub const AUTOMATIC_BURST: Duration = Duration::from_millis(250);

/// The burst of a token bucket of which no other is written: the amount, and of bytes at least what
/// flows in within [`AUTOMATIC_BURST`].
pub fn automatic_burst(amount: u64, unit: LimitUnit, window: Duration) -> u64 {
    match unit {
        LimitUnit::Packets => amount,
        LimitUnit::Bytes => amount.max(flows_in(AUTOMATIC_BURST, amount, window)),
    }
}

/// Returns the inflow within `time` at a rate of `amount` per `window`.
fn flows_in(time: Duration, amount: u64, window: Duration) -> u64 {
    let units = u128::from(amount).saturating_mul(time.as_nanos());
    let units = units / window.as_nanos().max(1);
    u64::try_from(units).unwrap_or(u64::MAX)
}

impl Counting {
    /// The algorithm for a limit of `amount` in `window`.
    ///
    /// # Errors
    ///
    /// When a burst is written of an algorithm that has none.
    pub fn of(
        self,
        amount: u64,
        unit: LimitUnit,
        window: Duration,
    ) -> Result<Algorithm, LimitError> {
        let default = || AlgorithmName::default_of(unit, self.scope);
        let algorithm = self.algorithm.unwrap_or_else(default);
        match (algorithm, self.burst) {
            (AlgorithmName::TokenBucket, Burst::Of(burst)) => Ok(Algorithm::TokenBucket { burst }),
            (AlgorithmName::TokenBucket, Burst::Unset | Burst::Auto) => {
                let burst = automatic_burst(amount, unit, window);
                Ok(Algorithm::TokenBucket { burst })
            }
            (_, Burst::Auto | Burst::Of(_)) => Err(LimitError::BurstWithoutBucket),
            (AlgorithmName::FixedWindow, Burst::Unset) => Ok(Algorithm::FixedWindow),
            (AlgorithmName::SlidingWindow, Burst::Unset) => Ok(Algorithm::SlidingWindow),
            (AlgorithmName::SlidingLog, Burst::Unset) => Ok(Algorithm::SlidingLog),
        }
    }
}

impl FromStr for AlgorithmName {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        let known = Self::VARIANTS.iter().find(|name| name.label() == text);
        known.copied().ok_or(UnknownAlgorithm)
    }
}

/// A text that names no algorithm.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("write fixed-window, sliding-window, token-bucket or sliding-log")]
pub struct UnknownAlgorithm;

impl LimitSpec {
    /// A limit of `amount` units in each `window`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use ratelimit_core::limit::{Algorithm, LimitError, LimitSpec, LimitUnit};
    ///
    /// let (second, packets) = (Duration::from_secs(1), LimitUnit::Packets);
    /// let limit = LimitSpec::new(1000, packets, second, Algorithm::FixedWindow)?;
    /// assert_eq!((limit.amount(), limit.window()), (1000, second));
    ///
    /// let too_short = LimitSpec::new(1000, packets, second / 1000, Algorithm::FixedWindow);
    /// assert_eq!(too_short, Err(LimitError::WindowTooShort));
    /// # Ok::<(), LimitError>(())
    /// ```
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
        if algorithm == Algorithm::SlidingLog && unit == LimitUnit::Bytes {
            return Err(LimitError::LogOfBytes);
        }
        compile(amount, unit, window, algorithm)?;
        Ok(Self {
            amount,
            unit,
            window,
            algorithm,
            class: None,
            shared: None,
        })
    }

    /// Shares the limit among all nodes of the cluster.
    pub fn shared(self, division: Division) -> Self {
        Self {
            shared: Some(division),
            ..self
        }
    }

    /// Makes the limit local to each node.
    pub fn alone(&self) -> Self {
        Self {
            shared: None,
            ..self.clone()
        }
    }

    /// Returns how nodes divide it. `None` if each node has its own.
    pub fn division(&self) -> Option<Division> {
        self.shared
    }

    /// Returns the amount that one of `nodes` nodes may always admit: its part of the shared limit,
    /// at least 1.
    pub fn part(&self, nodes: u64) -> Self {
        if self.shared.is_none() {
            return self.clone();
        }
        self.with_amount(self.amount / nodes.max(1))
    }

    /// Returns the limit with a smaller amount, but at least 1.
    ///
    /// # Panics
    ///
    /// If the amount is larger: only smaller amounts are certain to be representable.
    pub fn with_amount(&self, amount: u64) -> Self {
        let smaller = Self::new(amount.max(1), self.unit, self.window, self.algorithm);
        Self {
            class: self.class.clone(),
            shared: self.shared,
            ..smaller.expect("a larger amount fits")
        }
    }

    /// Restricts the limit to packets of a class.
    pub fn of_class(self, class: Match) -> Self {
        Self {
            class: Some(class),
            ..self
        }
    }

    /// The limit, for packets of all classes, in the form that the datapath reads.
    ///
    /// # Panics
    ///
    /// Never: what cannot be compiled was refused by [`new`](Self::new).
    pub fn compile(&self) -> Limit {
        let algorithm = compile(self.amount, self.unit, self.window, self.algorithm);
        let algorithm = algorithm.expect("`new` tried it");
        let unit = match self.unit {
            LimitUnit::Packets => Unit::Packets,
            LimitUnit::Bytes => Unit::Bytes,
        };
        Limit::new(algorithm, unit)
    }

    /// Returns the amount that one window admits.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// The counted unit.
    pub fn unit(&self) -> LimitUnit {
        self.unit
    }

    /// The most that can be in use: the amount, or the burst of a token bucket.
    pub fn capacity(&self) -> u64 {
        match self.algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingWindow | Algorithm::SlidingLog => {
                self.amount
            }
            Algorithm::TokenBucket { burst } => burst,
        }
    }

    /// Returns the length of its log; 0 if it has none.
    pub fn log_times(&self) -> u32 {
        match self.algorithm {
            Algorithm::SlidingLog => self.amount.try_into().unwrap_or(TIMES_MAX),
            Algorithm::FixedWindow | Algorithm::SlidingWindow | Algorithm::TokenBucket { .. } => 0,
        }
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The length of the window.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// Whether it counts the same as another limit: packets or bytes, of the same class.
    pub fn counts_as(&self, other: &Self) -> bool {
        (self.unit, &self.class) == (other.unit, &other.class)
    }

    /// The class whose packets alone it counts; `None` for all packets.
    pub fn class(&self) -> Option<&Match> {
        self.class.as_ref()
    }
}

fn compile(
    amount: u64,
    unit: LimitUnit,
    window: Duration,
    algorithm: Algorithm,
) -> Result<algorithm::Algorithm, LimitError> {
    Ok(match algorithm {
        Algorithm::FixedWindow => FixedWindow::new(amount, window)?.into(),
        Algorithm::SlidingWindow => SlidingWindow::new(amount, window)?.into(),
        Algorithm::TokenBucket { burst } => match unit {
            LimitUnit::Packets => TokenBucket::new(amount, window, burst)?.into(),
            LimitUnit::Bytes => TokenBucket::of_bytes(amount, window, burst)?.into(),
        },
        Algorithm::SlidingLog => SlidingLog::new(amount, window)?.into(),
    })
}

impl From<ParameterError> for LimitError {
    fn from(error: ParameterError) -> Self {
        match error {
            ParameterError::ZeroAmount => Self::ZeroAmount,
            ParameterError::Unrepresentable { amount_max } => Self::Unrepresentable { amount_max },
            ParameterError::ZeroBurst => Self::ZeroBurst,
            ParameterError::BurstTooLarge { burst_max } => Self::BurstTooLarge { burst_max },
            ParameterError::TooLong => Self::LogTooLong,
        }
    }
}

impl LimitUnit {
    /// Formats an amount for people.
    pub fn amount(self, amount: u64) -> String {
        match self {
            Self::Packets => amount.to_string(),
            Self::Bytes => quantity::bytes(amount),
        }
    }
}

impl fmt::Display for LimitSpec {
    /// `1000 packets per 1s`, and behind it the algorithm, unless it is a fixed window of packets,
    /// and the class, if it has one: `50MB per 1s (token-bucket, burst 100MB) of udp`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = quantity::duration(self.window);
        let amount = self.unit.amount(self.amount);
        match self.unit {
            LimitUnit::Packets if self.amount == 1 => write!(formatter, "1 packet per {window}")?,
            LimitUnit::Packets => write!(formatter, "{amount} packets per {window}")?,
            LimitUnit::Bytes => write!(formatter, "{amount} per {window}")?,
        }
        let label = self.algorithm.name().label();
        match self.algorithm {
            Algorithm::FixedWindow if self.unit == LimitUnit::Packets => {}
            Algorithm::FixedWindow | Algorithm::SlidingWindow | Algorithm::SlidingLog => {
                write!(formatter, " ({label})")?;
            }
            Algorithm::TokenBucket { burst } => {
                write!(formatter, " ({label}, burst {})", self.unit.amount(burst))?;
            }
        }
        if let Some(class) = &self.class {
            write!(formatter, " of {class}")?;
        }
        match self.shared {
            Some(_) => formatter.write_str(", shared by all nodes"),
            None => Ok(()),
        }
    }
}

/// The form in JSON: `{"packets": 1000, "per": "1s", "algorithm": "token-bucket", "burst": 2000}`.
/// The burst is in the unit of the limit.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct LimitText {
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    per: String,
    /// By default `token-bucket` for bytes on one node, `fixed-window` otherwise.
    #[serde(default)]
    algorithm: Option<AlgorithmName>,
    /// Burst of a token bucket. By default the amount; for bytes at least what flows in within 250
    /// ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    class: Option<Match>,
    #[serde(default, skip_serializing_if = "is_default")]
    scope: Scope,
    #[serde(default, skip_serializing_if = "is_default")]
    division: Division,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl TryFrom<LimitText> for LimitSpec {
    type Error = anyhow::Error;

    fn try_from(text: LimitText) -> anyhow::Result<Self> {
        let (amount, unit) = match (text.packets, text.bytes) {
            (Some(packets), None) => (packets, LimitUnit::Packets),
            (None, Some(bytes)) => (bytes, LimitUnit::Bytes),
            _ => return Err(LimitError::Unit.into()),
        };
        let window = quantity::parse_duration(&text.per)?;
        let counting = Counting {
            algorithm: text.algorithm,
            burst: text.burst.map_or(Burst::Unset, Burst::Of),
            scope: text.scope,
        };
        let algorithm = counting.of(amount, unit, window)?;
        let limit = Self::new(amount, unit, window, algorithm)?;
        Ok(Self {
            class: text.class,
            shared: (text.scope == Scope::Cluster).then_some(text.division),
            ..limit
        })
    }
}

impl From<LimitSpec> for LimitText {
    fn from(limit: LimitSpec) -> Self {
        let amount = Some(limit.amount);
        let (packets, bytes) = match limit.unit {
            LimitUnit::Packets => (amount, None),
            LimitUnit::Bytes => (None, amount),
        };
        let per = quantity::duration(limit.window);
        Self {
            packets,
            bytes,
            per,
            algorithm: Some(limit.algorithm.name()),
            burst: match limit.algorithm {
                Algorithm::FixedWindow | Algorithm::SlidingWindow | Algorithm::SlidingLog => None,
                Algorithm::TokenBucket { burst } => Some(burst),
            },
            class: limit.class,
            scope: limit.shared.map_or(Scope::Node, |_| Scope::Cluster),
            division: limit.shared.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_reads_as_what_it_writes_and_as_it_was_written_before_there_were_classes() {
        let class = r#"{"protocol":["udp"],"destination_ports":["53"]}"#;
        for (text, shown) in [
            (
                r#"{"packets":9,"per":"1s","algorithm":"fixed-window"}"#.to_owned(),
                "9 packets per 1s",
            ),
            (
                r#"{"packets":9,"per":"1s","algorithm":"fixed-window","match":"tcp-syn"}"#
                    .to_owned(),
                "9 packets per 1s of tcp-syn",
            ),
            (
                r#"{"packets":9,"per":"1s","algorithm":"fixed-window","scope":"cluster","division":"proportional"}"#.to_owned(),
                "9 packets per 1s, shared by all nodes",
            ),
            (
                format!(
                    r#"{{"bytes":9000,"per":"1s","algorithm":"token-bucket","burst":9000,"match":{class}}}"#
                ),
                "9kB per 1s (token-bucket, burst 9kB) of udp to port 53",
            ),
        ] {
            let limit: LimitSpec = serde_json::from_str(&text).unwrap();
            assert_eq!(limit.to_string(), shown);
            assert_eq!(serde_json::to_string(&limit).unwrap(), text);
        }
    }
}
