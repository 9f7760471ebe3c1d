//! A rule of a firewall, as far as it matters for a list: whose packets it drops, and whether that
//! is all that it asks.

use crate::lists::{
    address,
    reader::{Reader, Said},
};

/// A rule that is being read.
#[derive(Debug, Default)]
pub struct Rule<'t> {
    /// The sources, as they are written.
    pub sources: Vec<&'t str>,
    /// Whether it drops or rejects.
    pub drops: bool,
    /// Whether it asks for more than a source: a port, an interface, a state.
    pub has_conditions: bool,
    /// The comment of the rule.
    pub reason: String,
}

impl<'t> Rule<'t> {
    /// Adds sources between commas, of which some mean all.
    pub fn add(&mut self, sources: &'t str) {
        let sources = sources.split(',').map(str::trim);
        let named = sources.filter(|source| {
            let is_all = ["any", "all", "anywhere", "0.0.0.0/0", "::/0", "*", ""];
            !is_all.iter().any(|all| source.eq_ignore_ascii_case(all))
        });
        self.sources.extend(named);
    }

    /// Hands its sources in, where it drops all that is from them.
    pub fn take(self, reader: &mut Reader<'_>) {
        if !self.drops {
            return reader.skip("of a rule that does not drop");
        }
        if self.has_conditions {
            return reader.skip("of a rule with other conditions");
        }
        if self.sources.is_empty() {
            return reader.skip("of a rule without a source");
        }
        let said = Said {
            reason: &self.reason,
            // Firewalls cut host bits off.
            sloppy: true,
            ..Said::default()
        };
        for source in self.sources {
            if is_name(source) {
                reader.skip("of a rule with a name");
            } else {
                reader.take(source, source, said);
            }
        }
    }
}

/// Reports an address between rules, which would otherwise be lost.
pub fn report_alone(address: &str, reader: &mut Reader<'_>) {
    let hint = "write it like the other lines, or import it as a list of its own";
    reader.bad(address, "this address is not part of a rule", hint);
}

/// Whether a source is a name of hosts, of a table or of an alias, and no address that is written
/// wrong.
pub fn is_name(source: &str) -> bool {
    let begins = source.trim_start_matches(['<', '$', '@', '.', '!', '(', '[', '+', '%', '/']);
    begins.starts_with(|c: char| c.is_ascii_alphabetic()) && !source.contains(':')
        || source.starts_with(['<', '$', '@', '/'])
}

/// Whether a text has an address in it, which is not the host of a URL.
pub fn has_address(text: &str) -> bool {
    let is_sign = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | ':' | '/');
    let mut words = text.split(is_sign).map(|word| word.trim_end_matches('.'));
    is_like_an_address(text) || !text.contains("://") && words.any(|it| address::is_one(it, true))
}

/// Whether what a tool does with an address is to let it through.
pub fn lets_through(value: &str) -> bool {
    let words = [
        "allow",
        "whitelist",
        "allowlist",
        "permit",
        "accept",
        "pass",
        "benign",
        "ignore",
    ];
    words.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether a word begins an address, right or wrong.
pub fn is_like_an_address(word: &str) -> bool {
    address::is_one(word, true)
        || word.starts_with(|c: char| c.is_ascii_digit()) && word.contains(['.', ':'])
}
