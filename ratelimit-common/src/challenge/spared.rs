//! Which packets the challenge asks nothing of, whoever sends them.

/// Which packets the challenge asks nothing of, whoever sends them. It stands in the [settings](crate::Settings), so most packets are done with
/// before the rules are looked up. Without it all are judged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Spared(u8);

const SYNS_TO_OTHERS: u8 = 1;
const ACKNOWLEDGEMENTS: u8 = 1 << 1;
const ALL_BUT_TCP: u8 = 1 << 2;

impl Spared {
    /// None.
    pub const NONE: Self = Self(0);

    /// How many bits it has.
    pub const BITS: u32 = 3;

    /// Whether SYNs to [others](super::Rules::are_of_others) than the destinations that are named are spared, segments besides SYNs and
    /// resets, and packets of other protocols than TCP.
    pub const fn new(syns_to_others: bool, acknowledgements: bool, all_but_tcp: bool) -> Self {
        Self(
            if syns_to_others { SYNS_TO_OTHERS } else { 0 }
                | if acknowledgements {
                    ACKNOWLEDGEMENTS
                } else {
                    0
                }
                | if all_but_tcp { ALL_BUT_TCP } else { 0 },
        )
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
}
