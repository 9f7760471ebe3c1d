//! The privileged operations: creating maps, and attaching the program to interfaces. There are few
//! typed requests, without access to the configuration.
//!
//! [`Local`] executes them in the process that [`start`] creates before any input is read;
//! [`Remote`] sends them there.

mod attachment;
mod compact;
mod dead_calls;
mod entry;
mod entry_point;
mod foreign;
mod load;
mod local;
mod logs;
mod map_names;
mod memory_check;
mod next;
mod object;
mod pins;
mod process;
mod program_log;
mod realtime;
mod remote;
mod request;
mod resized_maps;
mod serve;
mod socket;
mod tcx;

use std::{
    collections::BTreeMap,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

pub use compact::TABLES;
#[cfg(any(test, feature = "memory"))]
pub use load::{SAMPLED, resize};
pub use load::{pass_verifier, samples};
pub use local::Local;
pub use map_names::{REFUSED_MAPS, SOURCE_MAPS};
pub use object::{ENTRY, LEAN_OBJECT, OBJECT, TCX_OBJECT, specialised};
pub use pins::{Pins, is_shared};
pub use process::{Process, start};
use ratelimit_common::features::Features;
use ratelimit_core::{config::Mode, log_size::LogSize};
pub use remote::{Remote, Unavailable};
pub use resized_maps::replaced_names;
use serde::{Deserialize, Serialize};
pub use serve::serve;
pub use socket::Socket;

use ratelimit_interface::AttachMode;

/// Creates maps, and attaches the program to interfaces. Pinned objects are adopted if they fit.
pub trait Loader: Send {
    /// Opens `pins`, a directory on a bpffs, where everything is pinned from then on, and returns
    /// its contents.
    fn open(&mut self, pins: &Path) -> anyhow::Result<Pinned>;

    /// Returns the maps of this plan. Pinned maps that do not fit are created again; attached
    /// programs keep the old ones until they are replaced.
    fn open_maps(&mut self, plan: &MapPlan) -> anyhow::Result<Descriptors>;

    /// Has the pinned links of interfaces, by the names before, count for others from here on: they
    /// were renamed. All at once, as two may have changed their names.
    fn rename(&mut self, names: &BTreeMap<String, String>) -> anyhow::Result<()>;

    /// Loads the program for an interface that is not there, so that it does not wait for the
    /// verifier when it comes.
    ///
    /// # Errors
    ///
    /// When the verifier refuses it.
    fn prepare(&mut self, plan: &InterfacePlan) -> anyhow::Result<()>;

    /// Attaches the program, with the maps that were opened last, to an interface, or, if no
    /// interface has this name, to the one with its pinned link. A program on that link is replaced
    /// without a gap; otherwise a new link is created.
    ///
    /// # Errors
    ///
    /// If the interface does not exist, has a foreign program, or its driver refuses.
    fn attach(&mut self, plan: &InterfacePlan) -> anyhow::Result<Attachment>;

    /// Restores removed pins of maps and links, and returns whether any were missing.
    fn keep_pinned(&mut self) -> anyhow::Result<bool>;

    /// Returns where the interface with an index runs a program at TCX, which only this process may
    /// ask; `None` if it does not.
    fn place_at_tcx(&mut self, interface: u32, program: u32) -> anyhow::Result<Option<Place>>;

    /// Returns the interfaces whose program calls another program than the one pinned at the path
    /// in `chain`, also if none is pinned there.
    fn stale_next(&mut self) -> anyhow::Result<Vec<String>>;

    /// Lets go of the maps whose records were carried over to larger or smaller ones.
    fn forget_replaced(&mut self) -> anyhow::Result<()>;

    /// Waits for a request on this socket, and forwards logs of programs in the meantime.
    fn wait(&mut self, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Detaches the program from an interface; `false` if none of ours is pinned for it.
    fn detach(&mut self, interface: &str) -> anyhow::Result<bool>;

    /// Takes the program off all interfaces, which it answers, and removes the pins of the maps.
    fn detach_all(&mut self) -> anyhow::Result<Vec<String>>;
}

/// Maps by their names.
pub type Descriptors = BTreeMap<String, OwnedFd>;

/// The pinned objects.
#[derive(Debug, Default)]
pub struct Pinned {
    /// The links.
    pub links: Vec<PinnedLink>,
    /// Capacity of the sliding logs.
    pub logs: Option<LogSize>,
    /// The words of a record of the store `lru`.
    pub record_words: Option<u32>,
    /// The table of the store `compact`.
    pub table: Option<PinnedTable>,
    /// Whether a link is of another layout, so that its tables are not taken over.
    pub has_other_layout: bool,
}

/// A link that is pinned.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedLink {
    /// The name that its interface had.
    pub interface: String,
    /// The slot of that in the counters.
    pub slot: u32,
    /// The number of its program.
    pub program: u32,
    /// The index of the interface that runs it; `None` when none does.
    pub on: Option<u32>,
    /// Whether that is at TCX.
    pub is_at_tcx: bool,
    /// Whether that takes frames of several buffers.
    pub takes_long_frames: bool,
}

/// The place of a program at TCX.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// It gets all packets.
    First,
    /// It gets what a program before it leaves to the next.
    Behind,
}

/// A table of the store `compact`.
#[derive(Debug)]
pub struct PinnedTable {
    /// The sets of each family.
    pub sets: u32,
    /// The map of the policies, which name regions of it.
    pub policies: OwnedFd,
}

/// The sizes of the maps that depend on the configuration.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// The sliding logs.
    pub logs: LogSize,
    /// The sets of a `compact` table; `None` where the store is `lru`.
    pub sets: Option<u32>,
    /// The words of a record of the store `lru`, a power of two.
    pub words: u32,
}

/// The desired maps.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MapPlan {
    /// Leading bits of an IPv4 source, 1 to 32.
    pub ipv4_prefix: u8,
    /// Leading bits of an IPv6 source, 1 to 128.
    pub ipv6_prefix: u8,
    /// Sources of each family.
    pub capacity: u32,
    /// The sliding logs, and the table of the store `compact`.
    pub sizes: Sizes,
    /// CPUs that there may be.
    pub cpus: u32,
}

/// The desired program of an interface.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InterfacePlan {
    /// The name of the interface.
    pub name: String,
    /// Slot of its counters.
    pub slot: u32,
    /// The mode of attachment.
    pub mode: Mode,
    /// Whether there may be jumbo frames although its MTU does not say so yet.
    pub jumbo: bool,
    /// The pin of the program that receives passed packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<PathBuf>,
    /// Whether the program calls what its predecessor called if the one at `next` cannot be called.
    #[serde(default)]
    pub keeps_next: bool,
    /// The number of the features of the configuration.
    pub features: u64,
}

impl InterfacePlan {
    /// The features of the configuration, which the program is specialised for.
    pub const fn features(&self) -> Features {
        Features::from_bits(self.features)
    }
}

/// A program on an interface.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// Mode of attachment; `None` if a foreign program calls it.
    pub mode: Option<AttachMode>,
    /// The pin for that program.
    pub entry: Option<PathBuf>,
    /// The ID of the program.
    pub program: u32,
    /// The pin of the program that receives passed packets, if it is known.
    pub next: Option<PathBuf>,
    /// The difference from the configuration, if there is one.
    pub remark: Option<String>,
}
