//! The known time of a packet that the kernel judged.
//!
//! The clock was read before and after it. A witness, read after that, contains the time of the
//! last packet with this answer: this one, or one of the other CPU that came in between. It is
//! trusted if no packet of the other CPU with this answer was under way at that time. Otherwise,
//! only the clock counts.

use super::{bracketed::Bracket, explanation::Observation};

/// A packet that was judged, with what tells its time.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// The time by the clock.
    pub bracket: Bracket,
    /// The answer.
    pub is_admitted: bool,
    /// The time by the witness.
    pub witness_ns: u64,
}

/// Converts the packets of each CPU, in order, to observations.
pub fn observations(by_cpu: &[Vec<Sighting>; 2]) -> [Vec<Observation>; 2] {
    let [left, right] = by_cpu;
    [(left, right), (right, left)].map(|(mine, others)| {
        let observed = |sighting: &Sighting| Observation {
            under_way: sighting.bracket,
            at: sighting.time(others),
            is_admitted: sighting.is_admitted,
        };
        mine.iter().map(observed).collect()
    })
}

impl Sighting {
    /// The witness of a token bucket is this much behind, when packets of both CPUs come in the
    /// same nanosecond.
    const SAME_NS: u64 = 2;

    /// The time at which the packet was judged, beside those of the other CPU.
    fn time(&self, others: &[Self]) -> Bracket {
        let witness_ns = self.witness_ns;
        let may_be_of = |rival: &Self| {
            (rival.bracket.earliest_ns..=rival.bracket.latest_ns + Self::SAME_NS)
                .contains(&witness_ns)
        };
        let is_in_bracket =
            (self.bracket.earliest_ns..=self.bracket.latest_ns).contains(&witness_ns);
        if !is_in_bracket || self.rivals(others).any(may_be_of) {
            return self.bracket;
        }
        Bracket {
            earliest_ns: witness_ns,
            latest_ns: witness_ns,
        }
    }

    /// The packets of the other CPU with the same answer that were under way at the same time.
    fn rivals<'a>(&self, others: &'a [Self]) -> impl Iterator<Item = &'a Self> + use<'a> {
        let Self {
            bracket,
            is_admitted,
            ..
        } = *self;
        let first = others.partition_point(|other| other.bracket.latest_ns < bracket.earliest_ns);
        others[first..]
            .iter()
            .take_while(move |other| other.bracket.earliest_ns <= bracket.latest_ns)
            .filter(move |other| other.is_admitted == is_admitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_witness_of_a_packet_alone_is_believed() {
        assert_eq!(times(&[(100, 200, true, 150)], &[]), [(150, 150)]);
    }

    #[test]
    fn a_time_at_which_another_was_under_way_is_not_believed() {
        let other = (180, 300, true, 190);
        assert_eq!(times(&[(100, 200, true, 190)], &[other]), [(100, 200)]);
        assert_eq!(times(&[(100, 200, true, 150)], &[other]), [(150, 150)]);
        let other = (180, 300, false, 190);
        assert_eq!(times(&[(100, 200, true, 190)], &[other]), [(190, 190)]);
    }

    #[test]
    fn times_are_not_believed_when_each_packet_was_told_that_of_the_next() {
        let mine = [(100, 200, true, 190), (250, 400, true, 390)];
        let other = (180, 290, true, 260);
        assert_eq!(times(&mine, &[other]), [(100, 200), (390, 390)]);
        let [_, observed] =
            observations(&[mine.iter().map(sighting).collect(), vec![sighting(&other)]]);
        assert_eq!(
            (observed[0].at.earliest_ns, observed[0].at.latest_ns),
            (180, 290)
        );
    }

    #[test]
    fn a_witness_against_the_clock_is_not_believed() {
        assert_eq!(times(&[(100, 200, true, 210)], &[]), [(100, 200)]);
    }

    type Packet = (u64, u64, bool, u64);

    fn times(mine: &[Packet], others: &[Packet]) -> Vec<(u64, u64)> {
        let sightings = |packets: &[Packet]| packets.iter().map(sighting).collect();
        let [observed, _] = observations(&[sightings(mine), sightings(others)]);
        let times = |of: &Observation| (of.at.earliest_ns, of.at.latest_ns);
        observed.iter().map(times).collect()
    }

    fn sighting(&(earliest_ns, latest_ns, is_admitted, witness_ns): &Packet) -> Sighting {
        Sighting {
            bracket: Bracket {
                earliest_ns,
                latest_ns,
            },
            is_admitted,
            witness_ns,
        }
    }
}
