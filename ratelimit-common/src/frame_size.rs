//! The bytes of a frame, and at TCX the packets that it was merged from, as one number: with a
//! second one, a packet would not fit into the arguments of a subprogram, nor into its stack.
//!
//! The low 17 bits are the bytes, 65,549 at most without BIG TCP. Above them, a code of 7 bits says
//! how many packets it was.

const BYTES_BITS: u32 = 17;
const BYTES_MAX: u32 = (1 << BYTES_BITS) - 1;
/// Up to this many packets the code is their number less one.
const EXACT: u32 = 112;
/// Beyond that it means the next power of two, so that a merged frame is never charged too little.
const POWERS: u32 = EXACT.next_power_of_two();
const CODES: u32 = 128;

/// Whether frames can be several packets: in the program for TCX.
const ARE_MERGED: bool = cfg!(feature = "tcx");

/// The size of a frame of `bytes` bytes that was merged from `packets` packets. At most 128 KiB
/// count.
#[inline(always)]
pub fn merged(bytes: u32, packets: u32) -> u32 {
    let code = if packets <= EXACT {
        packets.saturating_sub(1)
    } else {
        let mut code = EXACT;
        while code < CODES - 1 && at(code) < packets {
            code = code.wrapping_add(1);
        }
        code
    };
    bytes.min(BYTES_MAX) | code.wrapping_shl(BYTES_BITS)
}

/// The packets of a code.
#[inline(always)]
const fn at(code: u32) -> u32 {
    if code < EXACT {
        code.wrapping_add(1)
    } else {
        POWERS.wrapping_shl(code.wrapping_sub(EXACT))
    }
}

/// The bytes of a frame of this size.
#[inline(always)]
pub const fn bytes(size: u32) -> u32 {
    if ARE_MERGED { size & BYTES_MAX } else { size }
}

/// The packets of a frame of this size.
#[inline(always)]
pub const fn packets(size: u32) -> u32 {
    if ARE_MERGED {
        at(size.wrapping_shr(BYTES_BITS) & (CODES - 1))
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merged_frame_keeps_its_bytes_and_counts_for_no_fewer_packets() {
        for packets in 0..=u32::from(u16::MAX) {
            for bytes in [60, 65_549, BYTES_MAX] {
                let size = merged(bytes, packets);
                let counted = at(size >> BYTES_BITS);
                assert_eq!(size & BYTES_MAX, bytes);
                assert!(size < 1 << 24, "{packets}");
                assert!(
                    counted >= packets.max(1) && counted < packets.max(1) * 2,
                    "{packets}"
                );
                assert!(counted == packets.max(1) || packets > EXACT, "{packets}");
            }
        }
        assert_eq!(merged(1 << 20, 1) & BYTES_MAX, BYTES_MAX);
    }
}
