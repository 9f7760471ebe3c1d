//! Reports what became slower since another run.

use crate::report::Report;

/// A case that is this much slower is named.
const TOLERANCE: f64 = 1.1;

/// A case of which two runs have figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The case.
    pub name: String,
    /// The previous and the current cost: ratios to the baseline, or for live traffic the time of a
    /// packet relative to that of the first contender.
    pub before: f64,
    /// See `before`.
    pub after: f64,
}

impl Change {
    /// A sentence about it.
    pub fn phrase(&self) -> String {
        let percent = (self.after / self.before - 1.0) * 100.0;
        format!(
            "{}: {:.2}, was {:.2} ({percent:+.0} %)",
            self.name, self.after, self.before
        )
    }
}

/// The cases of both that got slower by more than 10 %.
pub fn slower(before: &Report, after: &Report) -> Vec<Change> {
    let before = costs(before);
    let changes = costs(after).into_iter().filter_map(|(name, after)| {
        let (_, before) = before.iter().find(|(found, _)| *found == name)?;
        Some(Change {
            name,
            before: *before,
            after,
        })
    });
    changes
        .filter(|change| change.after > change.before * TOLERANCE)
        .collect()
}

fn costs(report: &Report) -> Vec<(String, f64)> {
    let rows = report
        .rows
        .iter()
        .map(|row| (row.name.clone(), row.ratio.median));
    let live = report.live.iter().map(|row| {
        let name = format!("{} {}", row.name, row.contender);
        (name, 1.0 / row.of_first.median)
    });
    rows.chain(live).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        machine::Machine,
        report::{LiveRow, Row},
        statistics::Spread,
    };

    #[test]
    fn a_case_is_named_when_it_is_slower_by_more_than_a_tenth() {
        check(3.0, 3.3, &[]);
        check(3.0, 3.31, &["case"]);
        check(3.0, 2.0, &[]);
    }

    #[test]
    fn live_traffic_is_slower_when_fewer_packets_come_through() {
        let report = |part| Report {
            live: vec![live(part)],
            ..report(vec![])
        };
        let names = |before, after| slower(&report(before), &report(after)).len();
        assert_eq!((names(0.8, 0.7), names(0.7, 0.8)), (1, 0));
    }

    #[test]
    fn a_case_that_only_one_run_has_is_not_compared() {
        let rows = vec![row("new", 100.0)];
        assert_eq!(slower(&report(vec![row("old", 1.0)]), &report(rows)), []);
    }

    fn check(before: f64, after: f64, expected: &[&str]) {
        let changes = slower(
            &report(vec![row("case", before)]),
            &report(vec![row("case", after)]),
        );
        let names: Vec<_> = changes.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, expected);
    }

    fn report(rows: Vec<Row>) -> Report {
        Report {
            machine: Machine {
                processor: String::new(),
                cpus: 1,
                kernel: String::new(),
                is_virtual: false,
            },
            others: vec![],
            date: String::new(),
            command: String::new(),
            packets: 1,
            rounds: 1,
            rows,
            live: vec![],
            tcp: vec![],
            skipped: vec![],
        }
    }

    fn row(name: &str, ratio: f64) -> Row {
        let ratio = same(ratio);
        Row {
            name: name.to_owned(),
            sources: None,
            nanos: ratio,
            zero_nanos: ratio,
            ratio,
            goal: None,
            goal_text: None,
        }
    }

    fn live(part: f64) -> LiveRow {
        LiveRow {
            name: "live/hot".to_owned(),
            contender: "ratelimit".to_owned(),
            packets_per_second: same(1.0),
            of_first: same(part),
            dropped: 1.0,
            goal: None,
        }
    }

    fn same(figure: f64) -> Spread {
        Spread {
            min: figure,
            median: figure,
            max: figure,
        }
    }
}
