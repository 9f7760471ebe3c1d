//! What stands behind `rlctl`.

pub mod limit_arguments;
