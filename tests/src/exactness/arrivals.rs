//! When packets come: evenly, at random, or in bursts.

use fastrand::Rng;

/// The pattern in which packets arrive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrivals {
    /// One after the same time again.
    Constant,
    /// After a time that is distributed exponentially: a Poisson process.
    Poisson,
    /// Evenly at twice the rate for a window and a half, then not at all for as long.
    OnOff,
}

impl Arrivals {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Constant, Self::Poisson, Self::OnOff];

    /// Returns the name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Poisson => "Poisson",
            Self::OnOff => "on/off",
        }
    }

    /// The times of packets in nanoseconds after the first could come, in order and without end, at
    /// `load` times `amount` in `window_ns`.
    pub fn times(
        self,
        load: Load,
        amount: u64,
        window_ns: u64,
        mut rng: Rng,
    ) -> Box<dyn Iterator<Item = u64>> {
        let due = move |packet: u64| load.due_ns(packet, amount, window_ns);
        match self {
            Self::Constant => Box::new((0..).map(due)),
            Self::Poisson => {
                let mut at_ns = 0.0;
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "times at random need not be exact"
                )]
                let mean_ns = due(1_000_000) as f64 / 1e6;
                Box::new((0..).map(move |_: u64| {
                    at_ns -= (1.0 - rng.f64()).ln() * mean_ns;
                    whole(at_ns)
                }))
            }
            Self::OnOff => Box::new((0..).map(move |packet| {
                let on_ns = window_ns * 3 / 2;
                let busy_ns = due(packet) / 2;
                busy_ns / on_ns * (2 * on_ns) + busy_ns % on_ns
            })),
        }
    }
}

/// The load in tenths of the limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Load(u64);

impl Load {
    /// 0.5, 0.9, 1, 1.1, 2 and 10 times the limit.
    pub const ALL: [Self; 6] = [Self(5), Self(9), Self(10), Self(11), Self(20), Self(100)];

    /// Returns the number of packets in a number of windows.
    pub const fn packets(self, amount: u64, windows: u64) -> u64 {
        self.0 * amount * windows / 10
    }

    /// The arrival time of the packet with this number if all arrive evenly, in nanoseconds.
    fn due_ns(self, packet: u64, amount: u64, window_ns: u64) -> u64 {
        let due = u128::from(packet) * u128::from(window_ns) * 10 / u128::from(self.0 * amount);
        u64::try_from(due).expect("a time lies within centuries")
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 % 10 {
            0 => write!(formatter, "{}", self.0 / 10),
            tenths => write!(formatter, "{}.{tenths}", self.0 / 10),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times at random need not be exact, and are not negative"
)]
const fn whole(at_ns: f64) -> u64 {
    at_ns as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_NS: u64 = 20_000_000;

    #[test]
    fn all_arrivals_bring_as_many_packets_as_the_load_says() {
        for arrivals in Arrivals::ALL {
            for load in Load::ALL {
                let end_ns = 300 * WINDOW_NS;
                let times = arrivals.times(load, 1_000, WINDOW_NS, Rng::with_seed(1));
                let came = times.take_while(|at_ns| *at_ns < end_ns).count() as u64;
                let expected = load.packets(1_000, 300);
                let error = came.abs_diff(expected);
                assert!(
                    error <= expected / 100,
                    "{arrivals:?} {load}: {came} of {expected}"
                );
            }
        }
    }

    #[test]
    fn times_never_go_back() {
        for arrivals in Arrivals::ALL {
            let times = arrivals.times(Load(11), 7, WINDOW_NS, Rng::with_seed(1));
            let times: Vec<u64> = times.take(10_000).collect();
            assert!(times.is_sorted(), "{arrivals:?}");
        }
    }

    #[test]
    fn nothing_comes_in_the_second_half_of_on_and_off() {
        let period_ns = WINDOW_NS * 3;
        let mut times = Arrivals::OnOff.times(Load(10), 100, WINDOW_NS, Rng::new());
        assert!(
            times
                .by_ref()
                .take(1_000)
                .all(|at_ns| at_ns % period_ns < period_ns / 2)
        );
    }
}
