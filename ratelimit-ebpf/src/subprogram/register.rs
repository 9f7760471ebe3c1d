//! The arguments and results of subprograms: numbers, and pointers to memory whose type the
//! verifier knows.

use core::ptr;

use ratelimit_common::{
    ClassSet, DropReason, Evidence, Instant, Settings,
    ban_budget::Slot,
    challenge::{
        self, Shared,
        answer::ListenerCookie,
        options::{Request, Written},
    },
    charge::Outcome,
    classify::{self, Classified},
    compact::{self, SLOTS, Set},
    generation::Generation,
    lease::Demanded,
    list::Listed,
    new_sources::Newcomer,
    parse::{Inner, Wanted, ipv6::Walk, transport::UpperLayer},
    sample::Socket,
};

use super::Packet;
use crate::{
    compact::MapSet,
    frame::Context,
    limit_words::LogBits,
    map_words::{MapWord, RecordWords},
    maps::BanWords,
    policy_ban::BanRing,
    strikes::StrikeBits,
};

/// A value that is passed to a subprogram, or answered by one.
pub trait Register: Sized {
    /// The type that the verifier sees.
    type Raw;

    /// The result of a subprogram for a null pointer. That never happens, but the verifier requires
    /// the check.
    const NOTHING: u64 = 0;

    fn pack(self) -> Self::Raw;

    /// The value that was packed; `None` of a null pointer. A number always has one.
    ///
    /// # Safety
    ///
    /// A pointer is null or points to memory of its type.
    unsafe fn unpack(raw: Self::Raw) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty: $pack:expr, $unpack:expr $(, $nothing:expr)?;)+) => {$(
        impl Register for $type {
            type Raw = u64;
            $(const NOTHING: u64 = $nothing;)?

            #[inline(always)]
            fn pack(self) -> u64 {
                let pack: fn(Self) -> u64 = $pack;
                pack(self)
            }

            #[inline(always)]
            unsafe fn unpack(raw: u64) -> Option<Self> {
                let unpack: fn(u64) -> Self = $unpack;
                Some(unpack(raw))
            }
        }
    )+};
}

/// Above the upper layer: all extension headers were looked through.
const COMPLETE: u64 = 1 << 32;

/// Above the bits of an outcome: there is none.
const NO_OUTCOME: u64 = 1 << 63;

/// Above the bytes and the sum of options: they are written.
const WRITTEN: u64 = 1 << 63;

/// A place: its slot above the outcome, and above that whether it was claimed.
const SLOT_SHIFT: u32 = 32;
const NEW: u64 = 1 << 40;

numbers! {
    (): |()| 0, |_| ();
    bool: u64::from, |raw| raw != 0;
    u8: u64::from, |raw| raw as u8;
    u16: u64::from, |raw| raw as u16;
    u32: u64::from, |raw| raw as u32;
    u64: |it| it, |raw| raw;
    usize: |it| it as u64, |raw| raw as usize;
    [u8; 2]: |it| u16::from_ne_bytes(it).into(), |raw| (raw as u16).to_ne_bytes();
    Option<bool>: |it| it.map_or(2, u64::from), |raw| (raw < 2).then_some(raw == 1);
    // No length is 0.
    Option<u16>: |it| it.map_or(0, u64::from), |raw| (raw as u16 != 0).then_some(raw as u16);
    Instant: Instant::as_nanos, Instant::from_nanos;
    Packet: |it| it.0, Packet;
    Outcome: |it| it.to_bits().into(), |raw| Outcome::from_bits(raw as u32),
        Outcome::refused(DropReason::NoState, 0).to_bits() as u64;
    Option<Outcome>: |it| it.map_or(NO_OUTCOME, Outcome::pack),
        |raw| (raw & NO_OUTCOME == 0).then(|| Outcome::from_bits(raw as u32)),
        NO_OUTCOME;
    Classified: |it| u64::from(it.classes.bits()) | u64::from(it.outcome.to_bits()) << 32,
        |raw| Classified {
            classes: ClassSet::from_bits(raw as u32),
            outcome: Outcome::from_bits((raw >> 32) as u32),
        };
    ClassSet: |it| it.bits().into(), |raw| ClassSet::from_bits(raw as u32);
    Listed: Listed::to_bits, Listed::from_bits;
    UpperLayer: |it| it.to_bits().into(), |raw| UpperLayer::from_bits(raw as u32);
    Walk: |it| u64::from(it.upper.to_bits()) | if it.is_complete { COMPLETE } else { 0 },
        |raw| Walk {
            upper: UpperLayer::from_bits(raw as u32),
            is_complete: raw & COMPLETE != 0,
        };
    Inner: |it| it.number().into(), |raw| Inner::from_number(raw as u32);
    Wanted: |it| it as u64, |raw| Wanted::from_number(raw as u32);
    classify::Wanted: |it| u64::from(it.headers) | u64::from(it.destination) << 1,
        |raw| classify::Wanted {
            headers: raw & 1 != 0,
            destination: raw & 2 != 0,
        };
    Socket: |it| it.number().into(), |raw| Socket::from_number(raw as u32);
    challenge::Effect: |it| it as u64, challenge::Effect::from_number;
    challenge::Offsets: |it| u64::from(it.packet) | u64::from(it.segment) << 16,
        |raw| challenge::Offsets {
            packet: raw as u16,
            segment: (raw >> 16) as u16,
        };
    Shared: |it| it as u64, Shared::from_number;
    LogBits: |bits| bits.0, Self;
    StrikeBits: |it| it.0, StrikeBits;
    Option<ListenerCookie>: |it| it.map_or(0, |it| {
            u64::from(it.segment_bytes) << 32 | u64::from(it.sequence)
        }),
        |raw| (raw != 0).then_some(ListenerCookie {
            sequence: raw as u32,
            segment_bytes: (raw >> 32) as u16,
        });
    Request: |it| {
            u64::from(it.from)
                | u64::from(it.bytes) << 16
                | u64::from(it.to) << 32
                | u64::from(it.segment_bytes) << 48
        },
        |raw| Request {
            from: raw as u16,
            bytes: (raw >> 16) as u16,
            to: (raw >> 32) as u16,
            segment_bytes: (raw >> 48) as u16,
        };
    Option<Written>: |it| it.map_or(0, |it| {
            WRITTEN | u64::from(it.bytes) << 32 | u64::from(it.sum)
        }),
        |raw| (raw != 0).then_some(Written {
            bytes: (raw >> 32) as u16,
            sum: raw as u32,
        });
    compact::Claim: |it| {
            it.outcome.pack() | (it.slot as u64) << SLOT_SHIFT | if it.is_new { NEW } else { 0 }
        },
        |raw| compact::Claim {
            slot: (raw >> SLOT_SHIFT) as usize & (SLOTS - 1),
            is_new: raw & NEW != 0,
            outcome: Outcome::from_bits(raw as u32),
        },
        Outcome::NOTHING;
    Slot: |it| it.0, Slot;
    Settings: Settings::to_bits, Settings::from_bits;
    Demanded: |it| it as u64, Demanded::from_number;
    Generation: |it| it as u64, Generation::from_number;
    Newcomer: |it| it as u64, |raw| match raw {
        0 => Newcomer::Source,
        _ => Newcomer::OverflowBucket,
    };
    Evidence: |it| it as u64, |raw| match raw {
        0 => Evidence::Established,
        _ => Evidence::Forgeable,
    };
}

impl<T> Register for &T {
    type Raw = *const T;

    #[inline(always)]
    fn pack(self) -> *const T {
        self
    }

    #[inline(always)]
    unsafe fn unpack(raw: *const T) -> Option<Self> {
        // SAFETY: as the caller says.
        unsafe { raw.as_ref() }
    }
}

impl<T> Register for &mut T {
    type Raw = *mut T;

    #[inline(always)]
    fn pack(self) -> *mut T {
        self
    }

    #[inline(always)]
    unsafe fn unpack(raw: *mut T) -> Option<Self> {
        // SAFETY: as the caller says.
        unsafe { raw.as_mut() }
    }
}

impl<T> Register for Option<&T> {
    type Raw = *const T;

    #[inline(always)]
    fn pack(self) -> *const T {
        self.map_or(ptr::null(), ptr::from_ref)
    }

    #[inline(always)]
    unsafe fn unpack(raw: *const T) -> Option<Self> {
        // SAFETY: as the caller says.
        Some(unsafe { raw.as_ref() })
    }
}

/// The verifier knows that it is one.
impl Register for *mut Context {
    type Raw = Self;

    #[inline(always)]
    fn pack(self) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn unpack(raw: Self) -> Option<Self> {
        Some(raw)
    }
}

macro_rules! map_values {
    ($($type:ty: $raw:ty, $make:path;)+) => {$(
        impl Register for $type {
            type Raw = *mut $raw;

            #[inline(always)]
            fn pack(self) -> *mut $raw {
                self.0
            }

            #[inline(always)]
            unsafe fn unpack(raw: *mut $raw) -> Option<Self> {
                (!raw.is_null()).then(|| $make(raw))
            }
        }
    )+};
}

map_values! {
    BanRing: BanWords, BanRing;
    MapSet: Set, MapSet;
    MapWord: u64, MapWord;
    RecordWords<1>: [u64; 1], RecordWords;
    RecordWords<2>: [u64; 2], RecordWords;
    RecordWords<4>: [u64; 4], RecordWords;
    RecordWords<8>: [u64; 8], RecordWords;
}
