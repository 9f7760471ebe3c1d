//! `rlctl top`: the tables are scanned beside the controller (`scanner.rs`), which is only asked for the policies.

use std::{net::IpAddr, sync::Arc};

use ratelimit_core::{
    api::{Refused, TopSource},
    policies::Policies,
    prefix::Prefix,
};

use super::policies::CompiledPolicies;
use crate::{
    control::{
        controller::Controller,
        handle::{Handle, Unanswered},
        queries::top::{self, View, WhoWasRefused},
        question::Question,
    },
    datapath::DatapathError,
};

/// Sources of whose policies the controller is asked at once: who waits behind that waits for a fraction of a millisecond.
const ASKED_AT_ONCE: usize = 128;

/// The busiest sources: those whose limits are fullest, then those that were refused most; behind them those of `with` that are
/// banned. Refused is what cannot be read.
pub async fn top(
    controller: &Handle,
    count: usize,
    with: Vec<Prefix>,
) -> Result<Result<Vec<TopSource>, Refused>, Unanswered> {
    match find(controller, count).await? {
        Ok(busiest) => Ok(Ok(controller.ask(WithBans { busiest, with }).await?)),
        Err(error) => Ok(Err(Refused::from(error))),
    }
}

async fn find(
    controller: &Handle,
    count: usize,
) -> Result<Result<Vec<TopSource>, DatapathError>, Unanswered> {
    let read = controller.scan(move |scanner| WhoWasRefused::read(&*scanner.tables, count));
    let mut refused = match read.await? {
        Ok(refused) => refused,
        Err(error) => return Ok(Err(error)),
    };
    for sources in refused.most.chunks(ASKED_AT_ONCE) {
        let sources = sources.to_vec();
        let policies = controller.ask(PoliciesOf { sources }).await?;
        refused.policies.extend(policies);
    }
    let view = match controller.ask(PresentView).await? {
        Ok(view) => view,
        Err(error) => return Ok(Err(error)),
    };
    let before = Arc::clone(&view.policies);
    let scan =
        controller.scan(move |scanner| top::busiest(&*scanner.tables, &view, &refused, count));
    let mut busiest = scan.await?;
    let after = controller.ask(CompiledPolicies).await?;
    if let Ok(busiest) = &mut busiest
        && !Arc::ptr_eq(&before, &after)
    {
        // What was read of a policy that is another one now may be what the other one counts.
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

/// The bans of the busiest sources, and of others those that are banned.
struct WithBans {
    busiest: Vec<TopSource>,
    with: Vec<Prefix>,
}

impl Question for WithBans {
    type Answer = Vec<TopSource>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        top::with_bans(&controller.state, self.busiest, self.with)
    }
}

/// The indices of the policies that sources are judged by.
struct PoliciesOf {
    sources: Vec<IpAddr>,
}

impl Question for PoliciesOf {
    type Answer = Vec<Option<u32>>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        top::policies_of(&controller.state, &self.sources)
    }
}

/// What a scan has to know.
struct PresentView;

impl Question for PresentView {
    type Answer = Result<View, DatapathError>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        top::view(&controller.state)
    }
}
