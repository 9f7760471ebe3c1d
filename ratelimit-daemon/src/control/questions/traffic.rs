//! The history of packets.

use crate::{
    control::{
        controller::Controller,
        queries::{
            traffic,
            watched::{self, Many, Scanned},
        },
        question::Question,
    },
    datapath::DatapathError,
    traffic_log::Sample,
};

/// The counters at this moment.
pub struct TrafficSample(pub Option<Scanned>);

impl Question for TrafficSample {
    type Answer = Result<Sample, DatapathError>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        traffic::sample(
            &controller.state,
            &controller.cluster,
            &controller.attacks,
            self.0,
        )
    }
}

/// The policies and prefixes whose sources are scanned.
#[derive(Clone, Copy)]
pub struct ScannedPolicies;

impl Question for ScannedPolicies {
    type Answer = Result<Option<Many>, DatapathError>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        watched::many(&controller.state)
    }
}
