//! Charges limits in subprograms. The verifier follows each of them once.

use ratelimit_common::{
    Cursor, Instant, Policy, charge::Outcome, established, layers, refused::shared, source_limits,
};

use crate::{compact::SlotStore, frame::Context, lru::Records, refused, tables::KernelTables};

subprograms! {
    /// [`source_limits::check`], where the store is `lru`.
    pub fn check_record[check_record_v4, check_record_v6]<A>(
        source: &A, policy: Option<&Policy>; arrival
    ) -> Outcome {
        source_limits::check(source, policy, arrival, &Records(None))
    }

    /// [`source_limits::check`], where it is `compact`.
    pub fn check_slots[check_slots_v4, check_slots_v6]<A>(
        source: &A, policy: Option<&Policy>; arrival
    ) -> Outcome {
        source_limits::check(source, policy, arrival, &SlotStore)
    }

    /// [`source_limits::charge`], where the store is `lru`.
    pub fn charge_record[charge_record_v4, charge_record_v6]<A>(
        source: &A, policy: Option<&Policy>; arrival
    ) -> Outcome {
        source_limits::charge(source, policy, arrival, &Records(None))
    }

    /// [`source_limits::charge`], where it is `compact`.
    pub fn charge_slots[charge_slots_v4, charge_slots_v6]<A>(
        source: &A, policy: Option<&Policy>; arrival
    ) -> Outcome {
        source_limits::charge(source, policy, arrival, &SlotStore)
    }

    /// [`source_limits::charge_within_budget`].
    pub fn charge_within_budget[charge_within_budget_v4, charge_within_budget_v6]<A>(
        source: &A, policy: Option<&Policy>; arrival
    ) -> Outcome {
        let tables = KernelTables::of(arrival);
        source_limits::charge_within_budget(&mut { *source }, policy, arrival, &tables)
    }

    /// [`layers::check_layer`].
    pub fn check_layer[check_layer_v4, check_layer_v6]<A>(
        layer: usize, source: &A, policy: Option<&Policy>; arrival
    ) -> Outcome {
        layers::check_layer(layer, source, policy, arrival, &KernelTables::of(arrival))
    }

    /// [`layers::charge_layer`].
    pub fn charge_layer[charge_layer_v4, charge_layer_v6]<A>(
        layer: usize, source: &A, policy: Option<&Policy>; arrival
    ) -> Outcome {
        layers::charge_layer(layer, source, policy, arrival, &KernelTables::of(arrival))
    }

    /// [`layers::charge_destination`].
    pub fn charge_destination[charge_destination_v4, charge_destination_v6]<A>(
        source: &A, policy: Option<&Policy>; arrival
    ) -> Outcome {
        layers::charge_destination(source, policy, arrival, &KernelTables::of(arrival))
    }

    /// [`layers::charge_leased`].
    pub fn charge_leased[charge_leased_v4, charge_leased_v6]<A>(
        source: &A, policy: Option<&Policy>; arrival
    ) -> Outcome {
        layers::charge_leased(source, policy, arrival, &KernelTables::of(arrival))
    }

    /// [`established::charge`] of the packet of `context`.
    pub fn charge_established[charge_established_v4, charge_established_v6]<A>(
        context: *mut Context, source: &A, policy: Option<&Policy>; arrival
    ) -> bool {
        let tables = KernelTables::new(context, arrival.at, arrival.settings);
        // The frame is read from the context.
        established::charge(source, policy, Cursor::new(&[]), arrival, &tables)
    }

    /// Counts a refusal of limits that many share.
    pub fn count_shared_refusal[count_shared_refusal_v4, count_shared_refusal_v6]<A>(
        address: Option<&A>, scope: u32, now: Instant
    ) {
        if let Some(shared) = shared(scope, address) {
            refused::count(&shared, now);
        }
    }
}
