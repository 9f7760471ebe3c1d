//! When sources are challenged, and which are verified.

use std::net::IpAddr;

use ratelimit_common::{
    Instant,
    challenge::{self, Verified},
    generation::ByGeneration,
};

use super::Result;

/// When sources are challenged, and which are verified.
pub trait ChallengeTables {
    /// Sets when sources are challenged, where the settings say that they may be.
    fn set_challenge(&mut self, rules: ByGeneration<challenge::Rules>) -> Result<()>;

    /// When sources are challenged.
    fn challenge(&self) -> Result<ByGeneration<challenge::Rules>>;

    /// Since when and until when they are, and what was taken of what all CPUs share.
    fn challenge_taken(&self) -> Result<challenge::Taken>;

    /// Sets until when nobody is challenged.
    fn suspend_challenge(&mut self, until: Instant) -> Result<()>;

    /// Until when nobody is, or was.
    fn challenge_suspended(&self) -> Result<Instant>;

    /// How many SYNs and queries had no answer, as the answers were spent.
    fn challenge_unanswered(&self) -> Result<u64>;

    /// Until when a source is, or was, verified.
    fn verified(&self, source: IpAddr) -> Result<Option<Verified>>;

    /// Shows all that are, or were.
    fn for_each_verified(&self, visit: &mut dyn FnMut(IpAddr, Verified)) -> Result<()>;

    /// Notes that sources are verified, where they are not for longer.
    fn verify(&mut self, sources: &[(IpAddr, Verified)]) -> Result<()>;
}
