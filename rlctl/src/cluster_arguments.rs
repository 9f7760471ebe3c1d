//! The arguments of `rlctl cluster`.

use clap::{Args, Subcommand};

use crate::completions;

/// What can be asked of the cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterVerb {
    /// Show whether the store answers, and what was refused
    #[command(
        after_help = "Examples:\n  rlctl cluster status\n\nEnds with 1 while the store does not answer."
    )]
    Status,
    /// Show the nodes, and how many bans of each are in force here
    #[command(
        after_help = "Examples:\n  rlctl cluster nodes\n  rlctl cluster nodes --json | jq -r '.nodes[].name'"
    )]
    Nodes,
    /// Discard what a node has stated, and refuse its messages
    Revoke(RevokeArguments),
}

/// `cluster revoke NODE [--undo]`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  rlctl cluster revoke edge-3\n  rlctl cluster revoke edge-3 --undo\n\nThe bans of the node end on all others. After a break-in, give the others a new secret too: who has the old one can speak in any name."
)]
pub struct RevokeArguments {
    /// The node
    #[arg(value_name = "NODE", add = completions::nodes())]
    pub node: String,
    /// Revoke a node that this one does not know
    #[arg(long)]
    pub force: bool,
    /// Let it take part again
    #[arg(long)]
    pub undo: bool,
}
