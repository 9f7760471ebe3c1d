//! The answer of `rlctl simulate --json`. The names of its fields are reported in `--help`, and
//! stay.

use std::time::Duration;

use jiff::Timestamp;
use ratelimit_core::{
    capture::{CaptureError, Format},
    simulation::answer::Answer,
};
use serde_json::{Value, json};

use crate::commands::simulate::SimulateArguments;

/// Formats one document about the capture `name`; `broken` is why it could not be read completely.
pub fn json(
    arguments: &SimulateArguments,
    name: &str,
    format: Format,
    answer: &Answer,
    broken: Option<&CaptureError>,
) -> Value {
    let time = &answer.time;
    let first = time.first_ns.map(i128::from);
    let first = first.and_then(|nanos| Timestamp::from_nanosecond(nanos).ok());
    let compared = arguments.compare.as_ref().zip(answer.comparison.as_ref());
    let compare = compared.map(|(file, comparison)| {
        let mut compare = json!({ "file": file });
        let fields = json!(comparison);
        if let (Value::Object(all), Value::Object(fields)) = (&mut compare, fields) {
            all.extend(fields);
        }
        compare
    });
    json!({
        "capture": {
            "file": name,
            "format": format,
            "complete": broken.is_none(),
            "error": broken.map(ToString::to_string),
            "packets": answer.packets,
            "bytes": answer.bytes,
            "cut": answer.cut,
            "cut_headers": answer.cut_headers,
            "sources": answer.sources_seen,
            "first": first,
            "duration_seconds": Duration::from_nanos(time.duration_ns).as_secs_f64(),
            "packets_per_second_max": time.packets_per_second_max,
            "backwards": time.backwards,
            "untimed": time.untimed,
        },
        "config": { "file": arguments.config, "observe": answer.observe },
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
