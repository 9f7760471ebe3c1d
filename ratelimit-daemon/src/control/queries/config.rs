//! `rlctl config`.

use ratelimit_core::{
    api::{Refused, Setting, SettingOrigin},
    config,
    intent::Target,
};

use crate::control::controller::Controller;

/// The settings in force, and what set each: files, defaults, and runtime limits in front of them.
pub fn settings(controller: &Controller) -> Result<Vec<Setting>, Refused> {
    let texts = controller.feeds.trials.texts();
    if texts.is_empty() {
        return Err(
            Refused::because("the daemon was started without a configuration file")
                .hint("see its command line: systemctl status ratelimitd"),
        );
    }
    let limits = controller.state.intent.limits_in_force();
    let runtime = limits.map(|(target, row)| Setting {
        key: match target {
            Target::Default => "policy.default.limits".to_owned(),
            Target::Sources(prefix) => format!("policy.{prefix}.limits"),
            Target::Destination(prefix) => format!("destination.{prefix}.limits"),
        },
        value: config::value_of(&row.limits),
        origin: SettingOrigin::Runtime {
            author: row.entry.author.to_string(),
        },
    });
    Ok(runtime.chain(config::settings(texts)).collect())
}
