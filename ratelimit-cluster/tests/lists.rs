//! Bans between nodes that share a store: how fast they spread, and which return.

use std::collections::BTreeMap;
use std::time::Instant;

use ratelimit_cluster::budget::{Count, Limit, WindowUsage};
use ratelimit_cluster::message::{Refusal, Secret};
use ratelimit_cluster::statements::{Bounds, Guard, Subject};
use ratelimit_cluster::{Arrival, Cluster, Config, Host, Memory, NodeName, Now, Outgoing};

type Key = Vec<u8>;

/// A host that protects the key 7.
struct Protects7;

impl Guard<Key> for Protects7 {
    fn permits(&self, subject: &Subject<Key>) -> Result<(), &'static str> {
        if *subject == Subject::Ban(vec![7]) {
            Err("it is protected")
        } else {
            Ok(())
        }
    }
}

impl Host<Key> for Protects7 {
    fn limit(&self, _: &Key) -> Option<Limit> {
        None
    }

    fn limits(&self) -> u64 {
        0
    }

    fn counts(&mut self) -> Vec<Count<Key>> {
        Vec::new()
    }

    fn held(&self, _: &Key, _: u64) -> WindowUsage {
        WindowUsage::default()
    }
}

/// Nodes, and a store that keeps what it is given until it is flushed.
struct Nodes {
    time: u64,
    clusters: Vec<(Cluster<Key>, usize)>,
    stream: Vec<(u64, Vec<u8>)>,
    parts: BTreeMap<(String, u16), Vec<u8>>,
    /// The lead of the wall clocks of nodes.
    ahead: BTreeMap<usize, u64>,
    /// The refusals of nodes that are allowed to refuse.
    refused: Option<Vec<Refusal>>,
}

const BEGIN: u64 = 1_700_000_000_000;

impl Nodes {
    fn new(count: usize) -> Self {
        let mut new = Self {
            time: BEGIN,
            clusters: Vec::new(),
            stream: Vec::new(),
            parts: BTreeMap::new(),
            ahead: BTreeMap::new(),
            refused: None,
        };
        (0..count).for_each(|_| new.join(Memory::default()));
        new.pass(8_000);
        new
    }

    /// A node comes that reads the stream from now on.
    fn join(&mut self, memory: Memory<Key>) {
        let cluster = self.started(self.clusters.len(), self.clusters.len(), memory);
        self.clusters.push((cluster, self.stream.len()));
    }

    /// Restarts the node, which reads the stream from now on.
    fn restart(&mut self, place: usize, memory: Memory<Key>) {
        let cluster = self.started(place, place, memory);
        self.clusters[place] = (cluster, self.stream.len());
    }

    fn started(&self, place: usize, named: usize, memory: Memory<Key>) -> Cluster<Key> {
        let config = Config {
            node: name(named),
            secret: Secret::new(b"s"),
            period: 1000,
            bounds: Bounds::default(),
        };
        Cluster::new(config, self.now_of(place), memory)
    }

    fn now_of(&self, place: usize) -> Now {
        let ahead = self.ahead.get(&place).copied().unwrap_or_default();
        Now {
            wall: self.time + ahead,
            ..self.now()
        }
    }

    fn now(&self) -> Now {
        Now {
            wall: self.time,
            monotonic: self.time - BEGIN,
        }
    }

    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds / 100 {
            self.time += 100;
            (0..self.clusters.len()).for_each(|node| self.step(node));
        }
    }

    fn step(&mut self, node: usize) {
        let now = self.now_of(node);
        let (cluster, read) = &mut self.clusters[node];
        for (stored, message) in &self.stream[*read..] {
            let arrival = Arrival::Stream { stored: *stored };
            let received = cluster.receive(now, arrival, message, &Protects7);
            match (received, &mut self.refused) {
                (Ok(_), _) => {}
                (Err(refusal), Some(refused)) => refused.push(refusal),
                (Err(refusal), None) => panic!("{refusal}"),
            }
        }
        *read = self.stream.len();
        for outgoing in cluster.due(now, &mut Protects7) {
            match outgoing {
                Outgoing::Publish(message) => self.stream.push((self.time, message)),
                Outgoing::Store { part, message, .. } => {
                    let author = cluster.name().to_string();
                    drop(self.parts.insert((author, part), message));
                }
                Outgoing::Fetch { node: of, parts } => {
                    for (_, message) in self
                        .parts
                        .iter()
                        .filter(|((name, part), _)| *name == of.to_string() && *part < parts)
                    {
                        cluster
                            .receive(now, Arrival::Stored, message, &Protects7)
                            .unwrap();
                    }
                }
            }
        }
    }

    fn ban(&mut self, node: usize, keys: impl IntoIterator<Item = u16>) {
        let now = self.now();
        for key in keys {
            self.clusters[node].0.say(
                now,
                Subject::Ban(key.to_be_bytes().to_vec()),
                self.time + 3_600_000,
                "why",
            );
        }
    }

    fn banned(&self, node: usize) -> usize {
        let cluster = &self.clusters[node].0;
        cluster
            .subjects()
            .filter(|subject| cluster.in_force(self.now(), subject, &Protects7).is_some())
            .count()
    }
}

fn name(node: usize) -> NodeName {
    NodeName::new(&format!("node-{node}")).unwrap()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long it takes is printed")]
fn ten_thousand_bans_are_on_three_nodes_within_a_second() {
    let mut nodes = Nodes::new(3);
    let begun = Instant::now();
    nodes.ban(0, 0..10_000);
    nodes.pass(500);
    assert_eq!([1, 2].map(|node| nodes.banned(node)), [10_000, 10_000]);
    println!("half a second of the cluster took {:?}", begun.elapsed());
}

#[test]
fn a_node_that_joins_late_gets_everything_from_the_store() {
    let mut nodes = Nodes::new(2);
    nodes.ban(0, 0..5_000);
    nodes.pass(5_000);
    nodes.join(Memory::default());
    nodes.pass(5_000);
    assert_eq!(nodes.banned(2), 5_000);
    assert_eq!(nodes.clusters[2].0.behind().count(), 0);
}

#[test]
fn what_the_store_lost_is_stored_again_when_somebody_misses_it() {
    let mut nodes = Nodes::new(2);
    nodes.ban(0, 0..2_000);
    nodes.pass(5_000);
    nodes.parts.clear();
    nodes.join(Memory::default());
    nodes.pass(10_000);
    assert_eq!(nodes.banned(2), 2_000);
}

#[test]
fn a_node_that_returns_learns_what_a_node_lifted_that_is_gone() {
    let mut nodes = Nodes::new(3);
    nodes.ban(0, 0..2_000);
    nodes.ban(2, 2_000..3_000);
    nodes.pass(3_000);
    let memory = nodes.clusters[1].0.memory();
    let now = nodes.now();
    for key in 0_u16..2_000 {
        let ban = Subject::Ban(key.to_be_bytes().to_vec());
        nodes.clusters[2].0.lift(now, ban, "why");
    }
    nodes.pass(3_000);
    nodes.clusters.truncate(2);
    nodes.restart(1, memory);
    nodes.pass(10_000);
    assert_eq!(nodes.banned(1), 1_000);
}

#[test]
fn a_message_that_was_lost_is_found_out_by_the_digest() {
    let mut nodes = Nodes::new(2);
    nodes.ban(0, 0..10);
    nodes.step(0);
    nodes.clusters[1].1 = nodes.stream.len();
    nodes.pass(100);
    assert_eq!(nodes.banned(1), 0, "it was lost");
    nodes.pass(5_000);
    assert_eq!(nodes.banned(1), 10);
}

#[test]
fn a_node_that_lost_its_memory_gets_its_own_from_the_store_and_the_others_keep_it() {
    let mut nodes = Nodes::new(2);
    nodes.ban(0, 0..100);
    nodes.pass(5_000);
    let config = Config {
        node: name(0),
        secret: Secret::new(b"s"),
        period: 1000,
        bounds: Bounds::default(),
    };
    nodes.clusters[0] = (
        Cluster::new(config, nodes.now(), Memory::default()),
        nodes.stream.len(),
    );
    nodes.parts.clear();
    nodes.pass(20_000);
    assert_eq!(
        [nodes.banned(0), nodes.banned(1)],
        [0, 100],
        "with the store empty, too, the other keeps it to its end"
    );
    assert_eq!(
        nodes.clusters[1].0.behind().count(),
        0,
        "and does not ask for ever"
    );
}

#[test]
fn a_node_that_lost_its_memory_reads_all_of_its_parts_before_it_stores_any() {
    let mut nodes = Nodes::new(1);
    nodes.ban(0, 0..2_000);
    nodes.pass(5_000);
    assert!(nodes.parts.len() > 2);
    nodes.restart(0, Memory::default());
    nodes.ban(0, [2_000]);
    nodes.pass(5_000);
    assert_eq!(nodes.banned(0), 2_001);
    // Also where the store was away at first.
    nodes.restart(0, Memory::default());
    nodes.ban(0, [2_001]);
    let now = nodes.now();
    nodes.clusters[0].0.due(now, &mut Protects7);
    nodes.time += 1_000;
    nodes.clusters[0].0.store_again();
    nodes.pass(5_000);
    assert_eq!(nodes.banned(0), 2_002);
}

#[test]
fn what_is_protected_here_is_not_banned_by_a_peer_and_may_be_banned_here() {
    let mut nodes = Nodes::new(2);
    let protected = Subject::Ban(vec![7]);
    let now = nodes.now();
    nodes.clusters[0]
        .0
        .say(now, protected.clone(), nodes.time + 60_000, "why");
    nodes.pass(1_000);
    let in_force = |node: usize| {
        nodes.clusters[node]
            .0
            .in_force(nodes.now(), &protected, &Protects7)
    };
    assert!(in_force(0).is_some());
    assert_eq!(in_force(1), None);
}

#[test]
fn what_a_node_takes_back_ends_everywhere_and_leaves_what_others_state() {
    let mut nodes = Nodes::new(2);
    nodes.ban(0, [1, 2]);
    nodes.ban(1, [2]);
    nodes.pass(1_000);
    for key in [1, 2] {
        let now = nodes.now();
        let subject = Subject::Ban(u16::to_be_bytes(key).to_vec());
        assert!(nodes.clusters[0].0.withdraw(now, subject, "why"));
    }
    nodes.pass(1_000);
    assert_eq!([0, 1].map(|node| nodes.banned(node)), [1, 1]);
}

#[test]
fn a_node_is_told_who_lifted_what_it_states() {
    let mut nodes = Nodes::new(2);
    nodes.ban(0, [1]);
    nodes.pass(1_000);
    let subject = Subject::Ban(1_u16.to_be_bytes().to_vec());
    let now = nodes.now();
    assert_eq!(nodes.clusters[0].0.lifted_by(now, &subject), None);
    nodes.clusters[1].0.lift(now, subject.clone(), "why");
    nodes.pass(1_000);
    let lifted_by = nodes.clusters[0].0.lifted_by(nodes.now(), &subject);
    assert_eq!(lifted_by, Some(name(1)));
    assert!(nodes.clusters[0].0.agrees_with(&name(1)));
}

#[test]
fn who_stated_something_lifts_it_too_and_so_it_stays_lifted_where_the_other_is_gone() {
    let mut nodes = Nodes::new(3);
    nodes.ban(0, [1, 2]);
    nodes.pass(1_000);
    let subject = |key: u16| Subject::Ban(key.to_be_bytes().to_vec());
    let now = nodes.now();
    nodes.clusters[2].0.lift(now, subject(1), "why");
    nodes.pass(100);
    // Statements of other nodes after the lift remain in force.
    nodes.ban(1, [1]);
    nodes.pass(1_000);
    let now = nodes.now();
    let first = &mut nodes.clusters[0].0;
    assert!(first.lift_as_others(now, &subject(1)));
    assert!(!first.lift_as_others(now, &subject(1)), "once is enough");
    assert!(!first.lift_as_others(now, &subject(2)), "nobody lifted it");
    nodes.pass(3_000);
    assert_eq!([0, 1].map(|node| nodes.banned(node)), [2, 2]);
    // Its next life knows it from its memory alone, and a node that comes from the store alone.
    nodes.parts.remove(&(name(1).to_string(), 0));
    nodes.parts.remove(&(name(2).to_string(), 0));
    let config = Config {
        node: name(0),
        secret: Secret::new(b"s"),
        period: 1000,
        bounds: Bounds::default(),
    };
    let memory = nodes.clusters[0].0.memory();
    let next = Cluster::new(config, nodes.now(), memory);
    nodes.clusters.truncate(1);
    nodes.clusters[0] = (next, nodes.stream.len());
    nodes.join(Memory::default());
    assert_eq!(nodes.banned(0), 1);
    nodes.pass(5_000);
    assert_eq!([0, 1].map(|node| nodes.banned(node)), [1, 1]);
}

fn ban(key: u8) -> Subject<Key> {
    Subject::Ban(vec![key])
}

/// A node that states a ban of the key, which has to be on the other one some time later.
#[track_caller]
fn believed(nodes: &mut Nodes, key: u8, after: u64) {
    let (now, until) = (nodes.now_of(0), nodes.time + 3_600_000);
    nodes.clusters[0].0.say(now, ban(key), until, "why");
    nodes.pass(after);
    let in_force = nodes.clusters[1]
        .0
        .in_force(nodes.now(), &ban(key), &Protects7);
    assert!(in_force.is_some(), "{key}: {:?}", nodes.refused);
}

#[test]
fn a_node_that_started_with_its_clock_ahead_is_believed_after_a_start_with_the_right_one() {
    for keeps_memory in [true, false] {
        let mut nodes = Nodes::new(2);
        nodes.refused = Some(Vec::new());
        nodes.ahead.insert(0, 50_000);
        nodes.restart(0, Memory::default());
        nodes.pass(5_000);
        believed(&mut nodes, 1, 1_000);
        let memory = nodes.clusters[0].0.memory();
        nodes.ahead.clear();
        // The stored statements contain it, too; here they are lost.
        nodes.parts.clear();
        nodes.restart(
            0,
            if keeps_memory {
                memory
            } else {
                Memory::default()
            },
        );
        believed(&mut nodes, 2, 6_000);
        assert!(!keeps_memory || nodes.refused == Some(Vec::new()));
    }
}

#[test]
fn a_node_that_stated_something_while_its_clock_was_ahead_is_believed_once_it_is_right() {
    let mut nodes = Nodes::new(2);
    nodes.refused = Some(Vec::new());
    nodes.ahead.insert(0, 3_600_000);
    nodes.restart(0, Memory::default());
    let (now, until) = (nodes.now_of(0), nodes.time + 7_200_000);
    nodes.clusters[0].0.say(now, ban(1), until, "why");
    nodes.pass(2_000);
    nodes.ahead.clear();
    nodes.pass(5_000);
    let peer = &nodes.clusters[1].0;
    assert!(peer.in_force(nodes.now(), &ban(1), &Protects7).is_some());
    assert_eq!(peer.behind().count(), 0);
    nodes.refused = None;
    believed(&mut nodes, 2, 1_000);
}

#[test]
fn a_store_whose_time_stands_still_leaves_no_node_alone_with_the_whole_budget() {
    let mut nodes = Nodes::new(2);
    nodes.refused = Some(Vec::new());
    nodes.pass(5_000);
    let members = |nodes: &Nodes, node: usize| {
        let cluster = &nodes.clusters[node].0;
        cluster.budget().members().names().len()
    };
    assert_eq!((members(&nodes, 0), members(&nodes, 1)), (2, 2));
    for node in 0..2 {
        nodes.ahead.insert(node, 600_000);
    }
    nodes.pass(20_000);
    assert_eq!((members(&nodes, 0), members(&nodes, 1)), (2, 2));
}

#[test]
fn a_node_whose_name_another_one_had_for_a_while_is_believed_again() {
    let mut nodes = Nodes::new(2);
    nodes.pass(1_000);
    nodes.refused = Some(Vec::new());
    let impostor = nodes.started(2, 0, Memory::default());
    nodes.clusters.push((impostor, nodes.stream.len()));
    nodes.pass(5_000);
    let two = |refusal: &Refusal| matches!(refusal, Refusal::TwoNodes { .. });
    assert!(
        nodes.refused.take().unwrap().iter().any(two),
        "it is reported"
    );
    nodes.refused = Some(Vec::new());
    nodes.clusters.truncate(2);
    believed(&mut nodes, 1, 15_000);
    nodes.refused = None;
    believed(&mut nodes, 2, 1_000);
}

#[test]
fn what_was_taken_back_or_lifted_stays_so_on_a_node_that_restarts_and_is_told_old_messages() {
    for pause in [2_000, 200_000] {
        let mut nodes = Nodes::new(3);
        let now = nodes.now();
        let until = nodes.time + 30 * 86_400_000;
        let allow = Subject::Allow(vec![1]);
        nodes.clusters[1].0.say(now, allow.clone(), until, "why");
        nodes.clusters[1].0.say(now, ban(2), until, "why");
        nodes.clusters[1].0.say(now, ban(3), until, "why");
        nodes.pass(3_000);
        let (old, parts) = (nodes.stream.clone(), nodes.parts.clone());
        let now = nodes.now();
        assert!(nodes.clusters[1].0.withdraw(now, allow.clone(), ""));
        assert!(nodes.clusters[1].0.withdraw(now, ban(2), ""));
        assert!(nodes.clusters[2].0.lift(now, ban(3), ""));
        nodes.pass(pause);
        let memory = nodes.clusters[0].0.memory();
        let text = serde_json::to_string(&memory).unwrap();
        nodes.clusters.truncate(1);
        nodes.refused = Some(Vec::new());
        nodes.restart(0, serde_json::from_str(&text).unwrap());
        let again = old.into_iter().map(|(_, message)| (nodes.time, message));
        nodes.stream.extend(again.collect::<Vec<_>>());
        let now = nodes.now();
        for part in parts.values() {
            let first = &mut nodes.clusters[0].0;
            drop(
                first
                    .receive(now, Arrival::Stored, part, &Protects7)
                    .unwrap(),
            );
        }
        nodes.pass(1_000);
        let refused = nodes.refused.take().unwrap();
        let is_replay = |refusal: &Refusal| matches!(refusal, Refusal::Replayed { .. });
        let is_late = |refusal: &Refusal| matches!(refusal, Refusal::ClockApart { .. });
        assert!(!refused.is_empty() && refused.iter().all(|it| is_replay(it) || is_late(it)));
        assert!(
            pause > 60_000 || refused.iter().all(is_replay),
            "{refused:?}"
        );
        let in_force = |subject: &Subject<Key>| {
            let first = &nodes.clusters[0].0;
            first.in_force(nodes.now(), subject, &Protects7)
        };
        assert_eq!(in_force(&allow), None, "{pause}");
        assert_eq!(
            [2, 3].map(|key| in_force(&ban(key))),
            [None, None],
            "{pause}"
        );
    }
}
