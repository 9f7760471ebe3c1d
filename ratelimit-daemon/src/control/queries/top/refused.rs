//! Refused sources, for `rlctl top`.

use std::{cmp::Reverse, collections::HashMap, net::IpAddr};

use ratelimit_common::Refusals;

use crate::datapath::{self, SourceTables};

/// For each row shown, this many of the most refused sources are examined.
const REFUSED_FOR_EACH: usize = 16;

/// The sources that were refused recently.
pub struct WhoWasRefused {
    /// The refusals by address.
    pub all: HashMap<IpAddr, Refusals>,
    /// Sources examined individually, because a `compact` table may not show them.
    pub most: Vec<IpAddr>,
    /// The indices of their policies.
    pub policies: Vec<Option<u32>>,
}

impl WhoWasRefused {
    /// Reads the refusals, to show `count` rows. The policies are not known yet.
    pub fn read(tables: &SourceTables, count: usize) -> datapath::Result<Self> {
        let mut all = HashMap::new();
        tables.for_each_refused(|source, refusals: Refusals| {
            all.insert(source, refusals);
        })?;
        let most = if tables.is_compact() {
            most(&all, REFUSED_FOR_EACH * count)
        } else {
            Vec::new()
        };
        Ok(Self {
            all,
            most,
            policies: Vec::new(),
        })
    }
}

/// Returns the most refused sources.
fn most(all: &HashMap<IpAddr, Refusals>, count: usize) -> Vec<IpAddr> {
    let mut most: Vec<_> = all.iter().collect();
    most.sort_unstable_by_key(|(_, refusals)| Reverse(refusals.packets));
    most.truncate(count);
    most.into_iter().map(|(source, _)| *source).collect()
}
