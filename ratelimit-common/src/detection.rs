//! Counting strikes, and the ban that the last of them makes.

use crate::{
    Address, BanRule, Detected, Evidence, Policy, detected::BanResult, strikes::Strike,
    tables::FamilyTables,
};

/// Counts a strike of `source`, whose policy is `policy`, where it may lead to a ban, and answers
/// whether a ban is due.
#[inline(always)]
pub fn count<A: Address>(
    source: &A,
    policy: Option<&Policy>,
    strike: &Strike<'_>,
    tables: &impl FamilyTables<A>,
) -> bool {
    rule(policy, strike).is_some_and(|rule| tables.count_strike(source, rule, strike.at))
}

/// Returns the rule by which a strike may lead to a ban. Drops by a limit that admits nothing are
/// no strikes: it is a way to deny.
#[inline(always)]
pub fn rule<'a>(policy: Option<&'a Policy>, strike: &Strike<'_>) -> Option<&'a BanRule> {
    let policy = policy.filter(|policy| strike.may_ban && !policy.denies(strike.limit));
    policy.and_then(Policy::ban)
}

/// Bans `source` by the rule of `policy`: from the next packet on, unless the source may be forged,
/// or there are too many bans. Then it stays limited. Strikes of a connection are followed by
/// others before they ban ([`BanRule::confirm`]).
#[inline(always)]
pub fn detect<A, T>(source: &A, policy: Option<&Policy>, strike: &Strike<'_>, tables: &T)
where
    A: Address,
    T: FamilyTables<A>,
{
    let Some((policy, rule)) = policy.and_then(|policy| Some((policy, policy.ban()?))) else {
        return;
    };
    let is_connected = FamilyTables::<A>::is_connected(tables, strike.frame);
    if !rule.bans_forgeable() && !tables.confirm_strike(source, policy, strike, is_connected) {
        if !is_connected {
            tables.count_detection(BanResult::Forgeable);
        }
        return;
    }
    let evidence = if is_connected {
        Evidence::Established
    } else {
        Evidence::Forgeable
    };
    let detection = if !tables.may_detect(evidence, strike.at) {
        BanResult::TooMany
    } else if tables.ban(source, Detected::new(policy, rule, strike)) {
        BanResult::Banned
    } else {
        BanResult::NoRoom
    };
    tables.count_detection(detection);
}
