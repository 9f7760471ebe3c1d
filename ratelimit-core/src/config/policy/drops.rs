//! `action = "drop"` of a policy, which drops every packet of its sources.

use strum::{IntoStaticStr, VariantArray};

use super::{DEFAULT, Policy};
use crate::{
    config::{
        Config, PolicyConfig, document::Document, interface::Located, report::Report,
        table::Section,
    },
    diagnostic::Problem,
    lists::Action,
    policies::list_name,
};

/// The values of `action`.
#[derive(Clone, Copy, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Word {
    Drop,
}

/// Reads whether the policy drops every packet, and refuses keys without effect.
pub fn read(section: &mut Section<'_>) -> bool {
    let action = section.take("action");
    let Some(Word::Drop) = action.and_then(|value| value.choice()) else {
        return false;
    };
    for key in ["limits", "ban", "established", "connections"] {
        if section.has(key) {
            let message = format!(
                "{} drops every packet, so `{key}` has no effect",
                section.title
            );
            let hint = format!("remove `{key}`, or `action`");
            if let Some(value) = section.take(key) {
                value.complain(message, hint);
            }
        }
    }
    true
}

/// Refuses interfaces whose policy drops every packet, because the action is part of list entries,
/// which apply to all interfaces.
pub fn check_interfaces(interfaces: &[Option<Located>], policies: &[Policy], report: &Report) {
    let drops = |name: &str| {
        let mut policies = policies.iter();
        policies.any(|policy| policy.name == name && policy.drops)
    };
    for located in interfaces.iter().flatten() {
        let Some(policy) = &located.policy else {
            continue;
        };
        let name = &policy.value;
        let problem = if drops(name) {
            Problem::new(
                format!(
                    "[policy.{name}] has action = \"drop\", which is not possible for an interface"
                ),
                "give the policy `sources`, or write limits = [{ bytes = 1, per = \"1h\" }] in it",
            )
        } else if drops(DEFAULT) && name != DEFAULT {
            Problem::new(
                format!(
                    "[policy.default] drops every packet, also where an interface has \
                     [policy.{name}]"
                ),
                "remove `policy` here, and give that policy `sources`",
            )
        } else {
            continue;
        };
        report.add(&policy.spot, problem);
    }
}

/// Warns of a default policy that drops everything if nothing lets a source in.
pub fn warn(document: &Document, config: &Config, warnings: &Report) {
    let default = document.policies.iter().find(|it| it.name == DEFAULT);
    let Some(default) = default.filter(|policy| policy.drops && !policy.observe) else {
        return;
    };
    let mut policies = config.policies.iter();
    let mut lists = config.lists.values();
    let has_sources = |name: &str, policy: &PolicyConfig| {
        !policy.sources.is_empty() || config.lists.contains_key(&list_name(name))
    };
    let lets_in = !config.allow.is_empty()
        || policies.any(|(name, policy)| !policy.drops && has_sources(name, policy))
        || lists.any(|list| list.action == Action::Allow);
    if !lets_in {
        let message = "[policy.default] drops every packet, and nothing lets a source in";
        let hint = "add sources to [allow], or to another policy: your own address, gateways and \
                    resolvers (`rlctl list protected`)";
        warnings.add(&default.spot, Problem::new(message, hint));
    }
}
