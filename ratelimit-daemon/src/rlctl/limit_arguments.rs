//! Limits on a command line: `--packets 1000 --per 1s --bytes 50MB --per 1s`.
//!
//! Each `--packets` or `--bytes` belongs to the `--per` behind it, so the order in which they were typed matters.

use std::{collections::BTreeMap, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::{
    limit::{Algorithm, LimitError, LimitSpec, LimitUnit},
    quantity,
};

/// `--packets`, `--bytes` and `--per` in the order in which they were typed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LimitArguments(Vec<Word>);

/// One of the options.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Word {
    Amount(u64, LimitUnit),
    Per(Duration),
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
    /// A pair that cannot be enforced.
    #[error("`{amount} {per}`: {error}")]
    Limit {
        /// The first option of the pair.
        amount: String,
        /// The second one.
        per: String,
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
            let Word::Amount(amount, unit) = *word else {
                return Err(LimitArgumentsError::NoAmount(word.text()));
            };
            let Some(per @ Word::Per(window)) = words.next() else {
                return Err(LimitArgumentsError::NoWindow(word.text()));
            };
            let limit = LimitSpec::new(amount, unit, *window, Algorithm::default());
            limits.push(limit.map_err(|error| LimitArgumentsError::Limit {
                amount: word.text(),
                per: per.text(),
                error,
            })?);
        }
        if limits.is_empty() {
            return Err(LimitArgumentsError::Nothing);
        }
        Ok(limits)
    }

    /// Whether none of the options was typed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Word {
    fn text(self) -> String {
        match self {
            Self::Amount(amount, LimitUnit::Packets) => format!("--packets {amount}"),
            Self::Amount(amount, LimitUnit::Bytes) => {
                format!("--bytes {}", quantity::bytes(amount))
            }
            Self::Per(window) => format!("--per {}", quantity::duration(window)),
        }
    }
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
