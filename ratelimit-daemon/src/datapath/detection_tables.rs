//! Bans that policies make in the kernel, and how many they may make.

use std::net::IpAddr;

use ratelimit_common::{BanBudgets, Detected, Instant, Standing, detected::Tally};

use super::Result;

/// Bans that policies make in the kernel, and how many they may make.
pub trait DetectionTables {
    /// The strikes of a source, as a word of [`BanRule`](ratelimit_common::BanRule).
    fn strikes(&self, source: IpAddr) -> Result<u64>;

    /// Sets how many bans policies may make in a minute.
    fn set_detection_limit(&mut self, limit: BanBudgets) -> Result<()>;

    /// How many bans policies may make in a minute.
    fn detection_limit(&self) -> Result<BanBudgets>;

    /// Takes one ban for the daemon out of those that it and policies made of such sources in a minute, where the budget has one
    /// left.
    fn take_ban(&self, budgets: BanBudgets, standing: Standing, now: Instant) -> Result<bool>;

    /// The ban that a policy made of a source and that was not adopted.
    fn detected(&self, source: IpAddr) -> Result<Option<Detected>>;

    /// All of those bans.
    fn all_detected(&self) -> Result<Vec<(IpAddr, Detected)>>;

    /// Forgets those that were adopted, but for sources that a policy has banned anew since they were read; it is no error
    /// when one is not there.
    fn forget_detected(&mut self, taken: &[(IpAddr, Detected)]) -> Result<()>;

    /// What became of the sources that policies were to ban, over all CPUs.
    fn tally(&self) -> Result<Tally>;
}
