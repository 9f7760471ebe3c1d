//! The last part: what Prometheus is told, beside what was sent and what arrived.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{daemon::METRICS, lab::INTERFACE, stage::Stage};

const NAME: &str = "ratelimit_packets_total";
const TIMEOUT: Duration = Duration::from_secs(5);

/// Fetches the metrics, shows those of packets, and compares them.
pub fn run(stage: &mut Stage) -> Result<()> {
    stage.screen.heading(&format!(
        "Prometheus, from http://{METRICS}/metrics: {NAME} above 0"
    ));
    let arrived = stage.tap.settled(&stage.wire)?.frames;
    let sent = stage.wire.sent();
    let received = stage.lab.received()?;
    let metrics = stage.lab.host.inside(fetch)?;
    let counters = counters(&metrics)?;
    for counter in counters.iter().filter(|counter| counter.packets > 0) {
        println!("{}", counter.line);
    }
    let sum = |has: &dyn Fn(&Counter) -> bool| {
        let counters = counters.iter().filter(|counter| has(counter));
        counters.map(|counter| counter.packets).sum::<u64>()
    };
    let all = sum(&|_| true);
    let passed = sum(&|counter| counter.line.contains(r#"verdict="pass""#));
    println!(
        "(not-ip are markers, by which the demo knows that what it sent before them is through)"
    );
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

/// A counter of packets.
#[derive(Debug, Eq, PartialEq)]
struct Counter<'m> {
    line: &'m str,
    packets: u64,
}

fn counters(metrics: &str) -> Result<Vec<Counter<'_>>> {
    let lines = metrics.lines().filter(|line| {
        line.strip_prefix(NAME)
            .is_some_and(|rest| rest.starts_with('{'))
    });
    lines
        .map(|line| {
            let (_, value) = line.rsplit_once(' ').unwrap_or_default();
            let packets = value.parse().with_context(|| format!("reading `{line}`"))?;
            Ok(Counter { line, packets })
        })
        .collect()
}

/// The body of the answer. It is of HTTP 1.0, so it ends where the connection does.
fn fetch() -> Result<String> {
    let request = || {
        let mut stream = TcpStream::connect(METRICS)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        write!(stream, "GET /metrics HTTP/1.0\r\nHost: {METRICS}\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    let answer = request().with_context(|| format!("fetching http://{METRICS}/metrics"))?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
        _ => bail!("http://{METRICS}/metrics answers: {answer}"),
    }
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
        let expected = Counter { line, packets: 12 };
        assert_eq!(counters(metrics).unwrap(), [expected]);
    }

    #[test]
    fn a_counter_that_is_no_number_is_refused() {
        assert!(counters("ratelimit_packets_total{} many").is_err());
    }
}
