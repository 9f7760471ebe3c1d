//! Shifts and branches as BPF has them, where LLVM would take more instructions.

/// [`u64::wrapping_shl`]. The instruction reads the low six bits of its operand (RFC 9669, 4.1),
/// which LLVM would mask once more.
#[inline(always)]
#[cfg_attr(
    not(target_arch = "bpf"),
    expect(clippy::missing_const_for_fn, reason = "the program has assembly here")
)]
#[cfg_attr(
    not(target_arch = "bpf"),
    expect(clippy::cast_possible_truncation, reason = "six bits are read")
)]
pub fn shl(value: u64, bits: u64) -> u64 {
    #[cfg(target_arch = "bpf")]
    {
        let mut shifted = value;
        // SAFETY: uses registers only.
        unsafe {
            core::arch::asm!(
                "{0} <<= {1}",
                inout(reg) shifted,
                in(reg) bits,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        shifted
    }
    #[cfg(not(target_arch = "bpf"))]
    value.wrapping_shl(bits as u32)
}

/// Keeps what a rare branch answers out of the usual one: LLVM would put that into a register
/// before it branches.
#[inline(always)]
#[cfg_attr(
    not(target_arch = "bpf"),
    expect(clippy::missing_const_for_fn, reason = "the program has assembly here")
)]
pub fn rare<T>(answer: T) -> T {
    core::hint::cold_path();
    #[cfg(target_arch = "bpf")]
    {
        // SAFETY: a register moved to itself, which has an instruction in the branch.
        unsafe {
            core::arch::asm!(
                "{0} = {0}", inout(reg) 0u64 => _, options(nomem, nostack, preserves_flags),
            );
        }
    }
    answer
}
