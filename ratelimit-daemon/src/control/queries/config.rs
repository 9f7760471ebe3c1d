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
    let runtime = limits.flat_map(|(target, row)| {
        let table = match target {
            Target::Default => "policy.default".to_owned(),
            Target::Sources(prefix) => format!("policy.{prefix}"),
            Target::Destination(prefix) => format!("destination.{prefix}"),
        };
        let setting = move |key: &str, value: String| Setting {
            key: format!("{table}.{key}"),
            value,
            origin: SettingOrigin::Runtime {
                author: row.entry.author.to_string(),
            },
        };
        let only = row.only.then(|| setting("only", "true".to_owned()));
        [
            setting("limits", config::value_of(&row.limits)),
            setting("observe", row.observe.to_string()),
        ]
        .into_iter()
        .chain(only)
    });
    Ok(runtime.chain(config::settings(texts)).collect())
}
