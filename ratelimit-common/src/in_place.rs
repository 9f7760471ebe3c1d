//! The larger steps in place, where they are called.

use crate::{
    Address, Arrival, Cursor, Flow, Instant, Ipv4, Ipv6, Policy, Tables,
    challenge::{self, ChallengeState, query},
    charge::outcome::Outcome,
    classify::{self, Classified, Wanted},
    detection, established,
    layers::{self, NO_DESTINATION},
    list::Listed,
    node,
    parse::{
        Inner,
        ipv6::{self, Walk},
        transport::UpperLayer,
    },
    placement::{FamilyPlacement, Placement},
    source_limits,
    store::Store,
    strikes::Strike,
    tables::FamilyTables,
};

/// Tables of a host.
pub trait InPlace:
    Tables + Store<Ipv4> + Store<Ipv6> + ChallengeState<Ipv4> + ChallengeState<Ipv6>
{
    /// Hears what a check of the limits of a policy says.
    fn note(&self, _: Option<&Policy>, _: Outcome) {}
}

/// The index of the policy of packets that go to `address`; [`NO_DESTINATION`] where they have none.
#[inline(always)]
pub fn destination<A: Address>(address: A, now: Instant, tables: &impl FamilyTables<A>) -> u32 {
    let policy = tables.listed(address, now).destination();
    policy.unwrap_or(NO_DESTINATION)
}

impl<T: InPlace> Placement for T {
    fn walk(&self, cursor: Cursor<'_>, first: u8) -> Walk {
        ipv6::walk(cursor, first)
    }

    fn classify(&self, frame: Cursor<'_>, upper: UpperLayer, policy: u32) -> Classified {
        classify::classify(frame, upper, Wanted::by(self.settings()), policy, self)
    }

    fn spend(&self, destination: u32, arrival: &Arrival) -> Outcome {
        node::spend(layers::of_all(destination, self), &self.node(), arrival)
    }

    fn give_back(&self, destination: u32, arrival: &Arrival) {
        node::give_back(layers::of_all(destination, self), &self.node(), arrival);
    }
}

impl<A, T> FamilyPlacement<A> for T
where
    A: Address,
    T: InPlace + FamilyTables<A> + Store<A> + ChallengeState<A>,
{
    fn challenge(
        &self,
        source: &A,
        frame: Cursor<'_>,
        flow: &Flow<A>,
        listed: Listed,
        now: Instant,
    ) -> challenge::Outcome {
        if listed.is_protected() {
            return challenge::Outcome::Unasked;
        }
        if self.inner(frame) != Inner::NONE {
            return challenge::standing(source, now, self);
        }
        let quickly = challenge::judge_quickly(source, || frame, flow, self.settings(), now, self);
        if let Some(outcome) = quickly {
            return outcome;
        }
        let upper = flow.upper;
        if let Some(segment) = challenge::segment::<A>(frame, self.link_layer(), upper) {
            let classes = |headers| {
                let wanted = Wanted::by_challenge(headers);
                classify::classes(frame, upper, wanted, self)
            };
            return challenge::judge(source, &segment, classes, now, self);
        }
        match query::port(frame, upper) {
            Some(port) => {
                let is_query =
                    || query::question_bytes(frame, self.link_layer(), query::name_bytes).is_some();
                challenge::judge_datagram(source, port, is_query, now, self)
            }
            None => challenge::standing(source, now, self),
        }
    }

    fn destination(&self, flow: &Flow<A>, now: Instant) -> u32 {
        destination(flow.destination, now, self)
    }

    fn check(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        let outcome = source_limits::check(address, policy, arrival, self);
        self.note(policy, outcome);
        outcome
    }

    fn charge(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        source_limits::charge(address, policy, arrival, self)
    }

    fn charge_within_budget(
        &self,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        source_limits::charge_within_budget(&mut { *source }, policy, arrival, self)
    }

    fn charge_source(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        source_limits::charge_source(source, policy, arrival, self, self)
    }

    fn charge_leased(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        layers::charge_leased(source, policy, arrival, self)
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

    fn charge_destination(
        &self,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        layers::charge_destination(source, policy, arrival, self)
    }

    fn charge_established(
        &self,
        source: &A,
        policy: Option<&Policy>,
        frame: Cursor<'_>,
        arrival: &Arrival,
    ) -> bool {
        established::charge(source, policy, frame, arrival, self)
    }

    fn strike(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) -> bool {
        detection::count(source, policy, strike, self)
    }

    fn detect(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) {
        detection::detect(source, policy, strike, self);
    }
}
