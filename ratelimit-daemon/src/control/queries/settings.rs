//! The settings in force, and what set each.

use ratelimit_core::{
    api::{Refused, Setting, SettingOrigin},
    config,
    intent::{Intent, Target},
};

use crate::control::feeds::trials::Trials;

/// Those of the files, the defaults, and runtime limits in front of them.
///
/// # Errors
///
/// When the daemon was started without a file.
pub fn settings(intent: &Intent, trials: &Trials) -> Result<Vec<Setting>, Refused> {
    let texts = trials.texts();
    if texts.is_empty() {
        return Err(
            Refused::because("the daemon was started without a configuration file")
                .hint("its command line says all: `systemctl status ratelimitd`"),
        );
    }
    let limits = intent.limits_in_force();
    let runtime = limits.map(|(target, row)| Setting {
        key: match target {
            Target::Default => "policy.default.limits".to_owned(),
            Target::Sources(prefix) => format!("policy.{prefix}.limits"),
            Target::Destination(prefix) => format!("destination.{prefix}.limits"),
        },
        value: config::value_of(&row.limits),
        origin: SettingOrigin::Runtime {
            author: row.author.clone(),
        },
    });
    Ok(runtime.chain(config::settings(texts)).collect())
}
