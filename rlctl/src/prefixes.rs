//! Lists of prefixes as people give them: one by one, in a file (`@file`), or on stdin (`-`).
//!
//! All faults are reported together, and nothing of a list with a fault is sent.

use std::{collections::HashSet, fs, io, net::IpAddr};

use clap::Args;
use ratelimit_core::prefix::{Prefix, PrefixError};

use crate::failure::Failure;

/// Prefixes, in any of the ways to give them.
#[derive(Args, Debug)]
pub struct PrefixesArguments {
    /// Addresses and prefixes. `@FILE` reads them from a file, `-` from stdin
    ///
    /// 203.0.113.7, 203.0.113.0/24, 203.0.113.0/255.255.255.0 or `2001:db8::/48`. Files have one
    /// per line, with comments after `#`. If one is invalid, nothing changes.
    #[arg(value_name = "PREFIX", required = true)]
    pub prefixes: Vec<String>,
    #[command(flatten)]
    pub network: NetworkArgument,
}

/// `--network`
#[derive(Args, Clone, Copy, Debug)]
pub struct NetworkArgument {
    /// Take the network of each address with a length: `2001:db8::7/64` means `2001:db8::/64`
    #[arg(long = "network")]
    is_wanted: bool,
}

impl NetworkArgument {
    /// The treatment of host bits.
    pub fn host_bits(self) -> HostBits {
        if self.is_wanted {
            HostBits::Cleared
        } else {
            HostBits::Refused
        }
    }
}

/// The faults that are named one by one; the others are counted.
const FAULTS_NAMED: usize = 10;

/// A prefix and its original notation.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Named {
    pub prefix: Prefix,
    /// Whether it is an IPv6 address without a prefix length.
    is_source: bool,
}

/// The treatment of bits that are set behind the length of a prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HostBits {
    /// Refuse the prefix, as it is not clear what is meant.
    Refused,
    /// Use the network of the address.
    Cleared,
}

impl Named {
    /// Separates the prefixes from IPv6 addresses without a length, which mean their whole source
    /// prefix: a host that has one such address can use all others of its network.
    pub fn split(named: &[Self]) -> (Vec<Prefix>, Vec<IpAddr>) {
        let is_source = |named: &&Self| named.is_source;
        let (sources, prefixes): (Vec<&Self>, Vec<&Self>) = named.iter().partition(is_source);
        let prefixes = prefixes.into_iter().map(|named| named.prefix);
        let sources = sources.into_iter().map(|named| named.prefix.address());
        (prefixes.collect(), sources.collect())
    }
}

/// Reads what `arguments` name: at least one prefix, each one once.
pub fn read(arguments: &PrefixesArguments) -> Result<Vec<Prefix>, Failure> {
    let host_bits = arguments.network.host_bits();
    let named = read_named(&arguments.prefixes, host_bits)?;
    Ok(named.into_iter().map(|named| named.prefix).collect())
}

/// Returns the prefixes with their original notation.
pub fn read_named(arguments: &[String], host_bits: HostBits) -> Result<Vec<Named>, Failure> {
    read_with(arguments, host_bits, || io::read_to_string(io::stdin()))
}

/// Reads the one prefix that `text` is.
pub fn read_one(text: &str) -> Result<Prefix, Failure> {
    text.parse()
        .map_err(|error: PrefixError| Failure::usage(error.to_string()))
}

fn read_with(
    arguments: &[String],
    host_bits: HostBits,
    stdin: impl Fn() -> io::Result<String>,
) -> Result<Vec<Named>, Failure> {
    let mut list = List::new(host_bits);
    for argument in arguments {
        if argument == "-" {
            let text = stdin().map_err(|error| unreadable("stdin", &error))?;
            list.take_lines("stdin", &text);
        } else if let Some(path) = argument.strip_prefix('@') {
            let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
            list.take_lines(path, &text);
        } else if let Err(error) = list.take(argument) {
            list.note(&error, error.to_string());
        }
    }
    list.finish()
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read {name}: {error}"))
}

/// A list that is being read.
struct List {
    host_bits: HostBits,
    named: Vec<Named>,
    seen: HashSet<Named>,
    faults: Vec<String>,
    /// The networks of those with host bits.
    networks: Vec<Prefix>,
}

impl List {
    fn new(host_bits: HostBits) -> Self {
        Self {
            host_bits,
            named: Vec::new(),
            seen: HashSet::new(),
            faults: Vec::new(),
            networks: Vec::new(),
        }
    }

    fn take(&mut self, text: &str) -> Result<(), PrefixError> {
        let prefix = match text.parse() {
            Err(PrefixError::HostBits { network, .. }) if self.host_bits == HostBits::Cleared => {
                network
            }
            parsed => parsed?,
        };
        let named = Named {
            prefix,
            is_source: prefix.address().is_ipv6() && !text.contains('/'),
        };
        if self.seen.insert(named) {
            self.named.push(named);
        }
        Ok(())
    }

    /// Reads one prefix per line; `#` begins a comment.
    fn take_lines(&mut self, name: &str, text: &str) {
        for (line, number) in text.lines().zip(1..) {
            let (line, _comment) = line.split_once('#').unwrap_or((line, ""));
            if line.trim().is_empty() {
                continue;
            }
            if let Err(error) = self.take(line) {
                self.note(&error, format!("{name}:{number}: {error}"));
            }
        }
    }

    fn note(&mut self, error: &PrefixError, fault: String) {
        if let PrefixError::HostBits { network, .. } = error {
            self.networks.push(*network);
        }
        self.faults.push(fault);
    }

    fn finish(self) -> Result<Vec<Named>, Failure> {
        let failure = match self.faults.as_slice() {
            [] if self.named.is_empty() => {
                Failure::usage("the input has no prefix; nothing was sent")
            }
            [] => return Ok(self.named),
            [fault] => Failure::usage(fault),
            faults => Failure::usage(several(faults)),
        };
        Err(match self.networks.as_slice() {
            [] => failure,
            [network] => failure.hint(format!("add `--network` to mean {network}")),
            _ => failure.hint("add `--network` to mean the networks of these addresses"),
        })
    }
}

fn several(faults: &[String]) -> String {
    let head = format!("{} invalid prefixes; nothing was sent", faults.len());
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
        let named = read_named(&arguments.map(str::to_owned), HostBits::Refused).unwrap();
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
                "stdin:3: invalid prefix `10.0.0.1/24`: host bits are set, did you mean \
                 10.0.0.0/24 or 10.0.0.1?",
            ),
        );
    }

    #[test]
    fn host_bits_can_be_cleared() {
        let stdin = || Ok("10.0.0.1/24\n".to_owned());
        let arguments = ["2001:db8::7/64", "2001:db8::7", "::ffff:192.0.2.1/120", "-"];
        let arguments = arguments.map(str::to_owned);
        let named = read_with(&arguments, HostBits::Cleared, stdin).unwrap();
        let (prefixes, sources) = Named::split(&named);
        let expected = ["2001:db8::/64", "192.0.2.0/24", "10.0.0.0/24"];
        assert_eq!(prefixes, expected.map(|text| text.parse().unwrap()));
        assert_eq!(sources, ["2001:db8::7".parse::<IpAddr>().unwrap()]);

        let hint = |arguments: &[String]| {
            let failure = read_with(arguments, HostBits::Refused, stdin).unwrap_err();
            failure.refused.hint.unwrap_or_default()
        };
        let several = "add `--network` to mean the networks of these addresses";
        assert_eq!(hint(&arguments), several);
        assert_eq!(
            hint(&arguments[..1]),
            "add `--network` to mean 2001:db8::/64"
        );
        assert_eq!(hint(&["10.0.0.0/33".to_owned()]), "");
    }

    #[test]
    fn all_wrong_lines_are_named_up_to_ten() {
        let lines: Vec<String> = (1..=12).map(|number| format!("x{number}")).collect();
        let stdin = || Ok(lines.join("\n"));
        let failure = read_with(&["-".to_owned()], HostBits::Refused, stdin).unwrap_err();
        let named: Vec<&str> = failure.refused.error.lines().collect();
        assert_eq!(named.len(), 12);
        assert_eq!(named[0], "12 invalid prefixes; nothing was sent");
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
            Err("the input has no prefix; nothing was sent"),
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
        let read = read_with(&arguments, HostBits::Refused, || Ok(stdin.to_owned()));
        let prefixes = read.as_ref().map(|prefixes| {
            let texts: Vec<String> = prefixes.iter().map(|it| it.prefix.to_string()).collect();
            texts.join(" ")
        });
        let prefixes = prefixes.map_err(|failure| failure.refused.error.as_str());
        assert_eq!(prefixes.as_deref().map_err(|error| *error), expected);
    }
}
