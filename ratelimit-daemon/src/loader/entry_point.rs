//! The programs of the object, of which an interface runs one.

use ratelimit_common::layout::{PROGRAM, PROGRAM_FRAGS, PROGRAM_TCX};

/// An entry point of the object.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EntryPoint {
    /// XDP, for frames that fit into one buffer.
    #[default]
    Xdp,
    /// XDP, for frames that may take several.
    XdpFrags,
    /// TCX, for all frames.
    Tcx,
}

impl EntryPoint {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Xdp, Self::XdpFrags, Self::Tcx];

    /// The name of the program.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp => PROGRAM,
            Self::XdpFrags => PROGRAM_FRAGS,
            Self::Tcx => PROGRAM_TCX,
        }
    }

    /// Its letter in the name of a pin, behind the slot.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Xdp => "",
            Self::XdpFrags => "f",
            Self::Tcx => "t",
        }
    }

    /// Whether it takes frames of several buffers.
    pub const fn takes_long_frames(self) -> bool {
        !matches!(self, Self::Xdp)
    }

    /// Whether it is that of TCX.
    pub const fn is_tcx(self) -> bool {
        matches!(self, Self::Tcx)
    }
}
