//! Bans of this host as a node of a cluster.

use ratelimit_cluster::{Arrival, Outgoing, message::Secret};
use ratelimit_core::config::{cluster::Cluster, crowdsec::Key};

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

    /// Sends what is due to the store, which has no other nodes, and hears it back.
    fn step(&mut self) {
        let mut heard = Vec::new();
        for _ in 0..3 {
            let due = self.controller.run(StepCluster(heard));
            let stored = clock::wall_millis();
            let published = due.into_iter().filter_map(|outgoing| match outgoing {
                Outgoing::Publish(message) => Some(Heard {
                    arrival: Arrival::Stream { stored },
                    message,
                }),
                Outgoing::Store { .. } | Outgoing::Fetch { .. } => None,
            });
            heard = published.collect();
        }
        self.feeds.cluster.write_down();
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
