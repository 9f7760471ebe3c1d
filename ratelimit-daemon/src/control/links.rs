//! The interfaces: what is to be done about each of them (`links.rs`) is done, and told once in a line of the log and an event.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use ratelimit_core::{
    api::{Unenforced, What},
    config::Interface,
};
use tracing::{info, warn};

use super::{controller::Controller, troubles::Loudness};
use crate::links::{Standing, Step, standing};

/// What does not work where pins are gone.
pub const PINS: &str = "pins";
/// How long a look at the interfaces is good for those who ask: less than it takes to start `rlctl` after a change, and yet thousands of
/// commands a second do not look each time.
const STALE: Duration = Duration::from_millis(2);

impl Controller {
    /// Puts the programs on their interfaces, as far as they are there: the tables are filled. Those that are not configured any
    /// more are let go.
    pub fn attach(&mut self) {
        let interfaces = self.state.intent.config.interfaces.clone();
        self.links.configure(&interfaces);
        match self.state.enforcer.datapath_mut().follow(&interfaces) {
            Ok(names) => {
                for (before, interface) in names {
                    info!(
                        before,
                        interface, "renamed while no daemon ran: its program goes on"
                    );
                }
            }
            Err(error) => warn!(
                error = format!("{error:#}"),
                "interfaces were renamed while no daemon ran, and lose their programs for a moment"
            ),
        }
        self.attach_wanted(true);
    }

    /// Puts the program on all interfaces, also in place of one of ours that runs there, where `anew` says so; and takes it off
    /// the others.
    pub(super) fn attach_wanted(&mut self, anew: bool) {
        let wanted: Vec<Interface> = self.links.wanted().cloned().collect();
        for interface in &wanted {
            self.tend(interface, anew);
        }
        if let Err(error) = self.state.enforcer.datapath_mut().keep_only(&wanted) {
            let error = format!("{error:#}");
            warn!(
                error,
                "the program stays on an interface that is not configured"
            );
        }
        let slots = self.state.enforcer.datapath().slots();
        self.state.journal.name_interfaces(slots);
    }

    /// Looks at all interfaces, and does what is to be done.
    pub fn tend_links(&mut self) {
        let wanted: Vec<Interface> = self.links.wanted().cloned().collect();
        for interface in &wanted {
            self.tend(interface, false);
        }
        self.tended = Instant::now();
    }

    /// The same, unless that was a moment ago.
    pub fn look_at_links(&mut self) {
        if self.tended.elapsed() >= STALE {
            self.tend_links();
        }
    }

    /// Looks at the interfaces, and at the pins: without them nothing goes on when the daemon ends.
    pub(super) fn tick_links(&mut self) {
        self.tend_links();
        self.tend_pins();
    }

    /// Makes the pins again that somebody has removed, and says so until they are seen to be there.
    pub fn tend_pins(&mut self) {
        let trouble = match self.state.enforcer.datapath_mut().keep_pinned() {
            Ok(false) => None,
            Ok(true) => Some("somebody removed pins, and they are made again".to_owned()),
            Err(error) => Some(format!(
                "pins are gone and cannot be made again, so nothing is enforced when ratelimitd ends: {error:#}"
            )),
        };
        self.note_trouble(PINS, Loudness::Error, trouble);
    }

    /// Takes the interfaces of the configuration in place of those `before`, and answers what came of it, a line each.
    pub(super) fn reattach(&mut self, before: &[Interface]) -> Vec<String> {
        if !self.links.are_tended() {
            return Vec::new();
        }
        let wanted = self.state.intent.config.interfaces.clone();
        let lost_before = self.links.unenforced();
        self.links.configure(&wanted);
        let changed = wanted.iter().filter(|it| !before.contains(it));
        for interface in changed {
            self.tend(interface, true);
        }
        self.attach_wanted(false);
        let lost = self.links.unenforced();
        let is_lost = |name: &str| lost.iter().any(|it| it.interface == name);
        let again = lost_before.iter().filter(|it| {
            let is_wanted = wanted.iter().any(|wanted| wanted.name == it.interface);
            is_wanted && !is_lost(&it.interface)
        });
        let again = again.map(|it| format!("interface {}: attached again", it.interface));
        let anew = lost.iter().filter(|it| !lost_before.contains(it));
        let anew = anew.map(|it| format!("interface {}: not enforced: {}", it.interface, it.why));
        again.chain(anew).collect()
    }

    /// What is not enforced, as it was seen last.
    #[must_use]
    pub fn unenforced(&self) -> Vec<Unenforced> {
        self.links.unenforced()
    }

    /// Whether packets are judged on any interface.
    #[must_use]
    pub fn enforces_anywhere(&self) -> bool {
        self.links.enforces_anywhere()
    }

    fn tend(&mut self, interface: &Interface, anew: bool) {
        let name = &interface.name;
        let now = Instant::now();
        let sight = match self.state.enforcer.datapath().look(name) {
            Ok(sight) => sight,
            Err(error) => return self.note_standing(name, failed(&error)),
        };
        let step = match self.links.step(name, &sight, now) {
            Step::Stay if anew && sight.is_anywhere() => Step::Attach,
            step => step,
        };
        let told = match self.take_step(interface, step) {
            Ok(remark) => match (
                self.state
                    .enforcer
                    .datapath()
                    .look(name)
                    .as_ref()
                    .map(standing),
                remark,
            ) {
                (Ok(Standing::Attached { mode, .. }), Some(remark)) if step != Step::Stay => {
                    Standing::Attached {
                        mode,
                        remark: Some(remark),
                    }
                }
                (Ok(Standing::Attached { mode, .. }), _) => Standing::Attached {
                    mode,
                    remark: self.remark_of(name).filter(|_| step == Step::Stay),
                },
                (Ok(Standing::Failed { .. }), _)
                    if step == Step::Stay && !self.links.are_detached() =>
                {
                    return;
                }
                (Ok(standing), _) => standing,
                (Err(error), _) => failed(error),
            },
            Err(error) => {
                let seen = self
                    .state
                    .enforcer
                    .datapath()
                    .look(name)
                    .unwrap_or_default();
                let still = standing(&seen);
                self.links.note_failure(name, seen, now);
                // It may have gone while it was tried, and what ran before may run on.
                match still {
                    Standing::Failed { .. } => failed(&error),
                    Standing::Attached { mode, .. } => Standing::Attached {
                        mode,
                        remark: Some(format!("{error:#}")),
                    },
                    still => still,
                }
            }
        };
        self.note_standing(name, told);
    }

    fn take_step(&mut self, interface: &Interface, step: Step) -> anyhow::Result<Option<String>> {
        let datapath = self.state.enforcer.datapath_mut();
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
        match self.links.standing(name)? {
            Standing::Attached { remark, .. } => remark.clone(),
            _ => None,
        }
    }

    fn note_standing(&mut self, name: &str, standing: Standing) {
        let at = Timestamp::now();
        if !self.links.note(name, standing, at) {
            return;
        }
        let Some(standing) = self.links.standing(name) else {
            return;
        };
        let interface = name.to_owned();
        let what = match standing {
            Standing::Attached { mode, remark } => {
                let mode = mode.label();
                info!(interface, mode, "attached");
                if let Some(remark) = remark {
                    warn!(interface, "{remark}");
                }
                What::InterfaceAttached {
                    interface,
                    mode: mode.to_owned(),
                    remark: remark.clone(),
                }
            }
            standing => {
                let why = standing.trouble().unwrap_or_default();
                warn!(interface, why, "not enforced there");
                What::InterfaceLost { interface, why }
            }
        };
        self.state.journal.record(at, what);
    }
}

fn failed(error: &anyhow::Error) -> Standing {
    Standing::Failed {
        error: format!("{error:#}"),
    }
}
