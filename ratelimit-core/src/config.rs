//! The configuration: TOML files become a [`Config`] that cannot be wrong, or an error that says
//! where and what to write.
//!
//! ```text
//! file -> syntax -> document (each value read, and located) -> merge -> validate -> Config
//! ```
//!
//! Apart from the files and the modes of those that it names, nothing here depends on the machine:
//! whether an interface exists is found out when it is attached to.

mod aggregate;
mod arguments;
mod ban;
mod bans;
mod challenge;
mod class;
pub mod cluster;
pub mod crowdsec;
mod destination;
mod detection;
mod document;
mod error;
mod exposed;
mod file;
mod history;
pub(crate) mod interface;
mod keys;
mod limit;
mod list;
mod mmdb;
mod model;
mod new_sources;
mod number_suggestion;
mod origin;
mod policy;
mod prefixes;
mod renamed;
mod report;
mod snapshot;
mod suggestion;
mod syntax;
mod table;
#[cfg(test)]
mod tests;
pub mod tunnels;
mod upstream;
mod validate;
mod warning;

use std::path::Path;

pub use self::{
    arguments::{Arguments, from_command_line},
    crowdsec::Crowdsec,
    error::ConfigError,
    exposed::exposed,
    file::File,
    list::{ListConfig, public_url},
    model::{
        AggregateConfig, ClockWish, Config, DestinationConfig, Interface, LevelConfig, Mode,
        NodeConfig, OnStop, Paths, PolicyConfig, SourceConfig, StateStore,
    },
    origin::{settings, toml, value_of},
    renamed::upgrade,
    snapshot::Snapshots,
    warning::throughput::lines as throughput_warnings,
};
use self::{document::Document, report::Report};
use crate::diagnostic::Diagnostic;

/// Reads the file at `path`, and `conf.d/*.toml` beside it.
///
/// # Errors
///
/// Every problem that could be found.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    inspect(path).map(|(config, _)| config)
}

/// Reads what [`load`] reads, and says also what in it is legal and probably not meant.
///
/// # Errors
///
/// Every problem that could be found.
pub fn inspect(path: &Path) -> Result<(Config, Vec<Diagnostic>), ConfigError> {
    parse(&read(path)?)
}

/// The file at `path` and those of the `conf.d` beside it, as they are.
///
/// # Errors
///
/// Every file that cannot be read.
pub fn read(path: &Path) -> Result<Vec<File>, ConfigError> {
    file::read_all(path).map_err(ConfigError::new)
}

/// Reads another file instead of the one at `path`, and the `conf.d` beside `path`.
///
/// # Errors
///
/// Every file that cannot be read.
pub fn read_with(main: File, path: &Path) -> Result<Vec<File>, ConfigError> {
    let mut files = vec![main];
    files.extend(file::read_dropped_in(path).map_err(ConfigError::new)?);
    Ok(files)
}

/// Parses files, the first of which is `config.toml`. Also returns warnings about valid settings
/// that are probably mistakes.
///
/// # Errors
///
/// Every problem that could be found.
///
/// # Examples
///
/// ```
/// use ratelimit_core::config::{File, parse};
///
/// let text = "
///     [[interface]]
///     name = \"eth0\"
///     [policy.default]
///     limits = [{ packets = 1000, per = \"1s\" }]
/// ";
/// let file = |text: &str| File { path: "config.toml".into(), text: text.to_owned() };
/// let (config, warnings) = parse(&[file(text)])?;
/// assert_eq!(config.interfaces[0].name, "eth0");
/// assert!(warnings.is_empty());
///
/// // What is wrong is said with its place, and with what to write.
/// assert!(parse(&[file("[[interface]]\nnaem = \"eth0\"")]).is_err());
/// # Ok::<(), ratelimit_core::config::ConfigError>(())
/// ```
pub fn parse(files: &[File]) -> Result<(Config, Vec<Diagnostic>), ConfigError> {
    let report = Report::new(files);
    let warnings = Report::new(files);
    let document = read_documents(files, &report, &warnings);
    // Without the contents of a broken file, the whole cannot be validated.
    let Some(document) = document else {
        return Err(ConfigError::new(report.into_diagnostics()));
    };
    let config = validate::validate(files, &document, &report);
    if !report.is_empty() {
        return Err(ConfigError::new(report.into_diagnostics()));
    }
    warning::find(&document, &config, &warnings);
    Ok((config, warnings.into_diagnostics()))
}

/// Reads all files; `None` if one of them is not TOML.
fn read_documents<'f>(
    files: &'f [File],
    report: &'f Report<'f>,
    warnings: &Report<'_>,
) -> Option<Document> {
    let tables: Vec<_> = files
        .iter()
        .enumerate()
        .map(|(index, file)| syntax::parse(index, file, report))
        .collect();
    let tables: Option<Vec<_>> = tables.into_iter().collect();
    let mut whole = Document::default();
    for (index, mut table) in tables?.into_iter().enumerate() {
        for name in renamed::rename(index, &mut table) {
            let place = if name.is_ambiguous { report } else { warnings };
            place.add(&name.spot, name.problem());
        }
        whole.read(index, table, report);
    }
    Some(whole)
}
