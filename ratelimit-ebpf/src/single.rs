//! A map with one element, which is reached by its address and not by a lookup.

use core::marker::PhantomData;

use ratelimit_common::direct;

/// The only element of the map with this number in [`Direct`](ratelimit_common::direct::Direct).
pub struct Single<T, const MAP: u8>(PhantomData<T>);

impl<T, const MAP: u8> Single<T, MAP> {
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub fn as_ptr(&self) -> *mut T {
        direct::address::<MAP>().cast()
    }

    /// The element, if it is never written in place.
    #[inline(always)]
    pub fn get(&self) -> &'static T {
        // SAFETY: the program keeps the map, whose element is a `T`, and whose memory is aligned
        // for any.
        unsafe { &*self.as_ptr() }
    }
}
