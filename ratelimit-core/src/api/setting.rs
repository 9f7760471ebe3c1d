//! A setting in force, and where it comes from.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A setting in force and its origin.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Setting {
    /// Full name of the key: `source.capacity`, `interface.eth0.mode`.
    pub key: String,
    /// Value as TOML. Secrets are shown as `"(secret-not-shown)"`.
    pub value: String,
    /// Origin of the value.
    #[serde(flatten)]
    pub origin: SettingOrigin,
}

/// Origin of a setting.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "origin")]
pub enum SettingOrigin {
    /// A configuration file.
    File {
        /// Path of the file.
        file: String,
        /// Line number, from 1.
        line: usize,
    },
    /// The built-in default.
    Default,
    /// `rlctl limit set`, which overrides files.
    Runtime {
        /// The user who set it.
        #[serde(rename = "by")]
        author: String,
    },
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line } => write!(formatter, "{file}:{line}"),
            Self::Default => formatter.write_str("default"),
            Self::Runtime { author } => write!(formatter, "rlctl limit set, by {author}"),
        }
    }
}
