//! The fields of an answer: `RateLimit-Policy`, `RateLimit`
//! (draft-ietf-httpapi-ratelimit-headers-10) and `Retry-After` (RFC 9110, section 10.2.3).

use std::time::Duration;

use super::Level;

/// Returns `RateLimit-Policy`: `"users";q=15;w=1`. Several limits are `"users-1"`, `"users-2"`.
pub fn rate_limit_policy(space: &str, levels: &[Level]) -> String {
    members(space, levels, |level| {
        let window = seconds(level.limit.0.window());
        format!("q={};w={window}", level.capacity)
    })
}

/// Returns `RateLimit`: `"users";r=3;t=1`, where `t` is the time until the whole quota is free.
pub fn rate_limit(space: &str, levels: &[Level]) -> String {
    members(space, levels, |level| {
        let remaining = level.capacity.saturating_sub(level.used);
        format!("r={remaining};t={}", seconds(level.clears_in))
    })
}

/// Returns the seconds of `Retry-After`: whole ones, rounded up.
pub fn retry_after_seconds(after: Duration) -> u64 {
    seconds(after).max(1)
}

fn members(space: &str, levels: &[Level], parameters: impl Fn(&Level) -> String) -> String {
    let members = levels.iter().enumerate().map(|(index, level)| {
        let number = match levels.len() {
            1 => String::new(),
            _ => format!("-{}", index + 1),
        };
        format!("\"{space}{number}\";{}", parameters(level))
    });
    members.collect::<Vec<_>>().join(", ")
}

fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::RequestLimit;

    #[test]
    fn each_limit_is_a_member_in_whole_seconds() {
        let level = |limit: &str, used| Level {
            limit: RequestLimit(serde_json::from_str(limit).unwrap()),
            capacity: 15,
            used,
            clears_in: Duration::from_millis(1_200),
        };
        let one = [level(r#"{"packets": 15, "per": "1s"}"#, 12)];
        assert_eq!(rate_limit_policy("users", &one), "\"users\";q=15;w=1");
        assert_eq!(rate_limit("users", &one), "\"users\";r=3;t=2");
        let [first] = one;
        let two = [first, level(r#"{"packets": 15, "per": "1500ms"}"#, 15)];
        assert_eq!(
            rate_limit_policy("users", &two),
            "\"users-1\";q=15;w=1, \"users-2\";q=15;w=2"
        );
        assert_eq!(
            rate_limit("users", &two),
            "\"users-1\";r=3;t=2, \"users-2\";r=0;t=2"
        );
        assert_eq!(retry_after_seconds(Duration::ZERO), 1);
    }
}
