//! Policies that drop every packet, as statements about prefixes.
//!
//! The default policy has the prefix /0. The narrower prefix of a policy with limits ends the drop.
//! Runtime limits have no statement, so they do not open what a policy drops.

use std::net::{Ipv4Addr, Ipv6Addr};

use ratelimit_common::list::PolicyAction;

use super::{Intent, Target};
use crate::{
    config::{Config, PolicyConfig},
    policies::DEFAULT,
    prefix::Prefix,
    rules::Statement,
};

impl Intent {
    /// Returns the action of the policy of exactly this prefix.
    pub fn action_of(&self, prefix: Prefix) -> Option<PolicyAction> {
        let policy = self.policy_under(&self.config, prefix);
        let policy = policy.and_then(|name| self.config.policies.get(name));
        let default = &self.config.default_policy;
        let default = Some(default).filter(|policy| policy.drops && prefix.is_empty());
        policy.or(default).map(action)
    }

    /// Returns the actions of all policies by prefix.
    pub fn action_statements(&self) -> Vec<(Prefix, Statement)> {
        let drops = self.config.policies_that_drop().next().is_some();
        let all = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let all = all.into_iter().filter_map(|first| Prefix::around(first, 0));
        let named = self.config.policies.values();
        let prefixes = named.flat_map(|policy| policy.sources.iter().copied());
        let selected = self.selected_under(&self.config);
        let selected = selected.flat_map(|(_, list)| list.entries().iter().map(|it| it.prefix));
        let prefixes = prefixes.chain(selected).chain(all).filter(|_| drops);
        prefixes
            .filter_map(|prefix| Some((prefix, Statement::Action(self.action_of(prefix)?))))
            .collect()
    }

    /// Returns the policy that `config` has for the longest matching prefix if it drops every
    /// packet. A dry run drops nothing. Allows are not considered.
    pub fn dropped_under<'a>(&'a self, config: &'a Config, prefix: Prefix) -> Option<&'a str> {
        let (name, policy) = self.configured_around(config, prefix);
        (action(policy) == PolicyAction::Drop && !config.observe).then_some(name)
    }

    /// Returns the action of the policy around a target, whatever the target's limits are.
    pub fn action_around(&self, target: Target) -> PolicyAction {
        match target {
            Target::Default => action(&self.config.default_policy),
            Target::Sources(prefix) => action(self.configured_around(&self.config, prefix).1),
            Target::Destination(_) => PolicyAction::Limit,
        }
    }

    fn configured_around<'a>(
        &'a self,
        config: &'a Config,
        prefix: Prefix,
    ) -> (&'a str, &'a PolicyConfig) {
        let mut around = prefix.supernets().rev();
        let name = around.find_map(|outer| self.policy_under(config, outer));
        let name = name.unwrap_or(DEFAULT);
        let policy = config.policies.get(name);
        (name, policy.unwrap_or(&config.default_policy))
    }
}

impl Config {
    /// The names of the policies that drop every packet.
    pub fn policies_that_drop(&self) -> impl Iterator<Item = &str> {
        let default = (DEFAULT, &self.default_policy);
        let named = self.policies.iter();
        let named = named.map(|(name, policy)| (name.as_str(), policy));
        let all = std::iter::once(default).chain(named);
        all.filter_map(|(name, policy)| policy.drops.then_some(name))
    }
}

fn action(policy: &PolicyConfig) -> PolicyAction {
    match (policy.drops, policy.observe) {
        (false, _) => PolicyAction::Limit,
        (true, false) => PolicyAction::Drop,
        (true, true) => PolicyAction::Observe,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use jiff::Timestamp;
    use ratelimit_common::{Cursor, DropReason, Instant, PassReason, Verdict};

    use super::*;
    use crate::{
        compile::Compiled,
        config::{File, parse},
        intent::{
            Edit, FOREVER,
            list::{List, ListEntry},
        },
        lists::{self, Action, ListText, ReasonId, Reasons, Vetting},
    };

    const BASE: &str = "[[interface]]\nname = \"eth0\"\n";

    #[test]
    fn the_longest_prefix_decides_whether_everything_is_dropped_and_an_allow_beats_it() {
        let compiled = compiled(
            r#"
[allow]
sources = ["203.0.113.9"]
[protected]
sources = ["203.0.113.8"]
[policy.default]
action = "drop"
[policy.office]
sources = ["192.0.2.0/24", "2001:db8::/32"]
limits = []
[policy.guests]
sources = ["192.0.2.128/25"]
action = "drop"
[policy.printer]
sources = ["192.0.2.200"]
limits = [{ packets = 1, per = "1s" }]
"#,
        );
        let dropped = Verdict::Drop(DropReason::Policy);
        for (address, verdict) in [
            ("203.0.113.7", dropped),
            ("2001:db9::1", dropped),
            ("203.0.113.9", Verdict::Pass(PassReason::Allowed)),
            ("203.0.113.8", Verdict::Pass(PassReason::Unlimited)),
            ("192.0.2.1", Verdict::Pass(PassReason::Unlimited)),
            ("2001:db8::1", Verdict::Pass(PassReason::Unlimited)),
            ("192.0.2.129", dropped),
            ("192.0.2.200", Verdict::Pass(PassReason::Conforming)),
        ] {
            assert_eq!(judge(&compiled, address), verdict, "{address}");
        }
        let intent = Intent::new(compiled.config().clone());
        let by = |prefix: &str| intent.dropped_under(&intent.config, prefix.parse().unwrap());
        assert_eq!(by("203.0.113.7"), Some("default"));
        assert_eq!(by("192.0.2.129"), Some("guests"));
        assert_eq!((by("192.0.2.200"), by("192.0.2.1")), (None, None));
    }

    #[test]
    fn a_dry_run_passes_what_the_policy_would_drop() {
        let compiled = compiled("[policy.default]\naction = \"drop\"\nobserve = true\n");
        assert_eq!(
            judge(&compiled, "203.0.113.7"),
            Verdict::Observe(DropReason::Policy)
        );
        let intent = Intent::new(compiled.config().clone());
        let prefix = "::1".parse().unwrap();
        assert_eq!(intent.dropped_under(&intent.config, prefix), None);
    }

    #[test]
    fn prefixes_of_a_database_are_under_its_policy_like_sources_and_sources_come_first() {
        let text = r#"
[policy.default]
action = "drop"
[policy.home]
sources = ["192.0.2.200"]
mmdb = "/country.mmdb"
country = ["DE"]
limits = [{ packets = 1, per = "1s" }]
[policy.office]
sources = ["192.0.2.128/25", "198.51.100.0/24", "203.0.113.0/24"]
action = "drop"
"#;
        let (config, _) = parse(&[file(text)]).unwrap();
        let selected = [
            "192.0.2.0/24",
            "203.0.113.0/24",
            "198.51.100.128/25",
            "2001:db8::/32",
        ];
        let text = selected.join("\n");
        let source = ListText {
            name: "list",
            bytes: text.as_bytes(),
            now: Timestamp::UNIX_EPOCH,
            written: Timestamp::UNIX_EPOCH,
        };
        let reading = lists::read(source, &Vetting::default()).unwrap();
        let lists = vec![("[policy.home]".to_owned(), reading)];
        let compiled = Compiled::new(config.clone(), lists).unwrap();
        let (dropped, conforming) = (
            Verdict::Drop(DropReason::Policy),
            Verdict::Pass(PassReason::Conforming),
        );
        for (address, verdict) in [
            ("198.51.100.1", dropped),
            ("8.8.8.8", dropped),
            ("192.0.2.1", conforming),
            ("192.0.2.129", dropped),
            ("192.0.2.200", conforming),
            ("203.0.113.1", dropped),
            ("198.51.100.128", conforming),
            ("2001:db8::1", conforming),
        ] {
            assert_eq!(judge(&compiled, address), verdict, "{address}");
        }
        // As the daemon compiles the prefixes of a list that changes.
        let mut intent = Intent::new(config);
        let list = List::new(Action::Policy, None, Timestamp::UNIX_EPOCH, "config".into());
        let entries = selected.map(|prefix| ListEntry {
            prefix: prefix.parse().unwrap(),
            until: FOREVER,
            reason: ReasonId::NONE,
        });
        let list = list.with_entries(entries.into(), Reasons::default());
        intent.edit(Edit::List(
            "[policy.home]".into(),
            Some(list.into()),
            [].into(),
        ));
        let policies = selected.map(|prefix| intent.policy_name(prefix.parse().unwrap()));
        let policies: Vec<_> = policies
            .iter()
            .map(|name| name.as_deref().unwrap())
            .collect();
        assert_eq!(policies, ["home", "office", "home", "home"]);
        let by = |prefix: &str| intent.dropped_under(&intent.config, prefix.parse().unwrap());
        assert_eq!(by("8.8.8.8"), Some("default"));
        assert_eq!(
            (by("203.0.113.1"), by("198.51.100.128")),
            (Some("office"), None)
        );
        // A policy that lost its database has no prefixes of it.
        let text = "[policy.default]\nlimits = []\n[policy.home]\nsources = [\"192.0.2.200\"]\n\
                    limits = []\n";
        let (config, _) = parse(&[file(text)]).unwrap();
        intent.edit(Edit::Config(Box::new(config)));
        assert_eq!(intent.policy_name(selected[0].parse().unwrap()), None);
    }

    #[test]
    fn a_policy_that_judges_leaves_no_trace_in_the_entries() {
        let text =
            "[policy.default]\nlimits = []\n[policy.a]\nsources = [\"10.0.0.0/8\"]\nlimits = []\n";
        let (config, _) = parse(&[file(text)]).unwrap();
        assert!(Intent::new(config).action_statements().is_empty());
    }

    fn compiled(text: &str) -> Compiled {
        let (config, _) = parse(&[file(text)]).unwrap();
        Compiled::new(config, Vec::new()).unwrap()
    }

    fn file(text: &str) -> File {
        File {
            path: "config.toml".into(),
            text: format!("{BASE}{text}"),
        }
    }

    fn judge(compiled: &Compiled, address: &str) -> Verdict {
        let mut frame = [0; 60];
        match address.parse().unwrap() {
            IpAddr::V4(address) => {
                frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
                frame[26..30].copy_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
                frame[20] = 59;
                frame[22..38].copy_from_slice(&address.octets());
            }
        }
        let now = Instant::from_nanos(1 << 40);
        compiled.memory_tables().judge(Cursor::new(&frame), now)
    }
}
