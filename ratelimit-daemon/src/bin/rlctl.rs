//! The command line of `ratelimitd`. The work is done in [`ratelimit_daemon::rlctl`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ratelimit_daemon::rlctl::run(std::env::args_os()).into()
}
