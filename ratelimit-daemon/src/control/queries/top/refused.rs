//! Who was refused, as `rlctl top` tells it.

use std::{cmp::Reverse, collections::HashMap, net::IpAddr};

use ratelimit_common::Refusals;

use crate::datapath::{self, SourceTables};

/// Of the sources that were refused, those that were refused most are looked at, so many for each that is shown.
const REFUSED_FOR_EACH: usize = 16;

/// The sources that were refused last.
pub struct WhoWasRefused {
    /// How often each was.
    pub all: HashMap<IpAddr, Refusals>,
    /// Those that are looked at by themselves: a `compact` table does not show all of them.
    pub most: Vec<IpAddr>,
    /// The indices of the policies of these.
    pub policies: Vec<Option<u32>>,
}

impl WhoWasRefused {
    /// Reads them, to tell `count`. Their policies are not known yet.
    pub fn read(tables: &dyn SourceTables, count: usize) -> datapath::Result<Self> {
        let mut all = HashMap::new();
        tables.for_each_refused(&mut |source, refusals: Refusals| {
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

/// Those that were refused most.
fn most(all: &HashMap<IpAddr, Refusals>, count: usize) -> Vec<IpAddr> {
    let mut most: Vec<_> = all.iter().collect();
    most.sort_unstable_by_key(|(_, refusals)| Reverse(refusals.packets));
    most.truncate(count);
    most.into_iter().map(|(source, _)| *source).collect()
}
