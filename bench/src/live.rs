//! Live traffic over a veth pair, through this limiter and through others that enforce the same limit.
//!
//! Every contender has a pair of its own, and all of them take turns. One CPU sends, receives and judges, so the rate is what
//! a packet costs in all, with the driver.

mod contender;
mod sender;

use anyhow::{Context, Result, ensure};
use ratelimit_daemon::datapath::IpFamily;

use crate::{
    measure::Effort,
    report::{LiveRow, Report},
    statistics::Spread,
    store::Store,
    traffic::{Sources, Traffic},
};
use contender::{Contender, Kind};
use sender::Sender;

/// The sources that send; all over the limit but the flood, of which every packet is the first of its source.
const SOURCES: [Sources; 5] = [
    Sources::Hot,
    Sources::Thousand,
    Sources::Many,
    Sources::Million,
    Sources::Flood,
];
/// Of the rate of an empty drop, one source is to reach so much.
const OF_EMPTY_DROP: f64 = 0.8;
/// What this limiter is to reach, of the better of the others.
const OF_OTHERS: f64 = 2.5;

/// One contender under one traffic.
struct Running<'a> {
    contender: &'a Contender,
    rates: Vec<f64>,
    of_empty_drop: Vec<f64>,
    dropped: f64,
}

/// Measures the live cases whose names contain what is wanted.
pub fn measure(
    object: &[u8],
    effort: Effort,
    is_wanted: impl Fn(&str) -> bool,
    report: &mut Report,
) -> Result<()> {
    let wanted = SOURCES
        .into_iter()
        .filter(|sources| is_wanted(&name(*sources)));
    let wanted: Vec<_> = wanted.collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut sender = Sender::new(object)?;
    for sources in wanted {
        // State of other sources would be in the way of these.
        let mut contenders = vec![];
        for kind in Kind::all() {
            match Contender::new(kind, object) {
                Ok(contender) => contenders.push(contender),
                Err(why) if kind.is_optional() => {
                    report.skip(format!("{} {}: {why:#}", name(sources), kind.label()));
                }
                Err(error) => return Err(error),
            }
        }
        let rows = compete(&mut sender, &contenders, sources, effort)
            .with_context(|| format!("measuring {}", name(sources)))?;
        for row in &rows {
            eprintln!(
                "{} {}: {:.2}",
                row.name, row.contender, row.of_empty_drop.median
            );
        }
        report.live.extend(rows);
    }
    Ok(())
}

fn name(sources: Sources) -> String {
    format!("live/ipv4/{}", sources.label())
}

fn compete(
    sender: &mut Sender,
    contenders: &[Contender],
    sources: Sources,
    effort: Effort,
) -> Result<Vec<LiveRow>> {
    let traffic = Traffic::new(IpFamily::V4, sources);
    let mut running: Vec<_> = contenders.iter().map(Running::new).collect();
    for contender in contenders {
        let packets = u64::from(effort.packets).max((sources.count() * 4).min(4_000_000));
        sender.send(contender.lab(), traffic, u32::try_from(packets)?)?;
    }
    for _ in 0..effort.rounds {
        let mut of_empty = None;
        for one in &mut running {
            let rate = one.round(sender, traffic, effort.packets)?;
            let empty = *of_empty.get_or_insert(rate);
            one.rates.push(rate);
            one.of_empty_drop.push(rate / empty);
        }
    }
    rows(sources, &running)
}

impl<'a> Running<'a> {
    const fn new(contender: &'a Contender) -> Self {
        Self {
            contender,
            rates: vec![],
            of_empty_drop: vec![],
            dropped: 1.0,
        }
    }

    /// Packets that were received in a second.
    #[expect(clippy::cast_precision_loss, reason = "millions")]
    fn round(&mut self, sender: &mut Sender, traffic: Traffic, packets: u32) -> Result<f64> {
        let before = self.contender.dropped()?;
        let sent = sender.send(self.contender.lab(), traffic, packets)?;
        ensure!(sent.received > 0, "nothing was received");
        if let (Some(before), Some(after)) = (before, self.contender.dropped()?) {
            let dropped = (after - before) as f64 / sent.received as f64;
            self.dropped = self.dropped.min(dropped);
        }
        Ok(sent.received as f64 / sent.seconds)
    }
}

fn rows(sources: Sources, running: &[Running<'_>]) -> Result<Vec<LiveRow>> {
    let mut rows = vec![];
    for one in running {
        rows.push(LiveRow {
            name: name(sources),
            contender: one.contender.kind().label().to_owned(),
            packets_per_second: Spread::of(&one.rates).context("no round was measured")?,
            of_empty_drop: Spread::of(&one.of_empty_drop).context("no round was measured")?,
            dropped: one.dropped,
            goal: None,
        });
    }
    set_goals(sources, &mut rows);
    Ok(rows)
}

/// This limiter is to reach a part of an empty drop, and a multiple of the others.
fn set_goals(sources: Sources, rows: &mut [LiveRow]) {
    let others = [Kind::Nftables, Kind::Hashlimit].map(Kind::label);
    let best = rows
        .iter()
        .filter(|row| others.contains(&row.contender.as_str()));
    let best = best.map(|row| row.of_empty_drop.median).reduce(f64::max);
    let against_others = best.map(|best| best * OF_OTHERS);
    for store in Store::ALL {
        let label = Kind::Ratelimit(store).label();
        let Some(row) = rows.iter_mut().find(|row| row.contender == label) else {
            continue;
        };
        let of_empty = (sources == Sources::Hot).then_some(OF_EMPTY_DROP);
        row.goal = match (of_empty, against_others) {
            (Some(left), Some(right)) => Some(left.max(right)),
            (left, right) => left.or(right),
        };
    }
}
