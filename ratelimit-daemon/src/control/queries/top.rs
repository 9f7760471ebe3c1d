//! `rlctl top`: another thread scans the tables (`scanner.rs`); the controller only supplies the
//! policies.

mod busiest;
mod refused;

use std::sync::Arc;

use ratelimit_core::{
    api::{Refused, TopSource},
    policies::Policies,
    prefix::Prefix,
};

pub(super) use self::busiest::{View, view};
use self::refused::WhoWasRefused;
use crate::{
    control::controller::{
        Controller,
        handle::{Handle, Unanswered},
    },
    datapath,
};

/// Sources per query for policies, so that other requests wait only a fraction of a millisecond.
const ASKED_AT_ONCE: usize = 128;

/// Returns the busiest sources: those with the fullest limits first, then the most refused ones,
/// then the sources in `with` that are banned. Fails if the tables cannot be read.
pub async fn top(
    controller: &Handle,
    count: usize,
    with: Vec<Prefix>,
) -> Result<Result<Vec<TopSource>, Refused>, Unanswered> {
    match find(controller, count).await? {
        Ok(busiest) => {
            let with_all = move |it: &Controller| {
                let mut rows = busiest::with_bans(&it.state, busiest, with);
                for row in &mut rows {
                    row.sending = it.feeds.attacks.sending(row.source);
                }
                rows
            };
            Ok(Ok(controller.ask(with_all).await?))
        }
        Err(error) => Ok(Err(Refused::from(error))),
    }
}

async fn find(
    controller: &Handle,
    count: usize,
) -> Result<datapath::Result<Vec<TopSource>>, Unanswered> {
    let read = controller.scan(move |scanner| WhoWasRefused::read(&scanner.tables, count));
    let mut refused = match read.await? {
        Ok(refused) => refused,
        Err(error) => return Ok(Err(error)),
    };
    for sources in refused.most.chunks(ASKED_AT_ONCE) {
        let sources = sources.to_vec();
        let policies = controller.ask(move |it| busiest::policies_of(&it.state, &sources));
        refused.policies.extend(policies.await?);
    }
    let view = match controller.ask(|it| view(&it.state)).await? {
        Ok(view) => view,
        Err(error) => return Ok(Err(error)),
    };
    let before = Arc::clone(&view.policies);
    let scan =
        controller.scan(move |scanner| busiest::busiest(&scanner.tables, &view, &refused, count));
    let mut busiest = scan.await?;
    let after = controller.ask(Controller::policies).await?;
    if let Ok(busiest) = &mut busiest
        && !Arc::ptr_eq(&before, &after)
    {
        // Values read under a policy that has changed may belong to another limit.
        busiest.retain(|row| is_same(&row.policy, &before, &after));
    }
    Ok(busiest)
}

fn is_same(name: &str, before: &Policies, after: &Policies) -> bool {
    let policy = |policies: &Policies| {
        let named = policies.get(name)?;
        Some((named.policy, named.further))
    };
    policy(before) == policy(after)
}
