//! `rlctl suggest --attack`: what to write against the attacks that are going on, or against those of a capture.

use std::path::Path;

use ratelimit_common::{Cursor, Instant, parse::LinkLayer};
use ratelimit_core::{
    api::Status,
    capture::{Capture, CaptureError},
    detection::{self, Detector, Kind, Rule, Sample, Subject},
};
use serde_json::json;

use crate::{
    client::{Answer, Client},
    failure::Failure,
    input::Input,
    report::Report,
};

/// The time after the last packet of a capture in which everything that was seen is judged.
const SECOND_NS: u64 = 1_000_000_000;

/// Proposes limits against what the daemon sees.
pub fn going_on(client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Status> = client.get("/v1/status")?;
    let attacks = answer.value.attacks.iter();
    let attacks = attacks.map(|attack| {
        let subject = attack.subject.parse::<Subject>();
        let subject = subject.map_err(|error| {
            Failure::refused(format!(
                "`{}` is of another version: {error}",
                attack.subject
            ))
        });
        Ok((attack.kind, subject?))
    });
    report(&attacks.collect::<Result<Vec<_>, Failure>>()?)
}

/// Proposes limits against the attacks of a capture, which need no configuration and no daemon.
pub fn of_capture(path: &Path) -> Result<Report, Failure> {
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
        return Err(Failure::refused("no attack is named"));
    }
    let toml = detection::against(attacks.iter().copied());
    let named = attacks.iter();
    let named =
        named.map(|(kind, subject)| json!({ "kind": kind, "subject": subject.to_string() }));
    let json = json!({ "attacks": named.collect::<Vec<_>>(), "toml": toml });
    Ok(Report::from_json(json, toml).note(
        "the comments say what is dropped beside. A destination that the configuration has already gets these limits beside its own",
    ))
}
