//! Whether an entry may be on a list: the one place that each entry of each format passes.

use super::export_line::Action;
use crate::{diagnostic::Problem, prefix::Prefix};

/// The widest prefixes that are taken without force.
const WIDEST_V4: u8 = 8;
const WIDEST_V6: u8 = 19;

/// The accepted contents of a list, and which parts of its text are entries.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Vetting {
    /// Whether prefixes may be wider than a /8 of IPv4 and a /19 of IPv6.
    pub force: bool,
    /// The action of all entries; `None` if each entry has its own.
    pub action: Option<Action>,
    /// Entries with a smaller number behind the address are left out.
    pub min_count: Option<u64>,
    /// The key of JSON under which its addresses are; `None` where they are found by what keys are
    /// called.
    pub json_path: Option<String>,
}

impl Vetting {
    /// Refuses an entry that says itself what is done with it, and means something else than the
    /// whole list is for.
    ///
    /// # Errors
    ///
    /// When the two differ.
    pub fn vet_action(&self, said: Option<Action>) -> Result<(), Problem> {
        let (Some(all), Some(said)) = (self.action, said) else {
            return Ok(());
        };
        if all == said {
            return Ok(());
        }
        let message = format!(
            "the line says `{}` but the list is to {}",
            said.label(),
            all.label()
        );
        let hint = match said {
            Action::Ban => {
                "write --ban, or action = \"ban\"; a mixed export is imported without a flag"
            }
            Action::Allow => {
                "write --allow, or action = \"allow\"; a mixed export is imported without a flag"
            }
            Action::Policy => "remove `action` from the line",
        };
        Err(Problem::new(message, hint))
    }

    /// Takes a prefix, or says why not and what to do.
    ///
    /// # Errors
    ///
    /// For a prefix of all addresses; without force, for one that is very wide.
    pub fn vet(&self, prefix: Prefix) -> Result<(), Problem> {
        let widest = if prefix.address().is_ipv4() {
            WIDEST_V4
        } else {
            WIDEST_V6
        };
        if prefix.is_empty() {
            let message = format!("`{prefix}` covers every address");
            return Err(Problem::new(message, "write narrower prefixes"));
        }
        if prefix.len() < widest && !self.force {
            let message = format!("`{prefix}` is wider than /{widest}");
            let hint = "write narrower prefixes, or use --force or force = true";
            return Err(Problem::new(message, hint));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_all_addresses_is_never_taken() {
        check("0.0.0.0/0", true, Some("`0.0.0.0/0` covers every address"));
        check("::/0", true, Some("`::/0` covers every address"));
    }

    #[test]
    fn a_wide_prefix_is_taken_by_force() {
        check("224.0.0.0/3", false, Some("`224.0.0.0/3` is wider than /8"));
        check("224.0.0.0/3", true, None);
        check("10.0.0.0/8", false, None);
        check("2000::/18", false, Some("`2000::/18` is wider than /19"));
        check("2000::/19", false, None);
    }

    fn check(prefix: &str, force: bool, expected: Option<&str>) {
        let vetting = Vetting {
            force,
            ..Vetting::default()
        };
        let answer = vetting.vet(prefix.parse().unwrap());
        let message = answer.err().map(|problem| problem.message);
        assert_eq!(message.as_deref(), expected);
    }
}
