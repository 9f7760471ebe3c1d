//! `rlctl limit set` and `rlctl limit rm`: limits that are added to or replace those of the
//! configuration at run time.

use jiff::Zoned;
use ratelimit_core::{
    api::{Changed, LimitRequest, LimitTarget, LimitsNow},
    class::Catalogue,
    limit::{LimitSpec, throughput},
};

use crate::{
    arguments::LimitSetArguments,
    client::{Answer, Client},
    commands::{ban, reload},
    failure::Failure,
    phrase, prefixes,
    report::Report,
};

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
        _ => ban::novelty(1, &answer.value),
    };
    let reset = phrase::when(answer.value.starts_anew, "; usage counters reset");
    let at_end = phrase::when(
        answer.value.ends_anew,
        "; usage counters are reset again at the end",
    );
    let whereabouts = phrase::everywhere(arguments.cluster, &answer.value);
    let text = format!(
        "{}, {lifetime}{whereabouts}{novelty}{reset}{at_end}{}{}",
        sentence(&request, target),
        in_force(&request.limits, answer.value.limits.as_ref()),
        slow(&request.limits)
    );
    let notes = phrase::without_effect(&answer.value.allowed);
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
        let reset = phrase::when(answer.value.starts_anew, "; usage counters reset");
        let text = format!(
            "removed the runtime limits of {whose}{whereabouts}; the configuration applies \
             again{reset}{}",
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
