//! The live view: requests data, draws, and handles keys in turn.

use std::{io, time::Duration};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};
use ratelimit_core::{
    api::{BanRequest, Changed, Status},
    prefix::Prefix,
};

use super::{
    keys::{Action, Choice},
    rates::Picture,
    sample, screen,
};
use crate::{
    client::{Answer, Client},
    clock,
    failure::Failure,
    report::Report,
};

/// Shows the view until the user quits.
pub fn run(count: u32, every: Duration, client: &Client) -> Result<Report, Failure> {
    let mut terminal = ratatui::try_init().map_err(|error| failed(&error))?;
    let ended = watch(&mut terminal, count, every, client);
    ratatui::restore();
    ended.map(|()| Report::printed())
}

fn watch(
    terminal: &mut DefaultTerminal,
    count: u32,
    every: Duration,
    client: &Client,
) -> Result<(), Failure> {
    let mut choice = Choice::default();
    let mut before = sample(count, &[], client)?;
    let mut picture = Picture::between(&before, &before, clock::wall());
    let mut status = status(client)?;
    let mut next = clock::monotonic() + every;
    loop {
        let draw = |frame: &mut ratatui::Frame<'_>| {
            screen::draw(frame, &picture, Some(&status), &choice, &clock::local());
        };
        terminal.draw(draw).map_err(|error| failed(&error))?;
        let patience = next.saturating_duration_since(clock::monotonic());
        if event::poll(patience).map_err(|error| failed(&error))? {
            let event = event::read().map_err(|error| failed(&error))?;
            if let Event::Key(key) = event
                && key.kind != KeyEventKind::Release
            {
                match choice.take(key, &picture.sources) {
                    Some(Action::Quit) => return Ok(()),
                    Some(Action::Ban(source, seconds)) => {
                        choice.said = ban(source, seconds, client);
                    }
                    None => {}
                }
            }
            continue;
        }
        next = clock::monotonic() + every;
        if choice.paused {
            continue;
        }
        // Shown sources stay while they are banned.
        let shown: Vec<Prefix> = picture.sources.iter().map(|row| row.source).collect();
        let mut after = sample(count, &shown, client)?;
        after.keep_idle(&before);
        picture = Picture::between(&before, &after, clock::wall());
        before = after;
        status = self::status(client)?;
    }
}

fn status(client: &Client) -> Result<Status, Failure> {
    let answer: Answer<Status> = client.get("/v1/status")?;
    Ok(answer.value)
}

/// Bans a source, and reports the result.
fn ban(source: Prefix, seconds: Option<f64>, client: &Client) -> String {
    let request = BanRequest {
        prefixes: vec![source],
        seconds,
        forever: seconds.is_none(),
        reason: Some("rlctl top".to_owned()),
        ..BanRequest::default()
    };
    let answer: Result<Answer<Changed>, Failure> = client.post("/v1/bans", &request);
    match answer {
        Ok(_) => format!("banned {source}; undo: rlctl unban {source}"),
        Err(failure) => crate::output::printable(&failure.refused.error),
    }
}

fn failed(error: &io::Error) -> Failure {
    Failure::refused(format!("cannot use the terminal: {error}"))
        .hint("for plain tables: rlctl top --batch")
}
