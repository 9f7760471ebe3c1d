//! Whether a ban may be, asked in one place for all that ban: people, policies, detection, lists,
//! other nodes, `CrowdSec`.
//!
//! | | operator | automatic | list | other nodes, CrowdSec |
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

/// The origin of a request for a ban.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Requester {
    /// An operator, with or without `--force`.
    Operator {
        /// Whether they insist.
        forced: bool,
    },
    /// A ban rule of a policy, or detection.
    Automatic,
    /// A list, with or without `force = true`.
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

impl Protected {
    /// Whether a ban of `prefix` may be. A list or the cluster may ban what meets a protected
    /// address; the ban then stops at it.
    pub fn vet(&self, prefix: Prefix, requester: Requester) -> Result<(), Refused> {
        if prefix.is_empty() {
            return Err(
                Refused::because(format!("a ban of {prefix} would cut this host off"))
                    .hint("ban narrower prefixes")
                    .code(Code::TooWide),
            );
        }
        let family = IpFamily::of(prefix.address());
        let wide = |widest: u8, whose: &str, hint: &str| {
            Refused::because(format!(
                "{prefix} is wider than /{widest}, the widest that {whose}"
            ))
            .hint(hint)
            .code(Code::TooWide)
        };
        let widest = widest_automatic(family);
        if requester == Requester::Automatic && prefix.len() < widest {
            return Err(wide(
                widest,
                "is banned automatically",
                "ban it yourself: `rlctl ban`",
            ));
        }
        let widest = widest_unforced(family);
        if prefix.len() < widest && !requester.is_forced() {
            let hint = "ban narrower prefixes, or use --force";
            return Err(wide(widest, "is banned without --force", hint));
        }
        let stops_there = matches!(requester, Requester::List { .. } | Requester::Other);
        if stops_there || requester.is_forced() {
            return Ok(());
        }
        match self.met_by(prefix) {
            None => Ok(()),
            Some((protected, why)) => Err(met(prefix, protected, why)),
        }
    }
}

/// The widest prefix that can be banned without force.
const fn widest_unforced(family: IpFamily) -> u8 {
    match family {
        IpFamily::V4 => 8,
        IpFamily::V6 => 19,
    }
}

/// The widest prefix that is banned automatically.
pub const fn widest_automatic(family: IpFamily) -> u8 {
    match family {
        IpFamily::V4 => 24,
        IpFamily::V6 => 48,
    }
}

/// The refusal of a ban that meets what this host needs.
fn met(prefix: Prefix, protected: Prefix, why: &Why) -> Refused {
    let error = if prefix == protected {
        format!("{prefix} is {why}")
    } else if prefix.covers(protected) {
        format!("{prefix} covers {protected}, {why}")
    } else {
        format!("{prefix} is inside {protected}, {why}")
    };
    let mut hint = if protected.covers(prefix) {
        "use --force to ban it anyway".to_owned()
    } else {
        "ban prefixes without it, or use --force to ban it anyway".to_owned()
    };
    if *why != Why::Configured {
        hint.push_str(" (may cut this host off)");
    }
    Refused::because(error).hint(hint).code(Code::Protected)
}

#[cfg(test)]
mod tests;
