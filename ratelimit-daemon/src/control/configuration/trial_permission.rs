//! Restricts the trials of users who may not read every file: they may not name files that the
//! configuration in force does not, nor send a key to another server.

use std::path::Path;

use ratelimit_core::{
    api::Refused,
    config::{Config, Interface},
    policies::policy_of_list,
};

/// Refuses what only root may try.
pub fn require_known(before: &Config, after: &Config) -> Result<(), Refused> {
    match foreign(before, after) {
        None => Ok(()),
        Some(what) => Err(Refused::because(format!("only root may apply {what}"))
            .hint("use sudo, or change the configuration as root and run `rlctl reload`")),
    }
}

/// Returns what only root may try in `after`.
fn foreign(before: &Config, after: &Config) -> Option<String> {
    if let Some(crowdsec) = &after.crowdsec {
        let known = before.crowdsec.as_ref();
        let is_same = known.is_some_and(|known| {
            (&known.address, &known.key) == (&crowdsec.address, &crowdsec.key)
        });
        if !is_same {
            return Some("another url or key of [crowdsec]".to_owned());
        }
    }
    if let Some(cluster) = &after.cluster {
        let known = before.cluster.as_ref();
        let is_same = known.is_some_and(|known| {
            let files = (&known.ca_file, &known.certificate);
            (&known.store, files, &known.secret)
                == (
                    &cluster.store,
                    (&cluster.ca_file, &cluster.certificate),
                    &cluster.secret,
                )
        });
        if !is_same {
            return Some("another url, certificate or secret of [cluster]".to_owned());
        }
    }
    if (after.metrics, after.dashboard, &after.dashboard_token)
        != (before.metrics, before.dashboard, &before.dashboard_token)
    {
        return Some("another listen, dashboard or token_file of [metrics]".to_owned());
    }
    let (keys, known) = (&after.keys, &before.keys);
    let opens = keys.listen.is_some();
    if opens && (keys.listen, &keys.trusted_proxies) != (known.listen, &known.trusted_proxies) {
        return Some("a different `listen` or `trusted_proxies` in [keys]".to_owned());
    }
    let is_known = |it: &&Interface| it.next.is_none() || before.interfaces.contains(it);
    if let Some(other) = after.interfaces.iter().find(|it| !is_known(it)) {
        return Some(format!("another `chain` of interface {}", other.name));
    }
    let directories: Vec<Option<&Path>> =
        before.lists.values().map(|it| it.file.parent()).collect();
    let downloads = |config: &Config| -> Vec<_> {
        let lists = config.lists.values();
        lists.filter_map(|list| list.url.clone()).collect()
    };
    let known = downloads(before);
    if downloads(after).iter().any(|url| !known.contains(url)) {
        return Some("another `url` of a list".to_owned());
    }
    let mut lists = after.lists.iter();
    let other = lists.find(|(_, list)| !directories.contains(&list.file.parent()));
    other.map(|(name, list)| {
        let file = list.file.display();
        let table = policy_of_list(name).map_or_else(|| format!("[list.{name}]"), |_| name.clone());
        format!("{table}: {file} is outside the list directories of the running configuration")
    })
}

#[cfg(test)]
mod tests {
    use ratelimit_core::config::{self, File};

    use super::*;

    fn config(text: &str) -> Config {
        let file = File {
            path: "/c".into(),
            text: format!("{text}[policy.default]\nlimits = []\n"),
        };
        config::parse(&[file]).unwrap().0
    }

    #[test]
    fn who_is_not_root_opens_no_port_and_names_no_file() {
        let before = "[metrics]\ndashboard = true\ntoken_file = \"/etc/ratelimit/token\"\n\
                      [keys]\nlisten = \"127.0.0.1:9180\"\ntrusted_proxies = [\"127.0.0.1\"]\n\
                      [[interface]]\nname = \"eth0\"\nchain = \"/sys/fs/bpf/own\"\n";
        let foreign = |after: &str| foreign(&config(before), &config(after));
        assert_eq!(foreign(before), None);
        assert_eq!(foreign(&format!("observe = true\n{before}")), None);
        for (from, to, what) in [
            ("ratelimit/token", "machine-id", "token_file of [metrics]"),
            (
                "dashboard = true\n",
                "dashboard = true\nlisten = \"0.0.0.0:9798\"\n",
                "listen",
            ),
            (
                "dashboard = true\ntoken_file = \"/etc/ratelimit/token\"\n",
                "",
                "dashboard",
            ),
            (
                "127.0.0.1:9180",
                "0.0.0.0:9180",
                "`listen` or `trusted_proxies`",
            ),
            (
                "\"127.0.0.1\"]",
                "\"0.0.0.0/0\"]",
                "`trusted_proxies` in [keys]",
            ),
            ("bpf/own", "bpf/other", "`chain` of interface eth0"),
        ] {
            let said = foreign(&before.replace(from, to)).unwrap_or_default();
            assert!(said.contains(what), "{to}: {said}");
        }
    }
}
