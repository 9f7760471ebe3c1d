//! Room in the kernel's lists. A tenth is reserved for changes at runtime, and a new ban can evict
//! another one.
//!
//! Only bans that no operator requested are evicted (of policies, detection, other programs,
//! `CrowdSec` and other nodes), the one that ends first before the others; never a manual ban or
//! one of a list. For another that no operator requested, a ban of policies or detection is evicted
//! only after half of its time: otherwise the sources of a flood would evict each other's bans, and
//! each return would lengthen them. If that does not make enough room, the whole change is refused.

use std::collections::BTreeSet;

use ratelimit_core::{
    api::Refused,
    intent::{Edit, EntryRow, Intent},
    ip_family::IpFamily,
    prefix::Prefix,
};
use tracing::{info, warn};

use super::enforcer::Enforcer;
use crate::clock;

/// The reciprocal of the share of entries reserved for changes at runtime.
const RESERVED: u64 = 10;

/// The fill level, in percent, of a list that is nearly full.
const NEARLY_FULL: u64 = 80;

/// The fill level of the lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filling {
    /// Whether the list of a family is nearly full, IPv4 and IPv6.
    pub nearly_full: [bool; 2],
    /// The number of bans evicted for new ones.
    pub evicted: u64,
}

/// Makes room for new entries.
pub struct Room<'a> {
    pub intent: &'a Intent,
    pub enforcer: &'a Enforcer,
}

impl Room<'_> {
    /// Returns the edits that make room for `edits`: ends of bans that may be evicted.
    pub fn make_for(&self, edits: &[Edit]) -> Result<Vec<Edit>, Refused> {
        let mut ends = Vec::new();
        let coming = edits.iter().filter(|edit| edit.adds());
        let coming = coming.flat_map(Edit::prefixes).count() as u64;
        for family in IpFamily::ALL {
            let capacity = u64::from(self.enforcer.datapath().lists.capacity(family));
            // Exact counting is expensive, and there is usually room.
            let most = self.enforcer.len() + coming;
            if most <= capacity - capacity / RESERVED {
                continue;
            }
            ends.extend(self.make_of(family, capacity, edits)?);
        }
        Ok(ends)
    }

    fn make_of(
        &self,
        family: IpFamily,
        capacity: u64,
        edits: &[Edit],
    ) -> Result<Vec<Edit>, Refused> {
        let is_new = |prefix: Prefix| {
            IpFamily::of(prefix.address()) == family && self.enforcer.entry(prefix).is_none()
        };
        let added = |runtime: bool| -> BTreeSet<Prefix> {
            let added = edits
                .iter()
                .filter(|edit| edit.adds() && edit.is_runtime() == runtime);
            added
                .flat_map(Edit::prefixes)
                .filter(|prefix| is_new(*prefix))
                .collect()
        };
        let (runtime, others) = (added(true), added(false));
        let held = self.enforcer.count(family);
        let for_others = capacity - capacity / RESERVED;
        let all = held + runtime.union(&others).count() as u64;
        // Additions come before removals, and may use the whole list in between.
        let gone = edits
            .iter()
            .flat_map(|edit| self.gone(edit, family))
            .count() as u64;
        let over = match others.len() as u64 {
            0 => all.saturating_sub(capacity),
            others => {
                let lasting = (held + others).saturating_sub(gone);
                all.saturating_sub(capacity)
                    .max(lasting.saturating_sub(for_others))
            }
        };
        let edited: BTreeSet<Prefix> = edits.iter().flat_map(Edit::prefixes).collect();
        let is_requested = edits
            .iter()
            .filter(|edit| edit.adds())
            .any(|edit| !matches!(edit, Edit::Ban(_, origin, _) if origin.is_unrequested()));
        let wall = clock::wall();
        let may_go = move |row: &EntryRow| {
            let left = clock::to_wall(row.until).duration_since(wall);
            is_requested || left <= wall.duration_since(row.since)
        };
        let ends = self.intent.evictable_only(family, &edited, may_go);
        let count = usize::try_from(over).unwrap_or(usize::MAX);
        let ends: Vec<Edit> = ends.take(count).collect();
        if ends.len() < count {
            let missing = count - ends.len();
            let name = family.label();
            return Err(Refused::because(format!(
                "the list of {name} is full: it holds {held} of {capacity} entries, a tenth is \
                 reserved for manual ones, and there is no room for {missing} of the new ones"
            ))
            .hint("remove bans or shorten lists; see `rlctl status --maps`"));
        }
        Ok(ends)
    }

    /// Returns the entries that disappear with a list because nothing else needs them.
    fn gone<'a>(&'a self, edit: &'a Edit, family: IpFamily) -> impl Iterator<Item = Prefix> + 'a {
        let (list, touched) = if let Edit::List(_, list, touched) = edit {
            (list.as_deref(), &touched[..])
        } else {
            (None, &[][..])
        };
        touched.iter().copied().filter(move |prefix| {
            IpFamily::of(prefix.address()) == family
                && list.is_none_or(|list| list.get(*prefix).is_none())
                && self.enforcer.entry(*prefix).is_some()
                && self.intent.bans_of(*prefix).next().is_none()
        })
    }
}

impl Filling {
    /// Counts evicted bans.
    pub fn note_evicted(&mut self, count: usize) {
        if count > 0 {
            self.evicted += count as u64;
            info!(
                count,
                "the ban list is full: evicted the bans that end first"
            );
        }
    }

    /// Warns when a list becomes nearly full.
    pub fn watch(&mut self, enforcer: &Enforcer) {
        for family in IpFamily::ALL {
            let capacity = u64::from(enforcer.datapath().lists.capacity(family));
            let limit = capacity * NEARLY_FULL / 100;
            let held = match enforcer.len() {
                all if all < limit => all,
                _ => enforcer.count(family),
            };
            let nearly_full = held >= limit;
            let before = &mut self.nearly_full[family as usize];
            if nearly_full && !*before {
                let family = family.label();
                warn!(
                    family,
                    held, capacity, "the list map is more than 80 % full"
                );
            }
            *before = nearly_full;
        }
    }
}
