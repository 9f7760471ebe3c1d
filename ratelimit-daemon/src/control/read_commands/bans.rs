//! The bans.

use ratelimit_core::{
    api::{Ban, Origin},
    prefix::Prefix,
};

use crate::control::{
    controller::Controller,
    handle::{Handle, Unanswered},
    queries::{export, views},
};

/// The bans, in the order of their prefixes and origins. The controller is asked for them part by part: those that are there all
/// the while are reported.
pub async fn bans_in_parts(controller: &Handle) -> Result<Vec<Ban>, Unanswered> {
    let mut bans = Vec::new();
    let mut behind = None;
    loop {
        let part = controller.ask(move |it| part(it, behind.as_ref())).await?;
        let Some(last) = part.last() else {
            return Ok(bans);
        };
        behind = Some((last.prefix, last.origin.clone()));
        bans.extend(part);
    }
}

/// The next bans behind one.
fn part(controller: &Controller, behind: Option<&(Prefix, Origin)>) -> Vec<Ban> {
    let state = &controller.state;
    let part = export::some_bans(&state.intent, behind).into_iter();
    part.map(|(prefix, origin, row)| views::reported_ban(state, prefix, &origin, &row))
        .collect()
}
