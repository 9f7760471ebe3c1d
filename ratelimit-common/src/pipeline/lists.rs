//! Applies the lists: allow beats ban, and both beat everything below. A policy with
//! `action = "drop"` is part of the list entries, too.

use super::Packet;
use crate::{Address, DropReason, FamilyTables, PassReason, Verdict, bits, pipeline::refuse};

#[inline(always)]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    let address = packet.flow.source;
    let listed = tables.listed(address, packet.now);
    packet.listed = listed;
    let bytes = packet.frame.frame_bytes();
    if listed.is_banned() {
        tables.count_entry(listed, bytes);
        return Some(refuse(address, DropReason::Banned, tables));
    }
    if listed.is_allowed() {
        tables.count_entry(listed, bytes);
        return Some(Verdict::Pass(PassReason::Allowed));
    }
    if listed.is_refused() {
        tables.count_entry(listed, bytes);
        let verdict = refuse(address, DropReason::Policy, tables);
        return Some(bits::rare(if listed.is_dry_run() {
            verdict.observed()
        } else {
            verdict
        }));
    }
    None
}
