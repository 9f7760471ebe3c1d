//! The program of somebody else that gets what passes.

use aya_ebpf::programs::XdpContext;

use crate::{constant::Constant, interface, maps::Next};

/// Whether there is one. The verifier knows it, and other interfaces pay nothing.
#[unsafe(no_mangle)]
static HAS_NEXT: Constant<u32> = Constant::new(0);

/// Leaves the packet to it. Comes back where there is none.
#[inline(always)]
pub fn call(context: &XdpContext, next: &Next) {
    if HAS_NEXT.get() != 0 {
        // SAFETY: nothing here is left behind.
        unsafe { next.tail_call(context, interface::slot()) };
    }
}
