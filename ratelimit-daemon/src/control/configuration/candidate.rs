//! A configuration that may take the place of the one in force: its texts and the files of its lists, read.
//!
//! Reading needs nothing of the controller and takes as long as a file system does, so it is done beside it.

use std::path::{Path, PathBuf};

use ratelimit_core::{
    api::{ApplyRequest, Code, Refused},
    config::{self, Config, ConfigError, File},
};

use super::{syncookies, trial_permission, warnings};
use crate::control::lists::configured::ConfiguredLists;

/// What was read.
pub struct Candidate {
    pub(crate) texts: Vec<File>,
    pub(crate) config: Config,
    pub(crate) lists: ConfiguredLists,
    /// What it says of packets that do not come to this host, and of limits that slow TCP down.
    pub(crate) warnings: Vec<String>,
}

/// What a request to try a configuration is measured by.
pub struct Measure {
    /// The file that the daemon reads when it starts.
    pub(crate) main: PathBuf,
    /// The configuration in force, where only root may name files that it does not.
    pub(crate) in_force: Option<Config>,
}

/// A configuration that somebody tries, read.
pub struct Attempted {
    /// Who tries what, and for how long.
    pub request: ApplyRequest,
    /// What it says.
    pub candidate: Candidate,
    /// What it was measured by.
    pub measure: Measure,
}

impl Candidate {
    /// What the files say.
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

    /// What a request says.
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

/// The texts of a request, and what they say. To who may not read every file, what is wrong is quoted of the request alone.
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
    // Who names it as one of the others would be told what stands in that.
    let is_other = texts.iter().skip(1).any(|file| file.path == own);
    let own = (!is_other).then_some(own.as_path());
    let (config, _) = config::parse(&texts).map_err(|error| invalid(error, own))?;
    if let Some(in_force) = in_force {
        trial_permission::require_known(in_force, &config)?;
    }
    Ok((texts, config))
}
