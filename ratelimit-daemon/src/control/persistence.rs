//! The state that outlives the daemon: the database, documents in the state directory, and changes
//! that could not be written yet.

pub mod state_file;
pub mod store;
pub mod unwritten;
