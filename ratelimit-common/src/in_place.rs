//! The larger steps in place, where they are called.

use crate::{
    Address, Arrival, ClassSet, Cursor, Ipv4, Ipv6, Policy, Tables,
    charge::outcome::Outcome,
    classify, detection, layers,
    parse::{
        ipv6::{self, Walk},
        transport::UpperLayer,
    },
    placement::{FamilyPlacement, Placement},
    state,
    store::Store,
    strikes::Strike,
    tables::FamilyTables,
};

/// Tables of a host.
pub trait InPlace: Tables + Store<Ipv4> + Store<Ipv6> {
    /// Hears what a check of the limits of a policy says.
    fn note(&self, _: Option<&Policy>, _: Outcome) {}
}

impl<T: InPlace> Placement for T {
    fn walk(&self, cursor: Cursor<'_>, first: u8) -> Walk {
        ipv6::walk(cursor, first)
    }

    fn classify(&self, frame: Cursor<'_>, upper: UpperLayer) -> ClassSet {
        classify::classify(frame, upper, self)
    }
}

impl<A: Address, T: InPlace + FamilyTables<A> + Store<A>> FamilyPlacement<A> for T {
    fn check(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        let outcome = state::check(address, policy, arrival, self);
        self.note(policy, outcome);
        outcome
    }

    fn charge(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        state::charge(address, policy, arrival, self)
    }

    fn charge_within_budget(
        &self,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        state::charge_within_budget(&mut { *source }, policy, arrival, self)
    }

    fn charge_source(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        state::charge_source(source, policy, arrival, self, self)
    }

    fn check_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        layers::check_layer(layer, source, policy, arrival, self)
    }

    fn charge_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        layers::charge_layer(layer, source, policy, arrival, self)
    }

    fn strike(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) -> bool {
        detection::count(source, policy, strike, self)
    }

    fn detect(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) {
        detection::detect(source, policy, strike, self);
    }
}
