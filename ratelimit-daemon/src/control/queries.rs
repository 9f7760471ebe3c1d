//! What reads: each answers a question from the [state](crate::control::State), and changes nothing.

pub mod check;
mod covering;
pub mod drops;
pub mod levels;
mod limit_state;
pub mod limited;
pub mod lists;
pub mod new_sources;
pub mod preview;
pub mod status;
pub mod suggest;
pub mod top;
pub mod traffic;
pub mod views;
pub mod watched;
