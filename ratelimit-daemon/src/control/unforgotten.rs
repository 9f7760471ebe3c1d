//! What has ended, as far as the database could not forget it yet: a disk that cannot be written keeps nothing in force.

use tracing::{info, warn};

use super::{
    controller::Controller,
    intent::{Edit, Intent},
    record::Cause,
    reminder::Reminder,
    store::Writer,
};
use crate::clock;

/// What the database still has.
#[derive(Default)]
pub struct Unforgotten {
    edits: Vec<Edit>,
    reminder: Reminder,
}

impl Unforgotten {
    /// Takes it out of what was read from the database.
    pub fn forget(&self, intent: &mut Intent) {
        for edit in &self.edits {
            intent.edit(edit.clone());
        }
    }

    /// What came again in place of what had ended is not to be forgotten.
    pub fn spare_what_came_again(&mut self, intent: &Intent) {
        self.edits.retain(|edit| !intent.has(edit));
    }
}

impl Controller {
    /// Ends what has ended in the kernel, and then has the database forget it. A daemon that starts forgets it too.
    pub(super) fn forget_ended(&mut self) {
        let edits = self.intent.ended(clock::now());
        if !edits.is_empty() {
            match self.edit_because(&edits, Cause::Time) {
                Ok(_) => {
                    info!(count = edits.len(), "bans, allows or limits ended");
                    self.unforgotten.edits.extend(edits);
                }
                Err(refused) => warn!(error = refused.error, "what is over could not be ended"),
            }
        }
        let Unforgotten { edits, reminder } = &mut self.unforgotten;
        if edits.is_empty() {
            return;
        }
        let forget = |writer: &Writer<'_>| edits.iter().try_for_each(|edit| writer.write(edit));
        match self.store.transaction(forget) {
            Ok(()) => self.unforgotten = Unforgotten::default(),
            Err(error) if reminder.is_due() => warn!(
                error = format!("{error:#}"),
                count = edits.len(),
                "what ended is still in the database: trying again each second"
            ),
            Err(_) => {}
        }
    }
}
