//! Limits of bytes that slow TCP down below the rate that they admit.
//!
//! TCP takes a drop for congestion, whatever it was dropped for. At the end of a fixed window
//! everything in flight is lost at once, and the retransmission timer expires before the next
//! window opens. A token bucket drops one packet in many, but with a small burst the next drop
//! comes before the sender has recovered. The thresholds are measured: `docs/limits.md`, "TCP under
//! a limit of bytes".

use std::time::Duration;

use super::{AUTOMATIC_BURST, Algorithm, FRAME_BYTES, LimitSpec, LimitUnit, flows_in};
use crate::{
    class::{Catalogue, Fragments, Selected, TcpFlags, flags, protocol},
    diagnostic::Problem,
};

/// The longest fixed window that counts as a rate. A longer one is a quota, which may be used up.
const RATE_MAX: Duration = Duration::from_mins(1);

/// The shortest sliding window in which TCP recovers from what it lost at the end of a burst: the
/// retransmission timer takes 200 ms.
const SLIDING_MIN: Duration = Duration::from_millis(500);

/// Flags of a segment with data.
const DATA: u8 = flags::ACK;

/// Explains why one TCP connection gets less than 80 % of a limit, and what to write instead;
/// `None` if it gets more, or the limit counts no TCP data.
pub fn problem(limit: &LimitSpec, classes: &Catalogue) -> Option<Problem> {
    let (unit, capacity) = (limit.unit(), limit.capacity());
    if unit == LimitUnit::Packets || capacity < FRAME_BYTES || !counts_tcp(limit, classes) {
        return None;
    }
    let least = flows_in(AUTOMATIC_BURST, limit.amount(), limit.window());
    let hint = match limit.division() {
        None => "write algorithm = \"token-bucket\"",
        Some(_) => {
            "write algorithm = \"sliding-window\" and a window of 1s: nodes cannot share a \
             token-bucket"
        }
    };
    match limit.algorithm() {
        Algorithm::FixedWindow if limit.window() <= RATE_MAX => {
            let message = format!(
                "TCP stalls at the end of each window of {limit}, and may get less than 80 % of it"
            );
            Some(Problem::new(message, hint))
        }
        Algorithm::SlidingWindow if limit.window() < SLIDING_MIN => {
            let message = format!("TCP may get less than 80 % of {limit}: the window is too short");
            Some(Problem::new(message, hint))
        }
        Algorithm::TokenBucket { burst } if burst < least => {
            let message = format!(
                "TCP may get less than 80 % of {limit}: the burst flows in within less than {} ms",
                AUTOMATIC_BURST.as_millis()
            );
            let hint = format!("write burst = \"auto\", or at least {}", unit.amount(least));
            Some(Problem::new(message, hint))
        }
        Algorithm::FixedWindow
        | Algorithm::TokenBucket { .. }
        | Algorithm::SlidingWindow
        | Algorithm::SlidingLog => None,
    }
}

/// Whether the limit charges segments with data. Unknown classes are ignored.
fn counts_tcp(limit: &LimitSpec, classes: &Catalogue) -> bool {
    let class = match limit.class().map(|class| classes.select(class)) {
        None | Some(Ok(Selected::Other)) => return true,
        Some(Err(_)) => return false,
        Some(Ok(Selected::Class(class))) => class,
    };
    let parts = class.parts();
    let is_whole = matches!(parts.fragment, None | Some(Fragments::NONE));
    let has_data = match parts.tcp {
        None => true,
        Some(TcpFlags::Masked { value, mask }) => DATA & mask == value,
        Some(TcpFlags::Syn | TcpFlags::Invalid) => false,
    };
    let protocols = parts.protocols.as_ref();
    is_whole && has_data && protocols.is_none_or(|it| it.contains(&protocol::TCP))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limit: &str, expected: Option<(&str, &str)>) {
        let limit: LimitSpec = serde_json::from_str(&format!("{{{limit}}}")).unwrap();
        let problem = problem(&limit, &Catalogue::default());
        let expected = expected.map(|(message, hint)| Problem::new(message, hint));
        assert_eq!(problem, expected, "{limit}");
    }

    #[test]
    fn a_limit_that_slows_tcp_down_is_named_with_what_to_write() {
        check(
            r#""bytes":10000000,"per":"1s","algorithm":"fixed-window""#,
            Some((
                "TCP stalls at the end of each window of 10MB per 1s (fixed-window), and may get \
                 less than 80 % of it",
                "write algorithm = \"token-bucket\"",
            )),
        );
        check(
            r#""bytes":10000000,"per":"1s","scope":"cluster""#,
            Some((
                "TCP stalls at the end of each window of 10MB per 1s (fixed-window), shared by all \
                 nodes, and may get less than 80 % of it",
                "write algorithm = \"sliding-window\" and a window of 1s: nodes cannot \
                 share a token-bucket",
            )),
        );
        check(
            r#""bytes":3000000,"per":"300ms","algorithm":"sliding-window""#,
            Some((
                "TCP may get less than 80 % of 3MB per 300ms (sliding-window): the window is too \
                 short",
                "write algorithm = \"token-bucket\"",
            )),
        );
        check(
            r#""bytes":10000000,"per":"1s","burst":2499999"#,
            Some((
                "TCP may get less than 80 % of 10MB per 1s (token-bucket, burst 2499999B): the \
                 burst flows in within less than 250 ms",
                "write burst = \"auto\", or at least 2500kB",
            )),
        );
    }

    #[test]
    fn limits_that_tcp_keeps_up_with_or_never_meets_are_not_named() {
        for limit in [
            r#""bytes":10000000,"per":"1s""#,
            r#""bytes":1000000,"per":"100ms""#,
            r#""bytes":10000000,"per":"1s","burst":2500000"#,
            r#""bytes":10000000,"per":"1s","algorithm":"sliding-window""#,
            r#""packets":7000,"per":"1s""#,
            r#""bytes":1000000000000,"per":"1d","algorithm":"fixed-window""#,
            r#""bytes":10000000,"per":"1s","algorithm":"fixed-window","match":"udp""#,
            r#""bytes":10000000,"per":"1s","algorithm":"fixed-window","match":"tcp-syn""#,
            r#""bytes":1,"per":"1s","algorithm":"fixed-window""#,
        ] {
            check(limit, None);
        }
    }
}
