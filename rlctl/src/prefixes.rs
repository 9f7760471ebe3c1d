//! Lists of prefixes as people give them: one by one, in a file (`@file`), or on stdin (`-`).
//!
//! Every fault is reported at once, and a list with a fault is no list: nothing of it is sent.

use std::{collections::HashSet, fs, io, net::IpAddr};

use ratelimit_core::prefix::{Prefix, PrefixError};

use crate::failure::Failure;

/// The faults that are named one by one; the others are counted.
const FAULTS_NAMED: usize = 10;

/// A prefix, as somebody wrote it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Named {
    /// The prefix.
    pub prefix: Prefix,
    /// Whether it is an IPv6 address without a prefix length.
    is_source: bool,
}

impl Named {
    /// Returns the prefixes, and apart from them the IPv6 addresses without a length, which stand for their sources. A host that has one
    /// such address can use all others of its network.
    pub fn split(named: &[Self]) -> (Vec<Prefix>, Vec<IpAddr>) {
        let is_source = |named: &&Self| named.is_source;
        let (sources, prefixes): (Vec<&Self>, Vec<&Self>) = named.iter().partition(is_source);
        let prefixes = prefixes.into_iter().map(|named| named.prefix);
        let sources = sources.into_iter().map(|named| named.prefix.address());
        (prefixes.collect(), sources.collect())
    }
}

/// Reads what `arguments` name: at least one prefix, each one once.
pub fn read(arguments: &[String]) -> Result<Vec<Prefix>, Failure> {
    let named = read_named(arguments)?;
    Ok(named.into_iter().map(|named| named.prefix).collect())
}

/// The same, as it was written.
pub fn read_named(arguments: &[String]) -> Result<Vec<Named>, Failure> {
    read_with(arguments, || io::read_to_string(io::stdin()))
}

/// Reads the one prefix that `text` is.
pub fn read_one(text: &str) -> Result<Prefix, Failure> {
    text.parse()
        .map_err(|error: PrefixError| Failure::usage(error.to_string()))
}

fn read_with(
    arguments: &[String],
    stdin: impl Fn() -> io::Result<String>,
) -> Result<Vec<Named>, Failure> {
    let mut list = List::default();
    for argument in arguments {
        if argument == "-" {
            let text = stdin().map_err(|error| unreadable("stdin", &error))?;
            list.take_lines("stdin", &text);
        } else if let Some(path) = argument.strip_prefix('@') {
            let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
            list.take_lines(path, &text);
        } else if let Err(error) = list.take(argument) {
            list.faults.push(error.to_string());
        }
    }
    list.finish()
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read {name}: {error}"))
}

/// A list that is being read.
#[derive(Default)]
struct List {
    named: Vec<Named>,
    seen: HashSet<Named>,
    faults: Vec<String>,
}

impl List {
    fn take(&mut self, text: &str) -> Result<(), PrefixError> {
        let prefix: Prefix = text.parse()?;
        let named = Named {
            prefix,
            is_source: prefix.address().is_ipv6() && !text.contains('/'),
        };
        if self.seen.insert(named) {
            self.named.push(named);
        }
        Ok(())
    }

    /// One prefix a line; what follows `#` is a comment.
    fn take_lines(&mut self, name: &str, text: &str) {
        for (line, number) in text.lines().zip(1..) {
            let (line, _comment) = line.split_once('#').unwrap_or((line, ""));
            if line.trim().is_empty() {
                continue;
            }
            if let Err(error) = self.take(line) {
                self.faults.push(format!("{name}:{number}: {error}"));
            }
        }
    }

    fn finish(self) -> Result<Vec<Named>, Failure> {
        match self.faults.as_slice() {
            [] if self.named.is_empty() => {
                Err(Failure::usage("the list names no prefix, nothing was sent"))
            }
            [] => Ok(self.named),
            [fault] => Err(Failure::usage(fault)),
            faults => Err(Failure::usage(several(faults))),
        }
    }
}

fn several(faults: &[String]) -> String {
    let head = format!("{} prefixes are wrong, nothing was sent", faults.len());
    let mut lines = vec![head];
    lines.extend(faults.iter().take(FAULTS_NAMED).cloned());
    if faults.len() > FAULTS_NAMED {
        lines.push(format!("and {} more", faults.len() - FAULTS_NAMED));
    }
    lines.join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_taken_in_their_order_and_once() {
        check(
            &["10.0.0.0/8", "::1", "10.0.0.0/255.0.0.0"],
            "",
            Ok("10.0.0.0/8 ::1"),
        );
    }

    #[test]
    fn an_address_of_ipv6_without_a_length_is_its_source() {
        let arguments = [
            "2001:db8::7",
            "2001:db8::8/128",
            "192.0.2.1",
            "2001:db8:1::/48",
        ];
        let named = read_named(&arguments.map(str::to_owned)).unwrap();
        let (prefixes, sources) = Named::split(&named);
        let expected = ["2001:db8::8", "192.0.2.1", "2001:db8:1::/48"];
        assert_eq!(prefixes, expected.map(|text| text.parse().unwrap()));
        assert_eq!(sources, ["2001:db8::7".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_list_on_stdin_may_have_comments_and_empty_lines() {
        check(
            &["192.0.2.1", "-"],
            "# scanners\n\n 192.0.2.2 # seen on Monday\r\n192.0.2.0/24\n",
            Ok("192.0.2.1 192.0.2.2 192.0.2.0/24"),
        );
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number() {
        check(
            &["-"],
            "192.0.2.1\n# fine\n10.0.0.1/24\n",
            Err(
                "stdin:3: invalid prefix `10.0.0.1/24`: host bits are set, did you mean 10.0.0.0/24 or 10.0.0.1?",
            ),
        );
    }

    #[test]
    fn all_wrong_lines_are_named_up_to_ten() {
        let lines: Vec<String> = (1..=12).map(|number| format!("x{number}")).collect();
        let failure = read_with(&["-".to_owned()], || Ok(lines.join("\n"))).unwrap_err();
        let named: Vec<&str> = failure.refused.error.lines().collect();
        assert_eq!(named.len(), 12);
        assert_eq!(named[0], "12 prefixes are wrong, nothing was sent");
        assert!(
            named[10].starts_with("  stdin:10: invalid prefix `x10`"),
            "{named:?}"
        );
        assert_eq!(named[11], "  and 2 more");
    }

    #[test]
    fn a_list_without_a_prefix_is_refused() {
        check(
            &["-"],
            "# nobody\n",
            Err("the list names no prefix, nothing was sent"),
        );
    }

    #[test]
    fn a_list_that_cannot_be_read_is_refused() {
        check(
            &["@/"],
            "",
            Err("cannot read /: Is a directory (os error 21)"),
        );
    }

    fn check(arguments: &[&str], stdin: &str, expected: Result<&str, &str>) {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let read = read_with(&arguments, || Ok(stdin.to_owned()));
        let prefixes = read.as_ref().map(|prefixes| {
            let texts: Vec<String> = prefixes.iter().map(|it| it.prefix.to_string()).collect();
            texts.join(" ")
        });
        let prefixes = prefixes.map_err(|failure| failure.refused.error.as_str());
        assert_eq!(prefixes.as_deref().map_err(|error| *error), expected);
    }
}
