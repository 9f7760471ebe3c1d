//! An address family: its maps, its subprograms, and what makes an address a source.

use ratelimit_common::{Ipv4, Ipv6};

use crate::{constant::Constant, subprograms::Subprograms};

/// The bits of an address that make it a source.
#[unsafe(no_mangle)]
static SOURCE_MASK_V4: Constant<Ipv4> = Constant::new(Ipv4::new([0xff; 4]));
#[unsafe(no_mangle)]
static SOURCE_MASK_V6: Constant<Ipv6> = Constant::new(Ipv6::new([
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0,
]));

/// What differs between the families besides their maps and subprograms.
pub trait FamilyCode: Subprograms {
    /// The bits of an address that make it a source.
    fn source_mask() -> Self;
}

impl FamilyCode for Ipv4 {
    #[inline(always)]
    fn source_mask() -> Self {
        SOURCE_MASK_V4.get()
    }
}

impl FamilyCode for Ipv6 {
    #[inline(always)]
    fn source_mask() -> Self {
        SOURCE_MASK_V6.get()
    }
}
