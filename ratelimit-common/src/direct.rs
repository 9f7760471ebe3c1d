//! Maps with one element, which the program reaches by its address: a lookup of the first element
//! of an array takes a dozen instructions, and a branch for the case that it is missing.
//!
//! The program loads a number that marks the map. The loader makes it the address of the element,
//! as the kernel offers it for arrays of one element (`BPF_PSEUDO_MAP_VALUE`, Linux 5.2). A program
//! that was not completed is refused by the verifier, as it reads memory through a number.

/// A map that is reached by the address of its only element.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Direct {
    /// The settings for all packets.
    Settings,
    /// The prefix-length filter of IPv4.
    FilterV4,
    /// Zeros, to insert.
    Empty,
    /// The budgets of bans by policies.
    BanBudgets,
    /// The budget for new sources.
    NewSources,
    /// The used part of the budget for new sources.
    NewSourcesTaken,
    /// The rules of challenges.
    Challenge,
    /// The used part of the challenge's budgets.
    ChallengeTaken,
    /// The filter for captured packets.
    Capture,
    /// The time, in tests.
    ManualClock,
    /// The tunnels that are looked into.
    Tunnels,
}

impl Direct {
    /// The names of the maps, by their numbers.
    pub const NAMES: [&'static str; 11] = [
        "SETTINGS",
        "FILTER_V4",
        "EMPTY",
        "BAN_BUDGETS",
        "NEW_SOURCES",
        "NEW_SOURCES_TAKEN",
        "CHALLENGE",
        "CHALLENGE_TAKEN",
        "CAPTURE",
        "MANUAL_CLOCK",
        "TUNNELS",
    ];
}

/// Marks an address that is to be completed: the upper half of the number that is loaded. The lower
/// half is the number of the map.
const MAGIC: u32 = 0x5ea7_add2;

/// The address of the element of a map.
#[cfg(target_arch = "bpf")]
#[inline(always)]
pub fn address<const MAP: u8>() -> *mut u8 {
    let address: *mut u8;
    // SAFETY: it loads a constant, which is the address of an element.
    unsafe {
        core::arch::asm!(
            "{0} = {1} ll",
            out(reg) address,
            const (MAGIC as i64) << 32 | MAP as i64,
            options(pure, nomem, nostack, preserves_flags),
        );
        core::hint::assert_unchecked(!address.is_null());
    }
    address
}

/// Completes the addresses in the instructions of a program, with the descriptors of the maps by
/// their numbers.
pub fn complete(instructions: &mut [u8], descriptors: &[i32; Direct::NAMES.len()]) {
    const LOAD_64: u8 = 0x18;
    const MAP_VALUE: u8 = 2 << 4;
    for start in (0..instructions.len()).step_by(8) {
        let Some([code, registers, _, _, low @ .., _, _, _, _, a, b, c, d]) =
            instructions.get_mut(start..start.saturating_add(16))
        else {
            continue;
        };
        let (Ok(number), high) = (<[u8; 4]>::try_from(&*low), [*a, *b, *c, *d]) else {
            continue;
        };
        let number = u32::from_le_bytes(number) as usize;
        if *code != LOAD_64 || u32::from_le_bytes(high) != MAGIC {
            continue;
        }
        if let Some(descriptor) = descriptors.get(number) {
            *registers |= MAP_VALUE;
            low.copy_from_slice(&descriptor.to_le_bytes());
            // The element begins where the map's memory does.
            [*a, *b, *c, *d] = [0; 4];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `r3 = MAGIC << 32 | number ll`.
    fn load(number: u8) -> [u8; 16] {
        let [a, b, c, d] = MAGIC.to_le_bytes();
        [0x18, 3, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
    }

    #[test]
    fn a_marked_load_becomes_the_address_of_the_element() {
        let mut instructions = [[0; 16], load(Direct::Empty as u8)].concat();
        let mut descriptors = [0; Direct::NAMES.len()];
        descriptors[Direct::Empty as usize] = 0x1234;
        complete(&mut instructions, &descriptors);
        let completed = [0x18, 0x23, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(instructions, [[0; 16], completed].concat());
    }

    #[test]
    fn other_loads_stay_as_they_are() {
        let unknown = u8::try_from(Direct::NAMES.len()).unwrap();
        let mut other = load(unknown);
        let unmarked = [0x18, 3, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        complete(&mut other, &[7; Direct::NAMES.len()]);
        assert_eq!(other, load(unknown));
        let mut instructions = unmarked;
        complete(&mut instructions, &[7; Direct::NAMES.len()]);
        assert_eq!(instructions, unmarked);
    }
}
