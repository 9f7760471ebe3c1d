//! A cluster in one thread: the real code, with time, network, store, traffic and faults made up
//! from a seed.
//!
//! [`run`] plays one seed and checks the invariants of [`Invariant`] on the way. The same seed
//! gives the same run, so a violation is played again with a trace.

pub mod faults;
pub mod invariants;
pub mod node;
pub mod random;
pub mod store;
pub mod world;

pub use world::{Tally, run, run_moving};
