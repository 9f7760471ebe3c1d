//! Every algorithm, kind of arrivals, load, and number of CPUs.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use anyhow::Result;
use ratelimit_common::layout;

use super::{
    Arrivals, Load, SUBJECTS, Subject, real_time,
    virtual_time::{self, Length},
};
use crate::{Program, program::Constants};

/// The time of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Clock {
    /// Chosen.
    Virtual,
    /// The clock of the kernel.
    Real,
}

/// The extent of the measurement of each cell.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The extent in virtual time.
    pub length: Length,
    /// The duration in real time.
    pub duration: Duration,
}

impl Effort {
    /// The matrix in the documentation.
    pub const FULL: Self = Self {
        length: Length {
            packets_min: 100_000,
            windows_min: 20,
        },
        duration: Duration::from_secs(1),
    };

    /// Enough to see that something is wrong.
    pub const QUICK: Self = Self {
        length: Length {
            packets_min: 10_000,
            windows_min: 2,
        },
        duration: Duration::from_millis(100),
    };
}

/// The program, once for each clock.
pub struct Programs {
    virtual_time: Program,
    real_time: Program,
}

impl Programs {
    /// Loads the programs.
    pub fn load() -> Result<Self> {
        let with_clock = |clock| Constants {
            clock,
            logs: 1 << 10,
            ..Constants::default()
        };
        Ok(Self {
            virtual_time: Program::load(&with_clock(layout::clock::MANUAL))?,
            real_time: Program::load(&with_clock(layout::clock::KERNEL))?,
        })
    }
}

/// Returns a new source, without state.
pub(super) fn new_source() -> Ipv4Addr {
    static SOURCES: AtomicU32 = AtomicU32::new(1);
    Ipv4Addr::from((10 << 24) + SOURCES.fetch_add(1, Relaxed))
}

/// One measurement.
#[derive(Clone, Copy)]
pub struct Cell {
    /// The algorithm.
    pub subject: &'static Subject,
    /// The pattern in which packets arrive.
    pub arrivals: Arrivals,
    /// The load.
    pub load: Load,
    /// The number of CPUs that send them.
    pub cpus: usize,
    /// The clock.
    pub clock: Clock,
}

impl Cell {
    /// All that are measured with this clock.
    pub fn all(clock: Clock) -> impl Iterator<Item = Self> {
        let by_load = move |subject, cpus, arrivals| {
            Load::ALL.into_iter().map(move |load| Self {
                subject,
                arrivals,
                load,
                cpus,
                clock,
            })
        };
        let by_arrivals = move |subject, cpus| {
            let arrivals = Arrivals::ALL.into_iter();
            arrivals.flat_map(move |arrivals| by_load(subject, cpus, arrivals))
        };
        let by_cpus = move |subject| {
            [1, 2]
                .into_iter()
                .flat_map(move |cpus| by_arrivals(subject, cpus))
        };
        SUBJECTS.iter().flat_map(by_cpus)
    }

    /// Measures.
    pub fn measure(&self, programs: &mut Programs, effort: Effort) -> Result<Row> {
        match (self.clock, self.cpus) {
            (Clock::Virtual, 1) => Ok(self.on_host(effort)),
            (Clock::Virtual, _) => {
                virtual_time::on_two_cpus(&mut programs.virtual_time, self, effort.length)
            }
            (Clock::Real, _) => real_time::run(&mut programs.real_time, self, effort.duration),
        }
    }

    /// Measures one CPU in virtual time, which needs no kernel.
    pub fn on_host(&self, effort: Effort) -> Row {
        virtual_time::on_one_cpu(self, effort.length)
    }

    /// The promise that `row` breaks, if any.
    pub fn broken(&self, row: &Row) -> Option<&'static str> {
        let is_measured = row.sent > 0 && row.admitted > 0 && row.oracle > 0;
        if !is_measured {
            return Some("nothing was measured");
        }
        if row.over_admitted > 0 {
            return Some("more was admitted than is promised");
        }
        // How often two CPUs meet at one word depends on the machine: up to 0.6 % were seen in a
        // short run.
        if row.contended > row.oracle.div_ceil(20) + self.cpus as u64 {
            return Some("more than 5 % were refused because of the other CPU");
        }
        let is_order_known = self.clock == Clock::Virtual || self.cpus == 1;
        let tolerance = if is_order_known {
            0
        } else {
            row.oracle / 1_000
        };
        if row.wrongly_refused > tolerance {
            return Some("less was admitted than is promised");
        }
        if self.subject.is_exact && row.difference().unsigned_abs() > tolerance {
            return Some("the oracle admits another number");
        }
        None
    }
}

/// The measurements of a cell, in packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Row {
    /// Sent.
    pub sent: u64,
    /// Admitted.
    pub admitted: u64,
    /// Admitted by the oracle.
    pub oracle: u64,
    /// Admitted against the promise.
    pub over_admitted: u64,
    /// Refused against the promise.
    pub wrongly_refused: u64,
    /// Refused because the other CPU changed the state at every try, and counted as that; the
    /// oracle does not get them. In virtual time only.
    pub contended: u64,
    /// Packets so close to a change of the answer that either would have been right; in real time
    /// only.
    pub undecided: u64,
}

impl Row {
    /// Returns the excess over the oracle.
    pub const fn difference(&self) -> i64 {
        self.admitted.cast_signed() - self.oracle.cast_signed()
    }
}
