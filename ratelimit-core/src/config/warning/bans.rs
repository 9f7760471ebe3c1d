//! Bans that never come.

use crate::{
    config::{document::Document, report::Report},
    diagnostic::Problem,
};

/// Reports bans of policies that refuse nothing.
pub fn find(document: &Document, warnings: &Report) {
    for policy in &document.policies {
        let Some(ban) = &policy.ban else {
            continue;
        };
        let title = &policy.title;
        if policy.limits.is_empty() {
            let message = format!("{title} never bans: it has no limit that could be exceeded");
            warnings.add(
                &ban.spot,
                Problem::new(message, "add a limit, or remove `ban`"),
            );
        } else if policy.observe {
            let message = format!("{title} never bans: it is a dry run");
            let hint = "remove `observe` here; at the top level it shows who would be banned";
            warnings.add(&ban.spot, Problem::new(message, hint));
        }
    }
}
