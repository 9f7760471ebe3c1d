//! The limiting algorithms: value in, value out. Where the state is kept, and how it is made atomic, is decided elsewhere.

mod fixed_window;

pub use fixed_window::{FixedWindow, FixedWindowError, HORIZON_NS, TICKS_MIN};

/// A packet that does not fit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Denied;
