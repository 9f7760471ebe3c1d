//! Long lists of prefixes, in as many requests as they need: the daemon reads at most 64 KiB at
//! once.

use ratelimit_core::api::Changed;

use crate::{client::Answer, failure::Failure};

/// Prefixes in a request: 1000 of the longest are 46 kB of JSON.
const PREFIXES_MAX: usize = 1000;

/// Sends `prefixes` by `send`, and adds the answers up.
///
/// A request is carried out whole or not at all; a list of several requests is not, and both
/// [`note`] and a failure say so.
pub fn send<T: Clone>(
    prefixes: &[T],
    send: impl Fn(Vec<T>) -> Result<Answer<Changed>, Failure>,
) -> Result<Answer<Changed>, Failure> {
    let mut sum: Option<Answer<Changed>> = None;
    for (chunk, index) in prefixes.chunks(PREFIXES_MAX).zip(0..) {
        let answer = send(chunk.to_vec())
            .map_err(|failure| partial(failure, index * PREFIXES_MAX, prefixes.len()))?;
        sum = Some(match sum {
            None => answer,
            Some(sum) => add(sum.value, answer.value),
        });
    }
    Ok(sum.expect("a list has at least one prefix"))
}

/// Returns a note if a list was sent as several requests.
pub fn note<T>(prefixes: &[T]) -> Option<String> {
    let requests = prefixes.len().div_ceil(PREFIXES_MAX);
    (requests > 1).then(|| {
        format!(
            "sent as {requests} requests of up to {PREFIXES_MAX} prefixes; each request succeeds \
             or fails as a whole"
        )
    })
}

/// The failure of a request behind which `done` of `all` prefixes are done.
fn partial(mut failure: Failure, done: usize, all: usize) -> Failure {
    let error = failure.refused.error;
    failure.refused.error = match done {
        0 if all <= PREFIXES_MAX => error,
        0 => format!("{error}; none of {all} prefixes was changed"),
        _ => format!("{error}; the first {done} of {all} prefixes were changed"),
    };
    failure
}

fn add(sum: Changed, next: Changed) -> Answer<Changed> {
    let value = Changed {
        added: sum.added + next.added,
        updated: sum.updated + next.updated,
        removed: sum.removed + next.removed,
        absent: [sum.absent, next.absent].concat(),
        held: [sum.held, next.held].concat(),
        unfolded: [sum.unfolded, next.unfolded].concat(),
        sources: [sum.sources, next.sources].concat(),
        longer: [sum.longer, next.longer].concat(),
        allowed: [sum.allowed, next.allowed].concat(),
        dry_run: next.dry_run,
        until: next.until,
        limits: next.limits,
        starts_anew: next.starts_anew,
        ends_anew: next.ends_anew,
        waits_for_store: next.waits_for_store,
    };
    let json = serde_json::to_value(&value).expect("the keys are strings");
    Answer { value, json }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, net::Ipv4Addr};

    use ratelimit_core::prefix::Prefix;

    use super::*;

    #[test]
    fn a_short_list_is_one_request() {
        check(1, usize::MAX, &[1], Ok(1));
        check(1000, usize::MAX, &[1000], Ok(1000));
        check(1000, 0, &[1000], Err("no room"));
    }

    #[test]
    fn a_long_list_is_several_requests() {
        check(2500, usize::MAX, &[1000, 1000, 500], Ok(2500));
    }

    #[test]
    fn a_refusal_says_how_much_is_done() {
        check(
            2500,
            2,
            &[1000, 1000, 500],
            Err("no room; the first 2000 of 2500 prefixes were changed"),
        );
        check(
            2500,
            0,
            &[1000],
            Err("no room; none of 2500 prefixes was changed"),
        );
    }

    #[test]
    fn only_a_long_list_has_a_note() {
        assert_eq!(note(&prefixes(1000)), None);
        assert_eq!(
            note(&prefixes(1001)).unwrap(),
            "sent as 2 requests of up to 1000 prefixes; each request succeeds or fails as a whole"
        );
    }

    /// Sends `length` prefixes; the request number `refused` is refused.
    fn check(length: u32, refused: usize, sizes: &[usize], expected: Result<usize, &str>) {
        let seen = RefCell::new(Vec::new());
        let answer = send(&prefixes(length), |chunk| {
            seen.borrow_mut().push(chunk.len());
            if seen.borrow().len() > refused {
                return Err(Failure::refused("no room"));
            }
            Ok(added(chunk.len()))
        });
        assert_eq!(*seen.borrow(), sizes);
        let added = answer.map(|answer| answer.value.added);
        let added = added.map_err(|failure| failure.refused.error);
        assert_eq!(added, expected.map_err(str::to_owned));
    }

    fn added(added: usize) -> Answer<Changed> {
        let value = Changed {
            added,
            ..Changed::default()
        };
        let json = serde_json::to_value(&value).unwrap();
        Answer { value, json }
    }

    fn prefixes(length: u32) -> Vec<Prefix> {
        let address = |number| std::net::IpAddr::from(Ipv4Addr::from_bits(number));
        (0..length).map(|number| address(number).into()).collect()
    }
}
