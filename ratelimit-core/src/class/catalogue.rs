//! The classes that have names: the built-in ones, and those of a configuration.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BUILT_IN, Class, Match, builtin};

/// The configured classes, in addition to the built-in ones, and their actions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Catalogue {
    classes: BTreeMap<String, Class>,
    actions: BTreeMap<String, Action>,
}

/// How packets of a class are treated instead of limits.
#[derive(Deserialize, strum::IntoStaticStr, JsonSchema, Serialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Drops the packets.
    Drop,
    /// Passes the packets without counting them for limits.
    Exempt,
}

/// The packets that a limit counts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Selected {
    /// Packets of a class.
    Class(Class),
    /// Packets without a class in any limit.
    Other,
}

/// A name that no class has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no class `{name}`")]
pub struct UnknownClass {
    /// The name.
    pub name: String,
}

impl Action {
    /// Returns the words that follow a class.
    pub const fn becomes(self) -> &'static str {
        match self {
            Self::Drop => ", dropped",
            Self::Exempt => ", exempt from limits",
        }
    }
}

impl Catalogue {
    /// Gives a class a name.
    pub fn insert(&mut self, name: String, class: Class) {
        self.classes.insert(name, class);
    }

    /// Says what happens to the packets of the class with this name, be it a built-in one.
    pub fn set_action(&mut self, name: String, action: Action) {
        self.actions.insert(name, action);
    }

    /// The action on packets of the class `name` before any limit counts them.
    pub fn action(&self, name: &str) -> Option<Action> {
        self.actions.get(name).copied()
    }

    /// The classes with an action, and their names.
    pub fn actions(&self) -> impl Iterator<Item = (&str, Class, Action)> {
        self.actions.iter().filter_map(|(name, action)| {
            match self.select(&Match::Named(name.clone())) {
                Ok(Selected::Class(class)) => Some((name.as_str(), class, *action)),
                Ok(Selected::Other) | Err(_) => None,
            }
        })
    }

    /// The class of a name, where a configuration names it.
    pub fn get(&self, name: &str) -> Option<&Class> {
        self.classes.get(name)
    }

    /// The packets that `wanted` is about.
    ///
    /// # Errors
    ///
    /// When it is a name that no class has.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_core::class::{Catalogue, Match};
    ///
    /// let catalogue = Catalogue::default();
    /// assert!(catalogue.select(&Match::Named("tcp-syn".to_owned())).is_ok());
    /// assert!(catalogue.select(&Match::Named("tcp-sny".to_owned())).is_err());
    /// ```
    pub fn select(&self, wanted: &Match) -> Result<Selected, UnknownClass> {
        match wanted {
            Match::Inline(class) => Ok(Selected::Class(class.clone())),
            Match::Named(name) => builtin::of(name)
                .or_else(|| self.get(name).cloned().map(Selected::Class))
                .ok_or_else(|| UnknownClass { name: name.clone() }),
        }
    }

    /// The classes of which the configuration says something, with their names and actions.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Class, Option<Action>)> {
        let own = self.classes.iter().map(|(name, class)| {
            let action = self.action(name);
            (name.as_str(), class.clone(), action)
        });
        let built_in = self.actions().filter(|(name, ..)| self.get(name).is_none());
        own.chain(built_in.map(|(name, class, action)| (name, class, Some(action))))
    }

    /// Every name, the built-in ones first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        BUILT_IN
            .into_iter()
            .chain(self.classes.keys().map(String::as_str))
    }
}
