//! The loader in the process that asks it.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use aya::{
    maps::MapData,
    programs::{ProgramInfo, links::FdLink},
};
use ratelimit_core::config::Mode;

use super::{
    Attachment, Descriptors, InterfacePlan, Loader, MapPlan, Pinned, PinnedLink, Place, attachment,
    compact,
    compact::Seeds,
    entry::{self, DispatcherEntry},
    load::{self, Loaded},
    logs, memory_check,
    next::{self, Next},
    pins::{LinkPin, Pins, is_shared},
    program_log, resized_maps, tcx,
};
use ratelimit_interface::{self as interface, AttachMode, InterfaceState, helpers};

/// Does it itself, so it needs the capabilities.
#[derive(Default)]
pub struct Local {
    pins: Option<Pins>,
    maps: Option<(MapPlan, Seeds)>,
    /// The maps, which outlive their pins as long as this does.
    descriptors: Descriptors,
    /// The programs, by their interfaces.
    loaded: BTreeMap<String, Loaded>,
    /// The links, the same, with where they are pinned.
    links: BTreeMap<String, (PathBuf, FdLink)>,
    /// Entries for foreign callers, by interface.
    entries: BTreeMap<String, DispatcherEntry>,
    /// The programs that get what passes, the same.
    next: BTreeMap<String, Next>,
    /// Why drivers refuse native mode in the mode `auto`, the same.
    fallbacks: BTreeMap<String, String>,
}

/// The remark on a link of an earlier daemon, which knew the reason.
const FALLBACK_BEFORE_START: &str = "generic mode, which is several times slower, since before the \
     daemon started: to try native mode again, run `rlctl detach` and `rlctl reload`";

impl Local {
    fn pins(&self) -> anyhow::Result<&Pins> {
        self.pins.as_ref().context("no directory of pins is open")
    }

    /// The program for an interface: the one that is kept for it, if it is the same. The verifier
    /// takes a good part of a second, for which an interface that comes back does not wait.
    fn take_loaded(&mut self, interface: &str, variant: load::Variant) -> anyhow::Result<Loaded> {
        let kept = self.loaded.remove(interface);
        if let Some(kept) = kept.filter(|kept| kept.variant == variant) {
            return Ok(kept);
        }
        let (maps, seeds) = self.maps.as_ref().context("no maps are open")?;
        load::program(&load::object(maps)?, variant, self.pins()?, maps, *seeds)
            .map_err(name_missing)
            .with_context(|| format!("loading the program for {interface}"))
    }

    /// Has the program of an interface call the one at `next`. If that fails and the plan keeps the
    /// previous one, the slot still has that, or nothing if none was called. Its path is unknown
    /// after a start.
    fn next_of(&self, plan: &InterfacePlan, frags: bool) -> anyhow::Result<Option<Next>> {
        let Some(path) = plan.next.as_deref() else {
            return Ok(None);
        };
        let pins = self.pins()?;
        let refused = match next::set(pins, plan.slot, frags, path) {
            Ok(next) => return Ok(Some(next)),
            Err(refused) => refused,
        };
        let is_callable = next::is_held(pins, plan.slot, frags)?;
        let is_called = is_callable || next::is_held(pins, plan.slot, !frags)?;
        // The slot of a program of another layout is elsewhere.
        let is_known = is_callable || !is_called && self.has_this_layout(&plan.name)?;
        if plan.keeps_next && is_known {
            return Ok(self.next.get(&plan.name).cloned());
        }
        if is_called {
            return Err(refused.context("the previous program remains in use"));
        }
        Err(refused)
    }

    fn has_this_layout(&self, interface: &str) -> anyhow::Result<bool> {
        let pins = self.pins()?;
        let mut all = pins.all_links()?;
        all.extend(pins.all_programs()?);
        let mut all = all.iter().filter(|pin| pin.interface == interface);
        Ok(all.all(|pin| pins.is_own(pin)))
    }
}

impl Loader for Local {
    fn open(&mut self, root: &Path) -> anyhow::Result<Pinned> {
        let other = self.pins.as_ref().filter(|pins| pins.root() != root);
        ensure!(
            other.is_none(),
            "the pins are elsewhere, and stay there until the loader ends"
        );
        let pins = self.pins.insert(Pins::open(root)?);
        let links = pins.all_links()?;
        let has_other_layout = links.iter().any(|pin| !pins.is_own(pin));
        let links = links
            .into_iter()
            .map(|pin| held(attachment::program(&pin)?, pin));
        let programs = pins.all_programs()?.into_iter().map(|pin| {
            let info = ProgramInfo::from_pin(&pin.path)
                .with_context(|| format!("reading {}", pin.path.display()))?;
            held(info.id(), pin)
        });
        Ok(Pinned {
            links: links.chain(programs).collect::<anyhow::Result<_>>()?,
            logs: logs::held(pins),
            record_words: resized_maps::held_words(pins),
            table: compact::held_table(pins)?,
            has_other_layout,
        })
    }

    fn open_maps(&mut self, plan: &MapPlan) -> anyhow::Result<Descriptors> {
        let pins = self.pins()?;
        let object = load::object(plan)?;
        logs::require_memory(&object, plan, pins)?;
        memory_check::require(&object, plan, pins)?;
        compact::remove_mismatched(&object, pins)?;
        resized_maps::make(&object, pins)?;
        pins.remove_mismatched(&object)?;
        logs::make(&object, pins)?;
        let seeds = compact::seeds(pins)?;
        let maps = load::maps(&object, pins, plan, seeds)?;
        let of_map = |(name, map): (&String, &OwnedFd)| Ok((name.clone(), map.try_clone()?));
        let shared = maps.iter().filter(|(name, _)| is_shared(name));
        let shared: io::Result<Descriptors> = shared.map(of_map).collect();
        self.descriptors = shared.context("keeping the descriptors of the maps")?;
        self.maps = Some((*plan, seeds));
        self.loaded.clear();
        Ok(maps)
    }

    fn keep_pinned(&mut self) -> anyhow::Result<bool> {
        let pins = self.pins.clone().context("no directory of pins is open")?;
        let is_gone = |path: &Path| !path.exists();
        let maps = self.descriptors.iter();
        let maps: Vec<_> = maps.filter(|(name, _)| is_gone(&pins.map(name))).collect();
        let links = self.links.iter();
        let links = links.filter(|(_, (path, _))| is_gone(path));
        let links: Vec<String> = links.map(|(name, _)| name.clone()).collect();
        let entries = self.entries.values().any(DispatcherEntry::is_incomplete);
        if maps.is_empty() && links.is_empty() && !entries {
            return Ok(false);
        }
        pins.make_directories()?;
        for (name, map) in maps {
            let path = pins.map(name);
            let map = MapData::from_fd(map.try_clone()?)?;
            map.pin(&path)
                .with_context(|| format!("pinning the map {name} at {}", path.display()))?;
        }
        for name in links {
            if let Some((path, link)) = self.links.remove(&name) {
                let link = attachment::pin(link, &name, &path)?;
                self.links.insert(name, (path, link));
            }
        }
        for entry in self.entries.values_mut() {
            entry.pin()?;
        }
        Ok(true)
    }

    fn rename(&mut self, names: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let pins = self.pins()?;
        for pin in pins.all_links()? {
            if let Some(name) = names.get(&pin.interface) {
                pin.rename(name)?;
            }
        }
        let programs = pins.all_programs()?;
        let programs = programs.iter();
        let renamed: Vec<_> = programs
            .filter_map(|pin| Some((pin, names.get(&pin.interface)?)))
            .collect();
        // Two may have changed their names. No interface is called so, as a `%` is escaped.
        let aside = |name: &str| pins.entry("").join(format!("%{name}"));
        for (pin, _) in &renamed {
            rename(&pins.entry(&pin.interface), &aside(&pin.interface))?;
        }
        for (pin, name) in &renamed {
            rename(&aside(&pin.interface), &pins.entry(name))?;
            pin.rename(name)?;
        }
        for (pin, _) in &renamed {
            self.entries.remove(&pin.interface);
        }
        Ok(())
    }

    fn prepare(&mut self, plan: &InterfacePlan) -> anyhow::Result<()> {
        self.keep_pinned()?;
        let program = self.take_loaded(&plan.name, load::Variant::expected(plan))?;
        self.loaded.insert(plan.name.clone(), program);
        Ok(())
    }

    fn attach(&mut self, plan: &InterfacePlan) -> anyhow::Result<Attachment> {
        // A program that finds no pins would have maps of its own.
        self.keep_pinned()?;
        // The pin keeps the program alive.
        self.links.remove(&plan.name);
        let pins = self.pins()?;
        let links = pins.all_links()?;
        // A daemon that was killed while it changed the mode left one at both hooks.
        let of_interface = links.into_iter().filter(|pin| pin.interface == plan.name);
        let at_hook = |pin: &LinkPin| pin.entry_point.is_tcx() == (plan.mode == Mode::Tcx);
        let (at_hook, at_other): (Vec<_>, Vec<_>) = of_interface.partition(at_hook);
        let pin = at_hook.first().or(at_other.first());
        let on = match interface::query(&plan.name)? {
            Some(on) => on,
            None => attachment::interface_of(pin)?
                .with_context(|| format!("there is no interface {}", plan.name))?,
        };
        let variant = load::Variant::of(plan, &on, pin)?;
        let mut program = self.take_loaded(&plan.name, variant)?;
        let pins = self.pins()?;
        let (entry_point, frags) = (variant.entry_point, variant.entry_point.takes_long_frames());
        // The running program keeps its next program until it is replaced.
        let attached = self
            .next_of(plan, frags)
            .and_then(|next| {
                Ok((
                    place(&mut program, (plan, &on), pins, (&at_hook, &at_other))?,
                    next,
                ))
            })
            .and_then(|placed| {
                let kept = plan.next.as_ref().map(|_| frags);
                next::release(pins, plan.slot, kept).map(|()| placed)
            });
        let attached = attached.map(|((mut attached, entry), next)| {
            attached.next = next.as_ref().map(|next| next.path().to_owned());
            if plan.mode == Mode::Auto && attached.mode == Some(AttachMode::Generic) {
                // A link that is adopted was refused earlier.
                let earlier = self.fallbacks.remove(&plan.name);
                let remark = attached.remark.or(earlier);
                let remark = remark.unwrap_or_else(|| FALLBACK_BEFORE_START.to_owned());
                self.fallbacks.insert(plan.name.clone(), remark.clone());
                attached.remark = Some(remark);
            }
            self.entries.remove(&plan.name);
            self.next.remove(&plan.name);
            let next = next.map(|next| (plan.name.clone(), next));
            self.next.extend(next);
            let entry = entry.map(|entry| (plan.name.clone(), entry));
            self.entries.extend(entry);
            attached
        });
        self.loaded.insert(plan.name.clone(), program);
        let pins = self.pins()?;
        // The previous program may continue to run.
        let path = pins.link(plan.slot, &plan.name, entry_point);
        let link = attachment::open_at(&path);
        pins.remove_unused_layouts()?;
        if let Ok(link) = link {
            self.links.insert(plan.name.clone(), (path, link));
        }
        attached
    }

    fn place_at_tcx(&mut self, interface: u32, program: u32) -> anyhow::Result<Option<Place>> {
        tcx::place(interface, program)
    }

    fn stale_next(&mut self) -> anyhow::Result<Vec<String>> {
        let stale = self.next.iter().filter(|(_, next)| next.is_stale());
        Ok(stale.map(|(name, _)| name.clone()).collect())
    }

    fn forget_replaced(&mut self) -> anyhow::Result<()> {
        resized_maps::forget(self.pins()?)
    }

    fn wait(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            let logs = self.loaded.values().filter_map(|it| it.log.descriptor());
            if program_log::wait(socket, logs)? {
                return Ok(());
            }
            for loaded in self.loaded.values_mut() {
                loaded.log.report();
            }
        }
    }

    fn detach(&mut self, interface: &str) -> anyhow::Result<bool> {
        self.links.remove(interface);
        self.entries.remove(interface);
        self.next.remove(interface);
        let pins = self.pins()?;
        let mut is_pinned = entry::take_away(pins, interface)?;
        for pin in pins.all_links()? {
            if pin.interface == interface {
                attachment::detach(&pin)?;
                next::release(pins, pin.slot, None)?;
                is_pinned = true;
            }
        }
        pins.remove_unused_layouts()?;
        Ok(is_pinned)
    }

    fn detach_all(&mut self) -> anyhow::Result<Vec<String>> {
        self.links.clear();
        self.entries.clear();
        self.next.clear();
        let pins = self.pins()?;
        let mut interfaces = Vec::new();
        for pin in pins.all_links()? {
            attachment::detach(&pin)?;
            interfaces.push(pin.interface);
        }
        for pin in pins.all_programs()? {
            entry::vacate(pins, &pin.interface)?;
            interfaces.push(pin.interface);
        }
        pins.remove_all()?;
        // Programs that are attached again need the maps: they are pinned then.
        Ok(interfaces)
    }
}

/// Adds what the kernel lacks to an error of loading, if it lacks anything.
fn name_missing(error: anyhow::Error) -> anyhow::Error {
    match helpers::missing() {
        Ok(missing) if !missing.is_empty() => {
            error.context(format!("the kernel lacks {}", missing.join(", ")))
        }
        Ok(_) | Err(_) => error,
    }
}

/// Describes a pinned link with this program.
fn held(program: u32, pin: LinkPin) -> anyhow::Result<PinnedLink> {
    let on = attachment::running(pin.entry_point, program)?;
    Ok(PinnedLink {
        interface: pin.interface,
        slot: pin.slot,
        program,
        on: on.map(|on| on.index),
        takes_long_frames: pin.entry_point.takes_long_frames(),
        is_at_tcx: pin.entry_point.is_tcx(),
    })
}

/// Puts a program on an interface, or pins it for others to call: then with what they call.
/// `pinned` are our links there: those at its hook, and the others, which are detached.
fn place(
    loaded: &mut Loaded,
    (plan, on): (&InterfacePlan, &InterfaceState),
    pins: &Pins,
    pinned: (&[LinkPin], &[LinkPin]),
) -> anyhow::Result<(Attachment, Option<DispatcherEntry>)> {
    let (at_hook, at_other) = pinned;
    let entry_point = loaded.variant.entry_point;
    let path = pins.link(plan.slot, &plan.name, entry_point);
    let (remark, mode) = match plan.mode {
        Mode::Pinned => {
            let (attachment, entry) = entry::give(loaded.program()?, plan, entry_point, pins)?;
            at_hook.iter().try_for_each(attachment::detach)?;
            at_other.iter().try_for_each(attachment::detach)?;
            return Ok((attachment, Some(entry)));
        }
        Mode::Tcx => {
            tcx::attach(loaded.program()?, on, &path, at_hook.first())?;
            (None, AttachMode::Tcx)
        }
        Mode::Auto | Mode::Native | Mode::Generic => {
            let pin = at_hook.first();
            let remark = attachment::attach(loaded.program()?, (plan, on), &path, pin)?;
            (remark, attachment::running_mode(on)?)
        }
    };
    at_other.iter().try_for_each(attachment::detach)?;
    entry::take_away(pins, &plan.name)?;
    let linked = attachment::open_at(&path)?.info();
    let attachment = Attachment {
        mode: Some(mode),
        entry: None,
        program: linked.context("reading the pinned link")?.program_id(),
        next: None,
        remark,
    };
    Ok((attachment, None))
}

fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::rename(from, to)
        .with_context(|| format!("renaming {} to {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_opened_in_one_directory_only() {
        let root = format!("/sys/fs/bpf/ratelimit-test-{}", std::process::id());
        let root = Path::new(&root);
        let mut loader = Local::default();
        if let Err(error) = loader.open(root) {
            eprintln!("SKIPPED: needs root and a bpffs: {error:#}");
            return;
        }
        let again = loader.open(root).map(drop);
        let other = root.with_extension("other");
        let elsewhere = loader.open(&other).map(drop);
        let is_made = other.exists();
        for directory in [root, &other] {
            let _ = std::fs::remove_dir_all(directory);
        }
        again.unwrap();
        let error = elsewhere.unwrap_err().to_string();
        assert!(error.contains("stay there") && !is_made, "{error}");
    }
}
