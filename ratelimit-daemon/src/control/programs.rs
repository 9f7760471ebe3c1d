//! Bans by other programs, such as a jail of fail2ban: each has its own beside what people set by hand, so that none ends or
//! shortens those of another.

use jiff::Timestamp;
use ratelimit_core::{
    api::{Changed, ProgramBanRequest, ProgramUnbanRequest, Refused},
    intent::{BanRow, Edit},
    origin::Origin,
    prefix::Prefix,
};

use super::{commands::require_prefixes, controller::Controller, record::Cause, term};
use crate::protected::Word;

/// The longest name of a program, in bytes.
const NAME_BYTES_MAX: usize = 64;

impl Controller {
    /// Bans prefixes in the name of a program, in place of its bans of them before.
    ///
    /// # Errors
    ///
    /// Why none of them was banned.
    pub fn ban_by_program(
        &mut self,
        request: ProgramBanRequest,
        author: &str,
    ) -> Result<Changed, Refused> {
        require_prefixes(&request.prefixes)?;
        let origin = origin(&request.program)?;
        let until = term::until("a ban", request.seconds)?;
        for prefix in &request.prefixes {
            self.state
                .protection
                .vet(*prefix, Word::Hand { forced: false })?;
        }
        let row = BanRow {
            until,
            since: Timestamp::now(),
            reason: request.reason.map(Into::into),
            author: author.into(),
        };
        let edit = |prefix: &Prefix| Edit::Ban(*prefix, origin.clone(), Some(row.clone()));
        let edits: Vec<Edit> = request.prefixes.iter().map(edit).collect();
        let mut changed = self.state.edit(edits)?;
        changed.until = term::told(until);
        Ok(changed)
    }

    /// Ends the bans of a program, and nobody else's. Those that ended by themselves are told.
    ///
    /// # Errors
    ///
    /// Why none of them was ended.
    pub fn unban_by_program(
        &mut self,
        request: ProgramUnbanRequest,
        author: &str,
    ) -> Result<Changed, Refused> {
        require_prefixes(&request.prefixes)?;
        let origin = origin(&request.program)?;
        let has = |prefix: &Prefix| self.state.intent.ban_of(*prefix, &origin).is_some();
        let (present, absent): (Vec<Prefix>, _) = request.prefixes.into_iter().partition(has);
        let edit = |prefix: &Prefix| Edit::Ban(*prefix, origin.clone(), None);
        let edits: Vec<Edit> = present.iter().map(edit).collect();
        let changed = self.state.apply(edits, Cause::User(author))?;
        Ok(Changed { absent, ..changed })
    }
}

fn origin(program: &str) -> Result<Origin, Refused> {
    let is_word = program.bytes().all(|byte| byte.is_ascii_graphic());
    if program.is_empty() || program.len() > NAME_BYTES_MAX || !is_word {
        return Err(Refused::because(format!(
            "`{program}` is no name of a program: it is one word of at most {NAME_BYTES_MAX} bytes, such as fail2ban/sshd"
        )));
    }
    Ok(Origin::program(program))
}
