//! A scene: settings, policies and lists, to be set up in the kernel and in memory alike.

use std::{ops::BitOr as _, time::Duration};

use anyhow::Result;
use ratelimit_common::{
    BanBudgets, Cursor, Instant, Limit, ListEntry, Policy, Settings, Unit, Verdict,
    aggregate::Aggregates,
    algorithm::FixedWindow,
    challenge,
    class::Property,
    compact::Region,
    features::Features,
    layout::{self, store},
    new_sources::Budget,
    parse::transport::Kind,
};
use ratelimit_core::{class_tables::ClassTables, memory_tables::MemoryTables, prefix::Prefix};

use crate::{
    pool::Pooled,
    program::{Constants, Program, placed},
    skip,
};

/// The configuration that packets meet.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The settings for all packets.
    pub settings: Settings,
    /// The end of a time in which everything passes, where the settings say that there is one.
    pub pass_all_until: Instant,
    /// The policies, by their index.
    pub policies: Vec<Policy>,
    /// The arrays by which the classes of a packet are looked up.
    pub classes: ClassTables,
    /// The wider prefixes that have limits, of IPv4 and of IPv6.
    pub aggregates: [Aggregates; 2],
    /// The limit on bans by policies in a minute.
    pub ban_budgets: BanBudgets,
    /// The budget for sources that get state on one CPU, if the settings enable it.
    pub new_sources: Budget,
    /// The rules of the challenge, if the settings enable it.
    pub challenge: challenge::Rules,
    /// The entries of the lists.
    pub entries: Vec<(Prefix, ListEntry)>,
}

impl Scene {
    /// A scene in which every source has these limits.
    pub fn limited(limits: &[Limit]) -> Self {
        Self {
            policies: vec![Policy::new(limits, 0, false).expect("a policy has at most 8 limits")],
            ..Self::default()
        }
    }

    /// The scene with one more list entry.
    pub fn with(mut self, prefix: &str, entry: ListEntry) -> Self {
        self.entries
            .push((prefix.parse().expect("a test writes prefixes well"), entry));
        self
    }

    /// Uses this many sets of a `compact` table for each limit of each policy.
    pub fn in_sets(mut self, sets: u32) -> Self {
        let mut first_set = 0;
        for policy in &mut self.policies {
            let regions: Vec<Region> = policy
                .limits()
                .map(|_| {
                    let region = Region::new(first_set, sets);
                    first_set = region.end();
                    region
                })
                .collect();
            *policy = policy.in_regions(&regions);
        }
        self
    }

    /// Everything that judges, with the scene set up: the host, and the kernel with frames in one
    /// buffer and in several.
    ///
    /// # Panics
    ///
    /// When the program does not load, or the scene cannot be set up.
    pub fn judges(&self, constants: &Constants) -> Vec<Box<dyn Judge>> {
        let mut judges: Vec<Box<dyn Judge>> = vec![Box::new(self.in_memory(constants))];
        if !skip::is_root() {
            skip::report("the kernel's part needs root");
            return judges;
        }
        for entry_point in [layout::PROGRAM, layout::PROGRAM_FRAGS] {
            let constants = Constants {
                entry_point,
                ..*constants
            };
            let program = Pooled::with(&constants, self).expect("the program loads");
            judges.push(Box::new(program));
        }
        judges
    }

    /// The scene in memory.
    pub fn in_memory(&self, constants: &Constants) -> MemoryTables {
        let policies = (0..).zip(&self.policies);
        let policies = policies.map(|(index, policy)| placed(index, policy, constants.store));
        let mut tables = MemoryTables::new(self.settings(), policies.collect(), constants.masks);
        tables = tables
            .with_link_layer(constants.link_layer)
            .with_tunnels(constants.tunnels);
        if constants.store == store::COMPACT {
            tables = tables.compact(constants.sets, constants.seeds);
        }
        if constants.interruptible {
            tables = tables.interruptible();
        }
        tables.classes = self.classes.clone();
        let [ipv4, ipv6] = self.aggregates;
        tables.set_aggregates(ipv4, ipv6);
        tables.pass_all_until = self.pass_all_until;
        tables.ban_budgets = self.ban_budgets;
        tables.new_sources = self.new_sources;
        tables.set_challenge(self.challenge, challenge::Key::default());
        for (prefix, entry) in &self.entries {
            tables.set_list_entry(*prefix, *entry);
        }
        tables
    }

    /// The features that it uses.
    pub fn features(&self) -> Features {
        let policies = self.policies.iter().map(Features::of_policy);
        policies.fold(Features::of_settings(self.settings()), Features::bitor)
    }

    /// The settings, with what is known of the challenge at a glance.
    fn settings(&self) -> Settings {
        self.challenge.with_challenge_flags(self.settings)
    }

    /// Sets the scene up in a program that has none, or the same one.
    pub fn set_up(&self, program: &mut Program) -> Result<()> {
        program.set_pass_all_until(self.pass_all_until)?;
        program.set_settings(self.settings())?;
        for (index, policy) in (0..).zip(&self.policies) {
            program.set_policy(index, policy)?;
        }
        program.set_classes(&self.classes)?;
        let [ipv4, ipv6] = self.aggregates;
        program.set_aggregates(ipv4, ipv6)?;
        program.set_ban_budgets(self.ban_budgets)?;
        program.set_new_sources(self.new_sources)?;
        program.set_challenge(self.challenge)?;
        for (prefix, entry) in &self.entries {
            program.set_list_entry(*prefix, *entry)?;
        }
        Ok(())
    }
}

/// The packets of the kinds for which `is_kind` holds, for [`ClassTables::add`].
pub fn of_kind(is_kind: impl Fn(Kind) -> bool) -> impl Fn(Property, u32) -> bool {
    move |property, value| {
        property != Property::Kind || Kind::from_index(value).is_some_and(&is_kind)
    }
}

/// A limit of `amount` in `window`, as a fixed window.
pub fn limit(amount: u64, unit: Unit, window: Duration) -> Limit {
    let window = FixedWindow::new(amount, window).expect("a test asks for windows that can be had");
    Limit::new(window, unit)
}

/// An entry that bans until `until_ns`.
pub fn banned_until(until_ns: u64) -> ListEntry {
    ListEntry::new(false, Some(Instant::from_nanos(until_ns)), None)
}

/// Something that judges frames: the kernel, or the host.
pub trait Judge {
    /// The name of the judge.
    fn name(&self) -> &'static str;

    /// Whether a frame of this size can arrive.
    fn takes(&self, _: usize) -> bool {
        true
    }

    /// Judges a frame that arrives at `now`.
    fn judge(&mut self, frame: &[u8], now: Instant) -> Verdict;
}

impl Judge for Program {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn takes(&self, frame_bytes: usize) -> bool {
        self.takes(frame_bytes)
    }

    fn judge(&mut self, frame: &[u8], now: Instant) -> Verdict {
        self.set_clock(now).expect("the clock can be set");
        Self::judge(self, frame)
            .expect("the program judges the frame")
            .1
    }
}

impl Judge for MemoryTables {
    fn name(&self) -> &'static str {
        "host"
    }

    fn judge(&mut self, frame: &[u8], now: Instant) -> Verdict {
        Self::judge(self, Cursor::new(frame), now)
    }
}
