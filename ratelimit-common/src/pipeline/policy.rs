//! Selects the policy: that of the longest prefix in the lists, or the default.

use super::Packet;
use crate::{Address, FamilyTables, Verdict, list::Listed};

#[inline(always)]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    let default = tables.settings().default_policy();
    let listed = packet.listed;
    packet.policy_index = if cfg!(feature = "lean") && listed == Listed::NONE {
        // Most sources are on no list, which the lean program knows by one comparison. The verifier
        // would follow both ways through all features.
        default
    } else {
        // Before the limits: behind them the entry would take stack from all packets.
        tables.count_entry(listed, packet.frame.frame_bytes());
        listed.policy().unwrap_or(default)
    };
    None
}
