//! `rlctl export --format exabgp`: bans as routes, and with `--follow` their changes.

use std::{fs, io, os::unix::fs::FileTypeExt as _, process, thread, time::Duration};

use ratelimit_core::api::UpstreamRoutes;

use super::speaker::{Announced, Speaker};
use crate::{
    client::Client,
    commands::events::Lines,
    exit_code::ExitCode,
    failure::Failure,
    output,
    report::Report,
    stream::{self, Ended},
};

/// The pause before the next connection to a daemon that is away.
const RETRY: Duration = Duration::from_secs(1);

/// Prints the commands that announce all routes, once.
pub fn print(speaker: Speaker, client: &Client) -> Result<Report, Failure> {
    let mut announced = Announced::new(speaker);
    receive(&mut announced, client, false)?;
    Ok(Report::printed())
}

/// Prints the commands for each change until stdout is closed or a signal arrives. The routes stay
/// while the daemon is away, as its bans do, and are withdrawn at the end.
pub fn follow(speaker: Speaker, client: &Client) -> Result<Report, Failure> {
    discard_answers();
    let mut announced = Announced::new(speaker);
    let mut is_away = false;
    let end = loop {
        match receive(&mut announced, client, true) {
            Ok(Ended::Daemon) => {}
            Ok(Ended::User | Ended::Reader) => break Ok(Report::printed()),
            Err(failure) if failure.code == ExitCode::NoDaemon => {
                if !std::mem::replace(&mut is_away, true) {
                    let error = &failure.refused.error;
                    output::say(&format!(
                        "warning: {error}; the routes stay, and it tries again"
                    ));
                }
            }
            Err(failure) => break Err(failure),
        }
        if stream::pause(RETRY)? {
            break Ok(Report::printed());
        }
    };
    write(&announced.update(&UpstreamRoutes::default()))?;
    end
}

fn receive(announced: &mut Announced, client: &Client, follows: bool) -> Result<Ended, Failure> {
    let mut lines = Lines::default();
    client.follow("/v1/upstream", |piece| {
        lines.push(piece);
        while let Some(line) = lines.next() {
            let routes = serde_json::from_slice(&line);
            let routes: UpstreamRoutes = routes.map_err(|error| {
                Failure::refused(format!("unexpected routes of the daemon: {error}"))
            })?;
            if !write(&announced.update(&routes))? || !follows {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// Writes commands; returns `false` if stdout was closed.
fn write(commands: &[String]) -> Result<bool, Failure> {
    let lines = commands.iter().flat_map(|line| [line, "\n"]);
    output::piece(lines.collect::<String>().as_bytes())
}

/// Reads the answers of `ExaBGP` on stdin, which would block if the pipe were full, and exits when
/// it closes the pipe.
fn discard_answers() {
    let stdin = fs::metadata("/dev/stdin");
    if stdin.is_ok_and(|stdin| stdin.file_type().is_fifo()) {
        thread::spawn(|| {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            process::exit(0);
        });
    }
}
