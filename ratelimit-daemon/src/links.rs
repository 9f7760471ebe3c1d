//! Decides where the program is attached and detached, and the reported state of each interface.
//! Pure: observations come in, actions come out.
//!
//! The configured name selects the interface. A program whose interface was renamed stays there, so
//! that a rename opens no gap, until another interface has the configured name. A program whose
//! interface moved to another network namespace is detached, because it can no longer be observed.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ratelimit_core::{
    api::{InterfaceStatus, Unenforced},
    config::{Interface, Mode},
};

use crate::clock;
use ratelimit_interface::{AttachMode, InterfaceState};

/// The pause before a retry, unless something changes.
const AGAIN: Duration = Duration::from_secs(1);

/// Observations of a configured interface.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Sight {
    /// The interface of that name.
    pub there: Option<InterfaceState>,
    /// The program that was put on it.
    pub program: Option<Running>,
}

impl Sight {
    /// The program that gets what passes, where ours runs.
    fn next(&self) -> Option<&PathBuf> {
        let program = self.program.as_ref();
        program
            .filter(|program| program.on.is_some())?
            .next
            .as_ref()
    }

    /// Whether there is an interface that the program could be put on, or runs on.
    pub fn is_anywhere(&self) -> bool {
        let program = self.program.as_ref();
        self.there.is_some() || program.is_some_and(|program| program.on.is_some())
    }
}

/// A program of ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Running {
    /// The interface that runs it; `None` where none that is seen does.
    pub on: Option<InterfaceState>,
    /// Whether another program at TCX runs before it.
    pub is_behind_another: bool,
    /// Whether it takes frames of several buffers.
    pub takes_long_frames: bool,
    /// The program that gets what passes, as the configuration names it.
    pub next: Option<PathBuf>,
    /// The pin of the entry for other programs. `None` if one of our links is attached.
    pub entry: Option<PathBuf>,
    /// Whether it has other tables than the current ones, so changes do not reach it.
    pub is_behind: bool,
}

/// The action for an interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// No change.
    Stay,
    /// Attaches the program, replacing our own if it is there.
    Attach,
    /// Detaches the program from where it runs, and attaches it here.
    Move,
    /// Removes the remains of the program.
    TakeOff,
}

/// The reported state of an interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LinkState {
    /// The program runs on it.
    Attached {
        /// The XDP mode.
        mode: AttachMode,
        /// Additional information.
        remark: Option<String>,
    },
    /// The program is pinned for others to call.
    Pinned {
        /// The directory of the entry.
        entry: PathBuf,
        /// Whether any program runs on the interface, which then has to call it.
        has_caller: bool,
        /// The difference from the configuration, if there is one.
        remark: Option<String>,
    },
    /// The program runs on the interface that had its name before.
    Renamed {
        /// Its name.
        to: String,
        /// The XDP mode.
        mode: AttachMode,
    },
    /// There is no such interface.
    Missing,
    /// It could not be put on.
    Failed {
        /// The reason.
        error: String,
    },
    /// Detached by an operator.
    Detached {
        /// The author.
        by: String,
    },
}

/// The longest packet that fits into one buffer with any driver.
pub const MTU_OF_ONE_BUFFER: u32 = 1_500;

/// The remark where another program at TCX was attached before ours.
pub const BEHIND_ANOTHER: &str = "another program at TCX runs first, and packets that it accepts \
                                  are not judged: restart ratelimitd to run before it";

/// Returns the action for the desired and observed state.
pub fn step(wanted: &Interface, sight: &Sight) -> Step {
    let on = sight.program.as_ref().map(|program| program.on.as_ref());
    let program = sight.program.as_ref();
    match (&sight.there, on) {
        (Some(there), Some(Some(on))) if there.index == on.index => {
            if fits(wanted, program, there) {
                Step::Stay
            } else {
                Step::Attach
            }
        }
        (Some(_), Some(Some(_))) => Step::Move,
        (Some(_), Some(None) | None) => Step::Attach,
        (None, Some(Some(_)) | None) => Step::Stay,
        (None, Some(None)) => Step::TakeOff,
    }
}

/// Whether the attached program can handle the traffic. Another mode is not a reason to replace it:
/// the desired mode may have been refused, and a change of the configuration tries again.
fn fits(wanted: &Interface, program: Option<&Running>, there: &InterfaceState) -> bool {
    let is_long = wanted.jumbo || there.mtu > MTU_OF_ONE_BUFFER;
    program.is_none_or(|program| {
        (program.takes_long_frames || !is_long)
            && program.next == wanted.next
            && program.entry.is_some() == (wanted.mode == Mode::Pinned)
    })
}

/// Returns the reported state if no action is needed.
pub fn link_state(sight: &Sight) -> LinkState {
    let program = sight.program.as_ref();
    let on = program.and_then(|program| program.on.as_ref());
    let entry = program.and_then(|program| program.entry.clone());
    let mode = |on: &InterfaceState| on.program.map_or(AttachMode::Generic, |(mode, _)| mode);
    match (&sight.there, on) {
        (Some(there), Some(on)) if there.index == on.index => match entry {
            Some(entry) => LinkState::Pinned {
                entry,
                has_caller: there.program.is_some(),
                remark: None,
            },
            None => LinkState::Attached {
                mode: mode(on),
                remark: program
                    .filter(|program| program.is_behind_another)
                    .map(|_| BEHIND_ANOTHER.to_owned()),
            },
        },
        (_, Some(on)) => LinkState::Renamed {
            to: on.name.clone(),
            mode: mode(on),
        },
        (Some(_), None) => LinkState::Failed {
            error: "its program is gone".to_owned(),
        },
        (None, None) => LinkState::Missing,
    }
}

impl LinkState {
    /// Adds a remark about how it runs, if it does.
    pub fn remarked(mut self, what: Option<String>) -> Self {
        match &mut self {
            Self::Attached { remark, .. } | Self::Pinned { remark, .. } => *remark = what,
            Self::Renamed { .. } | Self::Missing | Self::Failed { .. } | Self::Detached { .. } => {}
        }
        self
    }

    /// Additional information about the attachment.
    pub fn remark(&self) -> Option<String> {
        match self {
            Self::Attached { remark, .. } => remark.clone(),
            Self::Pinned {
                entry,
                has_caller: true,
                remark,
            } => {
                let called = format!(
                    "not attached by ratelimit: the XDP program there has to call {}",
                    entry.display()
                );
                Some(match remark {
                    Some(remark) => format!("{called}; {remark}"),
                    None => called,
                })
            }
            Self::Pinned { .. }
            | Self::Renamed { .. }
            | Self::Missing
            | Self::Failed { .. }
            | Self::Detached { .. } => None,
        }
    }

    /// Whether packets that come to the interface of the configured name are judged.
    pub const fn is_attached(&self) -> bool {
        matches!(
            self,
            Self::Attached { .. }
                | Self::Pinned {
                    has_caller: true,
                    ..
                }
        )
    }

    /// The reason the configuration is not fully enforced; `None` if it is.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Attached { .. }
            | Self::Pinned {
                has_caller: true, ..
            } => None,
            Self::Pinned { entry, .. } => Some(format!(
                "no XDP program runs there that could call ours, which is pinned at {} and not \
                 attached by ratelimit: load one that does, or write `mode = \"auto\"`",
                entry.display()
            )),
            Self::Renamed { to, .. } => Some(format!(
                "interface not found: it was renamed to {to}, which stays protected until another \
                 interface has the configured name"
            )),
            Self::Missing => Some("there is no such interface".to_owned()),
            Self::Failed { error } => Some(error.clone()),
            Self::Detached { by } => Some(format!(
                "{by} detached the program: `rlctl reload` attaches it again"
            )),
        }
    }

    /// The word for where it runs.
    pub const fn mode(&self) -> Option<&'static str> {
        match self {
            Self::Attached { mode, .. } | Self::Renamed { mode, .. } => Some(mode.label()),
            Self::Pinned {
                has_caller: true, ..
            } => Some("pinned"),
            Self::Missing | Self::Failed { .. } | Self::Detached { .. } | Self::Pinned { .. } => {
                None
            }
        }
    }
}

/// The configured interfaces and their states.
#[derive(Clone, Debug, Default)]
pub struct Links {
    links: BTreeMap<String, Link>,
    /// The user who detached everything.
    detached: Option<String>,
}

#[derive(Clone, Debug)]
struct Link {
    wanted: Interface,
    state: Option<LinkState>,
    /// The program that gets what passes.
    next: Option<PathBuf>,
    since: Timestamp,
    /// Whether its program is loaded, or cannot be, while it is not there.
    is_prepared: bool,
    /// The observation and time of the last failure.
    failed: Option<(Sight, Instant)>,
}

impl Links {
    /// Whether there are any.
    pub fn are_tended(&self) -> bool {
        !self.links.is_empty()
    }

    /// Sets the configured interfaces, and ends a detachment by an operator.
    pub fn configure(&mut self, interfaces: &[Interface]) {
        let mut before = std::mem::take(&mut self.links);
        for wanted in interfaces {
            let link = before.remove(&wanted.name);
            let link_state = link.as_ref().and_then(|link| link.state.clone());
            let next = link.as_ref().and_then(|link| link.next.clone());
            let since = link.map_or_else(clock::wall, |link| link.since);
            let link = Link {
                wanted: wanted.clone(),
                state: link_state,
                next,
                since,
                is_prepared: false,
                failed: None,
            };
            self.links.insert(wanted.name.clone(), link);
        }
    }

    /// The interfaces.
    pub fn wanted(&self) -> impl Iterator<Item = &Interface> {
        self.links.values().map(|link| &link.wanted)
    }

    /// An interface that is not there and whose program was not loaded for it yet, which it counts
    /// as from now on.
    pub fn prepare(&mut self) -> Option<Interface> {
        let is_missing = |link: &&mut Link| link.state == Some(LinkState::Missing);
        let mut missing = self.links.values_mut().filter(is_missing);
        let link = missing.find(|link| !link.is_prepared)?;
        link.is_prepared = true;
        Some(link.wanted.clone())
    }

    /// Whether an operator detached all interfaces.
    pub const fn are_detached(&self) -> bool {
        self.detached.is_some()
    }

    /// Ends the detachment.
    pub fn attach(&mut self) {
        self.detached = None;
    }

    /// Detaches all interfaces.
    pub fn detach(&mut self, by: &str) {
        self.detached = Some(by.to_owned());
    }

    /// Returns the action for an interface. A failed action is retried after a change, and after a
    /// second.
    pub fn step(&self, name: &str, sight: &Sight, now: Instant) -> Step {
        let Some(link) = self.links.get(name) else {
            return Step::Stay;
        };
        let waits = link
            .failed
            .as_ref()
            .is_some_and(|(seen, at)| seen == sight && now.saturating_duration_since(*at) < AGAIN);
        if self.detached.is_some() || waits {
            return Step::Stay;
        }
        step(&link.wanted, sight)
    }

    /// Records a failed action and the observation.
    pub fn note_failure(&mut self, name: &str, sight: Sight, now: Instant) {
        if let Some(link) = self.links.get_mut(name) {
            link.failed = Some((sight, now));
        }
    }

    /// Notes which program gets what passes: not the one that is wanted, where that could not be
    /// called.
    pub fn note_next(&mut self, name: &str, sight: &Sight) {
        if let Some(link) = self.links.get_mut(name) {
            link.next = sight.next().cloned();
        }
    }

    /// The interfaces where another program gets what passes, with its path.
    pub fn next_programs(&self) -> impl Iterator<Item = (&String, &PathBuf)> {
        let links = self.links.iter();
        links.filter_map(|(name, link)| Some((name, link.next.as_ref()?)))
    }

    /// Records the state of an interface, and returns whether the change should be reported.
    pub fn note(&mut self, name: &str, link_state: LinkState, at: Timestamp) -> bool {
        let link_state = match &self.detached {
            Some(by) => LinkState::Detached { by: by.clone() },
            None => link_state,
        };
        let Some(link) = self.links.get_mut(name) else {
            return false;
        };
        if link_state.is_attached() {
            link.failed = None;
        }
        if link.state.as_ref() == Some(&link_state) {
            return false;
        }
        link.state = Some(link_state);
        link.since = at;
        true
    }

    /// Returns the state of an interface.
    pub fn link_state(&self, name: &str) -> Option<&LinkState> {
        self.links.get(name)?.state.as_ref()
    }

    /// Returns what is not enforced.
    pub fn unenforced(&self) -> Vec<Unenforced> {
        let links = self.links.iter();
        links
            .filter_map(|(name, link)| {
                Some(Unenforced {
                    interface: name.clone(),
                    why: link.state.as_ref()?.trouble()?,
                    since: link.since,
                })
            })
            .collect()
    }

    /// Whether packets are judged anywhere.
    pub fn enforces_anywhere(&self) -> bool {
        let link_states = self.links.values().filter_map(|link| link.state.as_ref());
        self.links.is_empty() || link_states.into_iter().any(|it| it.mode().is_some())
    }

    /// Returns the statuses for `status`.
    pub fn statuses(&self) -> Vec<InterfaceStatus> {
        self.links.values().map(Link::status).collect()
    }
}

impl Link {
    fn status(&self) -> InterfaceStatus {
        let link_state = self.state.as_ref();
        let renamed_to = match link_state {
            Some(LinkState::Renamed { to, .. }) => Some(to.clone()),
            _ => None,
        };
        InterfaceStatus {
            name: self.wanted.name.clone(),
            attached: link_state.is_some_and(LinkState::is_attached),
            mode_wanted: <&str>::from(self.wanted.mode).to_owned(),
            mode: link_state.and_then(LinkState::mode).map(str::to_owned),
            renamed_to,
            why: link_state.and_then(LinkState::trouble),
            remark: link_state.and_then(LinkState::remark),
            next: self.next.as_ref().map(|next| next.display().to_string()),
            policy: self.wanted.policy.clone(),
            node: self.wanted.node.is_some(),
            observe: self.wanted.observe,
        }
    }
}
