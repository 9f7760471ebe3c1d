//! Sends a sample of the refusals on an interface to user space: about one event in
//! [`INTERVAL_NS`].

use ratelimit_common::{
    Instant,
    charge::Outcome,
    event::{DropEvent, INTERVAL_NS},
};

use crate::{
    first::first,
    frame::Context,
    headers,
    maps::{EVENTS, SAMPLER},
    samples,
    settings::settings,
    variable::Variable,
};

/// The time before which no event is sent, in nanoseconds since boot. CPUs that look at it at once
/// each send one.
#[unsafe(no_mangle)]
static NEXT_EVENT_NS: Variable = Variable::new();

/// Whether an event may be sent again.
#[inline(always)]
pub fn is_due(now: Instant) -> bool {
    now.as_nanos() >= NEXT_EVENT_NS.get()
}

subprograms! {
    /// Sends an event about the packet of `context`, which is of `source`. The next is not due
    /// before [`INTERVAL_NS`] are over.
    pub fn sample[sample_drop_v4, sample_drop_v6]<A>(
        context: *mut Context, source: &A, refused: Outcome, interface: u32, now: Instant
    ) {
        let Some(refusal) = refused.refusal() else {
            return;
        };
        let Some(sampler) = first(&SAMPLER) else {
            return;
        };
        NEXT_EVENT_NS.set(now.as_nanos().saturating_add(INTERVAL_NS));
        // SAFETY: the sampler belongs to this CPU, and XDP programs do not interrupt each other on
        // one.
        let sampler = unsafe { &mut *sampler };
        #[cfg(feature = "log")]
        aya_log_ebpf::debug!(
            (),
            "refused: reason {}, limit {}, interface {}",
            refusal.reason as u8,
            refusal.limit,
            interface
        );
        let inner = headers::inner(context, settings().generation());
        let Some(mut entry) = EVENTS.reserve_untyped::<DropEvent>(0) else {
            sampler.lost = sampler.lost.wrapping_add(1);
            return;
        };
        let event = entry.as_mut_ptr();
        let frame_bytes = samples::frame_bytes(context, inner);
        // SAFETY: the entry is this program's until it is submitted, and there is room for the
        // front of a packet.
        unsafe {
            (*event).at_ns = now.as_nanos();
            (*event).source = source.octets();
            (*event).interface = interface;
            (*event).family = A::FAMILY as u8;
            (*event).reason = refusal.reason as u8;
            (*event).limit = refusal.limit;
            (*event).reserved = 0;
            (*event).link_layer = samples::link_layer(inner).number();
            let place = (&raw mut (*event).front).cast();
            let is_read = samples::read_front(context, inner, frame_bytes, place);
            (*event).frame_bytes = if is_read { frame_bytes } else { 0 };
        }
        entry.submit(0);
        sampler.sent = sampler.sent.wrapping_add(1);
    }
}
