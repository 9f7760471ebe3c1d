//! The routes for a BGP speaker.

use ratelimit_core::api::{Refused, UpstreamRoutes};
use tokio::sync::watch;

use crate::control::controller::Controller;

/// Follows the routes, if there are to be any.
pub fn upstream_routes(
    controller: &Controller,
) -> Result<watch::Receiver<Option<UpstreamRoutes>>, Refused> {
    if controller.state.intent.config.upstream.is_none() {
        let refused = Refused::because("the configuration has no [upstream]");
        return Err(refused.hint("add the table to the configuration, and run `rlctl reload`"));
    }
    Ok(controller.feeds.upstream.follow())
}
