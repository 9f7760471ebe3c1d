//! Whether the samples of one source prove that it sent many packets.
//!
//! At a high rate, a sample represents any number of packets up to a bound, and so a source may
//! have sent far less than its samples represent.

use super::Sample;

/// Fewer samples that represent other packets prove nothing.
pub const SAMPLES_MIN: u64 = 8;
/// A difference of this many standard deviations is no coincidence.
pub const DEVIATIONS: u64 = 4;
/// A genuine client continues its connection with at least this many segments per two requests: it
/// acknowledges and closes.
pub const SEGMENTS_FOR_TWO_MIN: u64 = 3;

/// The samples of one source or subnet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    samples: u64,
    /// The squares of the packets that each represents, added up.
    represented: u64,
    /// Segments that continue connections with the target.
    continuing: u64,
}

impl Share {
    /// Adds a packet of the source.
    pub fn add(&mut self, sample: &Sample) {
        let packets = u64::from(sample.packets);
        self.samples += 1;
        self.represented += packets * packets;
    }

    /// Adds a segment that continues a connection.
    pub fn add_continuing(&mut self, sample: &Sample) {
        self.continuing += u64::from(sample.packets);
    }

    /// Whether at least `least` packets were certainly sent, besides the requests of connections
    /// that continue. `packets` are those that the samples represent.
    ///
    /// The sum of what random samples represent has a variance of `packets` times the packets left
    /// out for each. A source that sends no more than `least` exceeds it by no more than that.
    pub fn proves(&self, packets: u64, least: u64) -> bool {
        let continued = self.continuing * 2 / SEGMENTS_FOR_TWO_MIN;
        let explained = least.saturating_add(continued);
        if self.samples >= explained {
            return true;
        }
        let left_out = self.represented.saturating_sub(packets);
        // Both the requests and the segments that continue them are estimates.
        let uncertain = explained.saturating_add(continued);
        let variance = uncertain.saturating_mul(left_out) / packets.max(1);
        let error = DEVIATIONS.saturating_mul(variance.isqrt());
        self.samples >= SAMPLES_MIN && packets >= explained.saturating_add(error)
    }
}
