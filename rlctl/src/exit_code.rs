//! The exit codes of `rlctl`, for scripts.

use std::{fmt::Write, process};

use strum::VariantArray;

/// The result of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq, VariantArray)]
#[repr(u8)]
pub enum ExitCode {
    /// The command succeeded.
    Done = 0,
    /// The daemon refused, there was nothing to change, or `doctor` found an error.
    Refused = 1,
    /// The command line is wrong; nothing was sent.
    Usage = 2,
    /// `check` found an address whose packets are dropped.
    Blocked = 3,
    /// No daemon answers.
    NoDaemon = 4,
    /// The user may not talk to the daemon.
    NoPermission = 5,
    /// `status` found an interface whose packets are not judged.
    NotEnforced = 6,
}

impl ExitCode {
    /// The `code` of an error in JSON that the daemon gave none.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Usage => "usage",
            Self::Blocked => "blocked",
            Self::NoDaemon => "no-daemon",
            Self::NoPermission => "no-permission",
            Self::NotEnforced => "not-enforced",
        }
    }

    /// The line in `--help`.
    const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => {
                "refused: the daemon gives the reason, no named object exists, or `doctor` found \
                 an error"
            }
            Self::Usage => "usage: the command line or an input list is invalid; nothing was sent",
            Self::Blocked => "blocked: packets from the address are dropped (`check`)",
            Self::NoDaemon => "no daemon on the socket",
            Self::NoPermission => "no permission to talk to the daemon",
            Self::NotEnforced => "not enforced: an interface is not protected (`status`)",
        }
    }
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// The section of `--help`.
pub(super) fn help() -> String {
    ExitCode::VARIANTS
        .iter()
        .fold("Exit codes:".to_owned(), |mut help, code| {
            write!(help, "\n  {}  {}", *code as u8, code.meaning()).expect("a string takes it");
            help
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_what_scripts_rely_on() {
        let numbers: Vec<u8> = ExitCode::VARIANTS.iter().map(|code| *code as u8).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(ExitCode::Done as u8, 0);
        assert_eq!(ExitCode::Refused as u8, 1);
        assert_eq!(ExitCode::Usage as u8, 2);
        assert_eq!(ExitCode::Blocked as u8, 3);
        assert_eq!(ExitCode::NoDaemon as u8, 4);
        assert_eq!(ExitCode::NoPermission as u8, 5);
        assert_eq!(ExitCode::NotEnforced as u8, 6);
    }

    #[test]
    fn the_help_names_every_number() {
        let help = help();
        for code in ExitCode::VARIANTS {
            assert!(help.contains(&format!("\n  {}  ", *code as u8)), "{help}");
        }
    }
}
