use super::*;

#[test]
fn a_policy_without_limits_is_refused_unless_it_says_so() {
    check(
        r#"[[interface]]
name = "eth0"
[policy.default]
"#,
        r#"config.toml:3:1: [policy.default] has no `limits`
3 | [policy.default]
  | ^^^^^^^^^^^^^^^^ write limits = [{ packets = 1000, per = "1s" }], or limits = [] to limit nothing"#,
    );
}

#[test]
fn a_limit_counts_packets_or_bytes() {
    check_limits(
        r#"  { per = "1s" },
  { packets = 1, bytes = 2, per = "1s" },"#,
        r#"config.toml:11:3: a limit has neither `packets` nor `bytes`
11 |   { per = "1s" },
   |   ^^^^^^^^^^^^^^ write { packets = 1000, per = "1s" }
config.toml:12:26: a limit counts either `packets` or `bytes`, not both
12 |   { packets = 1, bytes = 2, per = "1s" },
   |                          ^ write two limits"#,
    );
}

#[test]
fn a_limit_needs_a_window() {
    check_limits(
        "  { packets = 1000 },",
        r#"config.toml:11:3: a limit has no `per`
11 |   { packets = 1000 },
   |   ^^^^^^^^^^^^^^^^^^ write for example per = "1s""#,
    );
}

#[test]
fn an_amount_of_nothing_is_refused() {
    check_limits(
        r#"  { packets = 0, per = "1s" },
  { packets = -5, per = "1s" },
  { bytes = "0MB", per = "1s" },
  { bytes = 0, per = "1s" },"#,
        r#"config.toml:11:15: an amount of 0 would drop every packet
11 |   { packets = 0, per = "1s" },
   |               ^ write at least 1; to drop everything of a source, ban it
config.toml:12:15: an amount of -5 would drop every packet
12 |   { packets = -5, per = "1s" },
   |               ^^ write at least 1; to drop everything of a source, ban it
config.toml:13:13: an amount of 0 would drop every packet
13 |   { bytes = "0MB", per = "1s" },
   |             ^^^^^ write at least 1; to drop everything of a source, ban it
config.toml:14:13: an amount of 0 would drop every packet
14 |   { bytes = 0, per = "1s" },
   |             ^ write at least 1; to drop everything of a source, ban it"#,
    );
}

#[test]
fn an_amount_that_one_word_cannot_count_is_refused_with_the_largest() {
    check_limits(
        r#"  { packets = 99999999999999999999, per = "1s" },
  { bytes = "1TB", per = "10ms" },"#,
        r#"config.toml:11:15: the amount is too large for a window of 1s
11 |   { packets = 99999999999999999999, per = "1s" },
   |               ^^^^^^^^^^^^^^^^^^^^ write at most 134217727, or a longer window
config.toml:12:13: the amount is too large for a window of 10ms
12 |   { bytes = "1TB", per = "10ms" },
   |             ^^^^^ write at most 40960MB, or a longer window"#,
    );
}

#[test]
fn a_window_under_10_ms_or_over_31_days_is_refused() {
    check_limits(
        r#"  { packets = 1, per = "9ms" },
  { packets = 1, per = "5w" },
  { packets = 1, per = "0s" },"#,
        r#"config.toml:11:24: the window 9ms is too short
11 |   { packets = 1, per = "9ms" },
   |                        ^^^^^ write at least 10ms
config.toml:12:24: the window 35d is too long
12 |   { packets = 1, per = "5w" },
   |                        ^^^^ write at most 31d
config.toml:13:24: the window 0s is too short
13 |   { packets = 1, per = "0s" },
   |                        ^^^^ write at least 10ms"#,
    );
}

#[test]
fn a_wrong_unit_is_refused_with_the_right_one() {
    check_limits(
        r#"  { packets = 1, per = "1min" },
  { bytes = "50M", per = "1s" },
  { bytes = "50 megabytes", per = "1s" },
  { packets = 1, per = "" },
  { packets = 1, per = "20000000000w" },"#,
        r#"config.toml:11:24: `min` in `1min` is not a unit of time
11 |   { packets = 1, per = "1min" },
   |                        ^^^^^^ write w, d, h, m (minutes), s, ms, us or ns
config.toml:12:13: `M` in `50M` is not a unit of bytes
12 |   { bytes = "50M", per = "1s" },
   |             ^^^^^ write `50MB` or `50MiB`
config.toml:13:13: `megabytes` in `50 megabytes` is not a unit of bytes
13 |   { bytes = "50 megabytes", per = "1s" },
   |             ^^^^^^^^^^^^^^ write B, kB, MB, GB, TB, KiB, MiB, GiB or TiB
config.toml:14:24: `` is not a duration
14 |   { packets = 1, per = "" },
   |                        ^^ write for example `10ms`, `90s`, `10m`, `1h30m` or `31d`
config.toml:15:24: the window 140000000000d is too long
15 |   { packets = 1, per = "20000000000w" },
   |                        ^^^^^^^^^^^^^^ write at most 31d"#,
    );
}

#[test]
fn an_amount_or_a_window_of_a_wrong_type_is_refused() {
    check_limits(
        r#"  { packets = "1000", per = "1s" },
  { packets = 1000.5, per = "1s" },
  { packets = 1000, per = 60 },
  { packets = 1000, per = 0.5 },
  { bytes = 1.5, per = "1s" },"#,
        r#"config.toml:11:15: `packets` is a string, not an integer
11 |   { packets = "1000", per = "1s" },
   |               ^^^^^^ write packets = 1000
config.toml:12:15: `packets` is a fraction, not an integer
12 |   { packets = 1000.5, per = "1s" },
   |               ^^^^^^ write packets = 1000
config.toml:13:27: `per` is an integer, not a string
13 |   { packets = 1000, per = 60 },
   |                           ^^ write per = "60s"
config.toml:14:27: `per` is a fraction, not a string
14 |   { packets = 1000, per = 0.5 },
   |                           ^^^ write per = "1s"
config.toml:15:13: `bytes` is a fraction, not an integer
15 |   { bytes = 1.5, per = "1s" },
   |             ^^^ write bytes = "50MB""#,
    );
}

#[test]
fn an_algorithm_of_another_version_is_refused() {
    check_limits(
        r#"  { packets = 1, per = "1s", algorithm = "leaky-bucket" },
  { packets = 1, per = "1s", algorithm = 1 },"#,
        r#"config.toml:11:42: unknown algorithm `leaky-bucket`
11 |   { packets = 1, per = "1s", algorithm = "leaky-bucket" },
   |                                          ^^^^^^^^^^^^^^ write "fixed-window" or "sliding-window" or "token-bucket" or "sliding-log"
config.toml:12:42: `algorithm` is an integer, not a string
12 |   { packets = 1, per = "1s", algorithm = 1 },
   |                                          ^ write algorithm = "fixed-window""#,
    );
}

#[test]
fn a_sliding_log_counts_no_bytes_and_at_most_1024_packets() {
    check_limits(
        r#"  { packets = 1025, per = "1s", algorithm = "sliding-log" },
  { bytes = 9000, per = "1s", algorithm = "sliding-log" },
  { packets = 5, per = "1s", algorithm = "sliding-log", burst = 9 },"#,
        r#"config.toml:11:15: a sliding log keeps the times of at most 1024 packets
11 |   { packets = 1025, per = "1s", algorithm = "sliding-log" },
   |               ^^^^ reduce the amount, or use algorithm = "sliding-window"
config.toml:12:13: a sliding log counts packets, not bytes
12 |   { bytes = 9000, per = "1s", algorithm = "sliding-log" },
   |             ^^^^ write `packets`, or another algorithm
config.toml:13:65: only a token bucket has a `burst`
13 |   { packets = 5, per = "1s", algorithm = "sliding-log", burst = 9 },
   |                                                                 ^ remove it, or add algorithm = "token-bucket""#,
    );
}

#[test]
fn only_a_token_bucket_has_a_burst() {
    check_limits(
        r#"  { packets = 1, per = "1s", burst = 5 },
  { packets = 1, per = "1s", burst = 5, algorithm = "sliding-window" },"#,
        r#"config.toml:11:38: only a token bucket has a `burst`
11 |   { packets = 1, per = "1s", burst = 5 },
   |                                      ^ remove it, or add algorithm = "token-bucket"
config.toml:12:38: only a token bucket has a `burst`
12 |   { packets = 1, per = "1s", burst = 5, algorithm = "sliding-window" },
   |                                      ^ remove it, or add algorithm = "token-bucket""#,
    );
}

#[test]
fn bytes_of_one_node_are_counted_by_a_token_bucket_unless_another_algorithm_is_written() {
    let limits = |limits: &str| {
        let text =
            format!("[[interface]]\nname = \"eth0\"\n[policy.default]\nlimits = [{limits}]\n");
        let limits = load_text(&text).default_policy.limits;
        let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
        limits.join(", ")
    };
    for (written, meant) in [
        (
            r#"bytes = "10MB", per = "1s""#,
            "10MB per 1s (token-bucket, burst 10MB)",
        ),
        (
            r#"bytes = "1MB", per = "100ms""#,
            "1MB per 100ms (token-bucket, burst 2500kB)",
        ),
        (
            r#"bytes = "9GB", per = "1d""#,
            "9GB per 1d (token-bucket, burst 9GB)",
        ),
        (
            r#"bytes = "10MB", per = "1s", burst = "5MB""#,
            "10MB per 1s (token-bucket, burst 5MB)",
        ),
        (
            r#"bytes = "1MB", per = "100ms", burst = "auto""#,
            "1MB per 100ms (token-bucket, burst 2500kB)",
        ),
        (
            r#"bytes = "10MB", per = "1s", algorithm = "fixed-window""#,
            "10MB per 1s (fixed-window)",
        ),
        (r#"packets = 10, per = "100ms""#, "10 packets per 100ms"),
        (
            r#"packets = 10, per = "100ms", algorithm = "token-bucket", burst = "auto""#,
            "10 packets per 100ms (token-bucket, burst 10)",
        ),
    ] {
        assert_eq!(limits(&format!("{{ {written} }}")), meant, "{written}");
    }
}

#[test]
fn a_burst_below_one_packet_or_of_another_unit_is_refused() {
    check_limits(
        r#"  { packets = 1, per = "1s", algorithm = "token-bucket", burst = 0 },
  { bytes = 9000, per = "1s", algorithm = "token-bucket", burst = "0kB" },
  { packets = 1, per = "1s", algorithm = "token-bucket", burst = "5MB" },
  { bytes = 9000, per = "1s", algorithm = "token-bucket", burst = "5M" },"#,
        r#"config.toml:11:66: an amount of 0 would drop every packet
11 |   { packets = 1, per = "1s", algorithm = "token-bucket", burst = 0 },
   |                                                                  ^ write at least 1; to drop everything of a source, ban it
config.toml:12:67: an amount of 0 would drop every packet
12 |   { bytes = 9000, per = "1s", algorithm = "token-bucket", burst = "0kB" },
   |                                                                   ^^^^^ write at least 1; to drop everything of a source, ban it
config.toml:13:66: `burst` is a string, not an integer
13 |   { packets = 1, per = "1s", algorithm = "token-bucket", burst = "5MB" },
   |                                                                  ^^^^^ write burst = 200
config.toml:14:67: `M` in `5M` is not a unit of bytes
14 |   { bytes = 9000, per = "1s", algorithm = "token-bucket", burst = "5M" },
   |                                                                   ^^^^ write `5MB` or `5MiB`"#,
    );
}

#[test]
fn a_bucket_that_one_word_cannot_keep_is_refused_with_the_largest_that_it_can() {
    check_limits(
        r#"  { bytes = 5_000_000_000_000, per = "1s", algorithm = "token-bucket" },
  { packets = 1, per = "31d", algorithm = "token-bucket", burst = 100_000_000_000_000 },
  { packets = 600_000_000, per = "1s", algorithm = "sliding-window" },"#,
        r#"config.toml:11:13: the amount is too large for a window of 1s
11 |   { bytes = 5_000_000_000_000, per = "1s", algorithm = "token-bucket" },
   |             ^^^^^^^^^^^^^^^^^ write at most 4096GB, or a longer window
config.toml:12:67: the burst is too large
12 |   { packets = 1, per = "31d", algorithm = "token-bucket", burst = 100_000_000_000_000 },
   |                                                                   ^^^^^^^^^^^^^^^^^^^ write a burst of at most 17592186044416
config.toml:13:15: the amount is too large for a window of 1s
13 |   { packets = 600_000_000, per = "1s", algorithm = "sliding-window" },
   |               ^^^^^^^^^^^ write at most 134217727, or a longer window"#,
    );
}

#[test]
fn an_unknown_key_of_a_limit_is_refused() {
    check_limits(
        r#"  { packets = 1, per = "1s", weight = 2 },
  { packet = 1, per = "1s" },"#,
        r#"config.toml:11:30: unknown key `weight` in a limit
11 |   { packets = 1, per = "1s", weight = 2 },
   |                              ^^^^^^ remove it; known here: packets, bytes, per, algorithm, burst, match, scope, division
config.toml:12:3: a limit has neither `packets` nor `bytes`
12 |   { packet = 1, per = "1s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^ write { packets = 1000, per = "1s" }
config.toml:12:5: unknown key `packet` in a limit
12 |   { packet = 1, per = "1s" },
   |     ^^^^^^ did you mean `packets`?"#,
    );
}

#[test]
fn a_ninth_limit_is_refused() {
    check_limits(
        r#"  { packets = 100, per = "1s" },
  { packets = 200, per = "2s" },
  { packets = 300, per = "3s" },
  { packets = 400, per = "4s" },
  { packets = 500, per = "5s" },
  { packets = 600, per = "6s" },
  { packets = 700, per = "7s" },
  { packets = 800, per = "8s" },
  { packets = 900, per = "9s" },"#,
        r#"config.toml:19:3: [policy.a] has 9 limits
19 |   { packets = 900, per = "9s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ keep 8, the most that a policy can have"#,
    );
}
