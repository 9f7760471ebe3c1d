//! The classes of a packet.

use ratelimit_common::{
    ClassSet, Instant,
    classify::{self, Classified, Wanted},
    parse::{Inner, transport::UpperLayer},
};

use crate::{
    frame::{self, Context},
    headers::found_inner,
    tables::KernelTables,
};

subprograms! {
    /// [`classify::classify`].
    pub fn classify_packet(
        context: *mut Context, upper: UpperLayer, wanted: Wanted, policy: u32, inner: Inner
    ) -> Classified {
        let tables = KernelTables::without_settings(context, Instant::default());
        let tables = tables.with_inner(found_inner(inner));
        let (frame, is_copied) = frame::reread(context);
        let upper = frame::within(is_copied, upper);
        classify::classify(frame, upper, wanted, policy, &tables)
    }

    /// Runs [`classify::classes`] for a packet without looking for an inner packet: the chain of
    /// calls has no stack left for that.
    pub fn classes_outside(
        context: *mut Context, upper: UpperLayer, asks_headers: bool
    ) -> ClassSet {
        let tables = KernelTables::without_settings(context, Instant::default());
        let (frame, is_copied) = frame::reread(context);
        let upper = frame::within(is_copied, upper);
        classify::classes(frame, upper, Wanted::by_challenge(asks_headers), &tables)
    }

    /// [`classify::excluded_by_destination`].
    pub fn excluded_by_destination(context: *mut Context, inner: Inner) -> ClassSet {
        let (frame, _) = frame::reread(context);
        let tables = KernelTables::without_settings(context, Instant::default());
        classify::excluded_by_destination(frame, &tables.with_inner(found_inner(inner)))
    }
}
