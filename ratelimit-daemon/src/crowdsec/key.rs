//! Reads the key by which the local API knows this bouncer.

use std::{io, path::PathBuf};

use ratelimit_core::config::crowdsec::{Key, Secret};

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("reading the key from {path}: {error}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file has something else.
    #[error("{path} has no key: it is one word, as `cscli bouncers add` prints it", path = path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
}

/// The key itself.
///
/// # Errors
///
/// When its file does not have it.
pub async fn read(key: &Key) -> Result<Secret, KeyError> {
    let path = match key {
        Key::Given(secret) => return Ok(secret.clone()),
        Key::File(path) => path,
    };
    let text = tokio::fs::read_to_string(path).await;
    let text = text.map_err(|error| KeyError::Unreadable {
        path: path.clone(),
        error,
    })?;
    let secret = Secret::new(text.trim());
    secret.ok_or_else(|| KeyError::NoKey { path: path.clone() })
}
