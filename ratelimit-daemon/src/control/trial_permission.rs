//! What somebody may put on trial who may not read every file: a configuration that names no other files than the one in force, and
//! sends no key elsewhere.

use std::path::Path;

use ratelimit_core::{api::Refused, config::Config};

/// Refuses what only root may try.
pub fn require_known(before: &Config, after: &Config) -> Result<(), Refused> {
    match foreign(before, after) {
        None => Ok(()),
        Some(what) => Err(Refused::because(format!("only root may try {what}")).hint(
            "run it with sudo, or have root write it into the configuration and run `rlctl reload`",
        )),
    }
}

/// What `after` has that only root may try.
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
    let directories: Vec<Option<&Path>> =
        before.lists.values().map(|it| it.file.parent()).collect();
    let mut lists = after.lists.iter();
    let other = lists.find(|(_, list)| !directories.contains(&list.file.parent()));
    other.map(|(name, list)| {
        let file = list.file.display();
        format!(
            "[list.{name}]: {file} is in no directory that the configuration in force has lists in"
        )
    })
}
