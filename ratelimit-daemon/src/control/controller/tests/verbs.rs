//! The commands, as methods.

use ratelimit_core::{
    api::{
        Applied, ApplyRequest, Attempt, Check, ImportRequest, Imported, ListTarget, ListView,
        PassAllRequest, PassAllStatus, ProgramBanRequest, ProgramUnbanRequest, ProtectedView,
        ReloadRequest, Reloaded, Status, UnbanRequest,
    },
    detection::{Attack, Step},
    lists::Reading,
};

use super::*;
use crate::{
    control::{
        ListFile, Reconciliation, Snapshot,
        commands::{
            Allow, Apply, Ban, BanByProgram, CompareOn, Confirm, Disallow, DueLists,
            EndCrowdsecBans, EndTrial, Import, NoteAttacks, Protect, Reload, RemoveLimits,
            RemoveList, RollBack, SetLimits, SetPassAll, TakeDecisions, TakeList, Tick, Unban,
            UnbanByProgram,
        },
        configuration::candidate::Attempted,
        enforcement::enforcer::verify::Extent,
        queries::{self, Beside, Packet, metrics_snapshot, with_slots},
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
            self.run($command(request, author))
        }
    };
}

impl Controller {
    verb!(ban, Ban, BanRequest, Changed);
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

    pub(super) fn unban(
        &mut self,
        request: PrefixesRequest,
        author: &str,
    ) -> Result<Changed, Refused> {
        let request = UnbanRequest {
            prefixes: request.prefixes,
            ..UnbanRequest::default()
        };
        self.run(Unban(request, author.into()))
    }

    /// Runs the periodic work in the steps of the daemon.
    pub(super) fn tick(&mut self) {
        self.run(Tick);
        if self.feeds.trials.is_over()
            && let Ok(files) = self.feeds.trials.returning_lists(&self.state.intent.config)
        {
            let (lists, _) = ConfiguredLists::read_some(files);
            self.run(EndTrial(lists));
        }
        while self.run(CompareOn) {}
    }

    /// Compares everything in the kernel with what is intended, and repairs differences.
    pub(super) fn reconcile(&mut self) {
        self.comparisons.whole(&mut self.state, Extent::All);
    }

    /// Reads the files again and applies them, as the daemon does beside the controller.
    pub(super) fn reload(&mut self) -> Result<Reloaded, Refused> {
        let main = self.feeds.trials.reloaded_file();
        let candidate = main.and_then(|main| Candidate::of_files(&main));
        self.run(Reload {
            candidate,
            request: ReloadRequest::default(),
        })
    }

    pub(super) fn take_missed(&mut self) {
        let _ = propose(&mut self.feeds.policy_bans, &mut self.state);
    }

    pub(super) fn read_lists(&mut self) {
        read_all(&mut self.state, &mut self.feeds.list_files);
    }

    pub(super) fn take_list(&mut self, file: &ListFile, reading: Result<Reading, Refused>) {
        let file = file.clone();
        self.run(TakeList { file, reading });
    }

    pub(super) fn protect(&mut self, found: Protected) {
        self.run(Protect(found));
    }

    pub(super) fn protected(&self) -> Vec<ProtectedView> {
        queries::protected(&self.state)
    }

    pub(super) fn reconciliation(&self) -> Reconciliation {
        self.comparisons.reconciliation(&self.state)
    }

    pub(super) fn snapshot(&self, sources: Sources) -> Result<Snapshot, Refused> {
        let beside = Beside::look(&self.about.workload);
        metrics_snapshot(self, sources, beside)
    }

    pub(super) fn status(&self) -> Status {
        with_slots(self, None)
    }

    pub(super) fn check(&self, question: impl Into<Packet>) -> Result<Check, Refused> {
        queries::check(self, question.into())
    }

    pub(super) fn lists(&self) -> Vec<ListView> {
        queries::lists(self)
    }

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
        let measure = self.feeds.trials.measure(&self.state.intent.config, true)?;
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
        self.run(Confirm(author))
    }

    pub(super) fn roll_back(&mut self, author: &str) -> Result<Attempt, Refused> {
        let in_force = &self.state.intent.config;
        let lists = self.feeds.trials.returning_lists(in_force);
        let lists = lists.map(|files| ConfiguredLists::read_some(files).0);
        self.run(RollBack {
            lists,
            author: author.into(),
            is_root: author == "root",
        })
    }

    pub(super) fn note_attacks(&mut self, step: &Step, going_on: Vec<Attack>) {
        let step = step.clone();
        self.run(NoteAttacks { step, going_on });
    }

    pub(super) fn take_decisions(&mut self, update: Update) -> bool {
        self.run(TakeDecisions(Ok(update)))
    }

    pub(super) fn lose_crowdsec(&mut self, error: String) {
        self.run(TakeDecisions(Err(error)));
    }

    pub(super) fn end_crowdsec_bans(&mut self) {
        self.run(EndCrowdsecBans);
    }

    pub(super) fn due_lists(&mut self) -> Vec<ListFile> {
        self.run(DueLists)
    }
}
