//! The program that others call if they are attached to the interface instead of the daemon's. It
//! passes each packet to the program that the daemon has put behind it, or to the network stack if
//! there is none.
//!
//! It is a separate object. `ratelimitd --entry` writes it for libxdp, whose dispatcher loads it
//! again for each interface. Its maps are pinned by name, so the daemon can replace the program
//! behind it while others call it.
#![no_std]
#![no_main]

use core::ptr;

use aya_ebpf::{
    bindings::{bpf_map_type::BPF_MAP_TYPE_PROG_ARRAY, xdp_action::XDP_PASS},
    helpers::bpf_tail_call,
    macros::xdp,
    programs::XdpContext,
};

/// `LIBBPF_PIN_BY_NAME`.
const PIN_BY_NAME: usize = 1;

/// A map of one program, as libbpf reads its declaration: numbers are the lengths of arrays.
#[repr(C)]
pub struct Behind {
    r#type: *const [i32; BPF_MAP_TYPE_PROG_ARRAY as usize],
    key: *const u32,
    value: *const u32,
    max_entries: *const [i32; 1],
    map_flags: *const [i32; 0],
    pinning: *const [i32; PIN_BY_NAME],
}

// SAFETY: the map is in the kernel; the declaration is never read.
unsafe impl Sync for Behind {}

impl Behind {
    const fn new() -> Self {
        Self {
            r#type: ptr::null(),
            key: ptr::null(),
            value: ptr::null(),
            max_entries: ptr::null(),
            map_flags: ptr::null(),
            pinning: ptr::null(),
        }
    }

    /// Passes the packet to the program. Returns if there is none.
    #[inline(always)]
    fn call(&'static self, context: &XdpContext) {
        // SAFETY: the context belongs to this program, and the loader replaces the declaration by
        // the map.
        unsafe { bpf_tail_call(context.ctx.cast(), ptr::from_ref(self).cast_mut().cast(), 0) };
    }
}

/// Index 0 → the program of frames that fit into one buffer.
#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "BEHIND")]
static BEHIND: Behind = Behind::new();

/// Index 0 → the program of frames that may take several buffers.
#[unsafe(link_section = ".maps")]
#[unsafe(export_name = "BEHIND_FRAGS")]
static BEHIND_FRAGS: Behind = Behind::new();

/// Hands one packet, which is in one buffer, to the program that judges it.
#[xdp]
#[inline(always)]
pub fn ratelimit_entry(context: XdpContext) -> u32 {
    BEHIND.call(&context);
    XDP_PASS
}

/// Leaves one packet of an interface with jumbo frames.
#[xdp(frags)]
#[inline(always)]
pub fn ratelimit_jumbo(context: XdpContext) -> u32 {
    BEHIND_FRAGS.call(&context);
    XDP_PASS
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The helpers of this program are open to any licence; the kernel asks for one that it knows.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
