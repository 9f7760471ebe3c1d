//! The outcome for the packets of a flood.

use super::{
    Cell, Promise, Store,
    traffic::{AMOUNT, Sender},
};

/// Packets that came and passed, summed over the windows of the flood.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FloodResult {
    /// Windows with a flood.
    pub windows: u32,
    /// Packets of the sources within their limit.
    pub known: Passed,
    /// Packets of the source above its limit.
    pub limited: Passed,
    /// Packets of forged sources.
    pub forged: Passed,
}

/// Packets that came, and those of them that passed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Passed {
    /// All packets.
    pub sent: u64,
    /// Packets that passed.
    pub passed: u64,
}

impl Passed {
    /// The part that passed; 1 where nothing came.
    #[expect(clippy::cast_precision_loss, reason = "millions")]
    pub fn share(&self) -> f64 {
        if self.sent == 0 {
            1.0
        } else {
            self.passed as f64 / self.sent as f64
        }
    }
}

impl FloodResult {
    /// Counts one packet.
    pub const fn count(&mut self, sender: Sender, passed: bool) {
        let counted = match sender {
            Sender::Known(_) => &mut self.known,
            Sender::Limited => &mut self.limited,
            Sender::Forged(_) => &mut self.forged,
        };
        counted.sent += 1;
        counted.passed += passed as u64;
    }

    /// The ratio of the limited source's packets that passed to its limit.
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    pub fn times_the_limit(&self) -> f64 {
        self.limited.passed as f64 / f64::from(self.windows * AMOUNT)
    }

    /// Returns the promise of the store that the flood broke, if any.
    pub fn broken(&self, store: Store, cell: &Cell, capacity: u32) -> Option<String> {
        let promise = Promise::new(store, cell, capacity);
        let most = promise
            .limited_windows(self.windows)
            .map(|windows| windows * u64::from(AMOUNT));
        if let Some(most) = most.filter(|most| self.limited.passed > *most) {
            return Some(format!(
                "{} packets of the limited source passed, and {most} are the most",
                self.limited.passed
            ));
        }
        let share = self.known.share();
        (promise.known_share > share).then(|| {
            format!(
                "{:.3} % of the packets within their limit passed, and {:.1} % were promised",
                share * 100.0,
                promise.known_share * 100.0
            )
        })
    }
}
