//! `rlctl status`: whether the limiter works, on what, and how full it is.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use jiff::{Timestamp, Zoned};
use ratelimit_core::{
    api::{
        Attempt, ChallengeStatus, ClockStatus, CrowdsecStatus, DatabaseStatus, DetectionStatus,
        InactiveLimits, InterfaceStatus, KernelClock, ListView, MapStatus, Status, TrialOutcome,
        Trouble, Unenforced,
    },
    class::Action,
};

use crate::{
    client::{Answer, Client},
    commands::cluster,
    commands::{lists, pass_all, stats},
    exit_code::ExitCode,
    failure::Failure,
    output::{BAD, WARNING, printable, printable_lines, styled},
    phrase,
    report::Report,
    table::Table,
};

/// The percentage from which on a map is reported.
const NEARLY_FULL: u128 = 80;

/// The duration of the traffic measurement.
const MEASURED: Duration = Duration::from_millis(500);

/// Shows the state of the daemon and its datapath.
pub fn run(with_maps: bool, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let answer: Answer<Status> = client.get("/v1/status")?;
    let mut summary = summary(&answer.value, now);
    if !with_maps {
        summary.extend(answer.value.maps.iter().filter_map(nearly_full));
    }
    let mut parts = vec![summary.join("\n"), interfaces(&answer.value.interfaces)];
    if io::stdout().is_terminal() {
        parts.push(traffic(client)?);
    }
    if with_maps {
        parts.push(maps(&answer.value.maps).to_string());
    }
    let text = parts.join("\n\n");
    let is_enforced = answer.value.interfaces.iter().all(|it| it.attached);
    let mut report = Report::new(answer, text);
    if !is_enforced {
        report.code = ExitCode::NotEnforced;
    }
    Ok(report)
}

/// Shows the current rate of each verdict.
fn traffic(client: &Client) -> Result<String, Failure> {
    let rates = stats::rates(MEASURED, client)?;
    if rates.is_empty() {
        return Ok("no packets in 0.5 s".to_owned());
    }
    Ok(stats::rate_table(&rates).to_string())
}

/// `eth0 not protected since 14:22:07: there is no such interface`, for people who may not know.
pub fn not_enforced(unenforced: &Unenforced, now: &Zoned) -> String {
    format!(
        "{} not protected since {}: {}",
        unenforced.interface,
        phrase::moment(unenforced.since, now),
        unenforced.why
    )
}

fn summary(status: &Status, now: &Zoned) -> Vec<String> {
    let mut lines = vec![
        format!(
            "ratelimitd {}, PID {}, up {}",
            printable(&status.version),
            status.pid,
            phrase::span(status.started, now.timestamp())
        ),
        format!(
            "configuration: {}, applied {}",
            source(&status.config_files),
            phrase::moment(status.config_applied, now)
        ),
    ];
    if let Some(error) = &status.config_error {
        let refused = styled(BAD, "the last reload failed");
        lines.push(format!(
            "{refused}; the previous configuration is still active:\n{}",
            printable_lines(error)
        ));
        if error.contains("`…`") {
            lines.push("details hidden; run as root: sudo rlctl status".to_owned());
        }
    }
    lines.extend(status.troubles.iter().map(|it| trouble(it, now)));
    lines.extend(database(&status.database));
    lines.extend(status.database.inactive.iter().map(inactive));
    if status.observe {
        lines.push(dry_run());
    }
    if let Some(opened) = &status.pass_all {
        lines.push(styled(BAD, &printable(&pass_all::warning(opened, now))));
    }
    lines.extend(status.attempt.as_ref().map(|attempt| trial(attempt, now)));
    lines.push(clock(&status.clock));
    lines.push(format!(
        "{}, {}, {}",
        bans(status),
        phrase::count(status.allows, "allow", "allows"),
        phrase::count(status.policies, "policy", "policies")
    ));
    if status.protected != 0 {
        lines.push(format!(
            "{} protected from bans: `rlctl list protected`",
            phrase::count(status.protected, "prefix is", "prefixes are")
        ));
    }
    lines.extend(status.detection.as_ref().map(detection));
    lines.extend(status.attacks.iter().map(|it| phrase::attack(it, now)));
    if !status.attacks.is_empty() {
        lines.push("countermeasures: `rlctl suggest`; busiest sources: `rlctl top`".to_owned());
    }
    lines.extend(limited(status.limited));
    lines.extend(status.lists.iter().map(list));
    lines.extend(status.lists.iter().filter_map(lists::trouble));
    lines.extend(status.lists.iter().filter_map(lists::unsaid));
    if !status.classes.is_empty() {
        let classes = status.classes.iter();
        let classes: Vec<String> = classes
            .map(|view| {
                let action = view.action.map_or("", Action::becomes);
                format!("{} ({}{action})", printable(&view.name), view.class)
            })
            .collect();
        lines.push(format!("classes: {}", classes.join(", ")));
    }
    if !status.tunnels.is_empty() {
        let tunnels: Vec<String> = status.tunnels.iter().map(|it| printable(it)).collect();
        lines.push(format!(
            "tunnels: packets in {} count for the inner source",
            phrase::and(&tunnels)
        ));
    }
    if status.destinations > 0 {
        lines.push(format!("destinations with limits: {}", status.destinations));
    }
    if !status.aggregates.is_empty() {
        let lengths: Vec<String> = status.aggregates.iter().map(|it| printable(it)).collect();
        lines.push(format!(
            "prefixes with a shared limit: {}",
            phrase::and(&lengths)
        ));
    }
    if status.node {
        lines.push("the node has limits".to_owned());
    }
    if let Some(new_sources) = &status.new_sources {
        lines.push(printable(&new_sources.to_string()));
    }
    lines.extend(status.challenge.iter().flat_map(|it| challenges(it, now)));
    lines.extend(status.crowdsec.as_ref().map(|it| crowdsec(it, now)));
    lines.extend(status.cluster.as_ref().map(|it| cluster::line(it, now)));
    lines
}

fn limited(sources: usize) -> Option<String> {
    let count = phrase::count(sources, "source", "sources");
    (sources != 0).then(|| format!("{count} temporarily limited: `rlctl list limits`"))
}

/// Describes the detected attacks and the responses.
fn detection(detection: &DetectionStatus) -> String {
    let (reported, answered) = (detection.reported.len(), detection.answered.len());
    let kinds = |count| phrase::count(count, "kind of attack", "kinds of attacks");
    match (reported, answered) {
        (0, 0) => "detection: off".to_owned(),
        (_, 0) => format!("detection: reports {}", kinds(reported)),
        (0, _) => format!("detection: limits or bans sources of {}", kinds(answered)),
        (..) => format!(
            "detection: limits or bans sources of {}, reports {} more",
            kinds(answered),
            kinds(reported)
        ),
    }
}

/// The challenge of connections, whether it is paused, and that of DNS.
fn challenges(reported: &ChallengeStatus, now: &Zoned) -> Vec<String> {
    let mut lines = vec![challenge(reported, now)];
    if reported.verified > 0 {
        let sources = phrase::count(reported.verified, "source", "sources");
        lines.push(format!("{sources} verified"));
    }
    if reported.unanswered_packets > 0 {
        lines.push(format!(
            "{} unanswered: challenge answer budget exhausted",
            phrase::packets(reported.unanswered_packets)
        ));
    }
    lines.extend(reported.paused_until.map(|until| {
        format!(
            "challenge {} until {}: no client completed it",
            styled(WARNING, "paused"),
            phrase::moment(until, now)
        )
    }));
    lines.extend(
        reported
            .dns
            .as_ref()
            .map(|dns| on(printable(&dns.to_string()), dns.is_on, dns.since, now)),
    );
    lines
}

/// `TCP clients: challenged over 5000 syn/s by rst; verified for 10m; up to 1000000 answers/s: on
/// since 14:02:11`
fn challenge(challenge: &ChallengeStatus, now: &Zoned) -> String {
    let reported = printable(&challenge.to_string());
    if challenge.is_never() {
        return reported;
    }
    on(reported, challenge.is_on, challenge.since, now)
}

fn on(reported: String, is_on: bool, since: Option<Timestamp>, now: &Zoned) -> String {
    match since {
        Some(since) => format!(
            "{reported}: {} since {}",
            styled(WARNING, "on"),
            phrase::moment(since, now)
        ),
        None if is_on => reported,
        None => format!("{reported} (idle)"),
    }
}

/// Describes the last trial.
fn trial(attempt: &Attempt, now: &Zoned) -> String {
    let (file, main) = (printable(&attempt.file), printable(&attempt.main));
    match attempt.outcome {
        TrialOutcome::Pending { until } => {
            let left = phrase::span(now.timestamp(), until);
            let pending = styled(WARNING, "not confirmed");
            format!(
                "{pending}: {file} is active for {left}; `rlctl confirm` keeps it, `rlctl \
                 rollback` restores the previous one"
            )
        }
        TrialOutcome::RolledBack { at } => {
            let rolled_back = styled(WARNING, "rolled back");
            let at = phrase::moment(at, now);
            format!(
                "{rolled_back} at {at}: running the previous configuration; edit {main} to change \
                 it"
            )
        }
        TrialOutcome::Confirmed { at } => {
            let different = styled(WARNING, "confirmed");
            let at = phrase::moment(at, now);
            format!(
                "{different} at {at}: running {file}; {main} differs. `rlctl confirm --save` \
                 writes it there"
            )
        }
    }
}

/// `metrics does not work since 14:22:07: 127.0.0.1:9798: address in use`
fn trouble(trouble: &Trouble, now: &Zoned) -> String {
    format!(
        "{} since {}: {}",
        styled(BAD, &format!("failure of {}", printable(&trouble.what))),
        phrase::moment(trouble.since, now),
        printable_lines(&trouble.error)
    )
}

fn database(status: &DatabaseStatus) -> Option<String> {
    let aside = phrase::count(status.aside, "damaged database", "damaged databases");
    match &status.damaged {
        Some(damaged) => Some(format!(
            "{} at startup: {}\n\
             moved to {}; all bans and allows of the kernel were recovered, limits set at runtime \
             are lost",
            styled(BAD, "the database was damaged"),
            printable(&damaged.error),
            printable(&damaged.file)
        )),
        None if status.aside > 0 => Some(format!(
            "{} from earlier starts in the state directory",
            styled(WARNING, &aside)
        )),
        None => None,
    }
}

fn inactive(limits: &InactiveLimits) -> String {
    let inactive = styled(BAD, "are inactive");
    let policy = printable(&limits.policy);
    let error = printable(&limits.error);
    format!("runtime limits of {policy} {inactive}: {error}")
}

/// Whether `CrowdSec` answers, and what of it is in force.
fn crowdsec(status: &CrowdsecStatus, now: &Zoned) -> String {
    let url = printable(&status.url);
    let bans = phrase::count(status.bans, "ban", "bans");
    let since = phrase::moment(status.since, now);
    let error = status.error.as_deref().map(printable);
    match (status.connected, error) {
        (None, _) => format!("CrowdSec: connecting to {url}; {bans} from the last run"),
        (Some(true), None) => format!("CrowdSec: connected to {url} since {since}; {bans}"),
        (Some(true), Some(error)) => {
            let refused = styled(BAD, "cannot apply its decisions");
            format!("CrowdSec: connected to {url}, {refused}: {error}; {bans}")
        }
        (Some(false), error) => {
            let silent = styled(BAD, "no answer");
            let error = error.unwrap_or_default();
            format!("CrowdSec: {silent} from {url} since {since}: {error}; {bans} still in force")
        }
    }
}

/// `3 bans and 1402 prefixes banned by lists`
fn bans(status: &Status) -> String {
    let bans = phrase::count(status.bans, "ban", "bans");
    let lists = status
        .lists
        .iter()
        .filter(|list| list.action == ratelimit_core::lists::Action::Ban);
    match lists.map(|list| list.entries).sum::<usize>() {
        0 => bans,
        listed => {
            let listed = phrase::count(listed, "prefix", "prefixes");
            format!("{bans} and {listed} banned by lists")
        }
    }
}

fn list(list: &ListView) -> String {
    let entries = phrase::count(list.entries, "entry", "entries");
    let file = list
        .file
        .as_deref()
        .map(|file| format!(" of {}", printable(file)));
    let (name, action) = (printable(&list.name), list.action.label());
    format!(
        "list {name} ({action}): {entries}{}",
        file.unwrap_or_default()
    )
}

fn clock(status: &ClockStatus) -> String {
    let text = printable(&status.to_string());
    if status.clock == KernelClock::Coarse && !status.suits {
        return styled(WARNING, &text);
    }
    text
}

fn source(files: &[String]) -> String {
    match files {
        [] => "from the command line".to_owned(),
        files => printable(&phrase::and(files)),
    }
}

fn interfaces(interfaces: &[InterfaceStatus]) -> String {
    let mut table = Table::new("INTERFACE | STATE | MODE");
    let mut remarks = Vec::new();
    for interface in interfaces {
        let state = match (interface.attached, &interface.renamed_to) {
            (true, _) if interface.mode.as_deref() == Some("pinned") => {
                "pinned, waiting for a caller".to_owned()
            }
            (true, _) => "attached".to_owned(),
            (false, Some(to)) => format!("RENAMED to {}", printable(to)),
            (false, None) => "NOT ATTACHED".to_owned(),
        };
        table.row([interface.name.clone(), state, mode(interface)]);
        let [why, remark, next, policy] = [
            &interface.why,
            &interface.remark,
            &interface.next,
            &interface.policy,
        ]
        .map(|text| text.as_deref().map(printable));
        let node = "has its own limits instead of the node's";
        let about = [
            why.map(|why| styled(BAD, &why)),
            remark.map(|remark| styled(WARNING, &remark)),
            next.map(|next| format!("passed packets go to the program at {next}")),
            policy.map(|name| format!("default policy: {name}")),
            interface.node.then(|| node.to_owned()),
            interface.observe.then(dry_run),
        ];
        let about = about.into_iter().flatten();
        remarks.extend(about.map(|about| format!("{}: {about}", printable(&interface.name))));
    }
    let lines = std::iter::once(table.to_string()).chain(remarks);
    lines.collect::<Vec<_>>().join("\n")
}

fn dry_run() -> String {
    let dry_run = styled(WARNING, "dry run");
    format!("{dry_run}: packets that would be dropped are counted and pass")
}

/// The mode that the kernel runs, and whether that is what was hoped for.
fn mode(interface: &InterfaceStatus) -> String {
    let wanted = interface.mode_wanted.as_str();
    match interface.mode.as_deref() {
        None => String::new(),
        Some("generic") if wanted == "auto" => {
            "generic (slower: the driver has no native mode)".to_owned()
        }
        Some(mode) => mode.to_owned(),
    }
}

fn maps(maps: &[MapStatus]) -> Table {
    let mut table = Table::new("MAP | >ENTRIES | >CAPACITY | >FULL | >MEMORY");
    for map in maps {
        let entries = map.entries.map(|entries| entries.to_string());
        table.row([
            map.name.clone(),
            entries.unwrap_or_else(|| "-".to_owned()),
            map.capacity.to_string(),
            fill(map),
            phrase::size(map.memory_bytes),
        ]);
    }
    table
}

/// `the map LISTS_V4 is 92% full`, of one that is.
fn nearly_full(map: &MapStatus) -> Option<String> {
    let percent = percent(map)?;
    let is_nearly_full = percent >= NEARLY_FULL;
    is_nearly_full.then(|| {
        let full = styled(WARNING, &format!("is {percent}% full"));
        format!("map {} {full}: `rlctl status --maps`", printable(&map.name))
    })
}

/// Returns how full a map is, rounded down: only a full one has 100 %.
fn percent(map: &MapStatus) -> Option<u128> {
    let entries = u128::from(map.entries?);
    Some(entries * 100 / u128::from(map.capacity.max(1)))
}

/// Fill level in percent.
fn fill(map: &MapStatus) -> String {
    percent(map).map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"))
}
