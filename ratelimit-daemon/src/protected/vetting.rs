//! Whether a ban may be, asked in one place for all that ban: people, detection, lists, other nodes, `CrowdSec`.
//!
//! | | operator | detection | list | other nodes, CrowdSec |
//! |---|---|---|---|---|
//! | everything (/0) | never | never | never | never |
//! | wider than /8 or, of IPv6, /19 | forced | never | forced | never |
//! | wider than /24 or, of IPv6, /48 | yes | never | yes | yes |
//! | meets a protected address | forced | never | all but the address | all but the address |

use ratelimit_core::{
    api::{Code, Refused},
    ip_family::IpFamily,
    prefix::Prefix,
};

use super::{Protected, Why};

/// Who requested a ban.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Requester {
    /// Somebody typed it, with `--force` or without.
    Operator {
        /// Whether they insist.
        forced: bool,
    },
    /// The strikes of a source, or what the daemon saw.
    Detection,
    /// It stands on a list, whose table says `force = true` or does not.
    List {
        /// Whether they insist.
        forced: bool,
    },
    /// Another node or `CrowdSec` banned it.
    Other,
}

impl Requester {
    /// Whether the requester insists.
    pub const fn is_forced(self) -> bool {
        matches!(
            self,
            Self::Operator { forced: true } | Self::List { forced: true }
        )
    }
}

/// Why a prefix is not banned.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It is all addresses.
    #[error("a ban of {0} would cut this host off")]
    Everything(Prefix),
    /// It is wider than anybody means.
    #[error("{prefix} is wider than a /{widest}, the widest that is banned without --force")]
    Wide {
        /// What was to be banned.
        prefix: Prefix,
        /// The length that needs no force.
        widest: u8,
    },
    /// It is wider than what may be found by itself.
    #[error("{prefix} is wider than a /{widest}, the widest that detection bans")]
    WideForDetection {
        /// What was to be banned.
        prefix: Prefix,
        /// The length of the widest.
        widest: u8,
    },
    /// It meets what this host needs.
    #[error("{}", meeting(*.prefix, *.protected, .why))]
    Protected {
        /// What was to be banned.
        prefix: Prefix,
        /// What it meets.
        protected: Prefix,
        /// Why that is protected.
        why: Why,
    },
}

impl Protected {
    /// Whether a ban of `prefix` may be. A list or the cluster may ban what meets a protected address; the ban then stops
    /// at it.
    pub fn vet(&self, prefix: Prefix, requester: Requester) -> Result<(), Refusal> {
        if prefix.is_empty() {
            return Err(Refusal::Everything(prefix));
        }
        let family = IpFamily::of(prefix.address());
        let widest = widest_by_detection(family);
        if requester == Requester::Detection && prefix.len() < widest {
            return Err(Refusal::WideForDetection { prefix, widest });
        }
        let widest = widest_unforced(family);
        if prefix.len() < widest && !requester.is_forced() {
            return Err(Refusal::Wide { prefix, widest });
        }
        let stops_there = matches!(requester, Requester::List { .. } | Requester::Other);
        if stops_there || requester.is_forced() {
            return Ok(());
        }
        match self.met_by(prefix) {
            None => Ok(()),
            Some((protected, why)) => Err(Refusal::Protected {
                prefix,
                protected,
                why: why.clone(),
            }),
        }
    }
}

/// The widest prefix that is banned without somebody who insists.
const fn widest_unforced(family: IpFamily) -> u8 {
    match family {
        IpFamily::V4 => 8,
        IpFamily::V6 => 19,
    }
}

/// The widest prefix that detection bans.
pub const fn widest_by_detection(family: IpFamily) -> u8 {
    match family {
        IpFamily::V4 => 24,
        IpFamily::V6 => 48,
    }
}

fn meeting(prefix: Prefix, protected: Prefix, why: &Why) -> String {
    if prefix == protected {
        format!("{prefix} is {why}")
    } else if prefix.covers(protected) {
        format!("{prefix} covers {protected}, {why}")
    } else {
        format!("{prefix} lies in {protected}, {why}")
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let hint = match &refusal {
            Refusal::Everything(_) => "ban the prefixes that do harm",
            Refusal::Wide { .. } => "ban narrower prefixes, or add --force if you mean it",
            Refusal::WideForDetection { .. } => "ban it yourself: `rlctl ban`",
            Refusal::Protected {
                why: Why::Configured,
                ..
            } => "ban prefixes without it, or add --force if you mean it",
            Refusal::Protected { .. } => {
                "ban prefixes without it, or add --force if you mean it: this host may be cut off"
            }
        };
        let code = match &refusal {
            Refusal::Protected { .. } => Code::Protected,
            Refusal::Everything(_) | Refusal::Wide { .. } | Refusal::WideForDetection { .. } => {
                Code::TooWide
            }
        };
        Self::because(refusal.to_string()).hint(hint).code(code)
    }
}

#[cfg(test)]
mod tests;
