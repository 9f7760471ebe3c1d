//! The kernel and the host agree: the same packets, times and tables give the same actions,
//! counters, records and strikes.
//!
//! Actions are compared for each packet, everything that is left behind at the end of each round. A
//! failure names the seed and the packet; with `RATELIMIT_SEED` the same packets come again.

use std::{
    env,
    fmt::{Debug, Write},
    hash::Hash,
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
    time::Instant as Stopwatch,
};

use fastrand::Rng;
use ratelimit_common::{
    Cursor, DropReason, Family, Instant, Ipv4, Ipv6, PassReason, Verdict, challenge,
    layout::{Counter, FRONT_COPIED, PROGRAM, PROGRAM_FRAGS, PROGRAM_TCX, store},
    neighbour_discovery,
    parse::{LinkLayer, Tunnels, ipv6},
    policy_ban::{BanResult, Tally},
};
use ratelimit_core::memory_tables::{MemoryCompact, MemoryTables};
use ratelimit_tests::{
    Frame, Program, cpu,
    mutation::mutate,
    packet::{ETHERNET_BYTES, SYN, VLAN, around, tunnels},
    program::{Action, Constants, ONE_BUFFER_BYTES, has_tcx, source_masks},
    proof, random, require_root,
    scene::Scene,
    shapes,
};

/// Packets under one scene.
const ROUND: u64 = 2_000;
/// Every eighth packet has a new time.
const PACKETS_A_TIME: u8 = 8;

#[test]
fn kernel_and_host_agree_on_mutated_packets() {
    require_root!();
    agree_on_mutated_packets(
        store::LRU,
        [(32, 64), (24, 48), (32, 128), (9, 33), (32, 64)],
    );
}

/// There are more sources than slots, so they take them over from each other.
#[test]
fn kernel_and_host_agree_on_mutated_packets_where_the_store_is_compact() {
    require_root!();
    agree_on_mutated_packets(
        store::COMPACT,
        [(32, 64), (24, 48), (32, 56), (9, 33), (32, 64)],
    );
}

fn agree_on_mutated_packets(store: u32, prefixes: [(u8, u8); 5]) {
    let packets: u64 = setting("RATELIMIT_AGREEMENT_PACKETS", 200_000);
    let seed: u64 = setting("RATELIMIT_SEED", 1);
    println!("RATELIMIT_SEED={seed} RATELIMIT_AGREEMENT_PACKETS={packets}");
    let mut rng = Rng::with_seed(seed);
    let sources = random::sources(&mut rng, 12);
    let frames: Vec<Vec<u8>> = sources
        .iter()
        .flat_map(|(ipv4, ipv6)| {
            let shapes = shapes::all(*ipv4, *ipv6).into_iter();
            let shapes = shapes.map(|shaped| shaped.frame);
            shapes
                .chain(questions(*ipv4, *ipv6))
                .chain(tunnelled(*ipv4, *ipv6))
        })
        .collect();
    let at_tcx = if has_tcx() { PROGRAM_TCX } else { PROGRAM };
    let mut duels: Vec<Duel> = prefixes
        .into_iter()
        .zip([
            (PROGRAM_FRAGS, LinkLayer::Ethernet, false, tunnels()),
            (PROGRAM, LinkLayer::None, false, tunnels()),
            (PROGRAM_FRAGS, LinkLayer::Ethernet, true, Tunnels::NONE),
            (PROGRAM, LinkLayer::Ethernet, false, tunnels()),
            (at_tcx, LinkLayer::Ethernet, false, tunnels()),
        ])
        .map(
            |((ipv4, ipv6), (entry_point, link_layer, interruptible, tunnels))| {
                Duel::new(&Constants {
                    masks: source_masks(ipv4, ipv6),
                    entry_point,
                    link_layer,
                    tunnels,
                    interruptible,
                    store,
                    ..Constants::default()
                })
            },
        )
        .collect();
    let start = Stopwatch::now();
    let mut frame = vec![];
    for round in 0..packets.div_ceil(ROUND) {
        let now = random::start(&mut rng);
        let scene = random::scene(&mut rng, &sources, now).in_sets(rng.u32(1..3));
        let duel = &mut duels[usize::try_from(round).unwrap() % 5];
        // Copies and packets at TCX are not answered, and the host does not know.
        let answers = !duel.takes_buffers && duel.constants.entry_point != PROGRAM_TCX;
        let settings = scene.settings;
        let scene = Scene {
            settings: settings.with_challenge(settings.has_challenge() && answers),
            ..scene
        };
        duel.begin(&scene, now);
        for _ in 0..ROUND {
            if rng.u8(..PACKETS_A_TIME) == 0 {
                let later = random::later(&mut rng, duel.now);
                duel.set_time(later);
            }
            frame.clone_from(&frames[rng.usize(..frames.len())]);
            mutate(&mut rng, &mut frame);
            if duel.constants.link_layer == LinkLayer::None {
                frame.drain(..ETHERNET_BYTES);
                frame.resize(frame.len().max(ETHERNET_BYTES), 0);
            }
            // Some of those that ask prove themselves.
            if rng.bool()
                && let Some(proof) = proof::of(&frame, duel.constants.link_layer, duel.now)
            {
                duel.judge(&frame);
                frame = proof;
            }
            let first = rng.usize(..300);
            if duel.takes_buffers && rng.bool() && first < frame.len() {
                duel.judge_in_buffers(&frame, first);
            } else {
                duel.judge(&frame);
            }
        }
        duel.end();
    }
    println!("{packets} packets in {:?}", start.elapsed());
    every_verdict_occurred(&duels);
}

#[test]
fn kernel_and_host_agree_on_every_shape_cut_at_every_length() {
    require_root!();
    let mut rng = Rng::with_seed(2);
    let sources = random::sources(&mut rng, 3);
    let mut duel = Duel::new(&Constants {
        entry_point: PROGRAM_FRAGS,
        store: store::LRU,
        ..Constants::default()
    });
    for (ipv4, ipv6) in &sources {
        let now = Instant::from_nanos(1 << 40);
        let scene = random::scene(&mut rng, &sources, now);
        duel.begin(&scene, now);
        for shaped in shapes::all(*ipv4, *ipv6) {
            for bytes in 14..=shaped.frame.len().min(160) {
                duel.judge(&shaped.frame[..bytes]);
            }
        }
        duel.end();
    }
}

/// The most common DNS query.
const QUERY: &[u8] = b"\x07\x09\x01\x00\0\x01\0\0\0\0\0\0\x03www\x07example\x03org\0\0\x01\0\x01";

fn questions(ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> impl Iterator<Item = Vec<u8>> {
    let segments = (1..10).flat_map(move |port| {
        let tagged = Frame::ethernet().vlan(VLAN, port);
        [
            Frame::ethernet().ipv4(ipv4).tcp(port, SYN).build(),
            tagged.ipv6(ipv6).tcp(port, SYN).build(),
        ]
    });
    let tagged = Frame::ethernet().vlan(VLAN, 7);
    segments.chain([
        Frame::ethernet().ipv4(ipv4).tcp(53, SYN).build(),
        Frame::ethernet().ipv4(ipv4).datagram(53, QUERY).build(),
        tagged.ipv6(ipv6).datagram(53, QUERY).build(),
    ])
}

/// Packets of this source inside some tunnels, and one that is nested too deep.
fn tunnelled(ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> impl Iterator<Item = Vec<u8>> {
    let some = around().into_iter().step_by(3);
    let both = some.flat_map(move |(_, front)| {
        let syn = front.clone().ipv4(ipv4).tcp(80, SYN).build();
        [syn, front.ipv6(ipv6).datagram(53, QUERY).build()]
    });
    both.chain([Frame::ethernet().mpls(9).ipv4(ipv4).udp(9).build()])
}

fn every_verdict_occurred(duels: &[Duel]) {
    use DropReason::{Contended, NoState};
    for verdict in Verdict::all() {
        let of_family = |family, duel: &Duel| duel.kernel.counter(family, verdict).unwrap().packets;
        let of_duel = |duel| -> u64 {
            Family::ALL
                .iter()
                .map(|family| of_family(*family, duel))
                .sum()
        };
        let packets: u64 = duels.iter().map(of_duel).sum();
        println!("{packets:>12} {} {}", verdict.action(), verdict.reason());
        // On one CPU these come only from a log that two limits of a random scene share, or that
        // the node cannot have.
        let is_by_accident = matches!(
            verdict,
            Verdict::Drop(Contended | NoState) | Verdict::Observe(Contended | NoState)
        );
        // No random packet is one of a connection; `established.rs` compares those.
        let is_of_connection = verdict == Verdict::Pass(PassReason::Established);
        assert!(
            packets > 0 || is_by_accident || is_of_connection,
            "{verdict:?}"
        );
    }
    assert!(
        duels.iter().all(|duel| duel.counted > 0),
        "entries counted packets"
    );
    for result in [BanResult::Banned, BanResult::Forgeable, BanResult::TooMany] {
        let count: u64 = duels.iter().map(|duel| duel.results[result as usize]).sum();
        println!("{count:>12} {}", result.label());
        assert!(count > 0, "{result:?}");
    }
}

/// The kernel on one side, the host on the other.
struct Duel {
    constants: Constants,
    kernel: Program,
    host: MemoryTables,
    /// Whether a test can say how much of a frame is in its first buffer.
    takes_buffers: bool,
    /// The kernel's counters when the round began.
    counters: Vec<Counter>,
    /// The sources that had got state when the round began.
    inserted: [u64; 2],
    /// The number of sources with each result, over all rounds.
    results: [u64; BanResult::ALL.len()],
    /// The number of packets that matched an entry that counts them, over all rounds.
    counted: u64,
    now: Instant,
}

impl Duel {
    /// Shares of the node belong to a CPU: all packets arrive on this one.
    const CPU: usize = 0;

    fn new(constants: &Constants) -> Self {
        let constants = Constants {
            sets: 128,
            logs: 4096,
            policy_bans: 1 << 14,
            ..*constants
        };
        cpu::pin(Self::CPU);
        let kernel = Program::load(&constants).expect("the program loads");
        let takes_buffers =
            constants.entry_point == PROGRAM_FRAGS && kernel.run_in_buffers(&[0; 64], 20).is_ok();
        println!("frames in buffers of any length: {takes_buffers}");
        Self {
            takes_buffers,
            host: Scene::default().in_memory(&constants),
            constants,
            kernel,
            counters: vec![],
            inserted: [0; 2],
            results: [0; BanResult::ALL.len()],
            counted: 0,
            now: Instant::default(),
        }
    }

    fn begin(&mut self, scene: &Scene, now: Instant) {
        self.kernel.clear().unwrap();
        scene.set_up(&mut self.kernel).unwrap();
        self.host = scene.in_memory(&self.constants);
        self.counters = self.kernel_counters();
        self.inserted = self.kernel_inserted();
        self.set_time(now);
    }

    fn set_time(&mut self, now: Instant) {
        self.now = now;
        self.kernel.set_clock(now).unwrap();
        // The budget of neighbour discovery is spent, or nearly.
        let left = now.as_nanos() & 1;
        let word = now.as_nanos() >> 16 << 16 | (neighbour_discovery::AMOUNT - left);
        self.kernel.set_discovered(word).unwrap();
        self.host.discovered.set(word);
    }

    /// Sends a frame to both, unless it takes more buffers than the program is given.
    fn judge(&mut self, frame: &[u8]) {
        if !self.kernel.takes(frame.len()) {
            return;
        }
        let readable = frame.len().min(ONE_BUFFER_BYTES);
        let action = self.kernel.run(frame).unwrap();
        self.compare(frame, readable, action);
    }

    /// The same for a frame of which `first` bytes are in its first buffer, fewer than it has.
    /// Where programs could interrupt each other, none is copied.
    fn judge_in_buffers(&mut self, frame: &[u8], first: usize) {
        let copied = usize::try_from(FRONT_COPIED).unwrap();
        let readable = if first < copied && !self.constants.interruptible {
            frame.len().min(copied)
        } else {
            first
        };
        let action = self.kernel.run_in_buffers(frame, first).unwrap();
        self.compare(frame, readable, action);
    }

    fn compare(&self, frame: &[u8], readable: usize, action: Action) {
        let frame_bytes = u32::try_from(frame.len()).unwrap();
        let cursor = Cursor::with_frame_bytes(&frame[..readable], frame_bytes);
        let verdict = self.host.judge(cursor, self.now);
        let expected = match Action::from(verdict) {
            // A part of a SYN goes no further, and is not answered.
            Action::Answer if begins_segment(cursor, self.constants.link_layer) => Action::Drop,
            action => action,
        };
        assert_eq!(
            action,
            expected,
            "the host says {verdict:?} at {:?} of {readable} of {} bytes: {}",
            self.now,
            frame.len(),
            hex(frame)
        );
    }

    /// Compares what the round left behind.
    fn end(&mut self) {
        let counted = self.kernel_counters();
        for (index, (family, verdict)) in ratelimit_tests::program::labels().enumerate() {
            let (before, after) = (self.counters[index], counted[index]);
            let kernel = Counter {
                packets: after.packets - before.packets,
                bytes: after.bytes - before.bytes,
            };
            assert_eq!(
                kernel,
                self.host.counter(family, verdict),
                "{family:?} {verdict:?}"
            );
        }
        let (kernel, host) = (&self.kernel, &self.host);
        for slot in 0..random::SLOTS {
            assert_eq!(
                kernel.entry_counter(slot).unwrap(),
                host.entry_counter(slot),
                "slot {slot}"
            );
            self.counted += host.entry_counter(slot).packets;
        }
        let sources = [
            host.ipv4
                .compact()
                .map_or(host.ipv4.records().len() as u64, MemoryCompact::claims),
            host.ipv6
                .compact()
                .map_or(host.ipv6.records().len() as u64, MemoryCompact::claims),
        ];
        for ((after, before), sources) in self
            .kernel_inserted()
            .iter()
            .zip(self.inserted)
            .zip(sources)
        {
            assert_eq!(after - before, sources, "sources that got state");
        }
        same(
            "IPv4 records",
            kernel.ipv4.records().unwrap(),
            host.ipv4.records(),
        );
        same(
            "IPv6 records",
            kernel.ipv6.records().unwrap(),
            host.ipv6.records(),
        );
        if let (Some(ipv4), Some(ipv6)) = (host.ipv4.compact(), host.ipv6.compact()) {
            assert_eq!(kernel.ipv4.sets().unwrap(), ipv4.sets(), "IPv4 slots");
            assert_eq!(kernel.ipv6.sets().unwrap(), ipv6.sets(), "IPv6 slots");
        }
        same(
            "IPv4 refusals and cached denials",
            kernel.ipv4.refused_by_first_cpu(),
            host.ipv4.refused(),
        );
        same(
            "IPv6 refusals and cached denials",
            kernel.ipv6.refused_by_first_cpu(),
            host.ipv6.refused(),
        );
        same(
            "IPv4 strikes",
            kernel.ipv4.strikes().unwrap(),
            host.ipv4.strikes(),
        );
        same(
            "IPv6 strikes",
            kernel.ipv6.strikes().unwrap(),
            host.ipv6.strikes(),
        );
        same("IPv4 bans", kernel.ipv4.bans().unwrap(), host.ipv4.bans());
        same("IPv6 bans", kernel.ipv6.bans().unwrap(), host.ipv6.bans());
        let tally = kernel.tally().unwrap();
        let tally = Tally {
            events_lost: 0,
            ..tally
        };
        assert_eq!(tally, host.tally(), "what became of bans");
        for (sum, count) in self.results.iter_mut().zip(tally.results) {
            *sum += count;
        }
        let logs = [host.ipv4.logs(), host.ipv6.logs()].concat();
        same("logs", kernel.logs().unwrap(), logs);
        for (slot, record) in (0..).zip(kernel.totals().unwrap()) {
            assert_eq!(record, host.node.record(slot), "slot {slot}");
            let shares = kernel.shares(slot).unwrap();
            assert_eq!(shares[Self::CPU], host.node.shares(slot), "slot {slot}");
        }
        let discovered = kernel.discovered().unwrap();
        assert_eq!(discovered[Self::CPU], host.discovered.get(), "neighbours");
        let budgets = kernel.budgets(Self::CPU).unwrap();
        assert_eq!(budgets, host.budgets(), "budgets of new sources");
    }

    fn kernel_inserted(&self) -> [u64; 2] {
        [Family::Ipv4, Family::Ipv6].map(|family| self.kernel.inserted(family).unwrap())
    }

    fn kernel_counters(&self) -> Vec<Counter> {
        let counters = self.kernel.counters().unwrap();
        counters.into_iter().map(|(_, counter)| counter).collect()
    }
}

fn same<K: Hash + Eq + Debug, V: PartialEq + Debug>(
    what: &str,
    kernel: Vec<(K, V)>,
    host: Vec<(K, V)>,
) {
    use std::collections::HashMap;
    let kernel: HashMap<K, V> = kernel.into_iter().collect();
    let host: HashMap<K, V> = host.into_iter().collect();
    assert_eq!(kernel.len(), host.len(), "{what}");
    for (key, value) in &kernel {
        assert_eq!(Some(value), host.get(key), "{what} of {key:?}");
    }
}

fn begins_segment(frame: Cursor<'_>, link_layer: LinkLayer) -> bool {
    let upper = challenge::upper::<Ipv4>(frame, link_layer, ipv6::walk);
    let upper = upper.or_else(|| challenge::upper::<Ipv6>(frame, link_layer, ipv6::walk));
    upper.is_some_and(ratelimit_common::parse::transport::UpperLayer::begins_segment)
}

fn setting<T: FromStr<Err: Debug>>(name: &str, default: T) -> T {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
