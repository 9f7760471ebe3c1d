//! Statements of nodes: bans, allows, limits and revocations, each until an end, and lifts of
//! these.
//!
//! All nodes with the same statements agree on the bans, allows and limits in force, in whatever
//! order the statements arrived. For each node, subject and verb, only the statement with the
//! latest stamp is kept ([`StatementSet::merge`]), and the state in force is derived from these
//! ([`StatementSet::in_force`]). So merging is commutative, associative and idempotent (Shapiro et
//! al., "Conflict-free replicated data types", SSS 2011).

mod bounds;
mod catch_up;
mod digest;
mod parts;
mod set;
mod statement;
#[cfg(test)]
mod tests;

pub use bounds::{Bounds, Bucket, Guard};
pub use catch_up::{CatchUp, Step};
pub use digest::Digest;
pub(crate) use digest::hash_bytes;
pub use parts::{PART_BITS_MAX, Parts, part_of};
pub use set::{Ended, InForce, StatementSet};
pub use statement::{LIMITS_MAX, NOTE_MAX, Statement, Subject, Verb};
