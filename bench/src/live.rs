//! Live traffic over a veth pair, through this limiter and through others that enforce the same
//! limit.
//!
//! Every contender has its own pair, and all take turns. One CPU sends, receives and judges, so the
//! rate includes everything that a packet costs, also in the driver.

mod contender;
mod sender;
pub mod xdp_firewall;

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{
    measure::Effort,
    report::{LiveRow, Report},
    statistics::Spread,
    store::Store,
    traffic::{Sources, Traffic},
};
use contender::{Contender, Kind, Limit};
use ratelimit_core::ip_family::IpFamily;
use sender::Sender;
pub use sender::{header_sum, interface};

/// The senders, and whether they exceed the limit. In a flood, every packet is the first of its
/// source, and after a while there is no room for it.
const CASES: [(Sources, Limit); 7] = [
    (Sources::Hot, Limit::Narrow),
    (Sources::Thousand, Limit::Narrow),
    (Sources::Many, Limit::Narrow),
    (Sources::Million, Limit::Narrow),
    (Sources::Flood, Limit::Narrow),
    (Sources::Hot, Limit::Wide),
    (Sources::Many, Limit::Wide),
];
/// The goal for one source, as a part of the rate of an empty drop.
const OF_EMPTY_DROP: f64 = 0.8;
/// The goal of this limiter, as a multiple of the better of the others.
const OF_OTHERS: f64 = 2.5;
/// The goal for `lru` in a flood, as a part of the rate of an empty drop: its budget for new
/// sources avoids insertions.
const LRU_IN_A_FLOOD: f64 = 0.4;

/// The most packets that are sent before anything is measured: more than there is room for.
const WARM_UP_MAX: u64 = 4_000_000;

/// A contender under one kind of traffic.
struct Running<'a> {
    contender: &'a Contender,
    rates: Vec<f64>,
    of_first: Vec<f64>,
    dropped: f64,
}

/// Measures the live cases whose names contain what is wanted.
pub fn measure(
    object: &[u8],
    effort: Effort,
    is_wanted: impl Fn(&str) -> bool,
    xdp_firewall: Option<&Path>,
    report: &mut Report,
) -> Result<()> {
    let cases = CASES.into_iter();
    let wanted: Vec<_> = cases
        .filter(|(sources, limit)| is_wanted(&name(*sources, *limit)))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    if xdp_firewall.is_none() {
        report.skip("live XDP-Firewall: name a checkout of it with --xdp-firewall".to_owned());
    }
    let mut sender = Sender::new(object)?;
    for (sources, limit) in wanted {
        let name = name(sources, limit);
        // State of other sources would be in the way of these.
        let mut contenders = vec![];
        let mut kinds = Kind::all(limit, sources);
        kinds.retain(|kind| xdp_firewall.is_some() || !kind.is_xdp_firewall());
        for kind in kinds {
            match Contender::new(kind, limit, sources, object, xdp_firewall) {
                Ok(contender) => contenders.push(contender),
                Err(why) if kind.is_optional() => {
                    report.skip(format!("{name} {}: {why:#}", kind.label()));
                }
                Err(error) => return Err(error),
            }
        }
        let running = compete(&mut sender, &contenders, sources, effort)
            .with_context(|| format!("measuring {name}"))?;
        let mut rows = rows(&name, &running)?;
        if limit == Limit::Narrow {
            set_goals(sources, &mut rows);
        }
        for row in &rows {
            eprintln!("{} {}: {:.2}", row.name, row.contender, row.of_first.median);
        }
        report.live.extend(rows);
    }
    Ok(())
}

/// Returns the versions of the other contenders, as far as they are installed.
pub fn versions(xdp_firewall: Option<&Path>) -> Vec<String> {
    let installed = contender::PROGRAMS.into_iter().filter_map(|program| {
        let output = Command::new(program).arg("--version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().next().map(str::to_owned)
    });
    installed
        .chain(xdp_firewall.map(xdp_firewall::version))
        .collect()
}

/// `live/ipv4/hot`, `live/ipv4/hot/within-the-limit`
fn name(sources: Sources, limit: Limit) -> String {
    let within = match limit {
        Limit::Narrow => "",
        Limit::Wide => "/within-the-limit",
    };
    format!("live/ipv4/{}{within}", sources.label())
}

fn compete<'a>(
    sender: &mut Sender,
    contenders: &'a [Contender],
    sources: Sources,
    effort: Effort,
) -> Result<Vec<Running<'a>>> {
    let traffic = Traffic::new(IpFamily::V4, sources);
    let mut running: Vec<_> = contenders.iter().map(Running::new).collect();
    for contender in contenders {
        let packets = u64::from(effort.packets).max((sources.count() * 4).min(WARM_UP_MAX));
        sender.send(contender.lab(), traffic, u32::try_from(packets)?)?;
    }
    for _ in 0..effort.rounds {
        let mut first = None;
        for one in &mut running {
            let rate = one.round(sender, traffic, effort.packets)?;
            let first = *first.get_or_insert(rate);
            one.rates.push(rate);
            one.of_first.push(rate / first);
        }
    }
    Ok(running)
}

impl<'a> Running<'a> {
    const fn new(contender: &'a Contender) -> Self {
        Self {
            contender,
            rates: vec![],
            of_first: vec![],
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

fn rows(name: &str, running: &[Running<'_>]) -> Result<Vec<LiveRow>> {
    let mut rows = vec![];
    for one in running {
        rows.push(LiveRow {
            name: name.to_owned(),
            contender: one.contender.kind().label().to_owned(),
            packets_per_second: Spread::of(&one.rates).context("no round was measured")?,
            of_first: Spread::of(&one.of_first).context("no round was measured")?,
            dropped: one.dropped,
            goal: None,
        });
    }
    Ok(rows)
}

/// Sets the goals of this limiter: a part of an empty drop, a multiple of those in the stack, and
/// to be ahead of the one in XDP.
fn set_goals(sources: Sources, rows: &mut [LiveRow]) {
    let best_of = |kinds: [Kind; 2]| {
        let labels = kinds.map(Kind::label);
        let rows = rows
            .iter()
            .filter(|row| labels.contains(&row.contender.as_str()));
        rows.map(|row| row.of_first.median).reduce(f64::max)
    };
    let in_the_stack = best_of([Kind::Nftables, Kind::Hashlimit]);
    let in_xdp = best_of([Kind::XdpFirewall, Kind::XdpFirewallUnblocked]);
    for store in Store::ALL {
        let label = Kind::Ratelimit(store).label();
        let Some(row) = rows.iter_mut().find(|row| row.contender == label) else {
            continue;
        };
        let (of_empty, of_others) = goals(store, sources);
        let of_others = in_the_stack.map(|best| best * of_others);
        let goals = [of_empty, of_others, in_xdp].into_iter().flatten();
        row.goal = goals.reduce(f64::max);
    }
}

/// The part of an empty drop, and the multiple of the others. An LRU hash map is only to be ahead
/// of them where it does not fit into the caches, or evicts.
fn goals(store: Store, sources: Sources) -> (Option<f64>, f64) {
    match (store, sources) {
        (_, Sources::Hot) => (Some(OF_EMPTY_DROP), OF_OTHERS),
        (Store::Lru, Sources::Million) => (None, 1.0),
        (Store::Lru, Sources::Flood) => (Some(LRU_IN_A_FLOOD), 1.0),
        _ => (None, OF_OTHERS),
    }
}
