//! Bans by other programs, such as a jail of fail2ban. Each program has its own bans next to those
//! set at runtime, so none ends or shortens the bans of another.

use std::sync::Arc;

use ratelimit_core::{
    api::{Changed, ProgramBanRequest, ProgramUnbanRequest, Refused},
    intent::Edit,
    origin::Origin,
    prefix::Prefix,
};

use super::{Command, ban, distinct};
use crate::{
    control::{
        controller::Controller,
        reports::{cause::Cause, rows},
        time::expiry,
    },
    protected::Requester,
};

/// The longest name of a program, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Bans prefixes in the name of a program, replacing its earlier bans of them.
pub struct BanByProgram(pub ProgramBanRequest, pub Arc<str>);

impl Command for BanByProgram {
    type Answer = Result<Changed, Refused>;
    const SHARES_TRANSACTION: bool = true;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let state = &controller.state;
        let sources = ban::sources(state, &request.sources);
        let prefixes = distinct(&[&request.prefixes[..], &sources].concat())?;
        let origin = origin(&request.program)?;
        let until = ban::until(state, request.seconds, request.forever)?;
        let requester = Requester::Operator { forced: false };
        ban::vet(state, &prefixes, requester, &request.sources)?;
        let allowed = ban::allowed(state, &prefixes);
        let row = rows::entry(until, request.reason, author);
        let edit = |prefix: &Prefix| Edit::Ban(*prefix, origin.clone(), Some(row.clone()));
        let edits: Vec<Edit> = prefixes.iter().map(edit).collect();
        let mut changed = controller.state.apply(edits, Cause::Origin)?;
        changed.until = expiry::reported(until);
        changed.waits_for_store = controller.feeds.cluster.waits_for_store();
        Ok(Changed {
            sources,
            allowed,
            ..changed
        })
    }
}

/// Ends the bans of one program only. Bans that have expired are reported.
pub struct UnbanByProgram(pub ProgramUnbanRequest, pub Arc<str>);

impl Command for UnbanByProgram {
    type Answer = Result<Changed, Refused>;
    const SHARES_TRANSACTION: bool = true;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let author = &*author;
        let origin = origin(&request.program)?;
        let state = &controller.state;
        let prefixes = ban::named(state, &request.prefixes, &request.sources, |it| {
            state.intent.ban_of(it, &origin).is_some()
        })?;
        let has = |prefix: &Prefix| controller.state.intent.ban_of(*prefix, &origin).is_some();
        let (present, absent): (Vec<Prefix>, _) = prefixes.into_iter().partition(has);
        let edit = |prefix: &Prefix| Edit::Ban(*prefix, origin.clone(), None);
        let edits: Vec<Edit> = present.iter().map(edit).collect();
        let changed = controller.state.apply(edits, Cause::User(author))?;
        Ok(Changed { absent, ..changed })
    }
}

fn origin(program: &str) -> Result<Origin, Refused> {
    let is_word = program.bytes().all(|byte| byte.is_ascii_graphic());
    if program.is_empty() || program.len() > NAME_BYTES_MAX || !is_word {
        return Err(Refused::because(format!(
            "`{program}` is not a valid program name: use one word of at most {NAME_BYTES_MAX} \
             bytes, such as fail2ban/sshd"
        )));
    }
    Ok(Origin::program(program))
}
