//! `rlctl export`.

use ratelimit_core::{
    api::{ExportRequest, Refused},
    origin::Origin,
    prefix::Prefix,
};

use crate::control::{
    controller::Controller,
    queries::export::{self, BanEntry},
    question::Question,
};

/// What is to be written beside bans.
pub struct Export(pub ExportRequest);

impl Question for Export {
    type Answer = Result<export::Export, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        export::export(&controller.state.intent, &self.0)
    }
}

/// The next bans.
pub struct SomeBans {
    /// The last of those before.
    pub behind: Option<(Prefix, Origin)>,
}

impl Question for SomeBans {
    type Answer = Vec<BanEntry>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        export::some_bans(&controller.state.intent, self.behind.as_ref())
    }
}
