//! `rlctl config`.

use ratelimit_core::{
    api::{Refused, Setting, SettingOrigin},
    config,
    intent::Target,
};

use crate::control::{controller::Controller, question::Question};

/// The settings in force, and what set each: files, defaults, and runtime limits in front of them.
#[derive(Clone, Copy)]
pub struct Settings;

impl Question for Settings {
    type Answer = Result<Vec<Setting>, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        let texts = controller.trials.texts();
        if texts.is_empty() {
            return Err(
                Refused::because("the daemon was started without a configuration file")
                    .hint("its command line says all: `systemctl status ratelimitd`"),
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
                author: row.author.clone(),
            },
        });
        Ok(runtime.chain(config::settings(texts)).collect())
    }
}
