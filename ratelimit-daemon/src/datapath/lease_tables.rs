//! What this node may admit of limits that nodes share, and what packets asked of them.

use ratelimit_common::{
    detected::Filter,
    lease::{Demand, Lease},
    source::LogKey,
};

use super::Result;

/// What this node may admit of limits that nodes share, and what packets asked of them.
pub trait LeaseTables {
    /// Sets which keys the program looks for among leases and demands, by family. It adds those that limits refuse.
    fn set_leased_filters(&mut self, filters: &[Filter; 2]) -> Result<()>;

    /// Puts leases in place of those of the same keys.
    fn set_leases(&mut self, leases: &[(LogKey, Lease)]) -> Result<()>;

    /// Takes leases away; it is no error when one is not there.
    fn remove_leases(&mut self, keys: &[LogKey]) -> Result<()>;

    /// All leases.
    fn leases(&self) -> Result<Vec<(LogKey, Lease)>>;

    /// What packets asked of limits that nodes share, since their source was first refused or got a lease.
    fn demands(&self) -> Result<Vec<(LogKey, Demand)>>;
}
