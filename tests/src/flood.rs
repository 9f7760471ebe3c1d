//! What a flood of forged sources does to the sources that are known: a campaign of cells, the same for each store.
//!
//! Some sources are known, and keep to their limit. One is limited: it sends far more than its limit. Between their packets
//! come those of forged sources, each of which sends a few packets and is never seen again.

pub mod cell;
pub mod outcome;
pub mod page;
pub mod promise;
pub mod rig;
pub mod traffic;

pub use cell::{Cell, Share};
pub use outcome::{Outcome, Passed};
pub use promise::Promise;
pub use rig::{Rig, Store};
