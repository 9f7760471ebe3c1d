//! A candidate for the next configuration: its texts and the files of its lists, read.
//!
//! Reading needs nothing of the controller and may take long, so it happens on another thread.

use std::path::{Path, PathBuf};

use ratelimit_core::{
    api::{ApplyRequest, Code, Refused},
    config::{self, Config, ConfigError, File},
};

use super::{syncookies, trial_permission, warnings};
use crate::control::lists::configured::ConfiguredLists;

/// A configuration that was read.
pub struct Candidate {
    pub(crate) texts: Vec<File>,
    pub(crate) config: Config,
    pub(crate) lists: ConfiguredLists,
    /// Warnings about packets that never reach this host, and limits that slow TCP down.
    pub(crate) warnings: Vec<String>,
}

/// The context in which a request to try a configuration is checked.
pub struct Measure {
    /// The file that the daemon reads at start.
    pub(crate) main: PathBuf,
    /// The configuration in force, unless root asks. Other users may not name other files than it
    /// does.
    pub(crate) in_force: Option<Config>,
}

/// A configuration to try, already read.
pub struct Attempted {
    pub request: ApplyRequest,
    pub candidate: Candidate,
    pub measure: Measure,
}

impl Candidate {
    /// Reads the configuration from its files.
    pub fn of_files(main: &Path) -> Result<Self, Refused> {
        let invalid = |error: ConfigError| {
            Refused::because(error.unquoted(None))
                .quoting(error.to_string())
                .code(Code::BadConfiguration)
        };
        let texts = config::read(main).map_err(invalid)?;
        let (config, _) = config::parse(&texts).map_err(invalid)?;
        Self::with_lists(texts, config)
    }

    /// Reads the configuration of a request.
    pub fn of_request(request: &ApplyRequest, measure: &Measure) -> Result<Self, Refused> {
        let (texts, config) = parsed(request, measure)?;
        Self::with_lists(texts, config)
    }

    fn with_lists(texts: Vec<File>, config: Config) -> Result<Self, Refused> {
        syncookies::require(&config)?;
        let lists = ConfiguredLists::read(&config)?;
        let mut warnings = warnings::warnings(&config);
        warnings.extend(config::throughput_warnings(&config));
        Ok(Self {
            texts,
            config,
            lists,
            warnings,
        })
    }
}

/// Returns the texts of a request and the parsed configuration. A user who may not read every file
/// sees only quotes of the request in errors.
pub(crate) fn parsed(
    request: &ApplyRequest,
    Measure { main, in_force }: &Measure,
) -> Result<(Vec<File>, Config), Refused> {
    let own = PathBuf::from(&request.file);
    let file = File {
        path: own.clone(),
        text: request.text.clone(),
    };
    let invalid = |error: ConfigError, own: Option<&Path>| match in_force {
        None => Refused::because(error.to_string()).code(Code::BadConfiguration),
        Some(_) => Refused::because(error.unquoted(own)).quoting(error.to_string()),
    };
    let texts = config::read_with(file, main).map_err(|error| invalid(error, None))?;
    // An included file would be read with the daemon's rights and quoted in errors.
    let is_other = texts.iter().skip(1).any(|file| file.path == own);
    let own = (!is_other).then_some(own.as_path());
    let (config, _) = config::parse(&texts).map_err(|error| invalid(error, own))?;
    if let Some(in_force) = in_force {
        trial_permission::require_known(in_force, &config)?;
    }
    Ok((texts, config))
}
