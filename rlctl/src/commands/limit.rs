//! `rlctl limit set` and `rlctl limit rm`: limits that are added to or replace those of the
//! configuration at run time.

use jiff::Zoned;
use ratelimit_core::{
    api::{Changed, LimitRequest, LimitTarget, LimitsNow},
    class::Catalogue,
    limit::{LimitSpec, throughput},
};

use crate::{
    client::{Answer, Client},
    commands::{ban, reload},
    failure::Failure,
    phrase, prefixes,
    report::Report,
};
mod flags;
use clap::{Args, Subcommand};

use self::flags::LimitArguments;
use crate::{completions, lifetime::LifetimeArgument};

/// Changes of limits.
#[derive(Debug, Subcommand)]
pub enum LimitVerb {
    /// Set limits for a prefix, a destination, or the default policy
    Set(LimitSetArguments),
    /// Remove runtime limits; the configuration applies again
    #[command(after_help = "\
Examples:
  rlctl limit rm --prefix 203.0.113.0/24
  rlctl limit rm --destination 198.51.100.7
  rlctl limit rm")]
    Rm {
        /// The sources [default: the default policy]
        #[arg(long, value_name = "PREFIX", add = completions::limited_at_runtime())]
        prefix: Option<String>,
        /// The destination
        #[arg(long, value_name = "PREFIX", conflicts_with = "prefix")]
        destination: Option<String>,
        /// Apply to all nodes of the cluster
        #[arg(long)]
        cluster: bool,
    },
    /// Renamed to `rlctl list limits`
    #[command(hide = true)]
    List,
}

/// `limit set [--prefix P] --packets N --per TIME ...`
#[derive(Args, Debug)]
#[command(
    override_usage = "rlctl limit set [--prefix <PREFIX> | --destination <PREFIX>] \
                      {--packets <N> | --bytes <SIZE>} --per <TIME> [OPTIONS]\n       \
                      rlctl limit set [--prefix <PREFIX> | --destination <PREFIX>] --limit <LIMIT> \
                      [--limit <LIMIT>]... [OPTIONS]",
    after_help = "\
Examples:
  rlctl limit set --packets 1000 --per 1s
  rlctl limit set --prefix 203.0.113.0/24 --limit packets=5000,per=1s --limit bytes=50MB,per=1s
  rlctl limit set --packets 100 --per 1s --observe
  rlctl limit set --bytes 50MB --per 1s --algorithm token-bucket --burst 100MB
  rlctl limit set --limit packets=1000,per=1s --limit packets=20,per=1s,match=tcp-syn
  rlctl limit set --prefix 203.0.113.7 --packets 50 --per 1s --for 2h --reason crawler
  rlctl limit set --prefix 203.0.113.7 --packets 50 --per 1s --for 2h --cluster
  rlctl limit set --destination 198.51.100.7 --limit packets=50000,per=1s,match=tcp-syn
  rlctl limit set --prefix 203.0.113.7 --packets 9000 --per 1s --only

A limit replaces existing ones with the same unit (packets or bytes) and class; if there are \
several with different windows, the one with the same window. All other limits of the policy and \
its ban stay in force unless --only is given. The output lists what is in force afterwards. Limits \
set later are added to these, and all get the new lifetime.

A packet passes if all limits accept it. Each source in the prefix has the limits for itself; a \
destination shares them. When the limits expire, the configuration applies again. This needs the \
daemon: if it is down, it happens at its next start."
)]
pub struct LimitSetArguments {
    /// The sources [default: the default policy]
    #[arg(long, value_name = "PREFIX", add = completions::limited())]
    pub prefix: Option<String>,
    /// A destination, whose traffic from all sources shares the limits
    #[arg(long, value_name = "PREFIX", conflicts_with = "prefix")]
    pub destination: Option<String>,
    #[command(flatten)]
    pub limits: LimitArguments,
    /// Replace all other limits of these sources, and the ban of their policy
    #[arg(long)]
    pub only: bool,
    /// Dry run: count and pass packets over any limit of these sources
    #[arg(long)]
    pub observe: bool,
    #[command(flatten)]
    pub lifetime: LifetimeArgument,
    /// Reason shown with the limits
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Set the limits on all nodes of the cluster
    #[arg(long)]
    pub cluster: bool,
}

/// Gives a prefix, or every source without a policy of its own, limits.
pub fn set(arguments: &LimitSetArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let target = target(
        arguments.prefix.as_deref(),
        arguments.destination.as_deref(),
    )?;
    let request = request(arguments, target)?;
    let answer: Answer<Changed> = client.post(path(arguments.cluster), &request)?;
    let lifetime = phrase::lifetime(arguments.lifetime.lifetime, answer.value.until, now);
    let novelty = match &answer.value.limits {
        Some(now) if !now.replaced.is_empty() => {
            format!(", replacing {}", phrase::and(&now.replaced))
        }
        Some(_) if answer.value.updated > 0 => String::new(),
        _ => ban::novelty(1, &answer.value),
    };
    let reset = phrase::when(answer.value.starts_anew, "; usage counters reset");
    let at_end = phrase::when(
        answer.value.ends_anew,
        "; at the end, usage is that from before",
    );
    let whereabouts = phrase::everywhere(arguments.cluster, &answer.value);
    let text = format!(
        "{}, {lifetime}{whereabouts}{novelty}{reset}{at_end}{}{}",
        sentence(&request, target),
        in_force(&request.limits, answer.value.limits.as_ref()),
        slow(&request.limits)
    );
    let notes = phrase::without_effect(&answer.value);
    Ok(Report::new(answer, text).notes(notes))
}

/// Takes runtime limits away.
pub fn rm(
    prefix: Option<&str>,
    destination: Option<&str>,
    cluster: bool,
    client: &Client,
) -> Result<Report, Failure> {
    let target = target(prefix, destination)?;
    let answer: Answer<Changed> = client.delete(path(cluster), &target)?;
    let whose = phrase::target(target);
    let whereabouts = phrase::everywhere(cluster, &answer.value);
    if answer.value.removed > 0 {
        let back = phrase::when(
            answer.value.starts_anew,
            ", with the usage from before them",
        );
        let text = format!(
            "removed the runtime limits of {whose}{whereabouts}; the configuration applies \
             again{back}{}",
            in_force(&[], answer.value.limits.as_ref()),
        );
        return Ok(Report::new(answer, text));
    }
    let mut report = Report::new(answer, "");
    let failure = Failure::refused(format!("{whose} has no runtime limits"));
    report.failure = Some(failure.hint("see `rlctl list limits`"));
    Ok(report)
}

/// Warns of limits that slow TCP down, each on a line of its own.
fn slow(limits: &[LimitSpec]) -> String {
    // The classes of the configuration are not known here.
    let classes = Catalogue::default();
    let problems = limits
        .iter()
        .filter_map(|it| throughput::problem(it, &classes));
    let lines: Vec<String> = problems
        .map(|problem| format!("{}: {}", problem.message, problem.hint))
        .collect();
    reload::warnings(&lines)
}

fn path(cluster: bool) -> &'static str {
    if cluster {
        "/v1/cluster/limits"
    } else {
        "/v1/limits"
    }
}

fn target(prefix: Option<&str>, destination: Option<&str>) -> Result<LimitTarget, Failure> {
    let [prefix, destination] = [prefix, destination].map(|it| it.map(prefixes::read_one));
    Ok(LimitTarget {
        prefix: prefix.transpose()?,
        destination: destination.transpose()?,
    })
}

fn request(arguments: &LimitSetArguments, target: LimitTarget) -> Result<LimitRequest, Failure> {
    let limits = arguments.limits.limits();
    Ok(LimitRequest {
        prefix: target.prefix,
        destination: target.destination,
        limits: limits.map_err(Failure::usage)?,
        observe: arguments.observe,
        only: arguments.only,
        seconds: arguments.lifetime.lifetime.seconds(),
        reason: arguments.reason.clone(),
    })
}

/// Says which other limits are in force beside those that were named, a line each.
fn in_force(named: &[LimitSpec], now: Option<&LimitsNow>) -> String {
    let Some(now) = now else {
        return String::new();
    };
    let others = now.limits.iter().filter(|limit| !named.contains(limit));
    let others: Vec<&LimitSpec> = others.collect();
    let mut lines = Vec::new();
    if !others.is_empty() {
        let also = phrase::when(!named.is_empty(), "also ");
        lines.push(format!("{also}in force: {}", phrase::and(&others)));
    } else if named.is_empty() {
        lines.push("no limit is in force".to_owned());
    }
    if now.drops {
        let dry_run = phrase::when(now.observe, ", in a dry run");
        lines = vec![format!(
            "its policy drops every packet{dry_run}: these limits open nothing"
        )];
    }
    lines.extend(now.ban.map(|ban| format!("after {ban}")));
    lines.extend(
        now.ban_before
            .map(|_| "its policy no longer bans it".to_owned()),
    );
    match (now.observe_before, now.observe) {
        (false, true) => lines.push("dry run: these limits drop nothing".to_owned()),
        (true, false) => lines.push("dry run ended: these limits drop packets".to_owned()),
        (false, false) | (true, true) => {}
    }
    lines.insert(0, String::new());
    lines.join("\n  ")
}

/// `limited 203.0.113.0/24 to 1000 packets per 1s and 50MB per 1s`
fn sentence(request: &LimitRequest, target: LimitTarget) -> String {
    let whose = phrase::target(target);
    let limits = phrase::and(&request.limits);
    if request.observe {
        format!("dry run for {whose}: {limits}")
    } else {
        format!("limited {whose} to {limits}")
    }
}
