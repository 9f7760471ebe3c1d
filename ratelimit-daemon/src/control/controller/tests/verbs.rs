//! The commands, as methods.

use ratelimit_core::{
    api::{
        Applied, ApplyRequest, Attempt, ImportRequest, Imported, ListTarget, PassAllRequest,
        PassAllStatus, ProgramBanRequest, ProgramUnbanRequest,
    },
    detection::{Attack, Step},
    lists::Reading,
};

use super::*;
use crate::{
    control::{
        ListFile,
        candidate::Attempted,
        commands::{
            Allow, Apply, Ban, BanByProgram, Confirm, Disallow, DueLists, EndCrowdsecBans, Import,
            LoseCrowdsec, NoteAttacks, RemoveLimits, RemoveList, RollBack, SetLimits, SetPassAll,
            TakeDecisions, Unban, UnbanByProgram,
        },
    },
    crowdsec::Update,
};

/// A method for a command of a request and who asks.
macro_rules! verb {
    ($name:ident, $command:ident, $request:ty, $answer:ty) => {
        pub(super) fn $name(
            &mut self,
            request: $request,
            author: &str,
        ) -> Result<$answer, Refused> {
            let author = author.into();
            self.run($command { request, author })
        }
    };
}

impl Controller {
    verb!(ban, Ban, BanRequest, Changed);
    verb!(unban, Unban, PrefixesRequest, Changed);
    verb!(ban_by_program, BanByProgram, ProgramBanRequest, Changed);
    verb!(
        unban_by_program,
        UnbanByProgram,
        ProgramUnbanRequest,
        Changed
    );
    verb!(allow, Allow, AllowRequest, Changed);
    verb!(disallow, Disallow, PrefixesRequest, Changed);
    verb!(set_limits, SetLimits, LimitRequest, Changed);
    verb!(remove_limits, RemoveLimits, LimitTarget, Changed);
    verb!(remove_list, RemoveList, ListTarget, Changed);
    verb!(
        set_pass_all,
        SetPassAll,
        PassAllRequest,
        Option<PassAllStatus>
    );

    pub(super) fn import(
        &mut self,
        request: &ImportRequest,
        reading: Reading,
        author: &str,
    ) -> Result<Imported, Refused> {
        self.run(Import {
            request: Arc::new(request.clone()),
            reading,
            author: author.into(),
        })
    }

    pub(super) fn apply(
        &mut self,
        request: ApplyRequest,
        author: &str,
    ) -> Result<Applied, Refused> {
        let measure = self.trials.measure(&self.state.intent.config, true)?;
        let candidate = Candidate::of_request(&request, &measure)?;
        let attempted = Ok(Attempted {
            request,
            candidate,
            measure,
        });
        let author = author.into();
        self.run(Apply { attempted, author })
    }

    pub(super) fn confirm(&mut self, author: &str) -> Result<Attempt, Refused> {
        let author = author.into();
        self.run(Confirm { author })
    }

    pub(super) fn roll_back(&mut self, author: &str) -> Result<Attempt, Refused> {
        let in_force = &self.state.intent.config;
        let lists = self.trials.returning_lists(in_force);
        let lists = lists.map(ConfiguredLists::read_some);
        let author = author.into();
        self.run(RollBack { lists, author })
    }

    pub(super) fn note_attacks(&mut self, step: &Step, going_on: Vec<Attack>) {
        let step = step.clone();
        self.run(NoteAttacks { step, going_on });
    }

    pub(super) fn take_decisions(&mut self, update: Update) -> bool {
        self.run(TakeDecisions { update })
    }

    pub(super) fn lose_crowdsec(&mut self, error: String) {
        self.run(LoseCrowdsec { error });
    }

    pub(super) fn end_crowdsec_bans(&mut self) {
        self.run(EndCrowdsecBans);
    }

    pub(super) fn due_lists(&mut self) -> Vec<ListFile> {
        self.run(DueLists)
    }
}
