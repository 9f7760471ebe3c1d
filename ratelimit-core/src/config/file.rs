//! The files of a configuration: `config.toml`, and beside it `conf.d/*.toml` in the order of their
//! names.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::diagnostic::{Diagnostic, Position, Problem};

/// A file that was read.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct File {
    /// The path.
    pub path: PathBuf,
    /// The content.
    pub text: String,
}

/// Reads the file at `path` and those of the `conf.d` beside it; the first is the one at `path`.
pub fn read_all(path: &Path) -> Result<Vec<File>, Vec<Diagnostic>> {
    let main = read(path).map_err(|problem| vec![*problem])?;
    let mut files = vec![main];
    files.extend(read_dropped_in(path)?);
    Ok(files)
}

/// Reads the files of the `conf.d` beside `path`.
pub fn read_dropped_in(path: &Path) -> Result<Vec<File>, Vec<Diagnostic>> {
    let directory = path.with_file_name("conf.d");
    let dropped_in = list(&directory).map_err(|error| vec![unlistable(&directory, &error)])?;
    let mut files = vec![];
    let mut problems = vec![];
    for path in dropped_in {
        match read(&path) {
            Ok(file) => files.push(file),
            Err(problem) => problems.push(*problem),
        }
    }
    if problems.is_empty() {
        Ok(files)
    } else {
        Err(problems)
    }
}

fn read(path: &Path) -> Result<File, Box<Diagnostic>> {
    let bytes = fs::read(path).map_err(|error| Box::new(unreadable(path, &error)))?;
    let text = String::from_utf8(bytes).map_err(|error| Box::new(not_utf8(path, &error)))?;
    // The mark that some editors put at the front would count as a character of the first line.
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    Ok(File {
        path: path.to_owned(),
        text,
    })
}

/// The files of a `conf.d`; none where there is no such directory.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries?,
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths?;
    paths.retain(|path| is_configuration(path));
    paths.sort();
    Ok(paths)
}

/// Whether a file of a `conf.d` counts; an editor's `.#10-partner.toml` does not.
fn is_configuration(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".toml") && !name.starts_with(b".")
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kinds of errors of the system are open"
)]
fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    let problem = match error.kind() {
        io::ErrorKind::NotFound => {
            Problem::new("no such file", "create it, or use an existing one")
        }
        io::ErrorKind::IsADirectory => Problem::new(
            "is a directory",
            format!(
                "name a file, such as {}",
                path.join("config.toml").display()
            ),
        ),
        _ => Problem::new(
            format!("cannot be read: {error}"),
            "check its path, its owner and its mode",
        ),
    };
    Diagnostic::of_file(path, problem)
}

fn unlistable(directory: &Path, error: &io::Error) -> Diagnostic {
    let problem = Problem::new(
        format!("cannot be listed: {error}"),
        "make it a directory that the daemon can read, or remove it",
    );
    Diagnostic::of_file(directory, problem)
}

fn not_utf8(path: &Path, error: &std::string::FromUtf8Error) -> Diagnostic {
    let start = error.utf8_error().valid_up_to();
    let byte = error.as_bytes()[start];
    // The position of the replacement character is that of the invalid bytes.
    let text = String::from_utf8_lossy(error.as_bytes());
    Diagnostic {
        position: Some(Position::new(&text, &(start..start + 1))),
        ..Diagnostic::of_file(
            path,
            Problem::new(
                format!("the byte 0x{byte:02x} is not UTF-8"),
                "save the file as UTF-8",
            ),
        )
    }
}
