//! A change of the configuration is atomic for packets. After each written word, every packet gets
//! its verdict from before or after the change, even if the daemon dies there and another one
//! continues.
//!
//! `RATELIMIT_PAIRS=10000 cargo test --profile thorough -p ratelimit-daemon --lib
//! steps` sets the number of pairs; `RATELIMIT_SEED` sets the first one. Most of the time is spent
//! on returning memory and allocating it again: `GLIBC_TUNABLES=glibc.malloc.mmap_max=0` avoids
//! that, and takes an eighth of the time.

use std::{env, fmt::Write as _};

use ratelimit_common::{ClassSet, Cursor, Ipv4, Ipv6, Policy, Settings, Verdict, challenge};
use ratelimit_core::{
    class::Match,
    class_tables::ClassTables,
    compile::{Compiled, Switched},
    config::NodeConfig,
    limit::{Algorithm, LimitSpec},
    memory_tables::MemoryTables,
};

use super::{lists::with_file, *};

/// The default number of pairs of configurations.
const PAIRS: u64 = 3;
/// Points of a change at which the daemon dies.
const DEATHS: usize = 3;
/// Packets of each kind: more than any limit here admits.
const PACKETS: u64 = 9;

#[test]
fn each_packet_fits_the_old_or_the_new_configuration() {
    let number = |name, otherwise| {
        let text = env::var(name).ok();
        text.map_or(otherwise, |text: String| text.parse().unwrap())
    };
    let first = number("RATELIMIT_SEED", 1);
    for seed in first..first + number("RATELIMIT_PAIRS", PAIRS) {
        check_pair(seed);
    }
}

#[test]
#[ignore = "thorough"]
fn each_packet_fits_the_old_or_the_new_configuration_of_a_hundred_pairs() {
    (1..=100).for_each(check_pair);
}

fn check_pair(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let sets = random.one_in(3).then_some(1 << 14);
    let [old, new] = [0, 1].map(|_| configuration(&mut random));
    let context = format!("seed {seed}, from\n{old}\nto\n{new}");
    let [old, new] = [old, new].map(|text| {
        let mut config = wide::read(&text);
        own_rule(&mut random, &mut config);
        config
    });
    let rules = [&old, &new].map(|config| &config.interfaces);
    let context = format!("{context}, {rules:?}");
    let memory = Memory::new(&old.source, sets).unwrap();
    let mut lab = Lab::over(memory, in_memory(), old.clone(), Protected::default());
    let mut state = State::of(&lab);
    let before = state.verdicts();
    assert_eq!(before, compiled(&old), "{context}");
    lab.replace_config(new.clone()).unwrap();
    let after = compiled(&new);
    let writes = lab.take_writes();
    let deaths: Vec<usize> = (0..DEATHS)
        .map(|_| random.index(writes.len() + 1))
        .collect();
    for (count, write) in writes.iter().enumerate() {
        if deaths.contains(&count) {
            let next = if random.one_in(2) { &old } else { &new };
            check_death(&state, next, [&before, &after], &context);
        }
        state.take(write);
        let meanwhile = state.verdicts();
        check_mix(&meanwhile, [&before, &after], write, &context);
    }
    assert_eq!(state.verdicts(), after, "{context}");
}

/// A directory for a database that need not be kept.
fn in_memory() -> TempDir {
    let shared = Path::new("/dev/shm");
    let directory = env::temp_dir();
    let directory = if shared.is_dir() { shared } else { &directory };
    tempfile::tempdir_in(directory).unwrap()
}

/// If a program is running, a start is the same atomic step as a reload, including the files of
/// lists.
#[test]
fn a_start_with_another_configuration_is_one_step_too() {
    let files = tempfile::tempdir().unwrap();
    let bans = |name: &str| {
        let file = files.path().join(name);
        std::fs::write(&file, "10.1.1.1\n10.1.2.0/24\n").unwrap();
        let list = with_file(&file, None).lists.into_values();
        let lists = list.map(|list| (name.to_owned(), list)).collect();
        Config { lists, ..config() }
    };
    let limits = |limits: &str| {
        wide::read(&format!(
            "[policy.default]\nlimits = []\n[policy.one]\nsources = [\"10.1.0.0/16\"]\n{limits}"
        ))
    };
    let limited = || limits("limits = [{ packets = 1, per = \"1h\" }]\n");
    let destination =
        "limits = []\n[destination.\"0.0.0.0/32\"]\nlimits = [{ packets = 1, per = \"1h\" }]\n";
    for (old, new) in [
        (bans("old"), bans("new")),
        (limited(), bans("new")),
        (bans("old"), limited()),
        (limits(destination), bans("new")),
    ] {
        let context = format!("from {old:?} to {new:?}");
        let memory = Memory::new(&old.source, None).unwrap();
        let mut lab = Lab::over(memory, in_memory(), old, Protected::default());
        lab.switches().runs = true;
        let mut state = State::of(&lab);
        let before = state.verdicts();
        lab.config = new;
        lab.start_again();
        let writes = lab.take_writes();
        let mut after = state.clone();
        for write in &writes {
            after.take(write);
        }
        let after = after.verdicts();
        for write in writes {
            state.take(&write);
            check_mix(&state.verdicts(), [&before, &after], &write, &context);
        }
    }
}

/// A daemon starts where another one died, with one of the two configurations.
fn check_death(dead: &State, next: &Config, old_or_new: [&Verdicts; 2], context: &str) {
    let lab = dead.found_by(next);
    let mut state = dead.clone();
    for write in lab.take_writes() {
        state.take(&write);
        check_mix(&state.verdicts(), old_or_new, &write, context);
    }
    assert_eq!(state.verdicts(), compiled(next), "after a death, {context}");
    lab.entries();
}

fn check_mix(meanwhile: &Verdicts, old_or_new: [&Verdicts; 2], write: &Write, context: &str) {
    let [before, after] = old_or_new;
    for (probe, (is, (was, will_be))) in probes()
        .iter()
        .zip(meanwhile.iter().zip(before.iter().zip(after)))
    {
        assert!(
            is == was || is == will_be,
            "{probe:?} is {is:?}, was {was:?}, will be {will_be:?} after {write:?}, {context}"
        );
    }
}

/// The verdicts of each probe's packets.
type Verdicts = Vec<Vec<Verdict>>;

/// The written state by which packets are judged.
#[derive(Clone)]
pub(super) struct State {
    pub(super) policies: BTreeMap<u32, Policy>,
    entries: BTreeMap<Prefix, EntryByGeneration>,
    settings: Settings,
    classes: ClassTables,
    switched: ByGeneration<Switched>,
    sets: Option<u32>,
}

impl State {
    pub(super) fn of(lab: &Lab) -> Self {
        lab.take_writes();
        let tables = lab.tables();
        Self {
            policies: lab.policies(),
            entries: lab.held(),
            settings: lab.settings(),
            classes: tables.policies.classes().unwrap(),
            switched: tables.switched().unwrap(),
            sets: tables.sources.table_sets(),
        }
    }

    fn memory(&self, config: &Config) -> Arc<Memory> {
        let memory = Memory::new(&config.source, self.sets).unwrap();
        let mut tables = memory.open().unwrap();
        for (index, policy) in &self.policies {
            tables.set_policy(*index, policy).unwrap();
        }
        let entries = self.entries.iter().map(|(prefix, entry)| (*prefix, *entry));
        tables.lists.set(&entries.collect::<Vec<_>>()).unwrap();
        tables.set_settings(self.settings).unwrap();
        tables.policies.set_classes(&self.classes).unwrap();
        tables.set_switched(&self.switched).unwrap();
        memory.switches().writes.clear();
        memory
    }

    /// A daemon that starts over these tables. Nothing was set at runtime, and the database knows
    /// it.
    pub(super) fn found_by(&self, next: &Config) -> Lab {
        let directory = in_memory();
        let store = Store::open(directory.path());
        store.unwrap().end_adoption().unwrap();
        Lab::over(
            self.memory(next),
            directory,
            next.clone(),
            Protected::default(),
        )
    }

    pub(super) fn take(&mut self, write: &Write) {
        match write {
            Write::Policy(index, policy) if **policy == Policy::default() => {
                self.policies.remove(index);
            }
            Write::Policy(index, policy) => {
                self.policies.insert(*index, **policy);
            }
            Write::Entry(prefix, Some(entry)) => {
                self.entries.insert(*prefix, *entry);
            }
            Write::Entry(prefix, None) => {
                self.entries.remove(prefix);
            }
            Write::Classes(changes) => self.classes = changed(&self.classes, changes),
            Write::Switched(part) => part.apply(&mut self.switched),
            Write::Settings(settings) => self.settings = *settings,
            // No packet has come yet.
            Write::Total(_) | Write::Region(_) | Write::CopiedRegion(..) | Write::Attached => {}
        }
    }

    /// The policy that packets of an address are judged by.
    pub(super) fn policy_of(&self, address: &str) -> Policy {
        let generation = self.settings.generation();
        let mut around = prefix(address).supernets().rev();
        let entry = around.find_map(|outer| self.entries.get(&outer));
        let named = entry.and_then(|entry| entry.of(generation).policy());
        let index = named.unwrap_or(self.settings.default_policy());
        self.policies.get(&index).copied().unwrap_or_default()
    }

    fn verdicts(&self) -> Verdicts {
        let generation = self.settings.generation();
        let count = self.policies.keys().max().map_or(0, |last| last + 1);
        let policies =
            (0..count).map(|index| self.policies.get(&index).copied().unwrap_or_default());
        let masks = (Ipv4::new([0xff; 4]), Ipv6::new([0xff; 16]));
        let switched = self.switched.of(generation);
        let rule = switched.interfaces.get("eth0").copied();
        let rule = rule.unwrap_or_default();
        let settings = if self.settings.has_interfaces() {
            self.settings.on(rule)
        } else {
            self.settings
        };
        let tables = MemoryTables::new(settings, policies.collect(), masks);
        let mut tables = tables.with_tunnels(switched.tunnels);
        if let Some(sets) = self.sets {
            tables = tables.compact(sets, [3, 5]);
        }
        tables.classes = self.classes.clone();
        let [ipv4, ipv6] = switched.aggregates;
        tables.set_aggregates(ipv4, ipv6);
        tables.new_sources = switched.new_sources;
        tables.set_challenge(switched.challenge, challenge::Key::default());
        for (prefix, entry) in &self.entries {
            tables.set_list_entry(*prefix, *entry.of(generation));
        }
        verdicts(&tables)
    }
}

/// Class arrays with changed elements.
pub(super) fn changed(classes: &ClassTables, changes: &[(u32, ClassSet)]) -> ClassTables {
    let mut entries = classes.entries().to_vec();
    for (index, new) in changes {
        entries[*index as usize] = *new;
    }
    ClassTables::from_entries(entries)
}

fn compiled(config: &Config) -> Verdicts {
    verdicts(
        &Compiled::new(config.clone(), Vec::new())
            .unwrap()
            .memory_tables_on(Some("eth0")),
    )
}

fn verdicts(tables: &MemoryTables) -> Verdicts {
    let probe = |(index, probe): (u64, &Probe)| {
        let frame = probe.frame();
        let packets = (0..PACKETS).map(|packet| {
            // The usage of one probe is forgotten when the next one comes.
            let seconds = (1000 + index) * 100_000;
            let now = Instant::from_nanos(seconds * 1_000_000_000 + packet);
            tables.judge(Cursor::new(&frame), now)
        });
        packets.collect()
    };
    (0..).zip(&probes()).map(probe).collect()
}

/// A kind of packet from a source.
#[derive(Debug)]
struct Probe {
    source: [u8; 4],
    port: u16,
    /// The sender of the tunnel that it comes in.
    tunnel: Option<[u8; 4]>,
}

fn probes() -> Vec<Probe> {
    let sources = [
        [10, 1, 1, 1],
        [10, 1, 1, 2],
        [10, 1, 2, 1],
        [10, 2, 0, 1],
        [192, 0, 2, 1],
    ];
    let tunnels = [None, Some([10, 2, 0, 1])];
    let sources = sources.into_iter();
    let sources = sources.flat_map(|source| tunnels.map(|tunnel| (source, tunnel)));
    let probes = sources.flat_map(|(source, tunnel)| {
        [53, 443].map(|port| Probe {
            source,
            port,
            tunnel,
        })
    });
    probes.collect()
}

impl Probe {
    /// A UDP packet, perhaps in IP in IP.
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        if let Some(sender) = self.tunnel {
            frame.extend(ipv4(4, 66, sender));
        }
        frame.extend(ipv4(17, 46, self.source));
        let mut udp = [0; 26];
        udp[2..4].copy_from_slice(&self.port.to_be_bytes());
        frame.extend(udp);
        frame
    }
}

/// The header of a packet of so many bytes.
fn ipv4(protocol: u8, bytes: u8, source: [u8; 4]) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[3] = bytes;
    header[9] = protocol;
    header[12..16].copy_from_slice(&source);
    header
}

/// A configuration in which whatever may be there is there or not.
fn configuration(random: &mut Random) -> String {
    let mut text = String::new();
    if random.one_in(4) {
        text += "observe = true\n";
    }
    text += "[source]\ncapacity = 1024\n";
    if random.one_in(3) {
        text += "tunnels = [\"ipip\"]\n";
    }
    if random.one_in(3) {
        let over_budget = random.choose(&["pass", "drop", "aggregate"]);
        let count = 1 + random.below(3);
        let _ = writeln!(
            text,
            "new_sources = {{ count = {count}, per = \"10s\", over_budget = \"{over_budget}\" }}"
        );
    }
    let _ = writeln!(text, "[policy.default]\nlimits = {}", limits(random));
    text += observe(random);
    if random.one_in(4) {
        let amount = 1 + random.below(3);
        let _ = writeln!(
            text,
            "established = [{{ packets = {amount}, per = \"10s\" }}]"
        );
    }
    let mut prefixes = vec![
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.1.0/24",
        "10.1.1.1",
        "10.1.2.0/24",
        "192.0.2.1",
    ];
    for name in ["one", "two"] {
        if random.one_in(2) {
            let sources = random.take_some(&mut prefixes);
            let _ = writeln!(
                text,
                "[policy.{name}]\nsources = {sources:?}\nlimits = {}",
                limits(random)
            );
            text += observe(random);
        }
    }
    if random.one_in(2) {
        text += "[subnet]\n";
        text += observe(random);
        let prefix = random.choose(&["24", "16"]);
        let amount = 1 + random.below(8);
        let _ = writeln!(
            text,
            "ipv4 = [{{ prefix = {prefix}, packets = {amount}, per = \"10s\" }}]"
        );
    }
    if random.one_in(3) {
        let amount = 1 + random.below(8);
        text += "[node]\n";
        text += observe(random);
        let _ = writeln!(text, "limits = [{{ packets = {amount}, per = \"10s\" }}]");
    }
    if random.one_in(2) {
        let sources = random.take_some(&mut prefixes);
        let _ = writeln!(text, "[allow]\nsources = {sources:?}");
    }
    text
}

/// Adds a rule of the interface.
fn own_rule(random: &mut Random, config: &mut Config) {
    let [interface] = &mut config.interfaces[..] else {
        panic!("{:?}", config.interfaces);
    };
    if random.one_in(2) {
        interface.policy = config.policies.keys().next().cloned();
    }
    interface.node = random.one_in(3).then(|| NodeConfig {
        limits: vec![of_node(1 + random.below(8), random.one_in(2))],
        observe: random.one_in(4),
        ..NodeConfig::default()
    });
    interface.observe = random.one_in(6);
}

/// A limit for an interface.
fn of_node(packets: u64, is_of_udp: bool) -> LimitSpec {
    let limit = slow(packets, Algorithm::FixedWindow);
    if is_of_udp {
        limit.of_class(Match::Named("udp".into()))
    } else {
        limit
    }
}

fn observe(random: &mut Random) -> &'static str {
    if random.one_in(4) {
        "observe = true\n"
    } else {
        ""
    }
}

fn limits(random: &mut Random) -> String {
    let limits = (0..random.below(3)).map(|_| {
        let amount = 1 + random.below(8);
        let class = random.choose(&["", "", "udp", "other", "dns-answers"]);
        let class = match class {
            "" => String::new(),
            "dns-answers" => ", match = { protocol = \"udp\", destination_ports = [53] }".into(),
            class => format!(", match = \"{class}\""),
        };
        format!("{{ packets = {amount}, per = \"10s\"{class} }}")
    });
    format!("[{}]", limits.collect::<Vec<_>>().join(", "))
}

/// `SplitMix64` (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap()
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn choose<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.index(of.len())]
    }

    /// Takes at least one, and leaves the rest.
    fn take_some<'a>(&mut self, of: &mut Vec<&'a str>) -> Vec<&'a str> {
        let count = (1 + self.below(3)).min(of.len() as u64);
        (0..count)
            .map(|_| of.swap_remove(self.index(of.len())))
            .collect()
    }
}
