//! What is taken from a peer: so much a minute, so much in all, for so long, and never what this node protects.

use smart_default::SmartDefault;

use super::statement::Subject;
use crate::time::Millis;

/// No statement of a peer counts for longer.
pub const LONGEST: Millis = 366 * 86_400_000;

/// Bounds of what one peer may state.
#[derive(Clone, Copy, Debug, SmartDefault)]
pub struct Bounds {
    /// New statements a minute.
    #[default = 10_000]
    pub per_minute: u32,
    /// New statements at once, where it stated none for long.
    #[default = 100_000]
    pub at_once: u32,
    /// Statements that are held.
    #[default = 1_000_000]
    pub held: usize,
    /// How long a statement counts after it was made.
    #[default(LONGEST)]
    pub longest: Millis,
    /// How many peers have to revoke a node before it is revoked here. The word of this node is always enough.
    #[default = 1]
    pub revokers: usize,
}

/// What this node knows about a subject and its peers do not.
pub trait Guard<K> {
    /// Why a peer may not state this here: the prefix is too wide, or it is protected or allowed here.
    ///
    /// # Errors
    /// The reason, for people.
    fn permits(&self, subject: &Subject<K>) -> Result<(), &'static str>;
}

/// How much a peer may state now: a token bucket, as the time at which it is full again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket {
    full_at_us: u64,
}

impl Bucket {
    /// Takes room for a statement, where there is some.
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
