//! Bans of clients that are refused too often by a key space.

use anyhow::Context;
use tracing::{info, warn};

use crate::control::{Handle, commands::BanByProgram};

/// Passes bans on to the controller, which vets them as those of a command.
pub async fn ban_clients(controller: Handle) -> anyhow::Result<()> {
    let bans = controller.keys().take_bans();
    let mut bans = bans.context("the bans of keys are passed on already")?;
    while let Some(ban) = bans.recv().await {
        let client = ban.sources.first().map(ToString::to_string);
        let program = ban.program.clone();
        let banned = controller.call(BanByProgram(ban, "ratelimitd".into()));
        match banned.await? {
            Ok(_) => info!(
                client,
                program, "banned a client that was refused too often"
            ),
            Err(refused) => warn!(
                client,
                program,
                error = refused.error,
                "cannot ban a client"
            ),
        }
    }
    Ok(())
}
