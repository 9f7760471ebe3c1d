//! What this node stated, and who the members were, over a restart.

use std::collections::BTreeSet;

use ratelimit_cluster::{
    Cluster as Node, Memory, NodeName, Stamp,
    budget::members::Views,
    statements::{Statement, Subject, Verb},
};
use ratelimit_core::prefix::Prefix;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::{
    Membership,
    changes::{allow_of, limits_of},
};
use crate::cluster::ClusterKey;

/// As it is written down.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Remembered {
    node: String,
    statements: Vec<Stated>,
    members: BTreeSet<String>,
    agreed: BTreeSet<String>,
    attempts: Vec<BTreeSet<String>>,
    divided_by: u64,
}

/// A statement.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Stated {
    #[serde(flatten)]
    about: About,
    lifts: bool,
    stamp: u64,
    until: u64,
    note: String,
}

/// What it is about.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum About {
    Ban(Prefix),
    Allow(Prefix),
    Limits(Option<Prefix>),
    Node(String),
}

impl Remembered {
    /// What a node would forget.
    pub fn of(node: &Node<ClusterKey>) -> Self {
        let Memory {
            statements,
            views,
            shares: _,
            divided_by,
        } = node.memory();
        Self {
            node: node.name().to_string(),
            statements: statements.iter().filter_map(Stated::of).collect(),
            members: texts(&views.current),
            agreed: texts(&views.agreed),
            attempts: views.attempts.iter().map(texts).collect(),
            divided_by,
        }
    }

    /// How many statements it has.
    pub fn len(&self) -> usize {
        self.statements.len()
    }

    fn into_memory(self) -> Memory<ClusterKey> {
        Memory {
            statements: self.statements.iter().filter_map(Stated::read).collect(),
            views: Views {
                current: names(&self.members),
                agreed: names(&self.agreed),
                attempts: self.attempts.iter().map(names).collect(),
                at_least: 0,
            },
            divided_by: self.divided_by,
            ..Memory::default()
        }
    }
}

impl Stated {
    fn of(statement: &Statement<ClusterKey>) -> Option<Self> {
        Some(Self {
            about: match &statement.subject {
                Subject::Ban(ClusterKey::Prefix(prefix)) => About::Ban(*prefix),
                Subject::Allow(ClusterKey::Prefix(prefix)) => About::Allow(*prefix),
                Subject::Node(name) => About::Node(name.to_string()),
                Subject::Limits(ClusterKey::Prefix(prefix)) => About::Limits(Some(*prefix)),
                Subject::Limits(ClusterKey::Default) => About::Limits(None),
                Subject::Ban(_) | Subject::Allow(_) | Subject::Limits(_) => return None,
            },
            lifts: statement.verb == Verb::Lifts,
            stamp: statement.stamp.0,
            until: statement.until,
            note: statement.note.to_string(),
        })
    }

    fn read(&self) -> Option<Statement<ClusterKey>> {
        let subject = match &self.about {
            About::Ban(prefix) => Subject::Ban(ClusterKey::Prefix(*prefix)),
            About::Allow(prefix) => allow_of(*prefix),
            About::Limits(target) => limits_of(*target),
            About::Node(name) => Subject::Node(NodeName::new(name)?),
        };
        Some(Statement {
            note: subject.note(&self.note),
            subject,
            verb: if self.lifts { Verb::Lifts } else { Verb::Says },
            stamp: Stamp(self.stamp),
            until: self.until,
        })
    }
}

impl Membership {
    /// What a node of this name remembers; nothing where this host had another name.
    pub(super) fn remembered(&self, node: &NodeName) -> Memory<ClusterKey> {
        match self.kept.read() {
            Ok(Some(remembered)) if remembered.node == node.as_str() => remembered.into_memory(),
            Ok(_) => Memory::default(),
            Err(error) => {
                warn!(
                    error = format!("{error:#}"),
                    "what this node stated is read from the store, and its bans are stated again"
                );
                Memory::default()
            }
        }
    }
}

fn texts(names: &BTreeSet<NodeName>) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

fn names(texts: &BTreeSet<String>) -> BTreeSet<NodeName> {
    texts
        .iter()
        .filter_map(|text| NodeName::new(text))
        .collect()
}
