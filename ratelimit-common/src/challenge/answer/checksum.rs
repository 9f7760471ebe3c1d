//! The checksum of the internet (RFC 1071).

/// The sum of the 2-byte words of a few bytes.
#[inline(always)]
pub fn sum<const N: usize>(bytes: &[u8; N]) -> u32 {
    let (words, _) = bytes.as_chunks::<2>();
    let words = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)));
    words.fold(0, u32::wrapping_add)
}

/// The checksum for this sum.
#[inline(always)]
pub const fn of(sum: u32) -> [u8; 2] {
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    (!(sum as u16)).to_be_bytes()
}
