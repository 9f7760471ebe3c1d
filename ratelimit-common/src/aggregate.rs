//! Limits of the wider prefixes around a source, so that a flood that is spread over a subnet is
//! limited as one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Wider prefixes around a source that can have limits of their own.
pub const LEVELS_MAX: usize = 2;

/// The wider prefixes of one address family, and the policy of each.
///
/// One word, so that a change is seen whole or not at all.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C, align(8))]
pub struct Aggregates {
    policies: [u16; LEVELS_MAX],
    prefixes: [u8; LEVELS_MAX],
    len: u16,
}
const _: () = assert!(size_of::<Aggregates>() == 8);

/// One wider prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Aggregate {
    /// The bits of an address that make the prefix.
    pub prefix: u8,
    /// The index of its policy.
    pub policy: u16,
}

impl Aggregates {
    /// These prefixes; `None` when there are more than [`LEVELS_MAX`].
    pub fn new(levels: &[Aggregate]) -> Option<Self> {
        let mut aggregates = Self {
            len: u16::try_from(levels.len()).ok()?,
            ..Self::default()
        };
        for (index, level) in levels.iter().enumerate() {
            *aggregates.policies.get_mut(index)? = level.policy;
            *aggregates.prefixes.get_mut(index)? = level.prefix;
        }
        Some(aggregates)
    }

    /// The prefix at `index`; `None` past the last.
    ///
    /// Each is named by a constant. The verifier of kernel 6.1 learns nothing about `index` when it
    /// is compared with `len`, and takes no address on the stack that it cannot bound.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<Aggregate> {
        if index >= usize::from(self.len) {
            return None;
        }
        let (prefix, policy) = match index {
            0 => (self.prefixes[0], self.policies[0]),
            1 => (self.prefixes[1], self.policies[1]),
            _ => return None,
        };
        Some(Aggregate { prefix, policy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_were_given() {
        let levels = [(56, 3), (48, 4)].map(|(prefix, policy)| Aggregate { prefix, policy });
        for count in 0..=LEVELS_MAX {
            let aggregates = Aggregates::new(&levels[..count]).unwrap();
            for (index, level) in levels.iter().enumerate() {
                assert_eq!(aggregates.get(index), (index < count).then_some(*level));
            }
        }
        assert_eq!(Aggregates::new(&[levels[0]; 3]), None);
    }
}
