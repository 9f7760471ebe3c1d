//! The arguments of `rlctl cluster`.

use clap::{Args, Subcommand};

use crate::completions;

/// Verbs for the cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterVerb {
    /// Show the connection to the store, refused messages, and the nodes with their bans in force
    /// here
    #[command(after_help = "\
Examples:
  rlctl cluster status
  rlctl cluster status --json | jq -r '.nodes[].name'

The exit code is 1 while the store is unreachable.")]
    Status,
    /// Renamed to `rlctl cluster status`
    #[command(hide = true)]
    Nodes,
    /// Remove the entries of a node and ignore its messages
    Revoke(RevokeArguments),
}

/// `cluster revoke NODE [--undo]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl cluster revoke edge-3
  rlctl cluster revoke edge-3 --undo

The bans of the node end on all other nodes. After a break-in, also give the other nodes a new \
secret: the old one allows messages in any node's name.")]
pub struct RevokeArguments {
    /// The node
    #[arg(value_name = "NODE", add = completions::nodes())]
    pub node: String,
    /// Revoke a node that is unknown here
    #[arg(long)]
    pub force: bool,
    /// Lift the revocation
    #[arg(long)]
    pub undo: bool,
}
