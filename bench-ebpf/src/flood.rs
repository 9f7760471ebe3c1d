//! Floods at a rate.

use aya_ebpf::{
    btf_maps::{Array, PerCpuArray},
    helpers::bpf_ktime_get_ns,
    macros::btf_map,
    programs::XdpContext,
};

use crate::{pace::Pace, source};

/// Bytes of a captured frame and of a template, which are the least that Ethernet has.
const FRAME: usize = 60;
const CAPTURED: usize = 1 << 16;

/// Index 0 → the pace on this CPU.
#[btf_map]
static PACE: PerCpuArray<Pace, 1> = PerCpuArray::new();

/// Index 0 → the first bytes of a packet before its source is written. Receivers change packets,
/// and the kernel uses their memory again as it is.
#[btf_map]
static TEMPLATE: Array<[u8; FRAME], 1> = Array::new();

/// Frames of a capture.
#[btf_map]
static CAPTURE: Array<[u8; FRAME], CAPTURED> = Array::new();

/// Whether a packet is due, which is counted then. A burst that is late is not made up for: the
/// queue of an interface has no room for two.
#[inline(always)]
pub fn is_due() -> bool {
    let Some(pace) = PACE.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: the value belongs to this CPU, and XDP programs do not interrupt each other on one.
    let pace = unsafe { &mut *pace };
    if pace.left == 0 {
        // SAFETY: takes no pointers.
        let now = unsafe { bpf_ktime_get_ns() };
        if now < pace.due {
            return false;
        }
        pace.due = pace.due.max(now - pace.gap / 2) + pace.gap;
        pace.left = pace.burst;
    }
    pace.left -= 1;
    pace.sent += 1;
    true
}

/// Writes the template into the packet.
#[inline(always)]
pub fn restore(context: &XdpContext) -> Option<()> {
    source::write(context, 0, *TEMPLATE.get(0)?)
}

/// Writes the next captured frame into the packet.
#[inline(always)]
pub fn next_captured(context: &XdpContext) -> Option<()> {
    let pace = PACE.get_ptr_mut(0)?;
    // SAFETY: as above.
    let sent = unsafe { (*pace).sent };
    let frame = CAPTURE.get((sent % CAPTURED as u64) as u32)?;
    source::write(context, 0, *frame)
}
