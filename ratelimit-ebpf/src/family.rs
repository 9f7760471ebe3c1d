//! An address family: its maps, its subprograms, and what makes an address a source.

use ratelimit_common::{Ipv4, Ipv6};

use crate::{constant::Constant, subprograms::Subprograms};

/// The bits of an address that make it a source, in network order. Words, as addresses would be read byte by byte.
#[unsafe(no_mangle)]
static SOURCE_MASK_V4: Constant<u32> = Constant::new(u32::MAX);
#[unsafe(no_mangle)]
static SOURCE_MASK_V6: Constant<[u64; 2]> = Constant::new([u64::MAX, 0]);

/// What differs between the families besides their maps and subprograms.
pub trait FamilyCode: Subprograms {
    /// The bits of an address that make it a source.
    fn source_mask() -> Self;
}

impl FamilyCode for Ipv4 {
    #[inline(always)]
    fn source_mask() -> Self {
        Self::new(SOURCE_MASK_V4.get().to_ne_bytes())
    }
}

impl FamilyCode for Ipv6 {
    #[inline(always)]
    fn source_mask() -> Self {
        Self::of_words(SOURCE_MASK_V6.get())
    }
}
