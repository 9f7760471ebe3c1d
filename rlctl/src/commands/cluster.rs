//! `rlctl cluster`: the store, the nodes, and the revocation of one.

use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Zoned;
use ratelimit_core::{
    api::{ClusterStatus, NodeState, NodeView, RevokeRequest, Revoked, SharingStatus},
    quantity,
};

use crate::{
    client::{Answer, Client},
    commands::renamed,
    completions,
    exit_code::ExitCode,
    failure::Failure,
    output::{BAD, WARNING, printable, styled},
    phrase,
    report::Report,
    table::Table,
};

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

/// Carries out a verb of the cluster.
pub fn run(verb: &ClusterVerb, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    match verb {
        ClusterVerb::Status => status(client, now),
        ClusterVerb::Nodes => Err(renamed("cluster nodes", "cluster status")),
        ClusterVerb::Revoke(arguments) => revoke(arguments, client, now),
    }
}

fn status(client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let answer: Answer<ClusterStatus> = client.get("/v1/cluster")?;
    let mut text = sentences(&answer.value, now).join("\n");
    if !answer.value.nodes.is_empty() {
        text = format!("{text}\n\n{}", nodes(&answer.value.nodes));
    }
    let is_cut_off = answer.value.connected == Some(false);
    let mut report = Report::new(answer, text);
    if is_cut_off {
        report.code = ExitCode::Refused;
    }
    Ok(report)
}

fn sentences(status: &ClusterStatus, now: &Zoned) -> Vec<String> {
    let mut lines = vec![line(status, now)];
    lines.extend(status.sharing.iter().flat_map(|it| sharing(it, now)));
    let refused: u64 = status.refused.values().sum();
    if refused > 0 {
        let reasons: Vec<String> = status
            .refused
            .iter()
            .map(|(reason, count)| format!("{count} {}", printable(reason)))
            .collect();
        let number = phrase::count(refused, "message", "messages");
        let number = styled(WARNING, &format!("{number} refused"));
        lines.push(format!("{number}: {}", phrase::and(&reasons)));
    }
    if let (Some(refusal), Some(at)) = (&status.refusal, status.refused_at) {
        let at = phrase::moment(at, now);
        lines.push(format!(
            "last refused message at {at}: {}",
            printable(refusal)
        ));
    }
    if status.denied > 0 {
        let denied = phrase::count(status.denied, "statement", "statements");
        let last = status.denial.as_deref().map_or_else(String::new, |last| {
            format!(", the last {}", printable(last))
        });
        lines.push(format!("{denied} of other nodes ignored{last}"));
    }
    lines.extend(status.not_in_force.iter().map(|it| {
        format!(
            "{}: {}, set on {}: {}",
            styled(WARNING, "not in force here"),
            printable(&it.what),
            printable(&it.node),
            printable(&it.why)
        )
    }));
    lines
}

/// `limits: 12 shares here, divided by 3 nodes every 500ms since 14:22:07, last 0.3s ago`
fn sharing(sharing: &SharingStatus, now: &Zoned) -> Vec<String> {
    let SharingStatus {
        keys,
        divided_by,
        without_room,
        ..
    } = sharing;
    let since = phrase::moment(sharing.since, now);
    let period = quantity::duration(Duration::from_secs_f64(sharing.period_seconds));
    let ago = |at: jiff::Timestamp| {
        let seconds = at
            .until(now.timestamp())
            .map_or(0.0, |it| it.total(jiff::Unit::Second).unwrap_or_default());
        format!("{:.1}s ago", seconds.max(0.0))
    };
    let last = sharing.divided_at.map_or_else(
        || "never divided".to_owned(),
        |at| format!("last divided {}", ago(at)),
    );
    let mut lines = vec![match &sharing.fallback {
        None => format!(
            "limits: {} here, divided by {} every {period} since {since}, last {}",
            phrase::count(*keys, "share", "shares"),
            phrase::count(*divided_by, "node", "nodes"),
            sharing.divided_at.map_or_else(String::new, ago),
        ),
        Some(why) => format!(
            "limits: {} since {since}, to at most the limit divided by {divided_by}: {}; {last}",
            styled(WARNING, "fallen back"),
            printable(why)
        ),
    }];
    if *without_room > 0 {
        lines.push(format!(
            "{}: {} of limit/nodes because the share table is full",
            styled(WARNING, "full"),
            phrase::count(
                *without_room,
                "key uses its fixed share",
                "keys use their fixed shares"
            ),
        ));
    }
    lines
}

/// `cluster: edge-1, connected to redis://store:6379 since 14:22:07; 3 nodes; 7 bans by other
/// nodes`
pub fn line(status: &ClusterStatus, now: &Zoned) -> String {
    let (node, url) = (printable(&status.node), printable(&status.url));
    let bans = phrase::count(status.bans, "ban", "bans");
    let since = phrase::moment(status.since, now);
    let error = status.error.as_deref().map(printable);
    let alive = status
        .nodes
        .iter()
        .filter(|node| node.state.reports())
        .count();
    let nodes = phrase::count(alive, "node", "nodes");
    match (status.connected, error) {
        (None, _) => format!("cluster: {node}, connecting to {url}; {bans} by other nodes"),
        (Some(true), None) => {
            format!(
                "cluster: {node}, connected to {url} since {since}; {nodes}; {bans} by other nodes"
            )
        }
        (Some(true), Some(error)) => {
            let refused = styled(BAD, "cannot apply bans of other nodes");
            format!("cluster: {node}, connected to {url}, {refused}: {error}")
        }
        (Some(false), error) => {
            let silent = styled(BAD, "no store");
            let error = error.unwrap_or_default();
            format!(
                "cluster: {node}, {silent}, {url} unreachable since {since}: {error}; {bans} by \
                 other nodes still in force"
            )
        }
    }
}

fn nodes(nodes: &[NodeView]) -> Table {
    let mut table = Table::new("NODE | STATE | >STATED | >BANS HERE");
    for node in nodes {
        table.row([
            printable(&node.name),
            state(node).to_owned(),
            node.stated.to_string(),
            node.bans.to_string(),
        ]);
    }
    table
}

fn state(node: &NodeView) -> &'static str {
    match node.state {
        NodeState::Here => "this node",
        NodeState::Alive => "alive",
        NodeState::Behind => "catching up",
        NodeState::Silent => "silent",
        NodeState::Revoked => "revoked",
    }
}

fn revoke(arguments: &RevokeArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let request = RevokeRequest {
        node: arguments.node.clone(),
        undo: arguments.undo,
        force: arguments.force,
    };
    let answer: Answer<Revoked> = client.post("/v1/cluster/revoke", &request)?;
    let node = printable(&answer.value.node);
    let text = match (answer.value.until, answer.value.changed) {
        (Some(until), true) => format!("revoked {node} until {}", phrase::moment(until, now)),
        (Some(until), false) => {
            format!(
                "{node} was already revoked, now until {}",
                phrase::moment(until, now)
            )
        }
        (None, true) => format!("lifted the revocation of {node}"),
        (None, false) => format!("{node} was not revoked"),
    };
    Ok(Report::new(answer, text))
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use jiff::Timestamp;
    use ratelimit_core::api::NotInForce;

    use super::*;

    #[test]
    fn the_store_and_what_was_refused_are_reported() {
        let mut status = ClusterStatus {
            url: "redis://store:6379".to_owned(),
            node: "edge-1".to_owned(),
            connected: Some(false),
            since: Timestamp::UNIX_EPOCH,
            error: Some("broken pipe".to_owned()),
            bans: 7,
            failures: 3,
            nodes: Vec::new(),
            refused: [("replayed".to_owned(), 2)].into(),
            refusal: Some("message 3 of `edge-2` came before".to_owned()),
            refused_at: Some(Timestamp::UNIX_EPOCH),
            denied: 1,
            denial: Some("the ban of 192.0.2.1 by `edge-2`: protected here".to_owned()),
            not_in_force: vec![NotInForce {
                what: "the limits of 203.0.113.0/24".to_owned(),
                node: "edge-2".to_owned(),
                why: "no class `dns`".to_owned(),
            }],
            sharing: None,
        };
        let now = Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
        let plain = |line: String| strip_str(&line).to_string();
        let lines: Vec<String> = sentences(&status, &now).into_iter().map(plain).collect();
        assert_eq!(
            lines,
            [
                "cluster: edge-1, no store, redis://store:6379 unreachable since 00:00:00: broken \
                 pipe; 7 bans by other nodes still in force",
                "2 messages refused: 2 replayed",
                "last refused message at 00:00:00: message 3 of `edge-2` came before",
                "1 statement of other nodes ignored, the last the ban of 192.0.2.1 by `edge-2`: \
                 protected here",
                "not in force here: the limits of 203.0.113.0/24, set on edge-2: no class `dns`",
            ]
        );
        status.connected = Some(true);
        status.error = None;
        assert_eq!(
            plain(line(&status, &now)),
            "cluster: edge-1, connected to redis://store:6379 since 00:00:00; 0 nodes; 7 bans by \
             other nodes"
        );
    }

    #[test]
    fn how_limits_are_divided_is_reported_and_why_they_are_not() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let now = at(9).to_zoned(jiff::tz::TimeZone::UTC);
        let mut status = SharingStatus {
            keys: 12,
            without_room: 0,
            period_seconds: 0.5,
            configured_nodes: 3,
            divided_by: 3,
            divided_at: Some(at(8)),
            fallback: None,
            since: at(2),
        };
        let lines = |status: &SharingStatus| {
            let lines = sharing(status, &now).into_iter();
            lines
                .map(|line| strip_str(&line).to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            lines(&status),
            [
                "limits: 12 shares here, divided by 3 nodes every 500ms since 00:00:02, last 1.0s \
                 ago"
            ]
        );
        status.fallback = Some("the store is unreachable: broken pipe".to_owned());
        status.without_room = 1;
        assert_eq!(
            lines(&status),
            [
                "limits: fallen back since 00:00:02, to at most the limit divided by 3: the store \
                 is unreachable: broken pipe; last divided 1.0s ago",
                "full: 1 key uses its fixed share of limit/nodes because the share table is full",
            ]
        );
    }
}
