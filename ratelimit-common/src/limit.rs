//! A limit: an algorithm, the counted unit, and the packets it applies to.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    Arrival, Instant,
    algorithm::{
        self, Algorithm, Denied, FixedWindow, Parameters, SlidingLog, SlidingWindow, TokenBucket,
    },
    bits,
    class::ClassSet,
    compact::region::Region,
    frame_size,
};

/// The most limits a policy may have.
pub const LIMITS_MAX: usize = 8;

/// The size of the smallest packet: an IPv4 header without payload.
const PACKET_BYTES_MIN: u64 = 20;

/// The unit that a limit counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Unit {
    /// Each packet costs 1.
    Packets = 0,
    /// Each packet costs the bytes of its frame.
    Bytes = 1,
}

/// One limit: an algorithm with its parameters, the unit that it counts, and the classes that it
/// counts.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Limit {
    algorithm: u16,
    unit: u16,
    classes: ClassSet,
    parameters: Parameters,
    region: Region,
}
const _: () = assert!(size_of::<Limit>() == 40);

impl Limit {
    /// A limit of `unit` under `algorithm`, for packets of all classes.
    pub fn new(algorithm: impl Into<Algorithm>, unit: Unit) -> Self {
        let (algorithm, parameters) = algorithm.into().into_parts();
        Self {
            algorithm,
            unit: unit as u16,
            classes: ClassSet::ALL,
            parameters,
            region: Region::default(),
        }
    }

    /// Returns the limit with the state of its sources in `region`, for the store `compact`.
    pub const fn in_region(self, region: Region) -> Self {
        Self { region, ..self }
    }

    /// The region with the state of its sources if the store is `compact`.
    #[inline(always)]
    pub const fn region(&self) -> Region {
        self.region
    }

    /// Restricts the limit to packets of these classes.
    pub const fn for_classes(self, classes: ClassSet) -> Self {
        Self { classes, ..self }
    }

    /// Replaces the parameters of its algorithm.
    pub(crate) fn under(self, algorithm: Algorithm) -> Self {
        let (_, parameters) = algorithm.into_parts();
        Self { parameters, ..self }
    }

    /// The classes of the packets that the limit counts.
    #[inline(always)]
    pub const fn classes(&self) -> ClassSet {
        self.classes
    }

    /// The algorithm, with its parameters.
    #[inline(always)]
    pub fn algorithm(&self) -> Algorithm {
        Algorithm::from_parts(self.algorithm, self.parameters)
    }

    /// [`Algorithm::step`] of its algorithm.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there is no room for `cost`.
    #[inline(always)]
    pub fn step(&self, word: u64, at: Instant, cost: u64) -> Result<u64, Denied> {
        let parameters = || bits::opaque_ref(self).parameters;
        Algorithm::step_by(self.algorithm, parameters, word, at, cost)
    }

    /// The unit that the limit counts.
    pub const fn unit(&self) -> Unit {
        if self.unit == Unit::Bytes as u16 {
            Unit::Bytes
        } else {
            Unit::Packets
        }
    }

    /// The most that can be in use. It is the first parameter of every algorithm.
    #[inline(always)]
    pub const fn capacity(&self) -> u64 {
        let [capacity, ..] = self.parameters;
        capacity
    }

    /// Whether no packet is small enough for it.
    pub const fn denies(&self) -> bool {
        matches!(self.unit(), Unit::Bytes) && self.capacity() < PACKET_BYTES_MIN
    }

    /// Whether it is a fixed window.
    #[inline(always)]
    pub fn is_fixed_window(&self) -> bool {
        algorithm::is_fixed_window(self.algorithm)
    }

    /// The window of a limit that is known to be a fixed window.
    #[inline(always)]
    pub fn fixed_window(&self) -> FixedWindow {
        zerocopy::transmute!(self.parameters)
    }

    /// The step of a limit that is known to be a fixed window. Its parameters are read again in
    /// each attempt: kept, they would take stack.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there is no room for `cost`.
    #[inline(always)]
    pub fn step_fixed_window(&self, word: u64, at: Instant, cost: u64) -> Result<u64, Denied> {
        bits::opaque_ref(self).fixed_window().step(word, at, cost)
    }

    /// The step of a limit that is known to be a sliding window.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there is no room for `cost`.
    #[inline(always)]
    pub fn step_sliding_window(&self, word: u64, at: Instant, cost: u64) -> Result<u64, Denied> {
        let window = || zerocopy::transmute!(bits::opaque_ref(self).parameters);
        SlidingWindow::step_by(window, word, at, cost)
    }

    /// The step of a limit that is known to be a token bucket.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there is no room for `cost`.
    #[inline(always)]
    pub fn step_token_bucket(&self, word: u64, at: Instant, cost: u64) -> Result<u64, Denied> {
        let bucket: TokenBucket = zerocopy::transmute!(bits::opaque_ref(self).parameters);
        bucket.step(word, at, cost)
    }

    /// The log of a sliding log.
    #[inline(always)]
    pub fn as_sliding_log(&self) -> Option<SlidingLog> {
        self.is_log().then(|| zerocopy::transmute!(self.parameters))
    }

    /// Whether the state of the limit is not a word, but a log.
    #[inline(always)]
    pub fn is_log(&self) -> bool {
        algorithm::is_log(self.algorithm)
    }

    /// The cost of a packet. `None` if the limit does not count it.
    #[inline(always)]
    pub fn cost(&self, arrival: &Arrival) -> Option<u64> {
        self.classes
            .counts(arrival.classes)
            .then(|| self.cost_of_counted(arrival))
    }

    /// The cost of a packet that the limit counts.
    #[inline(always)]
    pub fn cost_of_counted(&self, arrival: &Arrival) -> u64 {
        match self.unit() {
            Unit::Packets => u64::from(frame_size::packets(arrival.bytes)),
            Unit::Bytes => u64::from(frame_size::bytes(arrival.bytes)),
        }
    }
}
