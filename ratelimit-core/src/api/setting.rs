//! A setting in force, and where it comes from.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A setting in force.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Setting {
    /// Its tables and its key, with dots between: `source.capacity`, `interface.eth0.mode`.
    pub key: String,
    /// Its value as TOML. A secret is `"(secret-not-shown)"`.
    pub value: String,
    /// What set it.
    #[serde(flatten)]
    pub origin: SettingOrigin,
}

/// What set a key.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "origin")]
pub enum SettingOrigin {
    /// A file of the configuration.
    File {
        /// Which one.
        file: String,
        /// The line, from 1 on.
        line: usize,
    },
    /// Nothing: the default holds.
    Default,
    /// `rlctl limit set`. It goes before what files say.
    Runtime {
        /// Who.
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
