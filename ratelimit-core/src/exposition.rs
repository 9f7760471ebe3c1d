//! The text formats of Prometheus: the classic one (0.0.4) and [OpenMetrics 1.0].
//!
//! No maintained crate writes both. They differ in the position of `_total`, in units, and in the
//! end of the file.
//!
//! [OpenMetrics 1.0]: https://prometheus.io/docs/specs/om/open_metrics_spec/

use std::fmt::{self, Write};

use crate::histogram::Histogram;

/// A format.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// `text/plain; version=0.0.4`.
    Classic,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

impl Format {
    /// The format that a request's `Accept` header asks for.
    pub fn negotiate(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    /// The `Content-Type` of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes metrics, family by family.
pub struct Exposition {
    format: Format,
    text: String,
}

/// A family that is not begun: who names it says next what it is.
pub struct Metric<'a> {
    text: &'a mut String,
    name: String,
    kind: &'static str,
    sample: String,
}

/// A metric family, to which samples are added.
pub struct Family<'a> {
    text: &'a mut String,
    /// The name of a sample.
    sample: String,
}

impl Exposition {
    /// An empty one.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            text: String::new(),
        }
    }

    /// A family of values that only grow. The name is given without `_total`.
    pub fn counter(&mut self, name: &str) -> Metric<'_> {
        self.metric(name, "counter", "_total")
    }

    /// A family of values that go up and down.
    pub fn gauge(&mut self, name: &str) -> Metric<'_> {
        self.metric(name, "gauge", "")
    }

    /// A family of one constant, whose labels are what it says. The name is given without `_info`.
    pub fn info(&mut self, name: &str) -> Metric<'_> {
        let kind = match self.format {
            Format::Classic => "gauge",
            Format::OpenMetrics => "info",
        };
        self.metric(name, kind, "_info")
    }

    /// A family whose samples have a suffix behind its name.
    fn metric(&mut self, name: &str, kind: &'static str, suffix: &str) -> Metric<'_> {
        let sample = format!("{name}{suffix}");
        let name = match self.format {
            Format::Classic => sample.clone(),
            Format::OpenMetrics => name.to_owned(),
        };
        let text = &mut self.text;
        Metric {
            text,
            name,
            kind,
            sample,
        }
    }

    /// Writes a family of one histogram of times. The name ends with `_seconds`.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        let text = self.metric(name, "histogram", "").help(help).text;
        for (end, count) in histogram.buckets() {
            write_line(
                text,
                format_args!("{name}_bucket{{le=\"{end:?}\"}} {count}"),
            );
        }
        let (count, sum) = (histogram.count(), histogram.sum_seconds());
        write_line(text, format_args!("{name}_bucket{{le=\"+Inf\"}} {count}"));
        write_line(text, format_args!("{name}_sum {sum}"));
        write_line(text, format_args!("{name}_count {count}"));
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl<'a> Metric<'a> {
    /// Begins the family with what it is.
    pub fn help(self, help: &str) -> Family<'a> {
        let (text, name, kind) = (self.text, self.name, self.kind);
        write_line(text, format_args!("# HELP {name} {help}"));
        write_line(text, format_args!("# TYPE {name} {kind}"));
        let sample = self.sample;
        Family { text, sample }
    }
}

impl Family<'_> {
    /// Adds a sample without labels.
    pub fn value(&mut self, value: impl fmt::Display) {
        write_line(self.text, format_args!("{} {value}", self.sample));
    }

    /// Adds a sample for each value of one label.
    pub fn each<L: AsRef<str>, V: fmt::Display>(
        &mut self,
        label: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        for (value_of_label, value) in samples {
            self.labelled(&[(label, value_of_label.as_ref())], value);
        }
    }

    /// Adds a sample with labels.
    pub fn labelled(&mut self, labels: &[(&str, &str)], value: impl fmt::Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escape(value)))
            .collect();
        write_line(
            self.text,
            format_args!("{}{{{}}} {value}", self.sample, labels.join(",")),
        );
    }
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn write_line(text: &mut String, line: fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classic_format_names_the_sample_in_its_type() {
        check(
            Format::Classic,
            "# HELP a_total Help.\n# TYPE a_total counter\na_total{l=\"x\\\"y\"} 3\n",
        );
    }

    #[test]
    fn openmetrics_names_the_family_and_ends() {
        check(
            Format::OpenMetrics,
            "# HELP a Help.\n# TYPE a counter\na_total{l=\"x\\\"y\"} 3\n# EOF\n",
        );
    }

    #[test]
    fn a_histogram_has_buckets_a_sum_and_a_count() {
        let mut histogram = Histogram::default();
        histogram.observe(std::time::Duration::from_millis(250));
        let mut exposition = Exposition::new(Format::Classic);
        exposition.histogram("a_seconds", "Help.", &histogram);
        let text = exposition.finish();
        assert!(text.starts_with(
            "# HELP a_seconds Help.\n\
             # TYPE a_seconds histogram\n\
             a_seconds_bucket{le=\"0.0001\"} 0\n"
        ));
        assert!(text.contains(
            "{le=\"0.1\"} 0\na_seconds_bucket{le=\"0.5\"} 1\na_seconds_bucket{le=\"1.0\"} 1\n"
        ));
        assert!(text.ends_with("{le=\"+Inf\"} 1\na_seconds_sum 0.25\na_seconds_count 1\n"));
    }

    #[test]
    fn the_format_is_the_one_that_is_accepted() {
        assert_eq!(Format::negotiate("*/*"), Format::Classic);
        assert_eq!(
            Format::negotiate("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
            Format::OpenMetrics
        );
    }

    fn check(format: Format, expected: &str) {
        let mut exposition = Exposition::new(format);
        exposition
            .counter("a")
            .help("Help.")
            .labelled(&[("l", "x\"y")], 3);
        assert_eq!(exposition.finish(), expected);
    }
}
