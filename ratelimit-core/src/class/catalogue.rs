//! The classes that have names: the built-in ones, and those of a configuration.

use std::collections::BTreeMap;

use super::{BUILT_IN, Class, Match, builtin};

/// The classes that a configuration names, besides the built-in ones.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Catalogue(BTreeMap<String, Class>);

/// The packets that a limit counts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Selected {
    /// Those of a class.
    Class(Class),
    /// Those that belong to no class of any limit.
    Other,
}

/// A name that no class has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no class `{name}`")]
pub struct UnknownClass {
    /// The name.
    pub name: String,
}

impl Catalogue {
    /// Gives a class a name.
    pub fn insert(&mut self, name: String, class: Class) {
        self.0.insert(name, class);
    }

    /// The class of a name, where a configuration names it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Class> {
        self.0.get(name)
    }

    /// The packets that `wanted` is about.
    ///
    /// # Errors
    ///
    /// When it is a name that no class has.
    pub fn select(&self, wanted: &Match) -> Result<Selected, UnknownClass> {
        match wanted {
            Match::Inline(class) => Ok(Selected::Class(class.clone())),
            Match::Named(name) => builtin::of(name)
                .or_else(|| self.get(name).cloned().map(Selected::Class))
                .ok_or_else(|| UnknownClass { name: name.clone() }),
        }
    }

    /// The names that the configuration gives, with their classes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Class)> {
        self.0.iter().map(|(name, class)| (name.as_str(), class))
    }

    /// Every name, the built-in ones first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        BUILT_IN
            .into_iter()
            .chain(self.0.keys().map(String::as_str))
    }
}
