//! Applies a configuration to the packets of a capture: [`decide`](ratelimit_common::decide) over
//! tables in memory, with the times of the capture.
//!
//! It needs no daemon and no kernel, and reads no clock. One CPU sees all packets, and no source
//! has a connection. Sources over the capacity are evicted exactly in the order in which they were
//! last seen, while the kernel approximates it; sliding logs and strikes are never evicted.

pub mod answer;
mod attacks;
mod bans;
mod challenged;
mod clock;
mod comparison;
mod origin;
mod side;
mod sources;
mod tally;
mod timeline;

#[cfg(test)]
mod tests;

use std::time::Duration;

use ratelimit_common::{
    Cursor,
    parse::{self, LinkLayer, Payload, transport::Fragment},
};

pub use self::timeline::TooManyIntervals;
use self::{
    answer::Answer,
    attacks::Attacks,
    challenged::Challenged,
    clock::CaptureClock,
    comparison::Comparison,
    origin::{Masks, Origin},
    side::Side,
};
use crate::{
    capture::Packet,
    class::protocol::{ICMP, ICMPV6, TCP, UDP},
    compile::CompileError,
    config::Config,
    detection,
    lists::Reading,
};

/// A configuration and its lists.
pub struct Configured {
    /// The configuration.
    pub config: Config,
    /// The lists that could be read, by name.
    pub lists: Vec<(String, Reading)>,
    /// The resolution of the machine's coarse clock.
    pub tick: Duration,
}

/// A configuration, or two, at work on the packets of a capture. Memory is bounded by the number of
/// sources.
pub struct Simulation {
    masks: Masks,
    clock: CaptureClock,
    packets: u64,
    bytes: u64,
    cut: u64,
    cut_headers: u64,
    new: Side,
    compared: Option<(Side, Comparison)>,
}

impl Simulation {
    /// A simulation of `new`, compared with `old` if there is one, each with what was read of its
    /// lists. It goes over time in intervals of a length that is found, if none is given.
    ///
    /// A source is what `new` says, in both.
    ///
    /// # Errors
    ///
    /// When a configuration has more policies than the datapath holds.
    pub fn new(
        new: Configured,
        old: Option<Configured>,
        interval: Option<Duration>,
    ) -> Result<Self, CompileError> {
        let masks = Masks::new(&new.config.source);
        let old = old.map(|old| Side::new(old, interval)).transpose()?;
        Ok(Self {
            masks,
            clock: CaptureClock::default(),
            packets: 0,
            bytes: 0,
            cut: 0,
            cut_headers: 0,
            new: Side::new(new, interval)?,
            compared: old.map(|old| (old, Comparison::default())),
        })
    }

    /// Judges the next packet.
    ///
    /// # Errors
    ///
    /// When the intervals that were asked for become too many.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use ratelimit_core::{
    ///     capture::Packet,
    ///     config::{File, parse},
    ///     simulation::{Configured, Simulation},
    /// };
    ///
    /// let text = r#"
    ///     [[interface]]
    ///     name = "eth0"
    ///     [policy.default]
    ///     limits = [{ packets = 1, per = "1s" }]
    /// "#;
    /// let file = File { path: "config.toml".into(), text: text.to_owned() };
    /// let config = parse(&[file])?.0;
    /// let new = Configured { config, lists: Vec::new(), tick: Duration::from_millis(4) };
    /// let mut simulation = Simulation::new(new, None, None)?;
    ///
    /// // An Ethernet frame with a UDP packet of 203.0.113.7.
    /// let mut frame = [0; 42];
    /// frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    /// frame[16..24].copy_from_slice(&[0, 28, 0, 0, 0, 0, 64, 17]);
    /// frame[26..30].copy_from_slice(&[203, 0, 113, 7]);
    /// for time_ns in [1, 2] {
    ///     simulation.packet(Packet { time_ns: Some(time_ns), frame: &frame, frame_bytes: 60 })?;
    /// }
    /// simulation.finish();
    /// let answer = simulation.answer(10);
    /// assert_eq!((answer.packets, answer.sources_dropped), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn packet(&mut self, packet: Packet<'_>) -> Result<(), TooManyIntervals> {
        let cursor = Cursor::with_frame_bytes(packet.frame, packet.frame_bytes);
        let moment = self.clock.moment(packet.time_ns);
        let origin = Origin::of(cursor, &self.masks);
        self.packets += 1;
        self.bytes += u64::from(packet.frame_bytes);
        if packet.is_cut() {
            self.cut += 1;
            self.cut_headers += u64::from(has_cut_headers(cursor));
        }
        let new = self.new.judge(cursor, moment, origin.as_ref())?;
        if let Some((old, comparison)) = &mut self.compared {
            let old = old.judge(cursor, moment, origin.as_ref())?;
            comparison.count(old, new, packet.frame_bytes);
        }
        Ok(())
    }

    /// Ends the simulation and evaluates the last window.
    pub fn finish(&mut self) {
        let Side {
            attacks, compiled, ..
        } = &mut self.new;
        if let Some(attacks) = attacks {
            attacks.finish(compiled);
        }
    }

    /// Returns the results so far, with the `top` sources that lost the most packets.
    pub fn answer(&self, top: usize) -> Answer {
        let comparison = self.compared.as_ref();
        let new = &self.new;
        let config = new.compiled.config();
        Answer {
            packets: self.packets,
            bytes: self.bytes,
            time: self.clock.answer(),
            cut: self.cut,
            cut_headers: self.cut_headers,
            sources_seen: new.sources.len(),
            sources_capacity: config.source.capacity,
            store: config.source.store,
            evicted: new.tables.evicted(),
            bans_connected: new.compiled.bans_connected(),
            would_be_banned: new.bans.would_be(),
            tick: new.tick,
            observe: config.observe,
            verdicts: new.verdicts(),
            sources_dropped: new.sources.count_refused(),
            sources: new.top(top, &self.masks),
            timeline: new.timeline(),
            attacks: new.attacks.as_ref().map(Attacks::rows),
            challenged: new.challenged.as_ref().map(Challenged::answer),
            comparison: comparison
                .map(|(old, comparison)| comparison.answer(old, new, top, &self.masks)),
        }
    }
}

/// Whether of a packet that was cut something is missing that a class may ask for.
fn has_cut_headers(frame: Cursor<'_>) -> bool {
    let mut network = frame;
    if let Ok(Payload::Other) = parse::payload(&mut network, LinkLayer::Ethernet) {
        return false;
    }
    let Some((_, upper)) = detection::headers(frame, LinkLayer::Ethernet) else {
        return true;
    };
    if upper.fragment() == Fragment::Later {
        return false;
    }
    match upper.protocol() {
        TCP => upper.details(frame).tcp_flags().is_none(),
        UDP => upper.ports(frame).is_none(),
        ICMP | ICMPV6 => upper.details(frame).icmp_type_and_code().is_none(),
        _ => false,
    }
}
