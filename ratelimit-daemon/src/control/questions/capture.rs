//! What a capture names interfaces by.

use std::collections::BTreeMap;

use crate::control::{controller::Controller, question::Question};

/// The names of interfaces, by their indices.
#[derive(Clone, Copy)]
pub struct InterfaceNames;

impl Question for InterfaceNames {
    type Answer = BTreeMap<u32, String>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        controller.state.journal().interfaces().clone()
    }
}
