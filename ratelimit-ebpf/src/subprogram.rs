//! Subprograms of the program.
//!
//! A function that BTF marks as global is verified separately, once, and not along every path that
//! leads to it (kernel commit 51c39bb1d5d1). Its memory is described by the types of its arguments
//! (commit e5069b9c23b3), which may be null. And it has its own stack frame. It takes at most five
//! numbers and returns one: [`Register`] converts values to numbers and back.

/// Defines functions whose bodies are subprograms: `fn name(arguments) -> Answer { body }`.
///
/// - `fn name[name_v4, name_v6]<A>(...)` has a subprogram for each address family, as BTF knows no
///   type parameters. In its body `A` is the family.
/// - A body reads all of its arguments: one that nothing reads would be a register that nothing has
///   written, which the verifier refuses.
/// - `(...; arrival)` has a last argument, `arrival: &Arrival`, that takes two of the five.
macro_rules! subprograms {
    ($(
        $(#[$doc:meta])*
        $visibility:vis fn $name:ident $([$v4:ident, $v6:ident]<$A:ident>)? (
            $($arguments:tt)*
        ) $(-> $answer:ty)? $body:block
    )+) => {$(
        subprogram! {
            $(#[$doc])*
            $visibility fn $name $([$v4, $v6]<$A>)? ($($arguments)*) $(-> $answer)? $body
        }
    )+};
}

/// One of them.
macro_rules! subprogram {
    (
        $(#[$doc:meta])*
        $visibility:vis fn $name:ident $([$v4:ident, $v6:ident]<$A:ident>)? (
            $($argument:ident: $type:ty),* $(,)?; $arrival:ident
        ) $(-> $answer:ty)? $body:block
    ) => {
        $(#[$doc])*
        #[inline(always)]
        $visibility fn $name$(<$A: $crate::maps::FamilyMaps>)?(
            $($argument: $type,)*
            $arrival: &ratelimit_common::Arrival,
        ) $(-> $answer)? {
            subprogram!(
                fn $name $([$v4, $v6]<$A>)? (
                    $($argument: $type,)*
                    at: ratelimit_common::Instant,
                    packet: $crate::subprogram::Packet,
                ) $(-> $answer)? {
                    let $arrival = &packet.arrived(at);
                    $body
                }
            );
            $name$(::<$A>)?(
                $($argument,)*
                $arrival.at,
                $crate::subprogram::Packet::of($arrival),
            )
        }
    };
    (
        $(#[$doc:meta])*
        $visibility:vis fn $name:ident(
            $($argument:ident: $type:ty),* $(,)?
        ) $(-> $answer:ty)? $body:block
    ) => {
        $(#[$doc])*
        #[inline(always)]
        $visibility fn $name($($argument: $type),*) $(-> $answer)? {
            subprogram!(@define $name, ($($argument: $type),*), ($($answer)?), $body);
            $crate::subprogram::answer($name($($crate::subprogram::Register::pack($argument)),*))
        }
    };
    (
        $(#[$doc:meta])*
        $visibility:vis fn $name:ident[$v4:ident, $v6:ident]<$A:ident>(
            $($argument:ident: $type:ty),* $(,)?
        ) $(-> $answer:ty)? $body:block
    ) => {
        $(#[$doc])*
        #[inline(always)]
        $visibility fn $name<$A: $crate::maps::FamilyMaps>($($argument: $type),*) $(-> $answer)? {
            mod $v4 {
                #[allow(unused_imports, reason = "few bodies need it")]
                use ratelimit_common::Address as _;

                use super::*;

                type $A = ratelimit_common::Ipv4;
                subprogram!(@define $v4, ($($argument: $type),*), ($($answer)?), $body);
            }
            mod $v6 {
                #[allow(unused_imports, reason = "few bodies need it")]
                use ratelimit_common::Address as _;

                use super::*;

                type $A = ratelimit_common::Ipv6;
                subprogram!(@define $v6, ($($argument: $type),*), ($($answer)?), $body);
            }
            let subprogram = match $A::FAMILY {
                ratelimit_common::Family::Ipv6 => $v6::$v6 as *const (),
                _ => $v4::$v4 as *const (),
            };
            // SAFETY: it is that of the family, with the arguments of this function.
            let subprogram: extern "C" fn(
                $(<$type as $crate::subprogram::Register>::Raw),*
            ) -> u64 = unsafe { core::mem::transmute(subprogram) };
            let answer = subprogram($($crate::subprogram::Register::pack($argument)),*);
            $crate::subprogram::answer(answer)
        }
    };
    (@define $name:ident, ($($argument:ident: $type:ty),*), ($($answer:ty)?), $body:block) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $name(
            $($argument: <$type as $crate::subprogram::Register>::Raw),*
        ) -> u64 {
            #[inline(always)]
            fn body($($argument: $type),*) $(-> $answer)? $body
            type SubprogramAnswer = subprogram!(@type $($answer)?);
            $(
                // SAFETY: the verifier holds callers to memory of these types, or null.
                let $argument = unsafe { $crate::subprogram::Register::unpack($argument) };
                let Some($argument) = $argument else {
                    return <SubprogramAnswer as $crate::subprogram::Register>::NOTHING;
                };
            )*
            $crate::subprogram::Register::pack(body($($argument),*))
        }
    };
    (@type) => { () };
    (@type $answer:ty) => { $answer };
}

mod register;

use core::{arch::asm, ops::Deref};

pub use ratelimit_common::bits::{opaque, opaque_ref};
use ratelimit_common::{Arrival, ClassSet, Instant, Settings};

pub use self::register::Register;

/// The settings of a packet are above its size, and its classes above them.
const SETTINGS_SHIFT: u32 = 24;
const CLASSES_SHIFT: u32 = 32;

/// No buffer is as long.
const BYTES: u32 = (1 << SETTINGS_SHIFT) - 1;

/// An [`Arrival`] without its time in one argument: the size of a packet, the flags for limits, and
/// its classes.
#[derive(Clone, Copy)]
pub struct Packet(u64);

impl Packet {
    #[inline(always)]
    pub fn of(arrival: &Arrival) -> Self {
        Self(
            u64::from(arrival.classes.bits()) << CLASSES_SHIFT
                | u64::from(arrival.settings.of_limits()) << SETTINGS_SHIFT
                | u64::from(arrival.bytes & BYTES),
        )
    }

    #[inline(always)]
    pub fn arrived(self, at: Instant) -> Arrival {
        Arrival {
            at,
            bytes: self.0 as u32 & BYTES,
            classes: ClassSet::from_bits((self.0 >> CLASSES_SHIFT) as u32),
            settings: Settings::from_limits((self.0 >> SETTINGS_SHIFT) as u8),
        }
    }
}

/// The result of a subprogram. Opaque: the verifier does not look from one subprogram into another,
/// and the compiler would remove comparisons that the verifier needs.
#[inline(always)]
pub fn answer<T: Register<Raw = u64>>(answer: u64) -> T {
    // SAFETY: the number was packed from a valid value.
    unsafe { T::unpack(opaque(answer)).unwrap_unchecked() }
}

/// Hides from the compiler where a pointer comes from.
#[inline(always)]
#[expect(
    clippy::pointers_in_nomem_asm_block,
    reason = "nothing is read or written by way of it there"
)]
pub fn opaque_pointer<T>(mut pointer: *mut T) -> *mut T {
    // SAFETY: a register moved to itself.
    unsafe {
        asm!("{0} = {0}", inout(reg) pointer, options(pure, nomem, nostack, preserves_flags));
    }
    pointer
}

/// Returns the same number, and makes the verifier forget what it knows about it: two exclusive ors
/// with a time that it does not know. Otherwise it follows every outcome to the end of the program,
/// and kernel 6.1 gives up.
#[inline(always)]
pub fn without_bounds(mut number: u64, time: Instant) -> u64 {
    // SAFETY: registers alone.
    unsafe {
        asm!(
            "{0} ^= {1}",
            "{0} ^= {1}",
            inout(reg) number,
            in(reg) time.as_nanos(),
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    number
}

/// A key on the stack of the subprogram: kernel 6.1 takes no key of a map from the memory of an
/// argument. Aligned, as the verifier takes no word at another address of the stack.
#[repr(align(8))]
pub struct OnStack<K>(K);

#[inline(always)]
pub fn on_stack<K: Copy>(key: &K) -> OnStack<K> {
    OnStack(*key)
}

impl<K> Deref for OnStack<K> {
    type Target = K;

    /// Opaque, as the compiler would take the memory that was copied instead of the copy.
    #[inline(always)]
    fn deref(&self) -> &K {
        opaque_ref(&self.0)
    }
}
