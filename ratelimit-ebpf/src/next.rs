//! The next program, which receives passed packets.

use aya_ebpf::programs::XdpContext;

use ratelimit_common::features::{self, Feature};

use crate::{interface, maps::Next};

/// Passes the packet to it. Returns if there is none.
#[inline(always)]
pub fn call(context: &XdpContext, next: &Next) {
    if features::is_enabled::<{ Feature::Next as u8 }>() {
        // SAFETY: nothing here is left behind.
        unsafe { next.tail_call(context, interface::slot()) };
    }
}
