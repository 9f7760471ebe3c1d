//! The promises of a store during a flood.

use super::{
    Cell, Store,
    rig::{SLOTS_OF_A_SET, sets},
    traffic::KNOWN,
};

/// The part of the packets within their limit that pass where there is room, at least.
const KNOWN_SHARE: f64 = 0.999;

/// The promises of a store during a flood.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// The part of the packets within their limit that pass, at least.
    pub known_share: f64,
    /// The amounts that the limited source gets at most beyond one for each window; `None` where
    /// that is not bounded.
    amounts_beyond: Option<u64>,
}

impl Promise {
    /// The promise of `store`, which remembers `capacity` sources, in the flood `cell`.
    pub fn new(store: Store, cell: &Cell, capacity: u32) -> Self {
        let in_use = cell.share.of(capacity) + KNOWN + 1;
        match store {
            // There is room for the sources of two windows, so none is evicted that still sends.
            Store::Lru if in_use <= capacity / 2 => Self {
                known_share: 1.0,
                amounts_beyond: Some(1),
            },
            Store::Lru => Self {
                known_share: 0.0,
                amounts_beyond: None,
            },
            // A window that is adopted from another source ends before one of its own would: see
            // `compact.rs`.
            Store::Compact => Self {
                known_share: if has_room(in_use, capacity) {
                    KNOWN_SHARE
                } else {
                    0.0
                },
                amounts_beyond: Some(2),
            },
        }
    }

    /// Returns the most windows whose limit the limited source gets. `None` if nothing is promised.
    pub fn limited_windows(&self, windows: u32) -> Option<u64> {
        Some(u64::from(windows) + self.amounts_beyond?)
    }
}

/// Whether all but one of thirty thousand sets have a slot for each of their sources, of `in_use`
/// in all. Their number in a set is that of a Poisson distribution, which four standard deviations
/// bound. That is so up to 0.3 times the capacity.
fn has_room(in_use: u32, capacity: u32) -> bool {
    let in_a_set = f64::from(in_use) / f64::from(sets(capacity));
    in_a_set + 4.0 * in_a_set.sqrt() < f64::from(SLOTS_OF_A_SET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_room_up_to_three_tenths_of_the_capacity() {
        assert!(has_room(300_000, 1_000_000));
        assert!(!has_room(303_000, 1_000_000));
    }
}
