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

/// Hides a number's origin from the compiler, in a register: [`core::hint::black_box`] would put it
/// onto the stack.
#[inline(always)]
#[cfg_attr(
    not(target_arch = "bpf"),
    expect(clippy::missing_const_for_fn, reason = "the program has assembly here")
)]
pub fn opaque(number: u64) -> u64 {
    #[cfg(target_arch = "bpf")]
    {
        let mut number = number;
        // SAFETY: a register moved to itself. Without an instruction, two lines of the source would
        // be at the same one, which the kernel refuses.
        unsafe {
            core::arch::asm!(
                "{0} = {0}", inout(reg) number, options(pure, nomem, nostack, preserves_flags),
            );
        }
        number
    }
    #[cfg(not(target_arch = "bpf"))]
    number
}

/// Hides from the compiler what a reference reads, so that it reads it again instead of keeping it
/// on the stack.
#[inline(always)]
#[cfg_attr(
    not(target_arch = "bpf"),
    expect(clippy::missing_const_for_fn, reason = "the program has assembly here")
)]
#[cfg_attr(
    target_arch = "bpf",
    expect(
        clippy::pointers_in_nomem_asm_block,
        reason = "the address is not followed"
    )
)]
pub fn opaque_ref<T>(value: &T) -> &T {
    #[cfg(target_arch = "bpf")]
    {
        let mut pointer = core::ptr::from_ref(value);
        // SAFETY: it is the same reference.
        unsafe {
            core::arch::asm!(
                "{0} = {0}", inout(reg) pointer, options(nomem, nostack, preserves_flags),
            );
            &*pointer
        }
    }
    #[cfg(not(target_arch = "bpf"))]
    value
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
