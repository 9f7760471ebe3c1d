//! A peer that has the secret and lies: it tells each node something else, claims everything, bans what it may not and more than it may.

use ratelimit_cluster::budget::{Entry, Report};
use ratelimit_cluster::message::{Body, Header, Stated, seal};
use ratelimit_cluster::statements::{Digest, Statement, Subject, Verb};
use ratelimit_cluster::{Millis, NodeName, Stamp};

use super::node::{Key, LIMITS, PERIOD, PROTECTED, secret};
use super::random::Random;

/// The lying peer.
pub struct Liar {
    /// Its name.
    pub name: NodeName,
    sequence: u64,
}

impl Liar {
    /// A liar.
    pub fn new() -> Self {
        Self {
            name: NodeName::new("liar").expect("a name"),
            sequence: 0,
        }
    }

    /// Some message, as if it were sent at a time, with the view of those that it speaks to.
    pub fn lie(&mut self, now: Millis, view: u64, random: &mut Random) -> Vec<u8> {
        self.sequence += random.below(3);
        let body = match random.below(10) {
            0..6 => report(now, view, random),
            6..9 => Body::Statements(
                (0..random.below(20))
                    .map(|_| statement(now, random))
                    .collect(),
            ),
            _ => {
                return (0..random.below(200))
                    .map(|_| random.bits().to_le_bytes()[0])
                    .collect();
            }
        };
        let header = Header {
            node: self.name.clone(),
            incarnation: 1 + random.below(2),
            sequence: self.sequence,
            sent: now,
        };
        let mut message = seal(&secret(), &header, &body.write());
        if random.percent(10) {
            let place = random.place(message.len());
            message[place] ^= 1 << random.below(8);
        }
        message
    }
}

fn report(now: Millis, view: u64, random: &mut Random) -> Body<Key> {
    let number = |limit: u64, random: &mut Random| {
        [0, random.below(limit), limit, u64::MAX][random.place(4)]
    };
    let mut entries = Vec::new();
    for (key, limit) in (0u8..).zip(LIMITS) {
        if random.percent(80) {
            entries.push(Entry {
                key: vec![key],
                claim: number(limit.amount / 4, random),
                demand: number(limit.amount, random),
                held: number(limit.amount, random),
                passed: number(limit.amount, random),
            });
        }
    }
    let unheard = (0..4).filter(|_| random.percent(20)).collect();
    let period = (now / PERIOD).saturating_add_signed(random.between(-3, 2));
    let stated = Stated {
        after: now,
        digest: Digest {
            count: random.below(9),
            sum: random.bits(),
        },
        part_bits: 0,
    };
    Body::Report(
        Report {
            period,
            view,
            unheard,
            entries,
        },
        stated,
    )
}

fn statement(now: Millis, random: &mut Random) -> Statement<Key> {
    let key = vec![
        random.bits().to_le_bytes()[0].max(100),
        random.bits().to_le_bytes()[0],
    ];
    let key = if random.percent(30) {
        vec![PROTECTED]
    } else {
        key
    };
    let subject = if random.percent(80) {
        Subject::Ban(key)
    } else {
        Subject::Allow(key)
    };
    let verb = if random.percent(80) {
        Verb::Says
    } else {
        Verb::Lifts
    };
    let ahead = [0, 1_000, 90_000, u64::MAX / 4][random.place(4)];
    Statement {
        subject,
        verb,
        stamp: Stamp((now + ahead).saturating_mul(1000)),
        until: now + 1 + random.below(u64::MAX / 2),
        note: "a lie".into(),
    }
}
