//! Where the code of the larger steps is placed: the kernel has it in subprograms, each of which is verified once, other
//! [`Tables`] have it [in place](crate::in_place).

use crate::{
    Address, Arrival, ClassSet, Cursor, Ipv4, Ipv6, Policy, Tables,
    charge::outcome::Outcome,
    parse::{ipv6::Walk, transport::UpperLayer},
    strikes::Strike,
    tables::FamilyTables,
};

/// Steps that are the same for all families.
pub trait Placement: Tables + FamilyPlacement<Ipv4> + FamilyPlacement<Ipv6> {
    /// [`ipv6::walk`](crate::parse::ipv6::walk).
    fn walk(&self, cursor: Cursor<'_>, first: u8) -> Walk;

    /// [`classify`](crate::classify::classify).
    fn classify(&self, frame: Cursor<'_>, upper: UpperLayer) -> ClassSet;
}

/// Steps of one address family.
pub trait FamilyPlacement<A: Address>: Tables + FamilyTables<A> {
    /// [`state::check`](crate::state::check).
    fn check(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;

    /// [`state::charge`](crate::state::charge).
    fn charge(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;

    /// [`state::charge_within_budget`](crate::state::charge_within_budget).
    fn charge_within_budget(
        &self,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome;

    /// [`state::charge_source`](crate::state::charge_source).
    fn charge_source(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;

    /// [`layers::check_layer`](crate::layers::check_layer).
    fn check_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome;

    /// [`layers::charge_layer`](crate::layers::charge_layer).
    fn charge_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome;

    /// [`detection::count`](crate::detection::count).
    fn strike(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) -> bool;

    /// [`detection::detect`](crate::detection::detect).
    fn detect(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>);
}
