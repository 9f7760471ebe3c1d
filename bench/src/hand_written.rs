//! Hand-written programs for comparison: one counts the packets of each source in a hash map of the
//! kernel, and two limit them, with a hash map and with sets of eight.
//!
//! They show which part of a figure is the kernel's own, and what the product costs beyond a
//! program without other features.

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

/// The name of each program, and the map with an entry per source.
const PROGRAMS: [(&str, &str, u32); 3] = [
    ("bare", "BARE", 1),
    ("minimal", "MINIMAL", 1),
    ("minimal_sets", "MINIMAL_SETS", 8),
];

/// They mix sources as the store `compact` does.
const SEEDS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9];

/// The cases of a map, which take turns as those of the product do, and how many sources it holds.
/// The more sources are in a map, the longer each takes.
const CASES: [(&[Sources], u32); 3] = [
    (
        &[Sources::Hot, Sources::Thousand, Sources::Many],
        SOURCES_DEFAULT,
    ),
    (&[Sources::Flood], SOURCES_DEFAULT),
    (&[Sources::Million], ROOMY),
];

/// Measures the cases that `is_wanted` selects, given whether they are core cases, and their names:
/// `bare/ipv4/hot`.
pub fn measure(
    bench: &Bench<'_>,
    is_wanted: impl Fn(bool, &str) -> bool,
    report: &mut Report,
) -> Result<()> {
    for (program, map, sources_per_entry) in PROGRAMS {
        for (sources, capacity) in CASES {
            let named = sources.iter().map(|sources| {
                let traffic = Traffic::new(IpFamily::V4, *sources);
                let name = format!("{}/{}", program.replace('_', "-"), traffic.label());
                (name, traffic)
            });
            let wanted: Vec<_> = named
                .filter(|(name, traffic)| is_wanted(traffic.sources == Sources::Hot, name))
                .collect();
            if wanted.is_empty() {
                continue;
            }
            let entries = (capacity / sources_per_entry).next_power_of_two();
            let mut ebpf = EbpfLoader::new()
                .map_max_entries(
                    map,
                    if sources_per_entry == 1 {
                        capacity
                    } else {
                        entries
                    },
                )
                .override_global("SET_MASK", &(entries - 1), true)
                .override_global("SEEDS", &SEEDS, true)
                .override_global("NEW_SOURCES", &new_sources(sources), true)
                .load(bench.object)
                .context("reading the harness")?;
            let xdp = xdp(&mut ebpf, program)?;
            xdp.load().with_context(|| format!("loading `{program}`"))?;
            let xdp = xdp.fd()?.try_clone()?;
            bench
                .measure_program(&xdp, &wanted, report)
                .with_context(|| format!("measuring {program}"))?;
        }
    }
    Ok(())
}

/// The budget for new sources: the default of the product in a flood, and none elsewhere, as in its
/// cases.
fn new_sources(sources: &[Sources]) -> u32 {
    if sources.contains(&Sources::Flood) {
        return 16_384;
    }
    u32::MAX
}
