//! Reads the shared secret of a cluster.

use anyhow::{Context, ensure};
use ratelimit_cluster::message::Secret;
use ratelimit_core::config::{cluster::SECRET_MIN, crowdsec::Key};

use super::file;

/// The secret itself.
pub async fn read(secret: &Key) -> anyhow::Result<Secret> {
    let path = match secret {
        Key::Given(secret) => return Ok(Secret::new(secret.expose().as_bytes())),
        Key::File(path) => path,
    };
    let text = file::read(path).await;
    let text = text.with_context(|| format!("reading the secret from {}", path.display()))?;
    let word = text.trim_ascii();
    ensure!(
        word.len() >= SECRET_MIN,
        "{} has no secret of at least {SECRET_MIN} characters: `openssl rand -hex 32` makes one",
        path.display()
    );
    Ok(Secret::new(word))
}
