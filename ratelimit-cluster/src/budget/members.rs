//! Who divides a limit: the nodes that were heard, and those that may still admit.
//!
//! A node that is heard is a member from then on, which only lowers what this node takes. A member that is silent is dropped
//! after some periods, which raises it. So this node has to hear itself through the store (it is not the one that
//! is cut off). And those who remain have to be more than half of the last members that all were heard to agree on, and of all
//! that this node has tried since. Exactly half is enough with the member whose name comes first. So of two sides at most one drops
//! the other, and `p` live nodes behind a partition of `n` add at most `p / n` of the limit. (Jajodia and Mutchler, "Dynamic voting", TODS
//! 1990; that tried views count is from Lotem, Keidar and Dolev, "Dynamic voting for consistent primary components", PODC 1997.)

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::bytes::Writer;
use crate::name::NodeName;
use crate::statements::hash_bytes;

/// So many periods of silence, and a member is gone.
pub const GONE_AFTER: u32 = 10;

/// With more views that nobody agreed to, none is tried.
const ATTEMPTS_MAX: usize = 16;

/// What has to outlive a restart: who the members were, and whose agreement a smaller view needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Views {
    /// The members.
    #[serde(rename = "members")]
    pub current: BTreeSet<NodeName>,
    /// The last members that all were heard to agree on.
    pub agreed: BTreeSet<NodeName>,
    /// The members that were tried since.
    pub attempts: Vec<BTreeSet<NodeName>>,
    /// How many members there are at least, until as many agreed.
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
    /// Begins with what is remembered; `context` is a hash of what all members must have in common.
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

    /// What has to outlive a restart.
    pub fn views(&self) -> &Views {
        &self.views
    }

    /// All members in order.
    pub fn names(&self) -> &BTreeSet<NodeName> {
        &self.views.current
    }

    /// By how many a limit is divided.
    pub fn size(&self) -> u64 {
        (self.views.current.len() as u64).max(self.views.at_least)
    }

    /// The members that are silent, and for how many periods.
    pub fn silent(&self) -> impl Iterator<Item = (&NodeName, u32)> {
        self.silent
            .iter()
            .filter(|(_, periods)| **periods > 0)
            .map(|(name, periods)| (name, *periods))
    }

    /// The view as a hash. Members with the same one divide by the same number.
    pub fn view(&self) -> u64 {
        self.view
    }

    /// The hash of what members have in common.
    pub fn context(&self) -> u64 {
        self.context
    }

    /// The members changed, or what is known of them.
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

    /// Takes in what members must have in common, where that changed.
    pub fn set_context(&mut self, context: u64) {
        if self.context != context {
            self.context = context;
            self.refresh();
        }
    }

    /// Takes in that a node reported with a view. This node hears itself, too.
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

    /// A period is over: what all reported alike is agreed, and who was silent for long is dropped where that may be.
    pub fn period_over(&mut self) {
        self.agree();
        let heard = core::mem::take(&mut self.heard);
        // Who does not hear itself is cut off itself, and cannot tell who is gone.
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

    /// Drops a node at once, by the operator's word.
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
        // All others have the same members and know that these are all: they have agreed before this node came.
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

    /// Whether each member reported a view last, but for one of them.
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

/// Whether a view has more than half of another one, or half with the first name.
fn is_quorum(view: &BTreeSet<NodeName>, of: &BTreeSet<NodeName>) -> bool {
    let common = of.intersection(view).count() * 2;
    let has_first = of.first().is_none_or(|first| view.contains(first));
    common > of.len() || (common == of.len() && has_first)
}
