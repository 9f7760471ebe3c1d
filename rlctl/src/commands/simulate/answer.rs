//! The answer of `rlctl simulate --json`. The names of its fields are reported in `--help`, and stay.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ratelimit_core::{
    capture::{CaptureError, Format},
    simulation::answer::{Answer, ComparisonAnswer},
};
use serde::Serialize;
use serde_json::Value;

/// One document.
pub struct SimulateJson<'a> {
    pub capture: CaptureJson,
    pub config: ConfigJson,
    pub compared_with: Option<PathBuf>,
    pub answer: &'a Answer,
}

/// The capture.
#[derive(Serialize)]
pub struct CaptureJson {
    file: String,
    format: Format,
    /// Whether it was read to its end.
    complete: bool,
    /// Why not.
    error: Option<String>,
    packets: u64,
    bytes: u64,
    sources: usize,
    /// The time of the first packet.
    first: Option<Timestamp>,
    duration_seconds: f64,
    packets_per_second_max: u64,
    backwards: u64,
    untimed: u64,
}

/// The configuration.
#[derive(Serialize)]
pub struct ConfigJson {
    file: PathBuf,
    observe: bool,
}

/// The other configuration.
#[derive(Serialize)]
struct CompareJson<'a> {
    file: &'a Path,
    #[serde(flatten)]
    comparison: &'a ComparisonAnswer,
}

impl SimulateJson<'_> {
    /// The document.
    pub fn into_value(self) -> Value {
        let answer = self.answer;
        let file = self.compared_with.as_deref();
        let compare = file.zip(answer.comparison.as_ref());
        let compare = compare.map(|(file, comparison)| CompareJson { file, comparison });
        serde_json::json!({
            "capture": self.capture,
            "config": self.config,
            "verdicts": answer.verdicts,
            "sources_dropped": answer.sources_dropped,
            "sources_capacity": answer.sources_capacity,
            "sources_evicted": answer.evicted,
            "sources": answer.sources,
            "timeline": answer.timeline,
            "attacks": answer.attacks,
            "challenged": answer.challenged,
            "compare": compare,
        })
    }
}

impl CaptureJson {
    pub fn new(file: &str, format: Format, answer: &Answer, broken: Option<&CaptureError>) -> Self {
        let time = &answer.time;
        let first = time.first_ns.map(i128::from);
        Self {
            file: file.to_owned(),
            format,
            complete: broken.is_none(),
            error: broken.map(ToString::to_string),
            packets: answer.packets,
            bytes: answer.bytes,
            sources: answer.sources_seen,
            first: first.and_then(|nanos| Timestamp::from_nanosecond(nanos).ok()),
            duration_seconds: std::time::Duration::from_nanos(time.duration_ns).as_secs_f64(),
            packets_per_second_max: time.packets_per_second_max,
            backwards: time.backwards,
            untimed: time.untimed,
        }
    }
}

impl ConfigJson {
    pub fn new(file: &Path, observe: bool) -> Self {
        Self {
            file: file.to_owned(),
            observe,
        }
    }
}
