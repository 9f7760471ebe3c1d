//! The nodes that divide a limit: those that were heard, and those that may still admit packets.
//!
//! A node becomes a member as soon as it is heard, which only lowers the share of this node. A
//! silent member is dropped after some periods, which raises it. So this node must hear itself
//! through the store (otherwise it is the one that is cut off). And the remaining nodes must be
//! more than half of the last members that all were heard to agree on, and of all views that this
//! node has tried since. Exactly half is enough with the member whose name comes first. So at most
//! one of two sides drops the other, and `p` live nodes behind a partition of `n` add at most `p /
//! n` of the limit. (Jajodia and Mutchler, "Dynamic voting", TODS 1990; that tried views count is
//! from Lotem, Keidar and Dolev, "Dynamic voting for consistent primary components", PODC 1997.)

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::bytes::Writer;
use crate::name::NodeName;
use crate::statements::hash_bytes;

/// The periods of silence after which a member is dropped.
pub const GONE_AFTER: u32 = 10;

/// No further view is tried while this many were not agreed to.
const ATTEMPTS_MAX: usize = 16;

/// Saved over a restart: the members, and the views whose majority a smaller view needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Views {
    /// The current members.
    #[serde(rename = "members")]
    pub current: BTreeSet<NodeName>,
    /// The last members that all were heard to agree on.
    pub agreed: BTreeSet<NodeName>,
    /// The views that were tried since.
    pub attempts: Vec<BTreeSet<NodeName>>,
    /// The least number of members, until as many have agreed.
    #[serde(skip)]
    pub at_least: u64,
}

/// The members as one node sees them.
#[derive(Clone, Debug)]
pub struct Members {
    me: NodeName,
    context: u64,
    views: Views,
    /// The hash of the members, until they change.
    view: u64,
    silent: BTreeMap<NodeName, u32>,
    heard: BTreeSet<NodeName>,
    reported: BTreeMap<NodeName, u64>,
}

impl Members {
    /// Starts with the saved views. `context` is a hash of the settings that all members must
    /// share.
    pub fn new(me: NodeName, context: u64, mut views: Views) -> Self {
        views.current.insert(me.clone());
        let mut members = Self {
            me,
            context,
            views,
            view: 0,
            silent: BTreeMap::new(),
            heard: BTreeSet::new(),
            reported: BTreeMap::new(),
        };
        members.refresh();
        members
    }

    /// Returns the state to save.
    pub fn views(&self) -> &Views {
        &self.views
    }

    /// Returns all members, sorted.
    pub fn names(&self) -> &BTreeSet<NodeName> {
        &self.views.current
    }

    /// Returns the divisor of a limit.
    pub fn size(&self) -> u64 {
        (self.views.current.len() as u64).max(self.views.at_least)
    }

    /// Returns the silent members, and for how many periods.
    pub fn silent(&self) -> impl Iterator<Item = (&NodeName, u32)> {
        self.silent
            .iter()
            .filter(|(_, periods)| **periods > 0)
            .map(|(name, periods)| (name, *periods))
    }

    /// Returns a hash of the view. Members with the same hash divide by the same number.
    pub fn view(&self) -> u64 {
        self.view
    }

    /// Returns the hash of what members have in common.
    pub fn context(&self) -> u64 {
        self.context
    }

    /// Updates everything derived from the members.
    fn refresh(&mut self) {
        self.view = self.view_of(self.size());
    }

    fn view_of(&self, size: u64) -> u64 {
        let mut writer = Writer::default();
        writer.fixed(self.context);
        writer.fixed(size);
        self.views.current.iter().for_each(|name| writer.name(name));
        hash_bytes(&writer.0)
    }

    /// Sets the hash of what members must have in common, if it changed.
    pub fn set_context(&mut self, context: u64) {
        if self.context != context {
            self.context = context;
            self.refresh();
        }
    }

    /// Records that a node reported a view. This node hears itself as well.
    pub fn heard(&mut self, name: &NodeName, view: u64) {
        self.heard.insert(name.clone());
        self.silent.remove(name);
        self.reported.insert(name.clone(), view);
        if !self.views.current.contains(name) {
            let mut larger = self.views.current.clone();
            larger.insert(name.clone());
            self.attempt(larger);
        }
    }

    /// Ends a period: a view that all reported is agreed, and members that were silent for long are
    /// dropped if that is permitted.
    pub fn period_over(&mut self) {
        self.agree();
        let heard = core::mem::take(&mut self.heard);
        // A node that does not hear itself is cut off, and cannot know which members are gone.
        if !heard.contains(&self.me) {
            return;
        }
        for name in self
            .views
            .current
            .iter()
            .filter(|name| !heard.contains(*name))
        {
            *self.silent.entry(name.clone()).or_default() += 1;
        }
        let is_here = |name: &&NodeName| {
            self.silent
                .get(*name)
                .is_none_or(|periods| *periods < GONE_AFTER)
        };
        let remaining: BTreeSet<_> = self.views.current.iter().filter(is_here).cloned().collect();
        if remaining.len() < self.views.current.len() && self.may_be(&remaining) {
            self.attempt(remaining);
            self.agree();
        }
    }

    /// Drops a node at once, as an operator revoked it.
    pub fn revoke(&mut self, name: &NodeName) {
        if *name == self.me {
            return;
        }
        for view in self
            .views
            .attempts
            .iter_mut()
            .chain([&mut self.views.current, &mut self.views.agreed])
        {
            view.remove(name);
        }
        self.silent.remove(name);
        self.reported.remove(name);
        self.refresh();
    }

    fn attempt(&mut self, view: BTreeSet<NodeName>) {
        self.silent.retain(|name, _| view.contains(name));
        self.reported.retain(|name, _| view.contains(name));
        if !self.views.attempts.contains(&view) && self.views.attempts.len() <= ATTEMPTS_MAX {
            self.views.attempts.push(view.clone());
        }
        self.views.current = view;
        self.refresh();
    }

    fn agree(&mut self) {
        let count = self.views.current.len();
        // All others have the same members and know that they are complete: they agreed before this
        // node came.
        if self.views.at_least > 0
            && count > 1
            && self.all_reported(self.view_of(count as u64), Some(&self.me))
        {
            self.views.at_least = 0;
            self.refresh();
        }
        if self.all_reported(self.view(), None) {
            self.views.agreed = self.views.current.clone();
            self.views.attempts.clear();
            if count as u64 >= self.views.at_least {
                self.views.at_least = 0;
                self.refresh();
            }
        }
    }

    /// Returns whether the last report of each member, except one, had this view.
    fn all_reported(&self, view: u64, except: Option<&NodeName>) -> bool {
        let mut names = self.views.current.iter();
        names.all(|name| Some(name) == except || self.reported.get(name) == Some(&view))
    }

    fn may_be(&self, view: &BTreeSet<NodeName>) -> bool {
        let attempts = &self.views.attempts;
        attempts.len() <= ATTEMPTS_MAX
            && attempts
                .iter()
                .chain([&self.views.agreed])
                .all(|of| is_quorum(view, of))
    }
}

/// Returns whether a view has more than half of another one, or half including the first name.
fn is_quorum(view: &BTreeSet<NodeName>, of: &BTreeSet<NodeName>) -> bool {
    let common = of.intersection(view).count() * 2;
    let has_first = of.first().is_none_or(|first| view.contains(first));
    common > of.len() || (common == of.len() && has_first)
}
