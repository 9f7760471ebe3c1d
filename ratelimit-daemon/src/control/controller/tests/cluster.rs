//! Bans of this host as a node of a cluster.

use std::{fs, path::PathBuf};

use ratelimit_cluster::{Arrival, Outgoing, message::Secret};
use ratelimit_core::config::{cluster::Cluster, crowdsec::Key};
use serde_json::Value;

use super::*;
use crate::{
    cluster::Heard,
    control::commands::{JoinCluster, StepCluster},
};

fn cluster() -> Cluster {
    Cluster {
        store: "redis://127.0.0.1:6379".parse().unwrap(),
        ca_file: None,
        certificate: None,
        node: "a".into(),
        secret: Key::File("/cluster.secret".into()),
        period: Duration::from_millis(250),
        nodes: 0,
    }
}

impl Lab {
    /// A host that has not joined its cluster yet.
    fn of_cluster() -> Self {
        Self::new(Config {
            cluster: Some(cluster()),
            ..config()
        })
    }

    fn join(&mut self) {
        let join = JoinCluster {
            config: cluster(),
            secret: Secret::new(b"0123456789abcdef"),
        };
        self.controller.run(join);
    }

    /// Lets this host state its bans to the store, which has no other nodes.
    fn step(&mut self) {
        let mut heard = Vec::new();
        for _ in 0..3 {
            heard = self.exchange(heard, 0);
        }
        self.feeds.cluster.write_down();
    }

    /// Processes messages, and returns those that are sent. The clock of the store is so many
    /// milliseconds ahead.
    fn exchange(&mut self, heard: Vec<Heard>, ahead: u64) -> Vec<Heard> {
        let due = self.controller.run(StepCluster(heard));
        let stored = clock::wall_millis() + ahead;
        let published = due.into_iter().filter_map(|outgoing| match outgoing {
            Outgoing::Publish(message) => Some(Heard {
                arrival: Arrival::Stream { stored },
                message,
            }),
            Outgoing::Store { .. } | Outgoing::Fetch { .. } => None,
        });
        published.collect()
    }

    /// The saved document, with this host's statements.
    fn saved(&self) -> (PathBuf, Value) {
        let path = self.directory.path().join("cluster.json");
        let text = fs::read(&path).unwrap();
        (path, serde_json::from_slice(&text).unwrap())
    }
}

#[test]
fn a_ban_restored_from_this_nodes_statements_survives_a_restart() {
    let mut lab = Lab::of_cluster();
    lab.join();
    lab.ban(&["192.0.2.1"], Some(600.0)).unwrap();
    lab.step();
    lab.restart();
    let restored = Origin::cluster("a");
    lab.edit(&[
        ban("192.0.2.1", restored, clock::after(Duration::from_mins(10))),
        Edit::Ban(prefix("192.0.2.1"), Origin::Manual, None),
    ]);
    lab.join();
    lab.step();
    assert!(lab.is_banned("192.0.2.1"));
}

#[test]
fn an_unban_before_this_host_has_joined_again_lifts_its_statement() {
    let mut lab = Lab::of_cluster();
    lab.join();
    lab.ban(&["192.0.2.1"], Some(600.0)).unwrap();
    lab.step();
    lab.restart();
    lab.unban(&["192.0.2.1"]).unwrap();
    lab.join();
    let changed = lab.unban(&["192.0.2.1"]).unwrap();
    assert_eq!(changed.absent, [prefix("192.0.2.1")]);
}

#[test]
fn a_reload_is_reported_even_if_only_the_secret_file_may_have_changed() {
    let mut lab = Lab::of_cluster();
    let wish = lab.feeds.cluster.wishes();
    let config = lab.state.intent.config.clone();
    lab.replace(config).unwrap();
    assert!(wish.has_changed().unwrap());
}

#[test]
fn bans_are_stated_once_the_time_is_known_and_again_if_the_clock_was_wrong() {
    const HOUR: u64 = 3_600_000;
    let mut lab = Lab::of_cluster();
    lab.join();
    // It starts with a clock that is an hour ahead.
    let (path, mut saved) = lab.saved();
    let ahead = &mut saved["clock"][1]["ahead"];
    *ahead = (ahead.as_u64().unwrap() + HOUR).into();
    fs::write(path, saved.to_string()).unwrap();
    lab.start_again();
    lab.join();
    lab.ban(&["192.0.2.1"], Some(600.0)).unwrap();
    let heard = lab.exchange(Vec::new(), HOUR);
    let ends_within = |lab: &mut Lab, limit: u64| {
        lab.feeds.cluster.write_down();
        let (_, saved) = lab.saved();
        let limit = clock::wall_millis() + limit;
        let statements = saved["statements"].as_array().unwrap().clone();
        let ends = statements.into_iter().map(|statement| {
            let of = |key: &str| statement[key].as_u64().unwrap();
            of("until") <= limit && of("stamp") / 1000 <= limit - 600_000
        });
        ends.collect::<Vec<_>>()
    };
    assert!(ends_within(&mut lab, 0).is_empty());
    // The store is, too.
    let heard = lab.exchange(heard, HOUR);
    lab.exchange(heard, HOUR);
    assert_eq!(ends_within(&mut lab, 600_000), [false]);
    assert_eq!(ends_within(&mut lab, 600_000 + HOUR), [true]);
    for last in 2..8 {
        lab.ban(&[&format!("192.0.2.{last}")], Some(600.0)).unwrap();
        lab.step();
    }
    assert_eq!(ends_within(&mut lab, 600_000), [true; 7]);
}

#[test]
fn a_step_compares_some_of_many_statements_and_later_ones_the_rest() {
    let mut lab = Lab::of_cluster();
    lab.join();
    // No node has this name, so the bans of this origin end.
    let unknown = Origin::cluster("?");
    let until = clock::after(Duration::from_mins(10));
    let edits: Vec<Edit> = (0..2_500_u16)
        .map(|it| {
            ban(
                &format!("192.0.{}.{}", it >> 8, it & 255),
                unknown.clone(),
                until,
            )
        })
        .collect();
    lab.edit(&edits);
    let mut left = vec![lab.state.intent.bans().len()];
    for _ in 0..3 {
        lab.controller.run(StepCluster(Vec::new()));
        left.push(lab.state.intent.bans().len());
    }
    assert_eq!(left, [2_500, 1_500, 500, 0]);
}
