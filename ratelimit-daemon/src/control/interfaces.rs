//! Carries out the decisions of `links.rs` about each interface, and reports each result once, in
//! the log and as an event.

use std::time::{Duration, Instant};

use ratelimit_core::{api::What, config::Interface};
use tracing::{info, warn};

use crate::{
    clock,
    control::{
        reports::troubles::{LOADER, PINS},
        state::State,
    },
    links::{BEHIND_ANOTHER, LinkState, Links, Step, link_state},
    loader::Unavailable,
};

/// The time for which a check of the interfaces stays fresh for queries. It is shorter than the
/// start of `rlctl`, so a change is seen, yet thousands of commands per second do not check each
/// time.
const STALE: Duration = Duration::from_millis(2);

/// The interfaces, and when they were last checked.
#[derive(Default)]
pub struct Interfaces {
    /// The state of each interface.
    pub links: Links,
    tended: Option<Instant>,
}

impl Interfaces {
    /// Attaches the programs to the existing interfaces, after the tables were filled. Releases
    /// interfaces that are no longer configured.
    pub fn attach(&mut self, state: &mut State) {
        let interfaces = state.intent.config.interfaces.clone();
        self.links.configure(&interfaces);
        self.attach_wanted(state, true);
    }

    /// Attaches the program to all configured interfaces, also replacing one of ours if `anew` is
    /// set, and detaches it from all others.
    pub fn attach_wanted(&mut self, state: &mut State, anew: bool) {
        let wanted: Vec<Interface> = self.links.wanted().cloned().collect();
        for interface in &wanted {
            self.tend(state, interface, anew);
        }
        if let Err(error) = state.enforcer.attachments().keep_only(&wanted) {
            let error = format!("{error:#}");
            warn!(
                error,
                "cannot detach the program from an interface that is no longer configured"
            );
        }
        let slots = state.enforcer.attachments().slots();
        state.reports.journal.name_interfaces(slots);
    }

    /// Checks all interfaces, and acts on changes.
    pub fn tend_all(&mut self, state: &mut State) {
        let wanted: Vec<Interface> = self.links.wanted().cloned().collect();
        for interface in &wanted {
            self.tend(state, interface, false);
        }
        self.tended = Some(clock::monotonic());
    }

    /// Checks the interfaces, also missing ones, and the pins: without pins, limits end with the
    /// daemon.
    pub fn tick(&mut self, state: &mut State) {
        self.tend_all(state);
        self.prepare(state);
        tend_pins(state);
        let _ = self.follow_next(state);
    }

    /// Checks the interfaces with [`tend_all`](Self::tend_all), unless that was a moment ago.
    pub fn look(&mut self, state: &mut State) {
        if self
            .tended
            .is_none_or(|tended| clock::elapsed(tended) >= STALE)
        {
            self.tend_all(state);
        }
    }

    /// Loads the program for a missing interface, unless a previous one is still loaded.
    fn prepare(&mut self, state: &mut State) {
        let Some(interface) = self.links.prepare() else {
            return;
        };
        let prepared = state.enforcer.attachments().prepare(&interface);
        let interface = interface.name;
        match prepared {
            Ok(()) => info!(
                interface,
                "interface does not exist yet; its program is loaded in advance"
            ),
            Err(error) => {
                let error = format!("{error:#}");
                warn!(
                    interface,
                    error, "interface does not exist yet; cannot load its program in advance"
                );
            }
        }
    }

    /// Follows the programs newly pinned at the paths of `chain`. If one is gone or cannot be
    /// called, the previous program stays, with a remark on the interface. Returns both as lines.
    pub fn follow_next(&mut self, state: &mut State) -> Vec<String> {
        let Some(stale) = stale_next(state).filter(|stale| !stale.is_empty()) else {
            return Vec::new();
        };
        let wanted: Vec<Interface> = self.links.wanted().cloned().collect();
        let tried: Vec<_> = wanted
            .iter()
            .filter(|it| stale.contains(&it.name))
            .collect();
        for interface in &tried {
            self.tend(state, interface, true);
        }
        let stale = stale_next(state).unwrap_or(stale);
        let told = tried.into_iter().filter_map(|it| {
            let interface = it.name.clone();
            if stale.contains(&interface) {
                let remark = self.remark_of(&interface)?;
                return Some(format!("interface {interface}: {remark}"));
            }
            let next = it.next.as_ref()?;
            let what = format!(
                "passed packets now go to the new program pinned at {}",
                next.display()
            );
            let line = format!("interface {interface}: {what}");
            let mode = self.links.link_state(&interface).and_then(LinkState::mode);
            let event = What::InterfaceAttached {
                mode: mode.unwrap_or_default().to_owned(),
                interface,
                remark: Some(what),
            };
            state.reports.record(event);
            Some(line)
        });
        told.collect()
    }

    /// Replaces the interfaces `before` with those of the configuration, and returns the results as
    /// lines.
    pub fn reattach(
        &mut self,
        state: &mut State,
        before: &[Interface],
        is_wanted_on: bool,
    ) -> Vec<String> {
        if !self.links.are_tended() {
            return Vec::new();
        }
        let wanted = state.intent.config.interfaces.clone();
        let lost_before = self.links.unenforced();
        let remarked: Vec<_> = wanted.iter().map(|it| self.remark_of(&it.name)).collect();
        if is_wanted_on {
            self.links.attach();
        }
        self.links.configure(&wanted);
        let changed = wanted.iter().filter(|it| !before.contains(it));
        for interface in changed {
            self.tend(state, interface, true);
        }
        self.attach_wanted(state, false);
        let followed = self.follow_next(state);
        // Remarks may be about an interface that is no longer configured.
        for interface in &wanted {
            if before.contains(interface) && self.remark_of(&interface.name).is_some() {
                self.tend(state, interface, true);
            }
        }
        let lost = self.links.unenforced();
        let is_lost = |name: &str| lost.iter().any(|it| it.interface == name);
        let again = lost_before.iter().filter(|it| {
            let is_wanted = wanted.iter().any(|wanted| wanted.name == it.interface);
            is_wanted && !is_lost(&it.interface)
        });
        let again = again.map(|it| format!("interface {}: attached again", it.interface));
        let anew = lost.iter().filter(|it| !lost_before.contains(it));
        let anew = anew.map(|it| format!("interface {}: not enforced: {}", it.interface, it.why));
        let remarks = wanted.iter().zip(remarked).filter_map(|(it, before)| {
            let now = self
                .remark_of(&it.name)
                .filter(|now| Some(now) != before.as_ref())?;
            Some(format!("interface {}: {now}", it.name))
        });
        let others = again.chain(anew).chain(remarks);
        let others = others.filter(|line| !followed.contains(line));
        others
            .collect::<Vec<_>>()
            .into_iter()
            .chain(followed)
            .collect()
    }

    fn tend(&mut self, state: &mut State, interface: &Interface, anew: bool) {
        let name = &interface.name;
        let now = clock::monotonic();
        let sight = match state.enforcer.attachments().look(name) {
            Ok(sight) => sight,
            // Without the loader it is unknown, and most likely as before.
            Err(error) if error.is::<Unavailable>() => return,
            Err(error) => return self.note_link_state(state, name, failed(&error)),
        };
        let mut step = self.links.step(name, &sight, now);
        if step == Step::Stay && anew && sight.is_anywhere() {
            step = Step::Attach;
        }
        let taken = Self::take_step(state, interface, step);
        let seen = state.enforcer.attachments().look(name);
        if let Ok(seen) = &seen {
            self.links.note_next(name, seen);
        }
        let reported = match taken {
            Ok(remark) => match seen.as_ref().map(link_state) {
                Ok(link_state @ LinkState::Attached { .. }) if link_state.remark().is_some() => {
                    link_state
                }
                Ok(link_state @ LinkState::Attached { .. }) if step == Step::Stay => {
                    let before = self.remark_of(name);
                    link_state.remarked(before.filter(|before| before != BEHIND_ANOTHER))
                }
                Ok(link_state @ LinkState::Attached { .. }) => link_state.remarked(remark),
                Ok(LinkState::Failed { .. })
                    if step == Step::Stay && !self.links.are_detached() =>
                {
                    return;
                }
                Ok(link_state) => link_state,
                Err(error) => failed(error),
            },
            Err(error) => {
                let seen = seen.unwrap_or_default();
                let still = link_state(&seen);
                let is_behind = seen.program.as_ref().is_some_and(|it| it.is_behind);
                self.links.note_failure(name, seen, now);
                // The interface may have disappeared during the attempt, and the previous program
                // may still run.
                if let LinkState::Failed { .. } = still {
                    failed(&error)
                } else if is_behind {
                    failed(&error.context(
                        "the previous program continues with the previous rules, because it \
                         cannot be replaced",
                    ))
                } else {
                    still.remarked(Some(format!("{error:#}")))
                }
            }
        };
        self.note_link_state(state, name, reported);
    }

    fn take_step(
        state: &mut State,
        interface: &Interface,
        step: Step,
    ) -> anyhow::Result<Option<String>> {
        let datapath = state.enforcer.attachments();
        match step {
            Step::Stay => Ok(None),
            Step::Attach => datapath.attach(interface),
            Step::Move => {
                datapath.take_off(&interface.name)?;
                datapath.attach(interface)
            }
            Step::TakeOff => datapath.take_off(&interface.name).map(|()| None),
        }
    }

    fn remark_of(&self, name: &str) -> Option<String> {
        self.links.link_state(name)?.remark()
    }

    fn note_link_state(&mut self, state: &mut State, name: &str, link_state: LinkState) {
        let at = clock::wall();
        if !self.links.note(name, link_state, at) {
            return;
        }
        state
            .reports
            .journal
            .name_interfaces(state.enforcer.attachments().slots());
        let Some(link_state) = self.links.link_state(name) else {
            return;
        };
        let interface = name.to_owned();
        let what = if let (true, Some(mode)) = (link_state.is_attached(), link_state.mode()) {
            What::InterfaceAttached {
                interface,
                mode: mode.to_owned(),
                remark: link_state.remark(),
            }
        } else {
            let why = link_state.trouble().unwrap_or_default();
            What::InterfaceLost { interface, why }
        };
        state.reports.journal.record_at(at, what);
    }
}

/// Keeps the programs of interfaces that were renamed while no daemon was running. Call it before
/// replacing any program.
pub fn follow_renames(state: &mut State) {
    let interfaces = state.intent.config.interfaces.clone();
    match state.enforcer.attachments().follow(&interfaces) {
        Ok(names) => {
            for (before, interface) in names {
                info!(
                    before,
                    interface, "renamed while no daemon was running; its program stays attached"
                );
            }
        }
        Err(error) => warn!(
            error = format!("{error:#}"),
            "interfaces were renamed while no daemon was running; reattaching their programs"
        ),
    }
}

/// Restores pins that were removed, and reports that until they are in place.
pub fn tend_pins(state: &mut State) {
    let kept = state.enforcer.attachments().keep_pinned();
    let error = kept.as_ref().err();
    let unavailable = error.and_then(|error| error.downcast_ref::<Unavailable>());
    let unavailable = unavailable.map(Unavailable::to_string);
    let is_unknown = unavailable.is_some();
    state.report(LOADER, unavailable);
    if is_unknown {
        return;
    }
    let trouble = match kept {
        Ok(false) => None,
        Ok(true) => Some("pins were removed; creating them again".to_owned()),
        Err(error) => Some(format!(
            "pins are missing and cannot be created; enforcement will end when ratelimitd stops: \
             {error:#}"
        )),
    };
    state.report(PINS, trouble);
}

fn stale_next(state: &mut State) -> Option<Vec<String>> {
    let stale = state.enforcer.attachments().stale_next();
    let told = |error| {
        let error = format!("{error:#}");
        warn!(error, "cannot check whether `chain` was pinned again");
    };
    stale.map_err(told).ok()
}

fn failed(error: &anyhow::Error) -> LinkState {
    LinkState::Failed {
        error: format!("{error:#}"),
    }
}
