//! The last part: what Prometheus reads, beside what was sent and what arrived.

use anyhow::{Context, Result, ensure};
use ratelimit_tests::lab::INTERFACE;

use super::stage::Stage;

const NAME: &str = "ratelimit_packets_total";

/// Fetches the metrics, shows those of packets, and compares them.
pub fn run(stage: &mut Stage) -> Result<()> {
    let heading = format!("Prometheus, from http://127.0.0.1:9798/metrics: {NAME} above 0");
    stage.screen.heading(&heading);
    let arrived = stage.tap.settled(&stage.wire)?.frames;
    let sent = stage.wire.sent();
    let received = stage.lab.near.received()?.packets;
    let metrics = stage.service.metrics()?;
    ensure!(metrics.contains(" 200 "), "GET /metrics: {metrics}");
    let counters = counters(&metrics)?;
    for (line, _) in counters.iter().filter(|(_, packets)| *packets > 0) {
        println!("{line}");
    }
    let packets = |(_, packets): &(&str, u64)| *packets;
    let all = counters.iter().map(packets).sum();
    let passes = |(line, _): &&(&str, u64)| line.contains(r#"verdict="pass""#);
    let passed = counters.iter().filter(passes).map(packets).sum();
    println!("(not-ip: markers that tell the demo when all before them is through)");
    let mut compare = |what: &str, found, beside: &str, expected| {
        let answer = stage.figures.check_exact(what, expected, found);
        let mark = stage.screen.mark(&answer);
        println!("{what}: {found}, {beside}: {expected}  {mark}");
    };
    compare("all verdicts", all, "frames sent", sent);
    let link = format!("received by {INTERFACE} as `ip -s link` says");
    compare("all verdicts", all, &link, received);
    compare("passed", passed, "arrived behind the program", arrived);
    Ok(())
}

/// The lines of packets, and their values.
fn counters(metrics: &str) -> Result<Vec<(&str, u64)>> {
    let has_name = |line: &&str| {
        line.strip_prefix(NAME)
            .is_some_and(|rest| rest.starts_with('{'))
    };
    let counter = |line| {
        let (_, value) = str::rsplit_once(line, ' ').unwrap_or_default();
        let packets = value.parse().with_context(|| format!("reading `{line}`"))?;
        Ok((line, packets))
    };
    metrics.lines().filter(has_name).map(counter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_counters_of_packets_are_read() {
        let metrics = "\
# TYPE ratelimit_packets_total counter
ratelimit_packets_total{verdict=\"pass\"} 12
ratelimit_bytes_total{verdict=\"pass\"} 1200
";
        let line = metrics.lines().nth(1).unwrap();
        assert_eq!(counters(metrics).unwrap(), [(line, 12)]);
        assert!(counters("ratelimit_packets_total{} many").is_err());
    }
}
