//! What has ended, as far as the database could not forget it yet: a disk that cannot be written keeps nothing in force.

use tracing::{info, warn};

use super::{
    controller::Controller,
    intent::{Edit, Intent},
    record::Cause,
    reminder::Reminder,
    store::Writer,
};
use crate::{api::Refused, clock};

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
        self.edits.retain(|edit| intent.is_as_after(edit));
    }
}

impl Controller {
    /// Ends bans, allows and limits that are over.
    pub(super) fn end_what_is_over(&mut self) {
        let edits = self.intent.ended(clock::now());
        let count = edits.len();
        match self.end(edits) {
            Ok(()) if count > 0 => info!(count, "bans, allows or limits ended"),
            Ok(()) => {}
            Err(refused) => warn!(error = refused.error, "what is over could not be ended"),
        }
    }

    /// Ends what is over in the kernel; the database forgets it [later](Self::write_ended). A daemon that starts forgets it too.
    ///
    /// # Errors
    ///
    /// Why all of it goes on.
    pub(super) fn end(&mut self, edits: Vec<Edit>) -> Result<(), Refused> {
        if !edits.is_empty() {
            self.edit_because(&edits, Cause::Time)?;
            self.unforgotten.edits.extend(edits);
        }
        Ok(())
    }

    /// Has the database forget what has ended.
    pub(super) fn write_ended(&mut self) {
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
