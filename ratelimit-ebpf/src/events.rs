//! Sends a sample of the refusals to user space: at most one event a CPU in [`INTERVAL_NS`].

use ratelimit_common::{
    Address, Instant,
    charge::Refusal,
    event::{DropEvent, INTERVAL_NS},
};

use crate::maps::{EVENTS, SAMPLER};

/// Whether this CPU may send an event again.
#[inline(always)]
pub fn is_due(now: Instant) -> bool {
    SAMPLER
        .get(0)
        .is_some_and(|sampler| now.as_nanos() >= sampler.next_ns)
}

/// Sends an event about `source`. The next is not due before [`INTERVAL_NS`] are over.
#[inline(always)]
pub fn sample<A: Address>(source: A, refusal: Refusal, interface: u32, now: Instant) {
    let Some(sampler) = SAMPLER.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: the sampler belongs to this CPU, and XDP programs do not interrupt each other on one.
    let sampler = unsafe { &mut *sampler };
    sampler.next_ns = now.as_nanos().saturating_add(INTERVAL_NS);
    let event = DropEvent {
        at_ns: now.as_nanos(),
        source: source.octets(),
        interface,
        family: A::FAMILY as u8,
        reason: refusal.reason as u8,
        limit: refusal.limit,
        reserved: 0,
    };
    #[cfg(feature = "log")]
    aya_log_ebpf::debug!(
        (),
        "refused: reason {}, limit {}, interface {}",
        event.reason,
        event.limit,
        event.interface
    );
    match EVENTS.output_untyped::<DropEvent>(event, 0) {
        Ok(()) => sampler.sent = sampler.sent.wrapping_add(1),
        Err(_) => sampler.lost = sampler.lost.wrapping_add(1),
    }
}
