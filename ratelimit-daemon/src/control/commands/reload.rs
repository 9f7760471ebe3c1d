//! `rlctl reload`, and `SIGHUP`.

use ratelimit_core::api::{Code, Refused, ReloadRequest, Reloaded, What};
use tracing::warn;

use super::{Command, replace::replace};
use crate::{
    clock,
    control::{
        configuration::candidate::Candidate,
        controller::{Controller, Reloads},
        reports::troubles::CONFIGURATION,
    },
};

/// Applies what was read again, whole or not at all.
pub struct Reload {
    /// The result of reading the configuration.
    pub candidate: Result<Candidate, Refused>,
    /// The options of the request.
    pub request: ReloadRequest,
}

impl Command for Reload {
    type Answer = Result<Reloaded, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { candidate, request } = self;
        let answer = candidate.and_then(|candidate| reload(controller, candidate, request));
        match &answer {
            Ok(reloaded) => {
                controller.about.reloads = Reloads {
                    applied: clock::wall(),
                    error: None,
                };
                let changes = reloaded.changes.clone();
                controller.state.reports.record(What::Reloaded { changes });
            }
            Err(refused) => {
                // The files may be right: it is the trial that comes first.
                if refused.code != Some(Code::Unsettled) {
                    controller.about.reloads.error = Some(refused.clone());
                }
                // The log may quote files, events may not.
                warn!(
                    error = refused.in_full(),
                    "reload failed; the previous configuration is still active"
                );
                let error = refused.error.clone();
                let reports = &mut controller.state.reports;
                reports.record(What::ReloadRefused { error });
            }
        }
        answer
    }
}

fn reload(
    controller: &mut Controller,
    candidate: Candidate,
    request: ReloadRequest,
) -> Result<Reloaded, Refused> {
    let files = candidate.config.files.iter();
    let files = files.map(|file| file.display().to_string()).collect();
    let warnings = candidate.warnings.clone();
    let next = controller.feeds.trials.reload(candidate, request)?;
    let changes = replace(controller, next, true)?;
    controller.feeds.trials.keep_last_good();
    controller.state.report(CONFIGURATION, None);
    Ok(Reloaded {
        files,
        changes,
        warnings,
    })
}
