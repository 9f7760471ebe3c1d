//! The newest entry of `CHANGELOG.md`.

use anyhow::{Context, Result, bail};

/// The date and text of a release.
#[derive(Debug)]
pub struct ReleaseNotes {
    /// The date, such as `2026-11-28`.
    pub date: String,
    pub text: String,
}

/// Returns the newest entry of `changelog`, which has to be the one of `version`.
///
/// Its heading is `## [1.0.0] - 2026-11-28`.
pub fn entry(changelog: &str, version: &str) -> Result<ReleaseNotes> {
    let (_, newest) = changelog
        .split_once("\n## ")
        .context("CHANGELOG.md has no entry")?;
    let (heading, text) = newest.split_once('\n').unwrap_or((newest, ""));
    let date = heading
        .strip_prefix(&format!("[{version}] - "))
        .with_context(|| {
            format!("the newest entry of CHANGELOG.md is `{heading}`, not [{version}] - DATE")
        })?;
    let is_date = date.len() == 10
        && date.bytes().enumerate().all(|(index, byte)| match index {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !is_date {
        bail!("CHANGELOG.md: `{date}` is no date: write YYYY-MM-DD");
    }
    let text = text.split("\n## ").next().unwrap_or_default().trim();
    if text.is_empty() {
        bail!("CHANGELOG.md says nothing about {version}");
    }
    Ok(ReleaseNotes {
        date: date.to_owned(),
        text: text.to_owned(),
    })
}
