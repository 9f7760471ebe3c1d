//! The programs on their interfaces.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::anyhow;
use ratelimit_common::{
    Settings,
    features::{Feature, Features},
    generation::ByGeneration,
    interface::InterfaceRule,
    layout::INTERFACES_MAX,
};
use ratelimit_core::config::{Interface, Mode};
use ratelimit_interface::{self as interface, AttachMode, InterfaceState};

use super::{
    Result, grace_period,
    maps::{Array, Maps},
    rings::Rings,
};
use crate::{
    links::{MTU_OF_ONE_BUFFER, Running, Sight},
    loader::{Attachment, InterfacePlan, Loader, MapPlan, Pinned, PinnedLink, Place},
};

/// The rules of interfaces, by name.
pub type InterfaceRules = BTreeMap<String, InterfaceRule>;

/// Programs on their interfaces.
pub trait Attachments: Send {
    /// Creates the maps of a plan; new ones are empty. Running programs keep the old ones until
    /// they are attached again.
    ///
    /// # Errors
    ///
    /// If memory is short or the kernel refuses, everything is as before.
    fn open_maps(&mut self, plan: &MapPlan) -> anyhow::Result<Maps>;

    /// Releases the maps whose records were carried over to larger or smaller ones.
    fn forget_replaced(&mut self) -> anyhow::Result<()>;

    /// Waits until no packet from before this call is being processed. Data that only such packets
    /// could use may then be overwritten.
    fn wait_for_packets(&self);

    /// Writes the rules of interfaces, each of them atomically. Interfaces without a rule have
    /// none.
    fn set_rules(&mut self, rules: ByGeneration<InterfaceRules>) -> Result<()>;

    /// Returns these rules.
    fn rules(&self) -> Result<ByGeneration<InterfaceRules>>;

    /// Returns the slots of interfaces in the counters, with their names.
    fn slots(&self) -> Vec<(u32, String)>;

    /// Returns whether one of our programs is running anywhere, with the tables it was attached
    /// with.
    fn runs(&self) -> bool;

    /// Returns the state of an interface.
    fn look(&mut self, interface: &str) -> anyhow::Result<Sight>;

    /// Applies renames: programs on interfaces that have another name than when they were attached
    /// count for the new name, if it is configured. Returns the old and the new names.
    ///
    /// # Errors
    ///
    /// On failure, all count as before.
    fn follow(&mut self, wanted: &[Interface]) -> anyhow::Result<BTreeMap<String, String>>;

    /// Loads the program for a missing interface, so that it can be attached as soon as the
    /// interface appears.
    ///
    /// # Errors
    ///
    /// Fails if the verifier refuses it.
    fn prepare(&mut self, interface: &Interface) -> anyhow::Result<()>;

    /// Attaches the program to an interface, or to the one that had its name, replacing one of
    /// ours. Returns a remark, if there is one.
    ///
    /// # Errors
    ///
    /// Returns why it is not attached, or continues as before.
    fn attach(&mut self, interface: &Interface) -> anyhow::Result<Option<String>>;

    /// Replaces the running programs on some of these interfaces, except those with other tables.
    ///
    /// # Errors
    ///
    /// A program that cannot be replaced continues as before.
    fn replace(&mut self, interfaces: &[Interface]) -> anyhow::Result<()>;

    /// Returns the features of every running program, and of those attached next.
    fn features(&self) -> Features;

    /// Replaces the running programs by ones with these features.
    ///
    /// # Errors
    ///
    /// If a program cannot be replaced, others may have been: [`features`](Self::features) then
    /// returns those common to the old and the new programs.
    fn specialise(&mut self, features: Features) -> anyhow::Result<()>;

    /// Sets the features of the programs that are attached next. Those that run keep theirs, which
    /// are at least these.
    fn set_features(&mut self, features: Features);

    /// Detaches the program from an interface, or from the one that had its name.
    fn take_off(&mut self, interface: &str) -> anyhow::Result<()>;

    /// Detaches the program from all interfaces except these.
    fn keep_only(&mut self, interfaces: &[Interface]) -> anyhow::Result<()>;

    /// Restores removed pins, and returns whether there were any.
    fn keep_pinned(&mut self) -> anyhow::Result<bool>;

    /// Returns the interfaces whose program calls another program than the one pinned at the path
    /// in `chain`, also if none is pinned there.
    fn stale_next(&mut self) -> anyhow::Result<Vec<String>>;

    /// Detaches all programs, returns their interfaces, and releases the tables.
    fn detach(&mut self) -> anyhow::Result<Vec<String>>;
}

/// An interface with a slot.
struct Port {
    slot: u32,
    /// Whether one of our links may be pinned for it.
    is_pinned: bool,
    /// The configuration of the interface.
    interface: Interface,
    program: Option<OwnProgram>,
}

impl Port {
    fn reads_these_tables(&self) -> bool {
        let program = self.program.as_ref();
        program.is_some_and(|program| !program.has_other_tables)
    }
}

/// One of our programs, for an interface.
struct OwnProgram {
    number: u32,
    /// The index of the interface.
    index: u32,
    is_at_tcx: bool,
    takes_long_frames: bool,
    /// The program that receives passed packets.
    next: Option<PathBuf>,
    /// The pin for other programs to call, if it is not attached by a link.
    entry: Option<PathBuf>,
    /// Whether it uses other tables than the current ones, which must be filled before it is
    /// replaced.
    has_other_tables: bool,
    age: Age,
}

/// The age of a program in relation to the current configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Age {
    /// This daemon attached it to the current tables.
    Current,
    /// A previous daemon attached it, so its constants and some of its tables may be others.
    Adopted,
    /// The tables were renewed since it was attached.
    Outlived,
}

impl OwnProgram {
    /// Whether changes do not reach it.
    fn is_behind(&self) -> bool {
        self.has_other_tables || self.age == Age::Outlived
    }

    /// Where an interface runs it. Where others call it, that is its interface.
    fn place(&self, on: &InterfaceState, loader: &mut dyn Loader) -> anyhow::Result<Option<Place>> {
        let runs = if self.entry.is_some() {
            on.index == self.index
        } else if self.is_at_tcx {
            return loader.place_at_tcx(on.index, self.number);
        } else {
            on.program.is_some_and(|(_, number)| number == self.number)
        };
        Ok(runs.then_some(Place::First))
    }
}

/// The programs in the kernel, and their loader.
pub(super) struct Programs {
    loader: Box<dyn Loader>,
    /// The rules of interfaces, including those without a slot yet.
    rules: ByGeneration<InterfaceRules>,
    rules_by_slot: Array<ByGeneration<InterfaceRule>>,
    /// The features of every running program.
    features: Features,
    /// Interfaces with a slot in the counters, by name.
    ports: BTreeMap<String, Port>,
}

/// The map of the rules of interfaces.
const INTERFACES: &str = "INTERFACES";

impl Programs {
    /// Has the loader open the maps of a plan, and adopts the running programs.
    pub fn open(
        mut loader: Box<dyn Loader>,
        held: &Pinned,
        plan: &MapPlan,
        wanted: &[Interface],
    ) -> anyhow::Result<(Self, Maps, Rings)> {
        let descriptors = loader.open_maps(plan)?;
        let rings = Rings::open(&descriptors)?;
        let maps = Maps::try_from(descriptors)?;
        // Tables are new if the old ones do not fit; running programs keep the old ones.
        let settings: Array<Settings> = maps.array("SETTINGS")?;
        let has_other_tables = held.has_other_layout || !settings.get(0)?.are_written();
        let port = |link: &PinnedLink| {
            let program = link.on.map(|index| OwnProgram {
                number: link.program,
                index,
                is_at_tcx: link.is_at_tcx,
                takes_long_frames: link.takes_long_frames,
                next: None,
                entry: None,
                has_other_tables,
                age: Age::Adopted,
            });
            let is_configured = |it: &&Interface| it.name == link.interface;
            let interface = wanted.iter().find(is_configured).cloned();
            let port = Port {
                slot: link.slot,
                is_pinned: true,
                interface: interface.unwrap_or_else(|| unwanted(link)),
                program,
            };
            (link.interface.clone(), port)
        };
        let mut programs = Self {
            loader,
            rules: ByGeneration::default(),
            rules_by_slot: maps.array(INTERFACES)?,
            features: Features::NONE,
            ports: held.links.iter().map(port).collect(),
        };
        // Packets are judged by these rules until others are set.
        programs.rules = programs.rules()?;
        Ok((programs, maps, rings))
    }

    /// Writes the rules of the interfaces with a slot.
    fn write_rules(&self) -> Result<()> {
        for (name, port) in &self.ports {
            self.rules_by_slot
                .set(port.slot, rule_of(&self.rules, name))?;
        }
        Ok(())
    }
}

/// Returns the rule of an interface in each generation.
fn rule_of(rules: &ByGeneration<InterfaceRules>, interface: &str) -> ByGeneration<InterfaceRule> {
    rules.map(|rules| rules.get(interface).copied().unwrap_or_default())
}

impl Attachments for Programs {
    fn open_maps(&mut self, plan: &MapPlan) -> anyhow::Result<Maps> {
        let maps = Maps::try_from(self.loader.open_maps(plan)?)?;
        self.rules_by_slot = maps.array(INTERFACES)?;
        let programs = self.ports.values_mut();
        for program in programs.filter_map(|port| port.program.as_mut()) {
            program.age = Age::Outlived;
        }
        Ok(maps)
    }

    fn forget_replaced(&mut self) -> anyhow::Result<()> {
        self.loader.forget_replaced()
    }

    fn wait_for_packets(&self) {
        grace_period::wait();
    }

    fn set_rules(&mut self, rules: ByGeneration<InterfaceRules>) -> Result<()> {
        self.rules = rules;
        self.write_rules()
    }

    fn rules(&self) -> Result<ByGeneration<InterfaceRules>> {
        let ports = self.ports.iter();
        let held = ports.map(|(name, port)| Ok((name, self.rules_by_slot.get(port.slot)?)));
        let held: Vec<_> = held.collect::<Result<_>>()?;
        Ok(ByGeneration::each(|generation| {
            let mut interfaces = self.rules.of(generation).clone();
            let held = held.iter();
            interfaces.extend(held.map(|(name, rule)| ((*name).clone(), *rule.of(generation))));
            interfaces.retain(|_, rule| *rule != InterfaceRule::default());
            interfaces
        }))
    }

    fn slots(&self) -> Vec<(u32, String)> {
        let ports = self.ports.iter();
        ports
            .map(|(name, port)| (port.slot, name.clone()))
            .collect()
    }

    fn runs(&self) -> bool {
        self.ports.values().any(|port| port.program.is_some())
    }

    fn look(&mut self, interface: &str) -> anyhow::Result<Sight> {
        let there = interface::query(interface)?;
        let port = self.ports.get(interface);
        let program = match port.and_then(|port| port.program.as_ref()) {
            Some(own) => {
                let loader = &mut *self.loader;
                let mut place = None;
                let mut on = there.clone();
                if let Some(there) = &on {
                    place = own.place(there, loader)?;
                }
                if place.is_none() {
                    on = interface::query_index(own.index)?;
                    if let Some(there) = &on {
                        place = own.place(there, loader)?;
                    }
                }
                let tcx = own.is_at_tcx.then_some((AttachMode::Tcx, own.number));
                let on = on.filter(|_| place.is_some()).map(|on| InterfaceState {
                    program: tcx.or(on.program),
                    ..on
                });
                Some(Running {
                    on,
                    is_behind_another: place == Some(Place::Behind),
                    takes_long_frames: own.takes_long_frames,
                    next: own.next.clone(),
                    entry: own.entry.clone(),
                    is_behind: own.is_behind(),
                })
            }
            None => port.filter(|port| port.is_pinned).map(|_| Running {
                on: None,
                is_behind_another: false,
                takes_long_frames: true,
                next: None,
                entry: None,
                is_behind: false,
            }),
        };
        Ok(Sight { there, program })
    }

    fn follow(&mut self, wanted: &[Interface]) -> anyhow::Result<BTreeMap<String, String>> {
        let mut names = BTreeMap::new();
        for (name, port) in &self.ports {
            let index = port.program.as_ref().map(|program| program.index);
            let on = index.map(interface::query_index).transpose()?.flatten();
            let is_wanted = |on: &InterfaceState| wanted.iter().any(|it| it.name == on.name);
            if let Some(on) = on.filter(|on| on.name != *name && is_wanted(on)) {
                names.insert(name.clone(), on.name);
            }
        }
        if names.is_empty() {
            return Ok(names);
        }
        // An old name that another interface has now belongs to an interface that is not
        // configured.
        let taken = names.values().filter(|name| !names.contains_key(*name));
        for name in taken.cloned().collect::<Vec<_>>() {
            if self.ports.contains_key(&name) {
                self.take_off(&name)?;
            }
        }
        self.loader.rename(&names)?;
        let ports = std::mem::take(&mut self.ports).into_iter();
        let (renamed, others): (Vec<_>, Vec<_>) =
            ports.partition(|(name, _)| names.contains_key(name));
        let renamed = renamed.into_iter().map(|(name, mut port)| {
            let name = names[&name].clone();
            let interface = wanted.iter().find(|it| it.name == name).cloned();
            port.interface = interface.unwrap_or(port.interface);
            (name, port)
        });
        self.ports = others.into_iter().chain(renamed).collect();
        self.write_rules()?;
        Ok(names)
    }

    fn prepare(&mut self, interface: &Interface) -> anyhow::Result<()> {
        let plan = self.plan(interface)?;
        // The slot is a constant in its program, so it must not be given to another interface.
        let port = Port {
            slot: plan.slot,
            is_pinned: false,
            interface: interface.clone(),
            program: None,
        };
        self.ports.entry(plan.name.clone()).or_insert(port);
        self.loader.prepare(&plan)
    }

    fn attach(&mut self, interface: &Interface) -> anyhow::Result<Option<String>> {
        let plan = self.plan(interface)?;
        let refused = match self.attach_as(&plan, interface) {
            Err(refused) if self.is_outdated(&interface.name) => refused,
            answer => return answer,
        };
        // The running program would continue with old constants and tables.
        let plan = InterfacePlan {
            keeps_next: true,
            ..plan
        };
        self.attach_as(&plan, interface)?;
        Err(refused)
    }

    fn replace(&mut self, interfaces: &[Interface]) -> anyhow::Result<()> {
        for interface in interfaces {
            let port = self.ports.get(&interface.name);
            if port.is_some_and(Port::reads_these_tables) {
                self.attach(interface)?;
            }
        }
        Ok(())
    }

    fn features(&self) -> Features {
        self.features
    }

    fn specialise(&mut self, features: Features) -> anyhow::Result<()> {
        let before = std::mem::replace(&mut self.features, features);
        let ports = self.ports.iter();
        let interfaces: Vec<(String, Interface)> = ports
            .filter(|(_, port)| port.reads_these_tables())
            .map(|(name, port)| (name.clone(), port.interface.clone()))
            .collect();
        for (name, interface) in interfaces {
            if let Err(error) = self.replace_one(&name, &interface) {
                self.features = before & features;
                return Err(error.context(format!("replacing the program on {name}")));
            }
        }
        Ok(())
    }

    fn set_features(&mut self, features: Features) {
        self.features = features;
    }

    fn take_off(&mut self, interface: &str) -> anyhow::Result<()> {
        self.loader.detach(interface)?;
        if let Some(port) = self.ports.get_mut(interface) {
            port.is_pinned = false;
            port.program = None;
        }
        Ok(())
    }

    fn keep_only(&mut self, interfaces: &[Interface]) -> anyhow::Result<()> {
        let is_wanted = |name: &String| interfaces.iter().any(|it| it.name == *name);
        let names = self.ports.keys().filter(|name| !is_wanted(name));
        for name in names.cloned().collect::<Vec<_>>() {
            self.take_off(&name)?;
            self.ports.remove(&name);
        }
        Ok(())
    }

    fn keep_pinned(&mut self) -> anyhow::Result<bool> {
        // Without attached programs, no pins have to outlive the daemon.
        if !self.runs() {
            return Ok(false);
        }
        self.loader.keep_pinned()
    }

    fn stale_next(&mut self) -> anyhow::Result<Vec<String>> {
        let mut programs = self.ports.values().filter_map(|port| port.program.as_ref());
        if programs.all(|program| program.next.is_none()) {
            return Ok(Vec::new());
        }
        self.loader.stale_next()
    }

    fn detach(&mut self) -> anyhow::Result<Vec<String>> {
        let interfaces = self.loader.detach_all()?;
        for port in self.ports.values_mut() {
            port.is_pinned = false;
            port.program = None;
        }
        Ok(interfaces)
    }
}

impl Programs {
    /// Replaces the program of an interface if it is running. Otherwise it gets the current
    /// features when its interface appears. A lost pin of the `chain` does not prevent that.
    fn replace_one(&mut self, name: &str, interface: &Interface) -> anyhow::Result<()> {
        if !self.runs_on(name)? {
            return Ok(());
        }
        let plan = InterfacePlan {
            keeps_next: true,
            ..self.plan(interface)?
        };
        match self.attach_as(&plan, interface) {
            Err(error) if self.runs_on(name).unwrap_or(true) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn attach_as(
        &mut self,
        plan: &InterfacePlan,
        interface: &Interface,
    ) -> anyhow::Result<Option<String>> {
        let name = &interface.name;
        let state = match interface::query(name)? {
            Some(state) => Some(state),
            None => self.look(name)?.program.and_then(|program| program.on),
        };
        let state = state.ok_or_else(|| anyhow!("there is no interface {name}"))?;
        self.rules_by_slot
            .set(plan.slot, rule_of(&self.rules, name))?;
        let attachment = self.loader.attach(plan)?;
        let is_at_tcx = attachment.mode == Some(AttachMode::Tcx);
        let port = Port {
            slot: plan.slot,
            is_pinned: true,
            interface: interface.clone(),
            program: Some(OwnProgram {
                number: attachment.program,
                index: state.index,
                is_at_tcx,
                takes_long_frames: is_at_tcx || interface.jumbo || state.mtu > MTU_OF_ONE_BUFFER,
                next: attachment.next.clone(),
                entry: attachment.entry.clone(),
                has_other_tables: false,
                age: Age::Current,
            }),
        };
        self.ports.insert(name.clone(), port);
        let remarks = [
            attachment.remark.clone(),
            remark(&state, &attachment, self.features),
            self.double_pass_remark(&state),
        ];
        let remarks: Vec<String> = remarks.into_iter().flatten().collect();
        Ok((!remarks.is_empty()).then(|| remarks.join("; ")))
    }

    fn is_outdated(&self, name: &str) -> bool {
        let program = self.ports.get(name).and_then(|port| port.program.as_ref());
        program.is_some_and(|program| program.age != Age::Current)
    }

    fn runs_on(&mut self, name: &str) -> anyhow::Result<bool> {
        let program = self.look(name)?.program;
        Ok(program.is_some_and(|program| program.on.is_some()))
    }

    /// Returns a remark if packets pass the program twice: on an interface, and on the bridge, bond
    /// or VLAN above it.
    fn double_pass_remark(&self, on: &InterfaceState) -> Option<String> {
        let beneath = |upper: &InterfaceState| {
            let names = upper.is_stacked().then(|| interface::beneath(upper).ok());
            names.flatten().unwrap_or_default()
        };
        let below = beneath(on);
        let is_other = |(name, port): &(&String, &Port)| {
            let other = || interface::query(name).ok().flatten();
            let is_above = || other().is_some_and(|other| beneath(&other).contains(&on.name));
            **name != on.name && port.program.is_some() && (below.contains(name) || is_above())
        };
        let others = self.ports.iter().filter(is_other);
        let others: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
        (!others.is_empty()).then(|| {
            format!(
                "packets on both {} and {} are counted twice: remove one of them from the \
                 configuration",
                on.name,
                others.join(", ")
            )
        })
    }

    fn plan(&self, interface: &Interface) -> anyhow::Result<InterfacePlan> {
        Ok(InterfacePlan {
            name: interface.name.clone(),
            slot: self.slot_of(&interface.name)?,
            mode: interface.mode,
            jumbo: interface.jumbo,
            next: interface.next.clone(),
            keeps_next: false,
            features: self.features.to_bits(),
        })
    }

    /// Returns the slot of an interface, or the lowest free one.
    fn slot_of(&self, interface: &str) -> anyhow::Result<u32> {
        if let Some(port) = self.ports.get(interface) {
            return Ok(port.slot);
        }
        let taken: Vec<u32> = self.ports.values().map(|port| port.slot).collect();
        let free = (0..INTERFACES_MAX).find(|slot| !taken.contains(slot));
        free.ok_or_else(|| anyhow!("{interface}: too many interfaces (maximum {INTERFACES_MAX})"))
    }
}

/// Returns settings for an interface that is no longer configured. Its program runs until it is
/// detached.
fn unwanted(link: &PinnedLink) -> Interface {
    Interface {
        name: link.interface.clone(),
        mode: if link.is_at_tcx {
            Mode::Tcx
        } else {
            Mode::Auto
        },
        jumbo: link.takes_long_frames,
        next: None,
        policy: None,
        node: None,
        observe: false,
    }
}

/// Returns a remark about how a program with these features runs.
fn remark(state: &InterfaceState, attachment: &Attachment, features: Features) -> Option<String> {
    if attachment.mode == Some(AttachMode::Tcx) && features.has(Feature::SlidingLog) {
        return Some(
            "tcx mode: in a limit by sliding-log, a frame that GRO merged counts as one packet: \
             use sliding-window"
                .to_owned(),
        );
    }
    let kind = state.kind.as_deref().unwrap_or("virtual interface");
    if attachment.mode != Some(AttachMode::Generic) {
        return None;
    }
    if state.is_uncut() {
        return Some(format!(
            "generic mode on a {kind}: unsegmented frames of up to 64 kB (TSO) count as one \
             packet: set mode = \"native\" or \"tcx\", or disable TSO at the other end"
        ));
    }
    if !state.is_stacked() {
        return None;
    }
    let beneath = interface::beneath(state).unwrap_or_default();
    let instead = if beneath.is_empty() {
        "what its frames come by".to_owned()
    } else {
        beneath.join(", ")
    };
    Some(format!(
        "generic mode on a {kind}: frames merged by GRO, up to 64 kB, count as one packet: \
         set mode = \"tcx\", or configure {instead} instead"
    ))
}
