//! Bounds for the statements of a peer: rate, number, duration, and never anything that this node
//! protects.

use smart_default::SmartDefault;

use super::statement::Subject;
use crate::time::Millis;

/// The longest duration of a peer's statement.
pub const LONGEST: Millis = 366 * 86_400_000;

/// The bounds of one peer.
#[derive(Clone, Copy, Debug, SmartDefault)]
pub struct Bounds {
    /// New statements per minute.
    #[default = 10_000]
    pub per_minute: u32,
    /// The burst of new statements.
    #[default = 100_000]
    pub at_once: u32,
    /// The most statements kept.
    #[default = 1_000_000]
    pub held: usize,
    /// The longest time for which a statement counts after it was made.
    #[default(LONGEST)]
    pub longest: Millis,
    /// The number of peers that must revoke a node before it is revoked here. A revocation by this
    /// node is always enough.
    #[default = 1]
    pub revokers: usize,
}

/// Restrictions that only this node knows.
pub trait Guard<K> {
    /// Refuses a statement that peers may not make here: the prefix is too wide, or protected or
    /// allowed here.
    ///
    /// # Errors
    ///
    /// The reason, for users.
    fn permits(&self, subject: &Subject<K>) -> Result<(), &'static str>;
}

/// A peer's budget for statements: a token bucket, stored as the time at which it is full again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket {
    full_at_us: u64,
}

impl Bucket {
    /// Takes a token, if there is one.
    pub fn take(&mut self, bounds: &Bounds, monotonic: Millis) -> bool {
        let each_us = 60_000_000 / u64::from(bounds.per_minute.max(1));
        let now = monotonic.saturating_mul(1000);
        let full_at = self.full_at_us.max(now) + each_us;
        let has_room = full_at - now <= each_us * u64::from(bounds.at_once.max(1));
        if has_room {
            self.full_at_us = full_at;
        }
        has_room
    }
}
