//! The number of verified sources.

use ratelimit_common::{
    Family, PassReason, Verdict,
    challenge::{Trigger, Verified},
    layout::{Counter, counter_index},
};
use ratelimit_core::challenge::{Challenge, Way};

use super::*;

#[test]
fn verified_sources_are_counted_until_their_time_is_over() {
    let mut lab = Lab::new(Config {
        challenge: Some(challenge(Trigger::Always, Trigger::Never, &[])),
        ..config()
    });
    let count = |lab: &mut Lab, (source, left): (&str, i64), proofs: u64| {
        let until = clock::now().as_nanos().saturating_add_signed(left);
        verify(lab, source, Verified::here(Instant::from_nanos(until)));
        let verdict = Verdict::Pass(PassReason::Verified);
        let counters = lab.memory.maps().per_cpu_array("VERDICTS").unwrap();
        let index = counter_index(0, Family::Ipv4, verdict);
        let mut counts: Vec<Counter> = counters.get(index).unwrap();
        counts[0].packets = proofs;
        counters.set(index, &counts).unwrap();
        let Controller { feeds, state, .. } = &mut lab.controller;
        feeds.verified.look(state);
        lab.status().challenge.unwrap().verified
    };
    let minute = 60_000_000_000;
    assert_eq!(count(&mut lab, ("192.0.2.1", minute), 1), 1);
    assert_eq!(count(&mut lab, ("2001:db8::", minute), 2), 2);
    // Nothing says that there may be another one.
    assert_eq!(count(&mut lab, ("192.0.2.2", minute), 2), 2);
    // An expired verification is not counted.
    assert_eq!(count(&mut lab, ("192.0.2.1", -1_000), 3), 2);
    assert_eq!(count(&mut lab, ("2001:db8::", -1_000), 4), 1);
}

/// Verifies a source, as the program does.
pub(super) fn verify(lab: &Lab, source: &str, verified: Verified) {
    let source = source.parse().unwrap();
    let maps = ["VERIFIED_V4", "VERIFIED_V6"];
    insert(&lab.memory, maps, source, verified.to_bits());
}

/// A challenge of connections, and of queries at these ports.
pub(super) fn challenge(connections: Trigger, queries: Trigger, ports: &[u16]) -> Challenge {
    Challenge {
        connections,
        queries,
        destinations: Vec::new(),
        connection_ports: Vec::new(),
        classes: Vec::new(),
        ports: ports.to_vec(),
        lasts: Duration::from_mins(10),
        answers: NonZeroU32::new(1000).unwrap(),
        way: Way::Rst,
        window_scaling: false,
        back_off: None,
    }
}
