//! Any frame gets a verdict, whatever its bytes are. No packet of a banned source passes, whatever
//! it is wrapped in.

#![no_main]

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use libfuzzer_sys::fuzz_target;
use ratelimit_common::{
    Cursor, Instant, Ipv4, Ipv6, Limit, ListEntry, PassReason, Policy, Settings, Unit, Verdict,
    algorithm::FixedWindow,
    parse::{LinkLayer, Tunnels, tunnel::Tunnel},
};
use ratelimit_core::memory_tables::MemoryTables;

const NOW: Instant = Instant::from_nanos(1_000_000_000_000);
const VLAN: [[u8; 2]; 3] = [[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]];

thread_local! {
    /// For each link layer, without tunnels and with all: tables with limits, and tables in which
    /// every source is banned.
    static TABLES: [(LinkLayer, MemoryTables, MemoryTables); 4] = {
        let all = Tunnel::ALL.into_iter();
        let all = all.fold(Tunnels::NONE, |all, tunnel| {
            all.with(tunnel, tunnel.port().unwrap_or(0))
        });
        let (ethernet, none) = (LinkLayer::Ethernet, LinkLayer::None);
        let variants = [
            (ethernet, Tunnels::NONE),
            (none, Tunnels::NONE),
            (ethernet, all),
            (none, all),
        ];
        variants.map(|(link_layer, tunnels)| {
            let banned = ListEntry::new(false, Some(Instant::from_nanos(u64::MAX - 1)), None);
            let tables = |listed| tables(link_layer, listed).with_tunnels(tunnels);
            (link_layer, tables(None), tables(Some(banned)))
        })
    };
}

fuzz_target!(|frame: &[u8]| {
    TABLES.with(|tables| {
        for (link_layer, limited, banned) in tables {
            let _ = limited.judge(Cursor::new(frame), NOW);
            let verdict = banned.judge(Cursor::new(frame), NOW);
            match verdict {
                Verdict::Drop(_) | Verdict::Pass(PassReason::NeighbourDiscovery) => {}
                Verdict::Pass(PassReason::NotIp) => assert!(!carries_ip(*link_layer, frame)),
                Verdict::Pass(_) | Verdict::Observe(_) => panic!("a banned source: {verdict:?}"),
            }
        }
    });
});

/// Tables in which every source has a small limit, and is listed so.
fn tables(link_layer: LinkLayer, listed: Option<ListEntry>) -> MemoryTables {
    let window = FixedWindow::new(2, Duration::from_secs(1)).expect("two a second fit");
    let limits = [
        Limit::new(window, Unit::Packets),
        Limit::new(window, Unit::Bytes),
    ];
    let policy = Policy::new(&limits, 0, false).expect("two limits fit");
    let masks = (
        Ipv4::from(Ipv4Addr::BROADCAST),
        Ipv6::from(Ipv6Addr::from_bits(!0 << 64)),
    );
    let mut tables =
        MemoryTables::new(Settings::new(0, false), vec![policy], masks).with_link_layer(link_layer);
    // The state that one packet leaves affects the next one.
    tables = tables.lru(1024);
    if let Some(entry) = listed {
        for prefix in ["0.0.0.0/0", "::/0"] {
            tables.set_list_entry(prefix.parse().expect("a prefix"), entry);
        }
    }
    tables
}

/// Whether a frame says that it carries IP, read in the simplest way.
fn carries_ip(link_layer: LinkLayer, frame: &[u8]) -> bool {
    if link_layer == LinkLayer::None {
        return frame
            .first()
            .is_some_and(|byte| [4, 6].contains(&(byte >> 4)));
    }
    let mut at = 12;
    while let Some(ethertype) = frame.get(at..at + 2) {
        if VLAN.iter().any(|vlan| vlan == ethertype) {
            at += 4;
        } else {
            return [[0x08, 0x00], [0x86, 0xdd]]
                .iter()
                .any(|ip| ip == ethertype);
        }
    }
    false
}
