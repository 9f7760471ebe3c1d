//! Marks bans and allows that are renewed by their origin, so that the kernel shows it if the
//! database is lost: entries of list files and bans of `CrowdSec`.
//!
//! The mark is the last bit of the expiry: a nanosecond for a ban, a tick of 4.2 ms for an allow. A
//! list entry must not be taken for a runtime entry, which nothing else would remove, and a runtime
//! entry not for a list entry, which disappears when the list is read again.

use std::time::Duration;

use ratelimit_common::Instant;

use super::list::List;
use crate::origin::Origin;

/// The bit in the expiry of a ban that is not renewed. The maximum, which means forever, has it
/// set.
const LASTING: u64 = 1;
/// Nanoseconds of the ticks that allows end at in the kernel
/// ([`ListEntry::with_allow_until`](ratelimit_common::ListEntry)).
const TICK: u64 = 1 << 22;
/// The tick that means forever. It is even, like those of allows that are not renewed.
const FOREVER_TICK: u64 = u64::MAX.div_ceil(TICK);

/// The end as the kernel gets it, of a ban with this origin.
pub fn end_of_ban(origin: &Origin, until: Instant) -> Instant {
    end(until, *origin == Origin::Crowdsec)
}

/// The end as the kernel gets it, of an entry of a list that bans.
pub fn end_in_list(list: &List, until: Instant) -> Instant {
    end(until, list.file.is_some())
}

/// The end as the kernel gets it, of an entry of a list that allows.
pub fn allow_in_list(list: &List, until: Instant) -> Instant {
    end_of_allow(until, list.file.is_some())
}

/// The end as the kernel gets it, of a runtime allow.
pub fn runtime_allow(until: Instant) -> Instant {
    end_of_allow(until, false)
}

/// The end of a ban that comes again and never ends.
const FOREVER: Instant = Instant::from_nanos(!LASTING);

fn end(until: Instant, is_renewed: bool) -> Instant {
    let until = until.as_nanos();
    Instant::from_nanos(if is_renewed {
        until & !LASTING
    } else {
        until | LASTING
    })
}

/// At most two ticks later.
fn end_of_allow(until: Instant, is_renewed: bool) -> Instant {
    let tick = until.as_nanos().div_ceil(TICK);
    let is_odd = tick & 1 == 1;
    let tick = if is_odd == is_renewed { tick } else { tick + 1 };
    match (tick, is_renewed) {
        (FOREVER_TICK.., false) => super::FOREVER,
        // 584 years.
        (FOREVER_TICK.., true) => Instant::from_nanos((FOREVER_TICK - 1) * TICK),
        (tick, _) => Instant::from_nanos(tick * TICK),
    }
}

/// Returns the expiry of an entry that begins at `since`, lasts for `duration` and is not renewed.
pub fn later(since: Instant, duration: Duration) -> Instant {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    // The maximum means forever.
    let last = u64::MAX - 2;
    Instant::from_nanos(since.as_nanos().saturating_add(nanos).min(last) | LASTING)
}

/// Whether a ban with this expiry in the kernel is renewed by its origin.
pub const fn is_ban_renewed(until: Instant) -> bool {
    until.as_nanos() & LASTING == 0
}

/// Whether an allow with this expiry is renewed by its origin.
pub const fn is_allow_renewed(until: Instant) -> bool {
    (until.as_nanos() / TICK) & 1 == 1 && until.as_nanos() != super::FOREVER.as_nanos()
}

/// Returns the original expiry of a renewed entry.
pub fn intended(until: Instant) -> Instant {
    let is_forever = until == FOREVER || until == end_of_allow(super::FOREVER, true);
    if is_forever { super::FOREVER } else { until }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::ListEntry;

    use super::*;

    #[test]
    fn the_kernel_tells_whether_an_allow_comes_again_and_lets_it_end_at_most_two_ticks_later() {
        let mut ends: Vec<u64> = (1..=64).map(|bit| u64::MAX >> (64 - bit)).collect();
        ends.extend((0..9).map(|step| 5_000_000_000 + step * TICK / 2));
        for until in ends.into_iter().map(Instant::from_nanos) {
            for is_renewed in [false, true] {
                let end = end_of_allow(until, is_renewed);
                let held = ListEntry::default().with_allow_until(end);
                let held = held.allowed_until().unwrap();
                assert_eq!(is_allow_renewed(held), is_renewed, "{until:?}");
                if held == end_of_allow(crate::intent::FOREVER, is_renewed) {
                    assert_eq!(intended(held), crate::intent::FOREVER);
                } else {
                    assert!(held >= until, "{until:?}");
                    assert!(held.as_nanos() - until.as_nanos() < 2 * TICK, "{until:?}");
                }
            }
        }
    }
}
