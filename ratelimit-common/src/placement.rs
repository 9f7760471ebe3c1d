//! Where the code of the larger steps is placed: the kernel has it in subprograms, each of which is verified once, other
//! [`Tables`] have it [in place](crate::in_place).

use crate::{
    Address, Arrival, Cursor, Flow, Instant, Ipv4, Ipv6, Policy, Tables, challenge,
    charge::outcome::Outcome,
    classify::Classified,
    list::Listed,
    parse::{ipv6::Walk, transport::UpperLayer},
    strikes::Strike,
    tables::FamilyTables,
};

/// Steps that are the same for all families.
pub trait Placement: Tables + FamilyPlacement<Ipv4> + FamilyPlacement<Ipv6> {
    /// [`ipv6::walk`](crate::parse::ipv6::walk).
    fn walk(&self, cursor: Cursor<'_>, first: u8) -> Walk;

    /// [`classify`](crate::classify::classify).
    fn classify(&self, frame: Cursor<'_>, upper: UpperLayer, policy: u32) -> Classified;

    /// [`node::spend`](crate::node::spend) of the policies of [the node and a destination](crate::layers::of_all).
    fn spend(&self, destination: u32, arrival: &Arrival) -> Outcome;

    /// [`node::give_back`](crate::node::give_back) of them.
    fn give_back(&self, destination: u32, arrival: &Arrival);
}

/// Steps of one address family.
pub trait FamilyPlacement<A: Address>: Tables + FamilyTables<A> {
    /// [`challenge::judge`] of the packet in `frame`, if the lists do not protect its source.
    fn challenge(
        &self,
        source: &A,
        frame: Cursor<'_>,
        flow: &Flow<A>,
        listed: Listed,
        now: Instant,
    ) -> challenge::Outcome;

    /// The index of the policy of the packet's destination, as [`in_place::destination`](crate::in_place::destination) answers it.
    fn destination(&self, flow: &Flow<A>, now: Instant) -> u32;

    /// [`source_limits::check`](crate::source_limits::check).
    fn check(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;

    /// [`source_limits::charge`](crate::source_limits::charge).
    fn charge(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;

    /// [`source_limits::charge_within_budget`](crate::source_limits::charge_within_budget).
    fn charge_within_budget(
        &self,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome;

    /// [`source_limits::charge_source`](crate::source_limits::charge_source).
    fn charge_source(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;

    /// [`layers::charge_leased`](crate::layers::charge_leased).
    fn charge_leased(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;

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

    /// [`layers::charge_destination`](crate::layers::charge_destination).
    fn charge_destination(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival)
    -> Outcome;

    /// [`established::charge`](crate::established::charge).
    fn charge_established(
        &self,
        source: &A,
        policy: Option<&Policy>,
        frame: Cursor<'_>,
        arrival: &Arrival,
    ) -> bool;

    /// [`detection::count`](crate::detection::count).
    fn strike(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) -> bool;

    /// [`detection::detect`](crate::detection::detect).
    fn detect(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>);
}
