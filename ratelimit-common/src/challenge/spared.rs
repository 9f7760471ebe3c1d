//! Which packets the challenge asks nothing of, whoever sends them.

/// Which packets the challenge asks nothing of, whoever sends them. It stands in the [settings](crate::Settings), so most packets are done with
/// before the rules are looked up. Without it all are judged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Spared(u8);

const SYNS_TO_OTHERS: u8 = 1;
const ACKNOWLEDGEMENTS: u8 = 1 << 1;
const ALL_BUT_TCP: u8 = 1 << 2;

impl Spared {
    /// How many bits it has.
    pub const BITS: u32 = 3;

    /// SYNs to [others](super::Rules::are_of_others) than the destinations that are named, or not.
    #[must_use]
    pub const fn with_syns_to_others(self, are_spared: bool) -> Self {
        self.with(SYNS_TO_OTHERS, are_spared)
    }

    /// Segments besides SYNs and resets, or not.
    #[must_use]
    pub const fn with_acknowledgements(self, are_spared: bool) -> Self {
        self.with(ACKNOWLEDGEMENTS, are_spared)
    }

    /// Packets of other protocols than TCP, or not.
    #[must_use]
    pub const fn with_all_but_tcp(self, are_spared: bool) -> Self {
        self.with(ALL_BUT_TCP, are_spared)
    }

    /// Whether SYNs to others than the destinations that are named are spared.
    #[inline(always)]
    pub const fn syns_to_others(self) -> bool {
        self.0 & SYNS_TO_OTHERS != 0
    }

    /// Whether segments besides SYNs and resets are.
    #[inline(always)]
    pub const fn acknowledgements(self) -> bool {
        self.0 & ACKNOWLEDGEMENTS != 0
    }

    /// Whether packets of other protocols than TCP are.
    #[inline(always)]
    pub const fn all_but_tcp(self) -> bool {
        self.0 & ALL_BUT_TCP != 0
    }

    /// The one with these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    const fn with(self, bit: u8, is_set: bool) -> Self {
        Self(if is_set { self.0 | bit } else { self.0 & !bit })
    }
}
