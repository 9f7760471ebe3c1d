//! A program beside the product's: it counts the packets of each source in a hash map of the kernel, and does nothing else.
//!
//! It tells which part of a figure of the store `lru` is the kernel's own, and what a limiter costs that has none of the rest.

use anyhow::{Context, Result};
use aya::EbpfLoader;
use ratelimit_common::layout::SOURCES_DEFAULT;
use ratelimit_core::ip_family::IpFamily;

use crate::{
    catalog::ROOMY,
    harness::xdp,
    measure::Bench,
    report::Report,
    traffic::{Sources, Traffic},
};

/// The sources of each case, and how many the map holds.
const CASES: [(Sources, u32); 5] = [
    (Sources::Hot, SOURCES_DEFAULT),
    (Sources::Thousand, SOURCES_DEFAULT),
    (Sources::Many, SOURCES_DEFAULT),
    (Sources::Flood, SOURCES_DEFAULT),
    (Sources::Million, ROOMY),
];

/// Measures the cases that `is_wanted` names: `bare/ipv4/hot`.
pub fn measure(
    bench: &Bench<'_>,
    is_wanted: impl Fn(&str) -> bool,
    report: &mut Report,
) -> Result<()> {
    for (sources, capacity) in CASES {
        let traffic = Traffic::new(IpFamily::V4, sources);
        let name = format!("bare/{}", traffic.label());
        if !is_wanted(&name) {
            continue;
        }
        let mut ebpf = EbpfLoader::new()
            .map_max_entries("BARE", capacity)
            .load(bench.object)
            .context("reading the harness")?;
        let program = xdp(&mut ebpf, "bare")?;
        program.load().context("loading `bare`")?;
        let program = program.fd()?.try_clone()?;
        bench
            .measure_program(&program, name.clone(), traffic, report)
            .with_context(|| format!("measuring {name}"))?;
    }
    Ok(())
}
