//! The times of a capture, as the clock that packets are judged by.

use ratelimit_common::Instant;
use serde::Serialize;

/// The kernel time of a capture's first packet: a day after boot. The usual windows divide a day,
/// so aligned windows begin with the first packet; and a packet may be older than the first.
const FIRST_NS: u64 = 86_400 * SECOND_NS;
const SECOND_NS: u64 = 1_000_000_000;

/// Turns the times of packets into moments.
#[derive(Debug, Default)]
pub struct CaptureClock {
    /// The time of the first packet that has one.
    first_ns: Option<u64>,
    /// The time of the packet before.
    before_ns: u64,
    last_ns: u64,
    backwards: u64,
    untimed: u64,
    second: Busiest,
}

/// The arrival time of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Moment {
    /// The time on the kernel's clock.
    pub instant: Instant,
    /// Nanoseconds since the first packet; 0 for packets older than it.
    pub since_first_ns: u64,
}

/// The seconds of a capture, and the most packets in one. Packets that come later in the file than
/// the next second count to it.
#[derive(Debug, Default)]
struct Busiest {
    second: u64,
    packets: u64,
    packets_max: u64,
}

/// The times of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// Nanoseconds since the Unix epoch of the first packet; `None` if no packet has a time.
    pub first_ns: Option<u64>,
    /// Nanoseconds from the first packet to the latest.
    pub duration_ns: u64,
    /// Packets older than the one before them in the file.
    pub backwards: u64,
    /// Packets without a time: they were judged at the time of the one before.
    pub untimed: u64,
    /// The most packets in a second; the seconds begin with the first packet.
    pub packets_per_second_max: u64,
}

impl CaptureClock {
    /// The moment of the next packet. Times that go backwards do so on the kernel's clock, too.
    pub fn moment(&mut self, time_ns: Option<u64>) -> Moment {
        let time_ns = time_ns.unwrap_or_else(|| {
            self.untimed += 1;
            self.before_ns
        });
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        if time_ns < self.before_ns {
            self.backwards += 1;
        }
        self.before_ns = time_ns;
        self.last_ns = self.last_ns.max(time_ns);
        let since_first_ns = time_ns.saturating_sub(first_ns);
        let before_first_ns = first_ns.saturating_sub(time_ns);
        let instant_ns = FIRST_NS
            .saturating_add(since_first_ns)
            .saturating_sub(before_first_ns);
        self.second.count(since_first_ns / SECOND_NS);
        Moment {
            instant: Instant::from_nanos(instant_ns),
            since_first_ns,
        }
    }

    /// The times so far.
    pub fn answer(&self) -> Times {
        Times {
            first_ns: self.first_ns,
            duration_ns: self
                .last_ns
                .saturating_sub(self.first_ns.unwrap_or(self.last_ns)),
            backwards: self.backwards,
            untimed: self.untimed,
            packets_per_second_max: self.second.packets_max,
        }
    }
}

impl Busiest {
    fn count(&mut self, second: u64) {
        if second > self.second {
            *self = Self {
                second,
                packets: 0,
                packets_max: self.packets_max,
            };
        }
        self.packets += 1;
        self.packets_max = self.packets_max.max(self.packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_700_000_000 * SECOND_NS;

    #[test]
    fn the_first_packet_comes_a_day_after_boot_and_the_others_keep_their_distance() {
        let mut clock = CaptureClock::default();
        for (time, instant, since_first_ns) in [
            (T, FIRST_NS, 0),
            (T + 5, FIRST_NS + 5, 5),
            (T - 7, FIRST_NS - 7, 0),
            (0, 0, 0),
            (u64::MAX, FIRST_NS + (u64::MAX - T), u64::MAX - T),
        ] {
            let expected = Moment {
                instant: Instant::from_nanos(instant),
                since_first_ns,
            };
            assert_eq!(clock.moment(Some(time)), expected, "{time}");
        }
        assert_eq!(clock.answer().backwards, 2);
        assert_eq!(clock.answer().duration_ns, u64::MAX - T);
    }

    #[test]
    fn a_packet_without_a_time_comes_with_the_one_before() {
        let mut clock = CaptureClock::default();
        clock.moment(Some(T));
        let before = clock.moment(Some(T + 3));
        assert_eq!(clock.moment(None), before);
        assert_eq!((clock.answer().untimed, clock.answer().backwards), (1, 0));
    }

    #[test]
    fn the_busiest_second_is_one_of_those_that_begin_with_the_first_packet() {
        let mut clock = CaptureClock::default();
        let half = SECOND_NS / 2;
        for time in [0, half, 2 * half, 3 * half, 3 * half + 1, 9 * half] {
            clock.moment(Some(T + half + time));
        }
        assert_eq!(clock.answer().packets_per_second_max, 3);
    }
}
