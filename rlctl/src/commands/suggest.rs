//! `rlctl suggest`: limits from what sources have sent, and against attacks.

mod attacks;

use std::fmt::Write as _;

use jiff::Zoned;
use ratelimit_core::api::{
    AppliesTo, Origin, PolicyView, SuggestRequest, Suggested, SuggestedLimit,
};
use serde_json::Value;

use crate::{
    arguments::SuggestArguments,
    client::{self, Answer, Client},
    failure::Failure,
    phrase,
    report::Report,
    table::Table,
};

/// Asks for proposals, and shows them as a table or as TOML.
pub fn run(arguments: &SuggestArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    match &arguments.attack {
        Some(Some(_)) if arguments.apply => {
            return Err(Failure::usage("--apply needs a live attack, not a capture"));
        }
        Some(Some(capture)) => return attacks::of_capture(capture),
        Some(None) if arguments.apply => return attacks::apply(arguments.lifetime, client),
        Some(None) => return attacks::going_on(client),
        None => {}
    }
    let request = SuggestRequest {
        percentile: arguments.percentile,
        headroom: arguments.headroom,
        since_seconds: arguments.since.as_secs_f64(),
    };
    let path = client::with_query("/v1/suggest", &request);
    let answer: Answer<Suggested> = client.get(&path)?;
    if arguments.toml {
        let text = toml(&answer.value);
        return Ok(Report::new(answer, text));
    }
    let text = table(&answer.value);
    let since = phrase::moment(answer.value.since, now);
    let is_open = answer.value.limits.iter().any(|it| it.at_least);
    let percentile = answer.value.percentile;
    let mut report = Report::new(answer, text).note(format!(
        "traffic per source and window since {since}; AT is the usage that {percentile} % of \
         windows do not exceed"
    ));
    if is_open {
        report = report.note(
            "`at least` means that windows reached the limit: raise it, if you like with observe = \
             true, and measure again",
        );
    }
    Ok(report)
}

fn table(suggested: &Suggested) -> String {
    let mut table =
        Table::new("POLICY | LIMIT | >SOURCES | >WINDOWS | >P50 | >AT | >MAX | PROPOSED");
    for it in &suggested.limits {
        let amount = |amount| it.limit.unit().amount(amount);
        table.row([
            it.policy.clone(),
            it.limit.to_string(),
            it.sources.to_string(),
            it.windows.to_string(),
            amount(it.median),
            amount(it.at),
            amount(it.most),
            proposed(it),
        ]);
    }
    table.to_string()
}

fn proposed(limit: &SuggestedLimit) -> String {
    match &limit.proposed {
        None => "too few samples".to_owned(),
        Some(proposed) if limit.at_least => format!("at least {proposed}"),
        Some(proposed) => proposed.to_string(),
    }
}

/// The policies with what is proposed, as the configuration has them. A limit of which too few
/// samples stays as it is.
fn toml(suggested: &Suggested) -> String {
    let mut text = format!(
        "# percentile {} of traffic per source and window since {}, times {}\n",
        suggested.percentile, suggested.since, suggested.headroom
    );
    for policy in &suggested.policies {
        let limits = suggested.limits.iter();
        let limits: Vec<&SuggestedLimit> =
            limits.filter(|limit| limit.policy == policy.name).collect();
        if is_in_configuration(policy) {
            table_of(policy, &limits, &mut text);
        } else {
            for limit in limits {
                writeln!(text, "\n# {}: {}", policy.name, proposed(limit)).expect("a text grows");
            }
        }
    }
    text.truncate(text.trim_end().len());
    text
}

fn is_in_configuration(policy: &PolicyView) -> bool {
    let is_default = policy.prefixes.is_empty();
    policy.applies_to == AppliesTo::Source && (is_default || policy.origin == Origin::Config)
}

fn table_of(policy: &PolicyView, limits: &[&SuggestedLimit], text: &mut String) {
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("\n[policy.{}]", policy.name));
    if !policy.prefixes.is_empty() {
        let prefixes = policy.prefixes.iter();
        let prefixes: Vec<String> = prefixes.map(|prefix| format!("\"{prefix}\"")).collect();
        line(format!("sources = [{}]", prefixes.join(", ")));
    }
    if policy.observe {
        line("observe = true".to_owned());
    }
    if policy.ban.is_some() {
        line("# keep the `ban` that it has".to_owned());
    }
    line("limits = [".to_owned());
    for limit in limits {
        let spec = limit.proposed.as_ref().unwrap_or(&limit.limit);
        let json = serde_json::to_value(spec).expect("texts and numbers");
        let amount = |amount| limit.limit.unit().amount(amount);
        let why = match &limit.proposed {
            Some(_) => format!("{}, at most {}", amount(limit.at), amount(limit.most)),
            None => "too few samples".to_owned(),
        };
        line(format!(
            "  {}, # {why} in {} windows",
            inline(&json),
            limit.windows
        ));
    }
    line("]".to_owned());
}

/// A value of JSON as TOML: texts, numbers and lists are written the same.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other values are written as JSON writes them"
)]
fn inline(json: &Value) -> String {
    match json {
        Value::Object(table) => {
            let pairs = table.iter();
            let pairs: Vec<String> = pairs
                .map(|(key, value)| format!("{key} = {}", inline(value)))
                .collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(inline).collect();
            format!("[{}]", values.join(", "))
        }
        other => other.to_string(),
    }
}
