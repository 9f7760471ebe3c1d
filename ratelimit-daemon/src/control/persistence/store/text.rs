//! Texts that many rows have in common, each kept once.

use std::{collections::HashSet, sync::Arc};

/// The texts seen so far.
#[derive(Default)]
pub struct Texts(HashSet<Arc<str>>);

impl Texts {
    /// The text, in the memory of the one that is there already.
    pub fn keep(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text));
        text
    }
}
