//! One flood: how many sources it forges, and how many packets it gives each.

use std::fmt::{self, Display, Formatter};

/// Forged sources of a window, as a part of the sources that can have state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    numerator: u32,
    denominator: u32,
}

impl Share {
    /// The shares from a quarter of the capacity to sixteen times as much.
    pub const ALL: [Self; 7] = [
        Self::new(1, 4),
        Self::new(1, 2),
        Self::new(1, 1),
        Self::new(2, 1),
        Self::new(4, 1),
        Self::new(8, 1),
        Self::new(16, 1),
    ];

    const fn new(numerator: u32, denominator: u32) -> Self {
        Self {
            numerator,
            denominator,
        }
    }

    /// The part of `capacity`.
    pub const fn of(self, capacity: u32) -> u32 {
        capacity * self.numerator / self.denominator
    }
}

impl Display for Share {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(formatter, "{}", self.numerator),
            denominator => write!(formatter, "{}/{denominator}", self.numerator),
        }
    }
}

/// A flood.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cell {
    /// Sources that are forged in each window.
    pub share: Share,
    /// Packets that each forged source sends, one right after the other.
    pub packets_each: u32,
    /// Packets of forged sources for each packet that the limited source sends in its own name.
    pub ratio: u32,
}

impl Cell {
    /// The whole campaign.
    pub fn all() -> impl Iterator<Item = Self> {
        let with_packets = |share, packets_each| {
            [1, 4, 16, 64].map(|ratio| Self {
                share,
                packets_each,
                ratio,
            })
        };
        let of_share = move |share| {
            [1, 2, 3, 8]
                .into_iter()
                .flat_map(move |packets| with_packets(share, packets))
        };
        Share::ALL.into_iter().flat_map(of_share)
    }

    /// Packets of forged sources in a window.
    pub const fn forged_packets(&self, capacity: u32) -> u32 {
        self.share.of(capacity) * self.packets_each
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_campaign_goes_from_a_quarter_of_the_capacity_to_sixteen_times_as_much() {
        let cells: Vec<Cell> = Cell::all().collect();
        assert_eq!(cells.len(), 7 * 4 * 4);
        let shown: Vec<String> = Share::ALL.iter().map(Share::to_string).collect();
        assert_eq!(shown, ["1/4", "1/2", "1", "2", "4", "8", "16"]);
        assert_eq!(cells[0].forged_packets(4_096), 1_024);
        assert_eq!(cells[111].forged_packets(4_096), 16 * 4_096 * 8);
    }
}
