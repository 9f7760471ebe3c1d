//! What somebody may put on trial who may not read every file: a configuration that names no other files than the one in force, and
//! sends no key elsewhere.

use std::path::Path;

use ratelimit_core::{
    api::{ApplyRequest, Refused},
    config::{self, Config, ConfigError, File},
};

/// Refuses a configuration that has the daemon read files, or send a key, for somebody who is not root. What is wrong in it is quoted of
/// the request alone.
///
/// # Errors
///
/// What only root may put on trial.
pub fn require(request: &ApplyRequest, main: &Path, in_force: &Config) -> Result<(), Refused> {
    let file = File {
        path: request.file.clone().into(),
        text: request.text.clone(),
    };
    let own = file.path.clone();
    let unquoted =
        |error: ConfigError, own| Refused::because(error.unquoted(own)).quoting(error.to_string());
    let files = config::read_with(file, main).map_err(|error| unquoted(error, None))?;
    // Who names it as one of the others would be told what stands in that.
    let is_other = files.iter().skip(1).any(|file| file.path == own);
    let own = (!is_other).then_some(own.as_path());
    let (after, _) = config::parse(&files).map_err(|error| unquoted(error, own))?;
    require_known(in_force, &after)
}

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
