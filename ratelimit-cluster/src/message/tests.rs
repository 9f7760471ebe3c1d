//! Refused messages; the error names the node and the remedy.

use proptest::prelude::*;

use super::*;
use crate::budget::{Count, WindowUsage};
use crate::cluster::Host;
use crate::statements::{Bounds, Guard, Subject, Verb};
use crate::{Arrival, Cluster, Config, Memory, Now};

const STORED: Millis = 1_700_000_000_000;
const NOW: Now = Now {
    wall: STORED,
    monotonic: 5_000,
};

struct Nothing;

impl Guard<Vec<u8>> for Nothing {
    fn permits(&self, _: &Subject<Vec<u8>>) -> Result<(), &'static str> {
        Ok(())
    }
}

impl Host<Vec<u8>> for Nothing {
    fn limit(&self, _: &Vec<u8>) -> Option<crate::budget::Limit> {
        None
    }

    fn limits(&self) -> u64 {
        0
    }

    fn counts(&mut self) -> Vec<Count<Vec<u8>>> {
        Vec::new()
    }

    fn held(&self, _: &Vec<u8>, _: u64) -> WindowUsage {
        WindowUsage::default()
    }
}

fn node() -> Cluster<Vec<u8>> {
    let config = Config {
        node: name("a"),
        secret: secret(),
        period: 1000,
        bounds: Bounds::default(),
    };
    Cluster::new(config, NOW, Memory::default())
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn secret() -> Secret {
    Secret::new(b"secret")
}

fn ban(key: u8) -> Body<Vec<u8>> {
    let statement = Statement {
        subject: Subject::Ban(vec![key]),
        verb: Verb::Says,
        stamp: Stamp(STORED * 1000),
        until: STORED + 60_000,
        note: "why".into(),
    };
    Body::Statements(vec![statement])
}

fn from(node: &str, incarnation: u64, sequence: u64, sent: Millis) -> Vec<u8> {
    let header = Header {
        node: name(node),
        incarnation,
        sequence,
        sent,
    };
    seal(&secret(), &header, &ban(1).write())
}

fn receive(node: &mut Cluster<Vec<u8>>, message: &[u8]) -> Result<(), Refusal> {
    node.receive(NOW, Arrival::Stream { stored: STORED }, message, &Nothing)
        .map(drop)
}

#[track_caller]
fn check(message: &[u8], expected: &str) {
    let mut node = node();
    let refusal = receive(&mut node, message).unwrap_err().to_string();
    assert!(refusal.contains(expected), "{refusal}");
    assert_eq!(node.subjects().count(), 0, "nothing is applied");
}

#[test]
fn a_message_reads_back_as_written() {
    let report = Report {
        period: 7,
        view: 9,
        unheard: vec![1, 300],
        entries: vec![KeyReport {
            key: vec![4],
            claim: 5,
            demand: u64::MAX,
            held: 6,
            passed: 7,
        }],
    };
    let stated = Stated {
        after: STORED,
        digest: Digest { count: 3, sum: 4 },
        part_bits: 2,
    };
    let Body::Statements(statements) = ban(3) else {
        unreachable!()
    };
    let part = Part {
        index: 3,
        bits: 2,
        at: Stamp(8),
        statements,
    };
    let ask = Ask {
        node: name("b"),
        after: 1,
        digests: vec![1, 2],
    };
    for body in [
        Body::Report(report, stated),
        ban(2),
        Body::Part(part),
        Body::Ask(ask),
    ] {
        assert_eq!(Body::<Vec<u8>>::read(&body.write()), Ok(body));
    }
}

#[test]
fn another_secret_is_refused() {
    let header = Header {
        node: name("b"),
        incarnation: 1,
        sequence: 1,
        sent: STORED,
    };
    check(
        &seal(&Secret::new(b"other"), &header, &ban(1).write()),
        "a message from `b` has an invalid signature",
    );
}

#[test]
fn a_cut_message_is_refused() {
    let message = from("b", 1, 1, STORED);
    for length in 0..message.len() {
        assert!(receive(&mut node(), &message[..length]).is_err());
    }
    check(
        &message[..message.len() - 1],
        "from `b` has an invalid signature",
    );
    check(&message[..SIGNATURE + 5], "a truncated message");
}

#[test]
fn an_oversized_message_is_refused() {
    check(&vec![b'R'; MESSAGE_MAX + 1], "exceeds 524288");
}

#[test]
fn something_else_is_refused() {
    check(&[7; 100], "an unknown message");
}

#[test]
fn a_newer_version_is_refused_by_its_name() {
    let mut message = from("b", 1, 1, STORED);
    message[3] = VERSION + 1;
    let signed = message.len() - SIGNATURE;
    let mut mac = <hmac::Hmac<sha2::Sha256> as hmac::Mac>::new_from_slice(b"secret").unwrap();
    hmac::Mac::update(&mut mac, &message[..signed]);
    message[signed..].copy_from_slice(&hmac::Mac::finalize(mac).into_bytes());
    check(
        &message,
        "`b` uses protocol version 2, this node 1; install the same release on both",
    );
}

#[test]
fn a_signed_message_with_a_wrong_field_is_refused() {
    let header = Header {
        node: name("b"),
        incarnation: 1,
        sequence: 1,
        sent: STORED,
    };
    check(
        &seal(&secret(), &header, &[99]),
        "cannot read a message from `b`: the kind has a value that does not exist",
    );
}

#[test]
fn a_clock_a_minute_apart_is_refused() {
    check(
        &from("b", 1, 1, STORED - 60_001),
        "the clock of `b` differs from the store's by 60001 ms",
    );
    check(&from("b", 1, 1, STORED + 60_001), "synchronize it with NTP");
}

#[test]
fn a_node_whose_own_clock_is_a_minute_off_says_so_of_itself() {
    for (stored, apart) in [(STORED + 60_001, Some(60_001)), (STORED + 60_000, None)] {
        let mut node = node();
        // It knows its own messages by the life that sent them.
        let own = from("a", node.incarnation(), 1, STORED);
        let heard = node.receive(NOW, Arrival::Stream { stored }, &own, &Nothing);
        let refusal = heard.map(drop).err().map(|refusal| refusal.to_string());
        let said = |apart| format!("the clock of `a` differs from the store's by {apart} ms");
        match (refusal, apart) {
            (Some(refusal), Some(apart)) => {
                assert!(refusal.starts_with(&said(apart)), "{refusal}");
                assert!(refusal.contains("synchronize it with NTP"), "{refusal}");
            }
            (refusal, apart) => assert_eq!((refusal, apart), (None, None)),
        }
    }
}

#[test]
fn a_replayed_message_is_refused_however_late() {
    let mut node = node();
    for sequence in [5, 3, 2000, 1990] {
        receive(&mut node, &from("b", 1, sequence, STORED)).unwrap();
        let again = receive(&mut node, &from("b", 1, sequence, STORED)).unwrap_err();
        assert_eq!(
            again,
            Refusal::Replayed {
                node: name("b"),
                sequence
            }
        );
    }
    assert!(
        matches!(
            receive(&mut node, &from("b", 1, 900, STORED)),
            Err(Refusal::Replayed { .. })
        ),
        "older than the window"
    );
    receive(&mut node, &from("b", 2, 1, STORED)).unwrap();
    assert!(matches!(
        receive(&mut node, &from("b", 1, 3000, STORED)),
        Err(Refusal::Outlived { .. })
    ));
}

#[test]
fn two_nodes_with_one_name_are_reported() {
    let mut node = node();
    receive(&mut node, &from("b", 2, 1, STORED)).unwrap();
    let later = Arrival::Stream {
        stored: STORED + 20_000,
    };
    let refusal = node
        .receive(NOW, later, &from("b", 1, 2, STORED + 20_000), &Nothing)
        .unwrap_err()
        .to_string();
    assert!(
        refusal.contains("two nodes use the name `b`; change `node`"),
        "{refusal}"
    );
    let next = from("a", node.incarnation() + 1, 1, STORED);
    let refusal = receive(&mut node, &next).unwrap_err();
    assert_eq!(refusal, Refusal::TwoNodes { node: name("a") });
    receive(&mut node, &from("a", 4, 1, STORED - 1_000)).unwrap();
}

#[test]
fn a_revoked_node_is_refused() {
    let mut node = node();
    receive(&mut node, &from("b", 1, 1, STORED)).unwrap();
    node.say(NOW, Subject::Node(name("b")), STORED + 60_000, "it lies");
    assert_eq!(
        node.in_force(NOW, &Subject::Ban(vec![1]), &Nothing),
        None,
        "what it said is gone"
    );
    assert_eq!(
        receive(&mut node, &from("b", 1, 2, STORED)).unwrap_err(),
        Refusal::Revoked { node: name("b") }
    );
    node.lift(NOW, Subject::Node(name("b")), "it does not");
    assert!(
        node.in_force(NOW, &Subject::Ban(vec![1]), &Nothing)
            .is_some()
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 512, ..ProptestConfig::default()
    })]

    /// Signed messages can still contain anything: nothing panics, and readable ones decode to what
    /// was encoded.
    #[test]
    fn any_bytes_are_read_or_refused(
        mut body in prop::collection::vec(any::<u8>(), 0..300), kind in 0u8..6,
        stored in any::<bool>(),
    ) {
        if let Some(first) = body.first_mut() {
            *first = kind;
        }
        if let Ok(read) = Body::<Vec<u8>>::read(&body) {
            prop_assert_eq!(Body::read(&read.write()), Ok(read));
        }
        let header = Header { node: name("b"), incarnation: 1, sequence: 1, sent: STORED };
        let arrival = if stored { Arrival::Stored } else { Arrival::Stream { stored: STORED } };
        let _ = node().receive(NOW, arrival, &seal(&secret(), &header, &body), &Nothing);
    }

    #[test]
    fn a_message_with_any_change_is_refused(
        place in any::<prop::sample::Index>(), change in 1u8..,
    ) {
        let mut message = from("b", 1, 1, STORED);
        let place = place.index(message.len());
        message[place] ^= change;
        prop_assert!(receive(&mut node(), &message).is_err());
    }

    /// A body that was right, with some bytes changed, left out and put in.
    #[test]
    fn a_changed_body_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..8)
    ) {
        let report = Report {
            period: 7,
            view: 9,
            unheard: vec![1],
            entries: vec![
                KeyReport {
                    key: vec![4; 8],
                    claim: 5,
                    demand: 6,
                    held: 7,
                    passed: 8
                };
                1
            ],
        };
        for body in [ban(1), Body::Report(report, Stated::default())] {
            let mut bytes = body.write();
            for (place, byte, kind) in &changes {
                let place = place.index(bytes.len());
                match kind {
                    0 => bytes[place] = *byte,
                    1 if bytes.len() > 1 => drop(bytes.remove(place)),
                    _ => bytes.insert(place, *byte),
                }
            }
            let header = Header { node: name("b"), incarnation: 1, sequence: 1, sent: STORED };
            let _ = receive(&mut node(), &seal(&secret(), &header, &bytes));
        }
    }
}
