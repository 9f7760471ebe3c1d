//! Which bans and allows come again by themselves, as the kernel tells where the database is lost: those of files of lists and the
//! bans of `CrowdSec`.
//!
//! The last bit of an end says so: that of a ban is a nanosecond, that of an allow a tick of 4.2 ms. What came from a list must not be
//! taken for something set at runtime, which nobody else would end. And something set at runtime is not taken for an entry of a list, which goes when the
//! list is read again.

use std::time::Duration;

use ratelimit_common::Instant;

use super::list::List;
use crate::origin::Origin;

/// The bit of the end of a ban that is set where nothing tells it again. The last point of time, which is forever, has it.
const LASTING: u64 = 1;
/// Nanoseconds of the ticks that allows end at in the kernel ([`ListEntry::with_allow_until`](ratelimit_common::ListEntry)).
const TICK: u64 = 1 << 22;
/// The tick that stands for forever, which is an even one: as those of allows that nothing tells again.
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

/// The end of what begins at `since` and lasts for `duration`, where nothing tells it again.
pub fn later(since: Instant, duration: Duration) -> Instant {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    // The last point stands for "forever".
    let last = u64::MAX - 2;
    Instant::from_nanos(since.as_nanos().saturating_add(nanos).min(last) | LASTING)
}

/// Whether a ban that ends in the kernel at `until` is reported again by what it comes from.
pub const fn is_ban_renewed(until: Instant) -> bool {
    until.as_nanos() & LASTING == 0
}

/// The same of an allow.
pub const fn is_allow_renewed(until: Instant) -> bool {
    (until.as_nanos() / TICK) & 1 == 1 && until.as_nanos() != super::FOREVER.as_nanos()
}

/// The end of what comes again as it was intended.
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
