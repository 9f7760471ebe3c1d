//! Which bans come again by themselves, as the kernel tells where the database is lost: those of files of lists and of `CrowdSec`.
//!
//! The last bit of an end says so: it is a nanosecond. What came from a list must not be taken for a ban by hand, which nobody else
//! would end; and a ban by hand not for one of a list, which goes when the list is read again.

use std::time::Duration;

use ratelimit_common::Instant;

use super::list::List;
use crate::origin::Origin;

/// The bit of an end that is set where nothing tells the ban again. The last point of time, which is forever, has it.
const LASTING: u64 = 1;

/// The end as the kernel gets it, of a ban with this origin.
#[must_use]
pub fn end_of_ban(origin: &Origin, until: Instant) -> Instant {
    end(until, *origin == Origin::Crowdsec)
}

/// The end as the kernel gets it, of an entry of a list.
#[must_use]
pub fn end_in_list(list: &List, until: Instant) -> Instant {
    end(until, list.file.is_some())
}

/// The end of one that comes again and never ends.
pub const FOREVER: Instant = Instant::from_nanos(!LASTING);

fn end(until: Instant, is_renewed: bool) -> Instant {
    let until = until.as_nanos();
    Instant::from_nanos(if is_renewed {
        until & !LASTING
    } else {
        until | LASTING
    })
}

/// The end of what begins at `since` and lasts for `duration`, where nothing tells it again.
#[must_use]
pub fn later(since: Instant, duration: Duration) -> Instant {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    // The last point stands for "forever".
    let last = u64::MAX - 2;
    Instant::from_nanos(since.as_nanos().saturating_add(nanos).min(last) | LASTING)
}

/// Whether a ban that ends in the kernel at `until` is told again by what it comes from.
#[must_use]
pub const fn is_renewed(until: Instant) -> bool {
    until.as_nanos() & LASTING == 0
}
