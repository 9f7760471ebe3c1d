//! `rlctl suggest`: limits against attacks in progress, or against those in a capture.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Arg, ArgAction, Args};
use ratelimit_common::{Cursor, Instant, parse::LinkLayer};
use ratelimit_core::{
    api::{BanRequest, Changed, LimitRequest, Status},
    capture::{Capture, CaptureError},
    detection::{self, Countermeasure, Detector, Kind, Rule, Sample, Subject},
    quantity,
};
use serde_json::json;

use crate::{
    client::{Answer, Client},
    failure::Failure,
    input::Input,
    report::Report,
};

/// `suggest [CAPTURE] [--apply [--for TIME]]`
#[derive(Args, Debug)]
#[command(
    // Understood for one release.
    arg = Arg::new("attack").long("attack").hide(true).action(ArgAction::SetTrue),
    after_help = "\
Examples:
  rlctl suggest
  rlctl suggest --apply --for 10m
  rlctl suggest flood.pcap

It prints TOML for the configuration, with the equivalent commands and the other traffic that they \
block as comments. The exit code is 1 if there is no attack."
)]
pub struct SuggestArguments {
    /// A capture, pcap or pcapng, to analyze instead of the attacks in progress. `-` reads stdin
    #[arg(value_name = "CAPTURE", conflicts_with = "apply")]
    pub capture: Option<PathBuf>,
    /// Apply the suggestion against attacks in progress
    #[arg(long)]
    pub apply: bool,
    /// How long the applied limits last
    #[arg(
        long = "for",
        value_name = "TIME",
        default_value = "1h",
        requires = "apply",
        value_parser = quantity::parse_duration,
    )]
    pub lifetime: Duration,
}

/// The time after the last packet of a capture in which everything that was seen is judged.
const SECOND_NS: u64 = 1_000_000_000;

/// Proposes limits, and sets them if asked to.
pub fn run(arguments: &SuggestArguments, client: &Client) -> Result<Report, Failure> {
    match &arguments.capture {
        Some(capture) => of_capture(capture),
        None if arguments.apply => apply(arguments.lifetime, client),
        None => going_on(client),
    }
}

/// Proposes limits against what the daemon sees.
fn going_on(client: &Client) -> Result<Report, Failure> {
    let attacks = named(client)?;
    let report = report(&attacks)?;
    Ok(report.note("apply for one hour: rlctl suggest --apply"))
}

/// Does for a time what it proposes.
fn apply(lifetime: Duration, client: &Client) -> Result<Report, Failure> {
    let attacks = named(client)?;
    if attacks.is_empty() {
        return Err(no_attack());
    }
    let reason = || Some("suggest".to_owned());
    let seconds = Some(lifetime.as_secs_f64());
    let time = quantity::duration(lifetime);
    let (mut done, mut lines) = (Vec::new(), Vec::new());
    for measure in detection::against(attacks) {
        let _: Answer<Changed> = match &measure {
            Countermeasure::Limit { destination, .. } => client.post(
                "/v1/limits",
                &LimitRequest {
                    destination: Some((*destination).into()),
                    limits: measure.limits(),
                    seconds,
                    reason: reason(),
                    ..LimitRequest::default()
                },
            )?,
            Countermeasure::Ban { source, .. } => client.post(
                "/v1/bans",
                &BanRequest {
                    prefixes: vec![*source],
                    seconds,
                    reason: reason(),
                    ..BanRequest::default()
                },
            )?,
        };
        let back = match &measure {
            Countermeasure::Limit { destination, .. } => {
                format!("rlctl limit rm --destination {destination}")
            }
            Countermeasure::Ban { source, .. } => format!("rlctl unban {source}"),
        };
        let command = measure.command(&time);
        lines.push(format!("applied: {command}\nundo: {back}"));
        done.push(json!({ "command": command, "back": back }));
    }
    Ok(Report::from_json(json!({ "done": done }), lines.join("\n")))
}

/// The attacks that the daemon names.
fn named(client: &Client) -> Result<Vec<(Kind, Subject)>, Failure> {
    let answer: Answer<Status> = client.get("/v1/status")?;
    let is_off = answer.value.detection.as_ref();
    let is_off = is_off.is_some_and(|it| it.reported.is_empty() && it.answered.is_empty());
    if answer.value.attacks.is_empty() && is_off {
        return Err(Failure::refused("detection is off")
            .hint("remove `report = false` from [detection], then `rlctl reload`"));
    }
    let attacks = answer.value.attacks.iter();
    let attacks = attacks.map(|attack| {
        let subject = attack.subject.parse::<Subject>();
        let subject = subject.map_err(|error| {
            Failure::refused(format!(
                "`{}` is from another version: {error}",
                attack.subject
            ))
        });
        Ok((attack.kind, subject?))
    });
    attacks.collect()
}

/// Proposes limits against the attacks of a capture, which need no configuration and no daemon.
fn of_capture(path: &Path) -> Result<Report, Failure> {
    let input = Input::open(path)?;
    let wrong = |name: &str, error: &CaptureError| Failure::refused(format!("{name}: {error}"));
    let name = input.name().to_owned();
    let mut capture = Capture::open(input).map_err(|error| wrong(&name, &error))?;
    let mut detector = Detector::new(Kind::ALL.iter().map(|it| (*it, Rule::of(*it))).collect());
    let (mut attacks, mut last) = (Vec::new(), Instant::from_nanos(0));
    let read = capture.read(|packet| {
        last = last.max(Instant::from_nanos(packet.time_ns.unwrap_or(0)));
        let frame = Cursor::with_frame_bytes(packet.frame, packet.frame_bytes);
        if let Some(sample) = Sample::read(last, 1, frame, LinkLayer::Ethernet) {
            attacks.extend(detector.take(&sample).began);
        }
        Ok::<_, CaptureError>(())
    });
    let end = Instant::from_nanos(last.as_nanos().saturating_add(SECOND_NS));
    attacks.extend(detector.advance(end).began);
    drop(capture);
    let attacks: Vec<_> = attacks
        .iter()
        .map(|attack| (attack.kind, attack.subject))
        .collect();
    let mut report = report(&attacks)?;
    report.failure = read.err().map(|error| wrong(&name, &error));
    Ok(report)
}

fn report(attacks: &[(Kind, Subject)]) -> Result<Report, Failure> {
    if attacks.is_empty() {
        return Err(no_attack());
    }
    let all = detection::against(attacks.iter().copied());
    let toml = detection::toml(&all);
    let commands: Vec<String> = all.iter().map(|it| it.command("1h")).collect();
    let named = attacks.iter();
    let named =
        named.map(|(kind, subject)| json!({ "kind": kind, "subject": subject.to_string() }));
    let named: Vec<_> = named.collect();
    let json = json!({ "attacks": named, "toml": toml, "commands": commands });
    Ok(Report::from_json(json, toml).note(
        "comments list what else is blocked. A destination that is already configured gets these \
         limits in addition to its own",
    ))
}

/// A flood of a service looks like its clients, and is not named.
fn no_attack() -> Failure {
    Failure::refused("no attack detected")
        .hint("find busy sources with `rlctl top`; stop one with `rlctl limit set` or `rlctl ban`")
}
