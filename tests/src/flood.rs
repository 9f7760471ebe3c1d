//! The effect of a flood of forged sources on known sources: a campaign of cells, the same for each
//! store.
//!
//! Some known sources stay within their limit, and one sends far more than its limit. Between their
//! packets are those of forged sources, each of which sends a few packets and never returns.

pub mod cell;
pub mod outcome;
pub mod page;
pub mod promise;
pub mod rig;
pub mod traffic;

pub use cell::{Cell, Share};
pub use outcome::{FloodResult, Passed};
pub use promise::Promise;
pub use rig::{Rig, Store};
