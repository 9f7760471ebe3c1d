//! The last configuration that was in force, stored in the state directory. If the files are wrong
//! or the kernel refuses them, the daemon starts with it, so a typing error and a reboot do not
//! leave the host unprotected.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ratelimit_core::config::{self, Config, ConfigError, File, Paths};
use serde::{Deserialize, Serialize};

use crate::control::persistence::state_file::StateFile;

/// The content of the file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Document {
    /// The file that the daemon reads at start.
    main: PathBuf,
    files: Vec<File>,
}

/// A configuration to start with.
#[derive(Clone, Debug)]
pub struct Start {
    /// The configuration.
    pub config: Config,
    /// The texts of the configuration. Empty if it came from the command line.
    pub texts: Vec<File>,
    /// The error in the configuration files, if this is the fallback.
    pub refused: Option<String>,
}

impl Start {
    /// Reads the configuration of these files, or the last one in force if they are wrong.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the files if there is no fallback.
    pub fn read(
        main: &Path,
    ) -> Result<(Self, Vec<ratelimit_core::diagnostic::Diagnostic>), ConfigError> {
        let read = config::read(main);
        match read.and_then(|texts| config::parse(&texts).map(|parsed| (texts, parsed))) {
            Ok((texts, (config, warnings))) => {
                let start = Self {
                    config,
                    texts,
                    refused: None,
                };
                Ok((start, warnings))
            }
            Err(error) => match last(&state_directory(main), main) {
                Some((config, texts)) => {
                    let refused = Some(error.to_string());
                    Ok((
                        Self {
                            config,
                            texts,
                            refused,
                        },
                        Vec::new(),
                    ))
                }
                None => Err(error),
            },
        }
    }

    /// Returns the last configuration in force, as a fallback for this one, which failed with
    /// `error`. `None` if it is the same, does not exist, or has other paths.
    pub fn before(&self, error: &anyhow::Error) -> Option<Self> {
        let main = self.config.files.first()?;
        let (config, texts) = last(&self.config.paths.state, main)?;
        let is_other = texts != self.texts && config.paths == self.config.paths;
        is_other.then(|| Self {
            config,
            texts,
            refused: Some(format!("{error:#}")),
        })
    }
}

impl From<Config> for Start {
    fn from(config: Config) -> Self {
        Self {
            config,
            texts: Vec::new(),
            refused: None,
        }
    }
}

/// Stores the texts that are in force.
pub struct LastGood {
    kept: StateFile<Document>,
    document: Option<Document>,
}

impl LastGood {
    /// Opens the file in a state directory.
    pub fn new(directory: &Path) -> Self {
        Self {
            kept: StateFile::new(directory, "config.json"),
            document: None,
        }
    }

    /// Stores these texts. Call it only when no trial may still roll them back.
    pub fn keep(&mut self, files: &[File]) {
        let Some(main) = files.first() else {
            return;
        };
        let document = Document {
            main: main.path.clone(),
            files: files.to_vec(),
        };
        // Skip the write if the file has this content.
        let is_kept = self
            .kept
            .read()
            .is_ok_and(|kept| kept.as_ref() == Some(&document));
        if !is_kept {
            self.kept.keep(Some(&document));
        }
        self.document = Some(document);
    }

    /// Retries a failed write.
    pub fn catch_up(&mut self) {
        if let Some(document) = &self.document {
            self.kept.catch_up(Some(document));
        }
    }

    /// Returns why the file is outdated, if it is.
    pub fn behind(&self) -> Option<&str> {
        self.kept.behind()
    }
}

/// Returns the last configuration that was in force with the files of this one.
pub fn config_before(config: &Config) -> Option<Config> {
    let (before, _) = last(&config.paths.state, config.files.first()?)?;
    Some(before)
}

/// Returns the last configuration that was in force with this file. `None` if there was none or it
/// can no longer be parsed.
fn last(state: &Path, main: &Path) -> Option<(Config, Vec<File>)> {
    let kept = StateFile::<Document>::new(state, "config.json");
    let document = kept.read().ok().flatten()?;
    let is_of_main = document.main == main;
    let (config, _) = config::parse(&document.files).ok().filter(|_| is_of_main)?;
    Some((config, document.files))
}

/// Finds the state directory in files that cannot be parsed: a line `state = "..."` under
/// `[paths]`.
fn state_directory(main: &Path) -> PathBuf {
    let mut files = vec![main.to_owned()];
    let dropped_in = fs::read_dir(main.with_file_name("conf.d"));
    let dropped_in = dropped_in.into_iter().flatten().flatten();
    files.extend(dropped_in.map(|entry| entry.path()));
    let mut texts = files.iter().filter_map(|file| fs::read(file).ok());
    texts
        .find_map(|text| state_of(&String::from_utf8_lossy(&text)))
        .unwrap_or_else(|| Paths::default().state)
}

fn state_of(text: &str) -> Option<PathBuf> {
    let mut section = "";
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line.split('#').next().unwrap_or_default().trim();
        } else if section == "[paths]"
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "state"
        {
            return value.trim().split('"').nth(1).map(PathBuf::from);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[interface]]\nname = \"eth0\"\n[policy.default]\nlimits = []\n";

    fn write(directory: &Path, text: &str) -> PathBuf {
        let main = directory.join("config.toml");
        let paths = format!("[paths]\nstate = \"{}\" # here\n", directory.display());
        fs::write(&main, format!("{text}{paths}")).unwrap();
        main
    }

    #[test]
    fn files_that_are_wrong_give_way_to_what_was_in_force_last() {
        let directory = tempfile::tempdir().unwrap();
        let main = write(directory.path(), GOOD);
        let (start, _) = Start::read(&main).unwrap();
        assert_eq!(start.refused, None);
        let mut last = LastGood::new(directory.path());
        last.keep(&start.texts);
        assert_eq!(last.behind(), None);
        write(directory.path(), "[policy.default\n");
        let (again, _) = Start::read(&main).unwrap();
        assert_eq!(again.config, start.config);
        assert_eq!(again.texts, start.texts);
        assert!(again.refused.unwrap().contains("config.toml:1"));
    }

    #[test]
    fn files_that_are_wrong_are_an_error_where_nothing_was_in_force() {
        let directory = tempfile::tempdir().unwrap();
        let main = write(directory.path(), "limits = 1\n");
        assert!(Start::read(&main).is_err());
        // That of another file is none of this one.
        let mut last = LastGood::new(directory.path());
        last.keep(&[File {
            path: "/etc/other.toml".into(),
            text: GOOD.to_owned(),
        }]);
        assert!(Start::read(&main).is_err());
    }

    #[test]
    fn the_state_directory_is_found_in_a_text_that_is_no_toml() {
        let found = |text| state_of(text).map(|path| path.display().to_string());
        assert_eq!(
            found("x = [\n[paths] # x\nstate = \"/a\"\n").as_deref(),
            Some("/a")
        );
        assert_eq!(found("[other]\nstate = \"/a\"\n"), None);
        assert_eq!(found("[paths]\nstate = 7\n"), None);
    }
}
