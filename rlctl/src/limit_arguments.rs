//! Limits on a command line: `--packets 1000 --per 1s --bytes 50MB --per 1s --algorithm token-bucket --burst 100MB`.
//!
//! Each `--packets` or `--bytes` belongs to the `--per` behind it, and `--algorithm` and `--burst` to the limit before them,
//! so the order in which they were typed matters; `--match` belongs to the limit before it too.

use std::{collections::BTreeMap, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use ratelimit_core::{
    class::Match,
    limit::{AlgorithmName, LimitError, LimitSpec, LimitUnit},
    quantity,
};

/// The options of limits in the order in which they were typed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LimitArguments(Vec<Word>);

/// One of the options.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Word {
    Amount(u64, LimitUnit),
    Per(Duration),
    Algorithm(AlgorithmName),
    Burst(String),
    Match(String),
}

/// Why the options are no limits.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LimitArgumentsError {
    /// No option at all.
    #[error("no limit is given: write for example `--packets 1000 --per 1s`")]
    Nothing,
    /// An amount that is not followed by its window.
    #[error("`{0}` has no `--per` behind it: write for example `{0} --per 1s`")]
    NoWindow(String),
    /// A window without an amount.
    #[error(
        "`{0}` has no `--packets` or `--bytes` before it: write for example `--packets 1000 {0}`"
    )]
    NoAmount(String),
    /// An algorithm, a burst or a class that no limit is before, or that stands twice behind one.
    #[error(
        "`{0}` has no limit of its own before it: write for example `--packets 1000 --per 1s {0}`"
    )]
    NoLimit(String),
    /// A burst that is no amount of what the limit counts.
    #[error("`--burst {burst}`: {error}")]
    Burst {
        /// What was typed.
        burst: String,
        /// Why not.
        error: String,
    },
    /// A limit that cannot be enforced.
    #[error("`{limit}`: {error}")]
    Limit {
        /// Its options.
        limit: String,
        /// Why not.
        error: LimitError,
    },
}

impl LimitArguments {
    /// The limits that the options stand for; at least one.
    pub fn limits(&self) -> Result<Vec<LimitSpec>, LimitArgumentsError> {
        let mut limits = Vec::new();
        let mut words = self.0.iter();
        while let Some(word) = words.next() {
            let (amount, unit) = match word {
                Word::Amount(amount, unit) => (*amount, *unit),
                Word::Per(_) => return Err(LimitArgumentsError::NoAmount(word.text())),
                Word::Algorithm(_) | Word::Burst(_) | Word::Match(_) => {
                    return Err(LimitArgumentsError::NoLimit(word.text()));
                }
            };
            let Some(per @ Word::Per(window)) = words.next() else {
                return Err(LimitArgumentsError::NoWindow(word.text()));
            };
            let mut texts = vec![word.text(), per.text()];
            let (mut algorithm, mut burst, mut class) = (None, None, None);
            while let Some(word) = words.as_slice().first() {
                match word {
                    Word::Algorithm(name) if algorithm.is_none() => algorithm = Some(*name),
                    Word::Burst(text) if burst.is_none() => burst = Some(read_burst(text, unit)?),
                    Word::Match(name) if class.is_none() => {
                        class = Some(Match::Named(name.clone()));
                    }
                    _ => break,
                }
                texts.push(word.text());
                words.next();
            }
            let algorithm = algorithm.unwrap_or_default().with(amount, burst);
            let limit = algorithm.and_then(|it| LimitSpec::new(amount, unit, *window, it));
            let limit = limit.map_err(|error| LimitArgumentsError::Limit {
                limit: texts.join(" "),
                error,
            })?;
            limits.push(match class {
                Some(class) => limit.of_class(class),
                None => limit,
            });
        }
        if limits.is_empty() {
            return Err(LimitArgumentsError::Nothing);
        }
        Ok(limits)
    }
}

impl Word {
    fn text(&self) -> String {
        match self {
            Self::Amount(amount, LimitUnit::Packets) => format!("--packets {amount}"),
            Self::Amount(amount, LimitUnit::Bytes) => {
                format!("--bytes {}", quantity::bytes(*amount))
            }
            Self::Per(window) => format!("--per {}", quantity::duration(*window)),
            Self::Algorithm(name) => format!("--algorithm {}", name.label()),
            Self::Burst(text) => format!("--burst {text}"),
            Self::Match(name) => format!("--match {name}"),
        }
    }
}

/// A burst is in the unit of its limit.
fn read_burst(text: &str, unit: LimitUnit) -> Result<u64, LimitArgumentsError> {
    let burst = match unit {
        LimitUnit::Packets => text
            .parse()
            .map_err(|_| "write a number of packets".to_owned()),
        LimitUnit::Bytes => quantity::parse_bytes(text).map_err(|error| error.to_string()),
    };
    burst.map_err(|error| LimitArgumentsError::Burst {
        burst: text.to_owned(),
        error,
    })
}

impl clap::Args for LimitArguments {
    fn augment_args(command: Command) -> Command {
        command
            .arg(
                option(
                    "packets",
                    "N",
                    "Packets that a window admits; `--per` follows",
                )
                .value_parser(value_parser!(u64)),
            )
            .arg(
                option(
                    "bytes",
                    "SIZE",
                    "Bytes that a window admits, as 1500, 50MB or 64KiB; `--per` follows",
                )
                .value_parser(quantity::parse_bytes),
            )
            .arg(
                option(
                    "per",
                    "TIME",
                    "Length of the window, as 100ms, 1s or 1h: 10ms to 31d",
                )
                .value_parser(quantity::parse_duration),
            )
            .arg(
                option(
                    "algorithm",
                    "NAME",
                    "How the limit before it counts: fixed-window, sliding-window, token-bucket or sliding-log",
                )
                .value_parser(value_parser!(AlgorithmName)),
            )
            .arg(
                option(
                    "burst",
                    "AMOUNT",
                    "What a token bucket holds, in the unit of its limit [default: the amount]",
                )
                .value_parser(value_parser!(String)),
            )
            .arg(
                option(
                    "match",
                    "CLASS",
                    "Packets that the limit before it counts, as tcp-syn, fragments, other or a class of the configuration [default: all]",
                )
                .value_parser(value_parser!(String)),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .help(help)
        .action(ArgAction::Append)
}

impl clap::FromArgMatches for LimitArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words = BTreeMap::new();
        words.extend(typed(matches, "packets", |amount| {
            Word::Amount(amount, LimitUnit::Packets)
        }));
        words.extend(typed(matches, "bytes", |amount| {
            Word::Amount(amount, LimitUnit::Bytes)
        }));
        words.extend(typed(matches, "per", Word::Per));
        words.extend(typed(matches, "algorithm", Word::Algorithm));
        words.extend(typed(matches, "burst", Word::Burst));
        words.extend(typed(matches, "match", Word::Match));
        Ok(Self(words.into_values().collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The values of an option with their places on the command line.
fn typed<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    name: &str,
    word: impl Fn(T) -> Word,
) -> impl Iterator<Item = (usize, Word)> {
    let places = matches.indices_of(name).into_iter().flatten();
    let values = matches.get_many::<T>(name).into_iter().flatten();
    places.zip(values.cloned().map(word))
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
    fn an_amount_belongs_to_the_window_behind_it() {
        check("--packets 1000 --per 1s", Ok("1000 packets per 1s"));
        check(
            "--bytes 50MB --per 1s --packets 20 --per 10ms --packets 7 --per 1d",
            Ok("50MB per 1s, 20 packets per 10ms, 7 packets per 1d"),
        );
    }

    #[test]
    fn an_amount_without_a_window_is_refused() {
        let error =
            "`--packets 5` has no `--per` behind it: write for example `--packets 5 --per 1s`";
        check("--packets 5", Err(error));
        check("--packets 5 --bytes 1MB --per 1s", Err(error));
        check("--packets 9 --per 1s --packets 5", Err(error));
    }

    #[test]
    fn a_window_without_an_amount_is_refused() {
        let error = "`--per 1s` has no `--packets` or `--bytes` before it: write for example `--packets 1000 --per 1s`";
        check("--per 1s", Err(error));
        check("--per 1s --packets 5", Err(error));
        check("--packets 5 --per 10s --per 1s", Err(error));
    }

    #[test]
    fn a_limit_that_cannot_be_enforced_is_named() {
        check(
            "--packets 5 --per 1s --packets 0 --per 1s",
            Err(
                "`--packets 0 --per 1s`: the amount is 0, which would drop everything: use a ban, or write at least 1",
            ),
        );
        check(
            "--packets 5 --per 9ms",
            Err(
                "`--packets 5 --per 9ms`: the window is shorter than 10ms, the shortest that can be kept",
            ),
        );
    }

    #[test]
    fn an_algorithm_belongs_to_the_limit_before_it() {
        check(
            "--packets 9 --per 1s --bytes 5MB --per 1s --burst 9MB --algorithm token-bucket --packets 7 --per 1d --algorithm sliding-window",
            Ok(
                "9 packets per 1s, 5MB per 1s (token-bucket, burst 9MB), 7 packets per 1d (sliding-window)",
            ),
        );
        check(
            "--packets 9 --per 1s --algorithm token-bucket",
            Ok("9 packets per 1s (token-bucket, burst 9)"),
        );
        check(
            "--algorithm token-bucket --packets 9 --per 1s",
            Err(
                "`--algorithm token-bucket` has no limit of its own before it: write for example `--packets 1000 --per 1s --algorithm token-bucket`",
            ),
        );
        check(
            "--packets 9 --per 1s --burst 1 --burst 2",
            Err(
                "`--packets 9 --per 1s --burst 1`: only a token-bucket has a burst: write the algorithm, or leave the burst out",
            ),
        );
    }

    #[test]
    fn a_class_belongs_to_the_limit_before_it() {
        check(
            "--packets 9 --per 1s --match tcp-syn --bytes 5MB --per 1s --algorithm token-bucket --match web --packets 7 --per 1d",
            Ok(
                "9 packets per 1s of tcp-syn, 5MB per 1s (token-bucket, burst 5MB) of web, 7 packets per 1d",
            ),
        );
        check(
            "--match tcp-syn --packets 9 --per 1s",
            Err(
                "`--match tcp-syn` has no limit of its own before it: write for example `--packets 1000 --per 1s --match tcp-syn`",
            ),
        );
    }

    #[test]
    fn a_sliding_log_is_of_at_most_1024_packets() {
        check(
            "--packets 5 --per 1m --algorithm sliding-log",
            Ok("5 packets per 1m (sliding-log)"),
        );
        check(
            "--packets 1025 --per 1m --algorithm sliding-log",
            Err(
                "`--packets 1025 --per 1m --algorithm sliding-log`: a sliding-log keeps the times of at most 1024 packets: write at most so many, or sliding-window, which keeps none",
            ),
        );
        check(
            "--bytes 5MB --per 1m --algorithm sliding-log",
            Err(
                "`--bytes 5MB --per 1m --algorithm sliding-log`: a sliding-log keeps the time of each packet, and counts no bytes: write `packets`, or another algorithm",
            ),
        );
    }

    #[test]
    fn a_burst_is_in_the_unit_of_its_limit() {
        check(
            "--packets 9 --per 1s --algorithm token-bucket --burst 1MB",
            Err("`--burst 1MB`: write a number of packets"),
        );
        check(
            "--bytes 9MB --per 1s --algorithm token-bucket --burst 1M",
            Err("`--burst 1M`: `M` in `1M` is not a unit of bytes: write `1MB` or `1MiB`"),
        );
        check(
            "--packets 9 --per 1s --algorithm token-bucket --burst 0",
            Err(
                "`--packets 9 --per 1s --algorithm token-bucket --burst 0`: the burst is 0, which would drop everything: write at least 1",
            ),
        );
    }

    #[test]
    fn a_line_without_limits_is_refused() {
        check(
            "",
            Err("no limit is given: write for example `--packets 1000 --per 1s`"),
        );
    }

    fn check(line: &str, expected: Result<&str, &str>) {
        let words = ["line"].into_iter().chain(line.split_whitespace());
        let limits = Line::try_parse_from(words).unwrap().limits.limits();
        let limits = limits.map(|limits| {
            let texts: Vec<String> = limits.iter().map(ToString::to_string).collect();
            texts.join(", ")
        });
        let limits = limits.map_err(|error| error.to_string());
        assert_eq!(limits, expected.map(str::to_owned).map_err(str::to_owned));
    }
}
