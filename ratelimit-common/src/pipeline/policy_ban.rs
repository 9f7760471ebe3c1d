//! Drops sources that policies have banned in the kernel. A source may be wider than an address, so
//! protected addresses are exempt here.

use super::Packet;
use crate::{Address, DropReason, FamilyTables, Verdict, pipeline::refuse};

#[inline(always)]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    let is_asked = tables.settings().has_policy_bans() && !packet.listed.is_protected();
    let is_banned = |source| {
        let ban = tables.policy_ban(source);
        ban.is_some_and(|ban| ban.is_active(packet.now))
    };
    (is_asked && is_banned(packet.source))
        .then(|| refuse(*packet.source, DropReason::Banned, tables))
}
