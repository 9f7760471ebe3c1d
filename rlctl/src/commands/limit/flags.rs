//! Limits on a command line: `--packets 1000 --per 1s`, or several
//! `--limit packets=1000,per=1s,match=dns`.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use clap::Args;
use ratelimit_core::{
    class::{Class, Match},
    limit::{AlgorithmName, Burst, Counting, Division, LimitSpec, LimitUnit, Scope},
    quantity,
};
use strum::VariantArray;

/// One limit by flags of its own, or any number of `--limit`.
#[derive(Args, Clone, Debug, Default)]
pub struct LimitArguments {
    /// A limit such as packets=1000,per=1s, with the flags below as keys; can be repeated
    #[arg(long, value_name = "LIMIT")]
    #[arg(
        conflicts_with_all = [
            "packets",
            "bytes",
            "per",
            "algorithm",
            "burst",
            "match",
            "scope",
            "division",
        ]
    )]
    limit: Vec<OneLimit>,
    #[command(flatten)]
    flags: OneLimit,
}

/// Options that describe limits.
#[derive(Args, Clone, Debug, Default)]
struct OneLimit {
    /// Packets per window
    #[arg(long, value_name = "N", value_parser = packets)]
    packets: Option<u64>,
    /// Bytes per window: 1500, 50MB or 64KiB
    #[arg(long, value_name = "SIZE", value_parser = bytes, conflicts_with = "packets")]
    bytes: Option<u64>,
    /// Length of the window from 10ms to 31d: 100ms, 1s or 1h
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    per: Option<Duration>,
    /// Algorithm: fixed-window, sliding-window, token-bucket or sliding-log [default: token-bucket
    /// for bytes on one node, otherwise fixed-window]
    #[arg(long, value_name = "NAME")]
    algorithm: Option<AlgorithmName>,
    /// Burst of a token bucket in the unit of the limit; auto is the amount, for bytes at least
    /// what flows in within 250 ms [default: auto]
    #[arg(long, value_name = "AMOUNT")]
    burst: Option<String>,
    /// Packets to count: tcp-syn, fragments, other, a configured class, or an inline one such as
    /// `{ protocol = "udp", source_ports = [53] }` [default: all]
    #[arg(long = "match", value_name = "CLASS", id = "match", value_parser = class)]
    class: Option<Match>,
    /// Scope: node (each node separately) or cluster (shared by all nodes, needs --cluster)
    /// [default: node]
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    scope: Option<Scope>,
    /// How the nodes divide the limit: equal or proportional [default: equal]
    #[arg(long, alias = "share", value_name = "DIVISION", value_parser = division)]
    division: Option<Division>,
}

/// The hint if no limit is given.
const NOTHING: &str = "no limit is given: write for example `--packets 1000 --per 1s`";
const NO_WINDOW: &str =
    "the limit has no window: write for example `--per 1s`, or `per=1s` in --limit";
const NO_AMOUNT: &str =
    "the limit has no amount: write `--packets` or `--bytes`, or `packets=` or `bytes=` in --limit";
const DIVISION_OF_NODE: &str = "only a limit of all nodes together is divided: write `--scope \
                                cluster`, or `scope=cluster` in --limit";

impl LimitArguments {
    /// Returns the limits of the options; at least one.
    pub fn limits(&self) -> Result<Vec<LimitSpec>, String> {
        if self.limit.is_empty() {
            return Ok(vec![self.flags.spec()?]);
        }
        self.limit.iter().map(OneLimit::spec).collect()
    }
}

impl OneLimit {
    fn spec(&self) -> Result<LimitSpec, String> {
        let is_silent = self.per.is_none() && self.algorithm.is_none();
        let (amount, unit) = match (self.packets, self.bytes) {
            (Some(packets), _) => (packets, LimitUnit::Packets),
            (None, Some(bytes)) => (bytes, LimitUnit::Bytes),
            (None, None) if is_silent && self.burst.is_none() && self.class.is_none() => {
                return Err(NOTHING.to_owned());
            }
            (None, None) => return Err(NO_AMOUNT.to_owned()),
        };
        let per = self.per.ok_or(NO_WINDOW)?;
        let burst = self.burst.as_deref().map(|text| read_burst(text, unit));
        let counting = Counting {
            algorithm: self.algorithm,
            burst: burst.transpose()?.unwrap_or_default(),
            scope: self.scope.unwrap_or_default(),
        };
        let algorithm = counting.of(amount, unit, per);
        let limit = algorithm.and_then(|it| LimitSpec::new(amount, unit, per, it));
        let limit = limit.map_err(|error| {
            let per = quantity::duration(per);
            match unit {
                LimitUnit::Packets => format!("{amount} packets per {per}: {error}"),
                LimitUnit::Bytes => format!("{} per {per}: {error}", quantity::bytes(amount)),
            }
        })?;
        let limit = match &self.class {
            Some(class) => limit.of_class(class.clone()),
            None => limit,
        };
        match (self.scope.unwrap_or_default(), self.division) {
            (Scope::Cluster, division) => Ok(limit.shared(division.unwrap_or_default())),
            (Scope::Node, None) => Ok(limit),
            (Scope::Node, Some(_)) => Err(DIVISION_OF_NODE.to_owned()),
        }
    }
}

/// `packets=1000,per=1s,algorithm=token-bucket,burst=2000,match=dns`
impl FromStr for OneLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut limit = Self::default();
        for part in parts(text) {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                format!("`{part}` has no `=`: write for example packets=1000,per=1s")
            })?;
            let is_first = match key {
                "packets" => limit.packets.replace(packets(value)?).is_none(),
                "bytes" => limit.bytes.replace(bytes(value)?).is_none(),
                "per" => limit
                    .per
                    .replace(said(quantity::parse_duration(value))?)
                    .is_none(),
                "algorithm" => {
                    let name = said(value.parse());
                    let name =
                        name.map_err(|error| format!("`{value}` is not an algorithm: {error}"));
                    limit.algorithm.replace(name?).is_none()
                }
                "burst" => limit.burst.replace(value.to_owned()).is_none(),
                "match" => limit.class.replace(class(value)?).is_none(),
                "scope" => limit.scope.replace(scope(value)?).is_none(),
                "division" | "share" => limit.division.replace(division(value)?).is_none(),
                _ => {
                    return Err(format!(
                        "`{key}` is not a key of a limit: write packets, bytes, per, algorithm, \
                         burst, match, scope or division"
                    ));
                }
            };
            if !is_first {
                return Err(format!("duplicate `{key}`: use another --limit"));
            }
        }
        if limit.packets.is_some() && limit.bytes.is_some() {
            return Err("a limit counts packets or bytes: repeat --limit for the other".to_owned());
        }
        Ok(limit)
    }
}

/// The parts of a limit, between the commas that are in no brackets.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    text.split(move |letter| {
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

/// The name of a class, or a class on the spot as the configuration has it:
/// `{ protocol = "udp", source_ports = [53] }`.
fn class(text: &str) -> Result<Match, String> {
    if !text.starts_with('{') {
        return Ok(Match::Named(text.to_owned()));
    }
    let table: Result<BTreeMap<String, Class>, _> = toml::from_str(&format!("match = {text}"));
    let class = table.map_err(|error| format!("`{text}` is not a class: {}", error.message()))?;
    let class = class.into_values().next();
    class
        .map(Match::Inline)
        .ok_or_else(|| format!("`{text}` is not a class"))
}

/// Parses the scope of a limit.
fn scope(text: &str) -> Result<Scope, String> {
    named("scope", text)
}

/// Parses the division of a limit among nodes.
fn division(text: &str) -> Result<Division, String> {
    named("division of a limit", text)
}

fn named<T: Copy + Into<&'static str> + VariantArray>(what: &str, text: &str) -> Result<T, String> {
    let known = T::VARIANTS.iter().find(|it| (**it).into() == text);
    known.copied().ok_or_else(|| {
        let names: Vec<&str> = T::VARIANTS.iter().map(|it| (*it).into()).collect();
        format!("`{text}` is not a {what}: write {}", names.join(" or "))
    })
}

fn said<T>(read: Result<T, impl ToString>) -> Result<T, String> {
    read.map_err(|error| error.to_string())
}

/// Packets: `5000`, or `5_000` as in the configuration.
fn packets(text: &str) -> Result<u64, String> {
    let number = without_underscores(text).parse();
    let wrong = || format!("`{text}` is not a number of packets: write for example 5000 or 5_000");
    number.map_err(|_| wrong())
}

/// Bytes: `1500`, `50MB`, or `1_500` as in the configuration.
fn bytes(text: &str) -> Result<u64, String> {
    said(quantity::parse_bytes(&without_underscores(text)))
}

/// Parses a number like TOML, with underscores between digits.
fn without_underscores(text: &str) -> String {
    let parts: Vec<&str> = text.split('_').collect();
    let is_digit = |letter: Option<char>| letter.is_some_and(|it| it.is_ascii_digit());
    let between = parts.windows(2).all(|pair| match pair {
        [left, right] => is_digit(left.chars().last()) && is_digit(right.chars().next()),
        _ => true,
    });
    if between {
        parts.concat()
    } else {
        text.to_owned()
    }
}

fn read_burst(text: &str, unit: LimitUnit) -> Result<Burst, String> {
    if text == "auto" {
        return Ok(Burst::Auto);
    }
    let burst = match unit {
        LimitUnit::Packets => packets(text).map_err(|_| "write a number of packets".to_owned()),
        LimitUnit::Bytes => bytes(text),
    };
    let wrong = |error| format!("burst `{text}`: {error}");
    burst.map(Burst::Of).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        limits: LimitArguments,
    }

    #[test]
    fn one_limit_has_flags_of_its_own_in_any_order() {
        check("--packets 1000 --per 1s", Ok("1000 packets per 1s"));
        check("--per 1s --packets 1000", Ok("1000 packets per 1s"));
        check("--per 1s --packets 5_000", Ok("5000 packets per 1s"));
        check(
            "--per 1s --bytes 1_500",
            Ok("1500B per 1s (token-bucket, burst 1500B)"),
        );
        check(
            "--per 100ms --bytes 1MB --burst auto",
            Ok("1MB per 100ms (token-bucket, burst 2500kB)"),
        );
        check(
            "--per 1s --bytes 1MB --scope cluster",
            Ok("1MB per 1s (fixed-window), shared by all nodes"),
        );
        check(
            "--match web --burst 9MB --algorithm token-bucket --bytes 5MB --per 1s",
            Ok("5MB per 1s (token-bucket, burst 9MB) of web"),
        );
        check(
            "--packets 5 --per 1m --algorithm sliding-log",
            Ok("5 packets per 1m (sliding-log)"),
        );
        check(
            "--packets 5 --per 1m --scope cluster --division proportional",
            Ok("5 packets per 1m, shared by all nodes"),
        );
    }

    #[test]
    fn several_limits_are_written_whole() {
        check(
            "--limit packets=1000,per=1s --limit \
             match=dns,per=1m,bytes=50MB,burst=60MB,algorithm=token-bucket",
            Ok("1000 packets per 1s, 50MB per 1m (token-bucket, burst 60MB) of dns"),
        );
    }

    #[test]
    fn a_limit_without_an_amount_or_a_window_is_refused() {
        check(
            "",
            Err("no limit is given: write for example `--packets 1000 --per 1s`"),
        );
        let window =
            "the limit has no window: write for example `--per 1s`, or `per=1s` in --limit";
        check("--packets 5", Err(window));
        check("--limit packets=5", Err(window));
        let amount = "the limit has no amount: write `--packets` or `--bytes`, or `packets=` or \
                      `bytes=` in --limit";
        for line in ["--per 1s", "--match dns", "--limit per=1s"] {
            check(line, Err(amount));
        }
    }

    #[test]
    fn only_a_limit_of_all_nodes_is_divided() {
        let refused = "only a limit of all nodes together is divided: write `--scope cluster`, or \
                       `scope=cluster` in --limit";
        check("--packets 5 --per 1s --division equal", Err(refused));
        let line = "--limit packets=5,per=1s,scope=node,division=equal";
        check(line, Err(refused));
        check(
            "--limit packets=5,per=1s,scope=cluster,share=equal",
            Ok("5 packets per 1s, shared by all nodes"),
        );
    }

    #[test]
    fn flags_say_one_limit() {
        for line in [
            "--packets 5 --per 1s --packets 6 --per 1m",
            "--packets 5 --bytes 5MB --per 1s",
            "--limit packets=5,per=1s --packets 6 --per 1m",
            "--limit packets=5,per=1s --match dns",
        ] {
            refuse(line, "cannot be used");
        }
    }

    #[test]
    fn a_limit_that_is_not_understood_is_refused_with_a_hint() {
        for (limit, expected) in [
            (
                "1000/s",
                "`1000/s` has no `=`: write for example packets=1000,per=1s",
            ),
            (
                "packet=5,per=1s",
                "`packet` is not a key of a limit: write packets, bytes",
            ),
            (
                "packets=5,packets=6,per=1s",
                "duplicate `packets`: use another --limit",
            ),
            (
                "packets=5,bytes=6MB,per=1s",
                "a limit counts packets or bytes: repeat --limit",
            ),
            (
                "packets=many,per=1s",
                "`many` is not a number of packets: write for example 5000 or 5_000",
            ),
            (
                "packets=5_,per=1s",
                "`5_` is not a number of packets: write for example 5000 or 5_000",
            ),
            (
                "packets=5__000,per=1s",
                "`5__000` is not a number of packets: write for example 5000 or 5_000",
            ),
            ("packets=5,per=soon", "soon"),
            ("bytes=5M,per=1s", "`M` in `5M` is not a unit of bytes"),
            (
                "packets=5,per=1s,algorithm=gcra",
                "`gcra` is not an algorithm: write fixed-window",
            ),
        ] {
            refuse(&format!("--limit {limit}"), expected);
        }
    }

    #[test]
    fn a_limit_that_cannot_be_enforced_is_named() {
        for (line, expected) in [
            (
                "--limit packets=5,per=1s --limit packets=0,per=1s",
                "0 packets per 1s: the amount is 0, which would drop everything: use a ban, or \
                 write at least 1",
            ),
            (
                "--packets 5 --per 9ms",
                "5 packets per 9ms: the window is shorter than 10ms, the shortest that can be kept",
            ),
            (
                "--packets 9 --per 1s --burst 1",
                "9 packets per 1s: only a token-bucket has a burst: write the algorithm, or remove \
                 the burst",
            ),
            (
                "--packets 1025 --per 1m --algorithm sliding-log",
                "1025 packets per 1m: a sliding-log holds at most 1024 packets: reduce the amount, \
                 or use sliding-window",
            ),
            (
                "--packets 9 --per 1s --algorithm token-bucket --burst 0",
                "9 packets per 1s: the burst is 0, which would drop everything: write at least 1",
            ),
        ] {
            check(line, Err(expected));
        }
    }

    #[test]
    fn a_burst_is_in_the_unit_of_its_limit() {
        check(
            "--packets 9 --per 1s --algorithm token-bucket --burst 1MB",
            Err("burst `1MB`: write a number of packets"),
        );
        check(
            "--limit bytes=9MB,per=1s,algorithm=token-bucket,burst=1M",
            Err("burst `1M`: `M` in `1M` is not a unit of bytes: write `1MB` or `1MiB`"),
        );
    }

    fn check(line: &str, expected: Result<&str, &str>) {
        let limits = parse(line).unwrap().limits.limits();
        let limits = limits.map(|limits| {
            let texts: Vec<String> = limits.iter().map(ToString::to_string).collect();
            texts.join(", ")
        });
        let limits = limits.map_err(|error| error.clone());
        assert_eq!(
            limits,
            expected.map(str::to_owned).map_err(str::to_owned),
            "{line}"
        );
    }

    fn refuse(line: &str, expected: &str) {
        let error = parse(line).err().map(|error| error.to_string());
        assert!(
            error.as_ref().is_some_and(|error| error.contains(expected)),
            "{line}: {error:?}"
        );
    }

    fn parse(line: &str) -> Result<Line, clap::Error> {
        Line::try_parse_from(["line"].into_iter().chain(line.split_whitespace()))
    }
}
