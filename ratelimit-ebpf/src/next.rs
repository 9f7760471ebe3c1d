//! The program of somebody else that gets what passes.

use aya_ebpf::programs::XdpContext;

use ratelimit_common::features::{self, Feature};

use crate::{interface, maps::Next};

/// Leaves the packet to it. Comes back where there is none.
#[inline(always)]
pub fn call(context: &XdpContext, next: &Next) {
    if features::is_enabled::<{ Feature::Next as u8 }>() {
        // SAFETY: nothing here is left behind.
        unsafe { next.tail_call(context, interface::slot()) };
    }
}
