use super::*;

#[test]
fn a_limit_that_lets_nothing_pass_is_meant_and_a_pattern_of_interfaces_is_not() {
    let config = |name: &str, bytes: &str| {
        format!(
            "[[interface]]\n\
             name = \"{name}\"\n\
             [policy.default]\n\
             limits = [{{ bytes = {bytes}, per = \"1h\" }}]\n"
        )
    };
    let warnings = |text: String| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        fs::write(&path, text).unwrap();
        inspect(&path).unwrap().1
    };
    assert_eq!(warnings(config("eth0", "1")).len(), 0);
    assert_eq!(warnings(config("eth0", "2")).len(), 1);
    let of_pattern = warnings(config("eth*", "1"));
    assert_eq!(of_pattern.len(), 1, "{of_pattern:?}");
}

#[test]
fn a_source_of_a_policy_that_is_allowed_is_warned_of() {
    check_warnings_behind_minimal(
        r#"[policy.a]
limits = []
sources = ["10.1.0.0/16", "192.0.2.1", "11.0.0.0/8"]
[allow]
sources = ["10.0.0.0/8", "192.0.2.1", "11.1.0.0/16"]
"#,
        r#"config.toml:10:12: [policy.a] never limits 10.1.0.0/16: 10.0.0.0/8 is allowed at config.toml:12:12
10 | sources = ["10.1.0.0/16", "192.0.2.1", "11.0.0.0/8"]
   |            ^^^^^^^^^^^^^ remove it here, or from [allow]
config.toml:10:27: [policy.a] never limits 192.0.2.1: 192.0.2.1 is allowed at config.toml:12:26
10 | sources = ["10.1.0.0/16", "192.0.2.1", "11.0.0.0/8"]
   |                           ^^^^^^^^^^^ remove it here, or from [allow]"#,
    );
}

#[test]
fn an_allow_list_of_everything_is_warned_of() {
    check_warnings_behind_minimal(
        r#"[allow]
sources = ["0.0.0.0/0", "::/0"]
"#,
        r#"config.toml:9:12: 0.0.0.0/0 allows every source of its family
9 | sources = ["0.0.0.0/0", "::/0"]
  |            ^^^^^^^^^^^ to limit nothing, write limits = []; to try limits out, observe = true
config.toml:9:25: ::/0 allows every source of its family
9 | sources = ["0.0.0.0/0", "::/0"]
  |                         ^^^^^^ to limit nothing, write limits = []; to try limits out, observe = true"#,
    );
}

#[test]
fn a_limit_behind_a_stricter_one_is_warned_of() {
    check_warnings_of_limits(
        r#"  { packets = 1000, per = "1s" },
  { packets = 10, per = "1s" },"#,
        r#"config.toml:11:3: 1000 packets per 1s can never be reached because of 10 packets per 1s
11 |   { packets = 1000, per = "1s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them"#,
    );
    check_warnings_of_limits(
        r#"  { packets = 1000, per = "1s" },
  { packets = 100_000, per = "1m" },"#,
        r#"config.toml:12:3: 100000 packets per 1m can never be reached because of 1000 packets per 1s
12 |   { packets = 100_000, per = "1m" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them"#,
    );
    check_warnings_of_limits(
        r#"  { packets = 10, per = "1m" },
  { packets = 20, per = "1s" },"#,
        r#"config.toml:12:3: 20 packets per 1s can never be reached because of 10 packets per 1m
12 |   { packets = 20, per = "1s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them"#,
    );
    check_warnings_of_limits(
        r#"  { packets = 10, per = "1s" },
  { packets = 10, per = "1s" },"#,
        r#"config.toml:12:3: 10 packets per 1s can never be reached because of 10 packets per 1s
12 |   { packets = 10, per = "1s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them"#,
    );
}

#[test]
fn limits_that_are_both_reached_are_not_warned_of() {
    check_warnings_of_limits(
        r#"  { packets = 1000, per = "1s" },
  { packets = 60_999, per = "1m" },"#,
        "",
    );
    check_warnings_of_limits(
        r#"  { packets = 10, per = "1m" },
  { packets = 19, per = "1s" },"#,
        "",
    );
    check_warnings_of_limits(
        r#"  { packets = 10, per = "1s" },
  { bytes = "1MB", per = "1s" },"#,
        "",
    );
}

#[test]
fn limits_of_other_algorithms_are_warned_of_where_it_is_certain() {
    check_warnings_of_limits(
        r#"  { packets = 10, per = "1s", algorithm = "token-bucket", burst = 5 },
  { packets = 15, per = "1s" },
  { packets = 600, per = "1m", algorithm = "token-bucket", burst = 6 },"#,
        r#"config.toml:12:3: 15 packets per 1s can never be reached because of 10 packets per 1s (token-bucket, burst 5)
12 |   { packets = 15, per = "1s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them
config.toml:13:3: 600 packets per 1m (token-bucket, burst 6) can never be reached because of 10 packets per 1s (token-bucket, burst 5)
13 |   { packets = 600, per = "1m", algorithm = "token-bucket", burst = 6 },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them"#,
    );
    check_warnings_of_limits(
        r#"  { packets = 10, per = "1s", algorithm = "token-bucket", burst = 5 },
  { packets = 14, per = "1s" },
  { packets = 14, per = "1s", algorithm = "sliding-window" },
  { packets = 540, per = "1m", algorithm = "token-bucket", burst = 16 },"#,
        "",
    );
    check_warnings_of_limits(
        r#"  { packets = 10, per = "1s", algorithm = "sliding-window" },
  { packets = 20, per = "1s" },
  { packets = 11, per = "1s", algorithm = "sliding-window" },"#,
        r#"config.toml:12:3: 20 packets per 1s can never be reached because of 10 packets per 1s (sliding-window)
12 |   { packets = 20, per = "1s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them
config.toml:13:3: 11 packets per 1s (sliding-window) can never be reached because of 10 packets per 1s (sliding-window)
13 |   { packets = 11, per = "1s", algorithm = "sliding-window" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them"#,
    );
}

#[test]
fn limits_beside_a_sliding_log_are_warned_of_where_it_is_certain() {
    check_warnings_of_limits(
        r#"  { packets = 10, per = "1s", algorithm = "sliding-log" },
  { packets = 20, per = "2s", algorithm = "sliding-log" },
  { packets = 20, per = "2s" },"#,
        r#"config.toml:12:3: 20 packets per 2s (sliding-log) can never be reached because of 10 packets per 1s (sliding-log)
12 |   { packets = 20, per = "2s", algorithm = "sliding-log" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them
config.toml:13:3: 20 packets per 2s can never be reached because of 10 packets per 1s (sliding-log)
13 |   { packets = 20, per = "2s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them"#,
    );
    check_warnings_of_limits(
        r#"  { packets = 10, per = "1s", algorithm = "sliding-log" },
  { packets = 19, per = "2s", algorithm = "sliding-log" },
  { packets = 10, per = "1s", algorithm = "sliding-window" },
  { packets = 9, per = "1s" },"#,
        "",
    );
    check_warnings_of_limits(
        r#"  { packets = 10, per = "1s" },
  { packets = 20, per = "1s", algorithm = "sliding-log" },
  { packets = 19, per = "1s", algorithm = "sliding-log" },"#,
        r#"config.toml:12:3: 20 packets per 1s (sliding-log) can never be reached because of 10 packets per 1s
12 |   { packets = 20, per = "1s", algorithm = "sliding-log" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ remove one of them"#,
    );
}

#[test]
fn a_burst_into_which_no_full_frame_fits_is_warned_of() {
    check_warnings_of_limits(
        r#"  { bytes = "1MB", per = "1s", algorithm = "token-bucket", burst = 1513 },
  { bytes = 1000, per = "1s", algorithm = "token-bucket", burst = 1514 },"#,
        r#"config.toml:11:3: 1513B is less than a full frame of 1514 bytes, so none passes
11 |   { bytes = "1MB", per = "1s", algorithm = "token-bucket", burst = 1513 },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write at least 1514; a plain number is bytes"#,
    );
}

#[test]
fn a_limit_into_which_no_full_frame_fits_is_warned_of() {
    check_warnings_of_limits(
        r#"  { bytes = 1513, per = "1s" },"#,
        r#"config.toml:11:3: 1513B is less than a full frame of 1514 bytes, so none passes
11 |   { bytes = 1513, per = "1s" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write at least 1514; a plain number is bytes"#,
    );
    check_warnings_of_limits(r#"  { bytes = 1514, per = "1s" },"#, "");
}

#[test]
fn limits_of_bytes_that_slow_tcp_down_are_warned_of() {
    check_warnings_of_limits(
        r#"  { bytes = "10MB", per = "1s" },
  { bytes = "1MB", per = "100ms", algorithm = "fixed-window" },
  { bytes = "10MB", per = "1s", burst = "100kB", match = "tcp" },"#,
        r#"config.toml:12:3: TCP stalls at the end of each window of 1MB per 100ms (fixed-window), and may get less than 80 % of it
12 |   { bytes = "1MB", per = "100ms", algorithm = "fixed-window" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write algorithm = "token-bucket"
config.toml:13:3: TCP may get less than 80 % of 10MB per 1s (token-bucket, burst 100kB) of tcp: the burst flows in within less than 250 ms
13 |   { bytes = "10MB", per = "1s", burst = "100kB", match = "tcp" },
   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write burst = "auto", or at least 2500kB"#,
    );
}

/// With those of attacks they are more than a policy has. Warnings that differ only in the amount
/// are reported once.
#[test]
fn limits_of_interfaces_that_a_source_of_an_attack_has_no_room_for_are_warned_of() {
    const SUBNETS: &str = "[detection.spread]\nanswer = \"limit\"\n";
    const OTHER: &str = "limit = { packets = 3, per = \"1s\" }\n";
    let toml = |windows: u32, more: &str| {
        let limit = |seconds| format!("{{ packets = 1{seconds}, per = \"{seconds}h\" }}");
        let limits: Vec<String> = (1..=windows).map(limit).collect();
        format!(
            r#"[detection.syn_flood]
answer = "limit"
{more}[policy.lan]
limits = [{}]
[policy.dmz]
limits = [{{ packets = 8, per = "2h" }}]
[[interface]]
name = "rl1"
policy = "dmz"
[[interface]]
name = "rl2"
policy = "lan"
"#,
            limits.join(", ")
        )
    };
    check_warnings_behind_minimal(&toml(7, ""), "");
    // Without an attack that limits, no source is limited for one, whatever the interfaces have:
    // here nine limits.
    let nine = toml(8, "").replace("packets = 8, per = \"2h\"", "packets = 8, per = \"9h\"");
    let observed = nine.replace("answer = \"limit\"", "answer = \"observe\"");
    check_warnings_behind_minimal(&observed, "");
    check_warnings_behind_minimal(
        &toml(8, ""),
        "config.toml:8:2: a source that is limited for an attack has 7 of the 8 limits of \
    interfaces' policies
8 | [detection.syn_flood]
  |  ^^^^^^^^^ write at most 7 of different windows, units and classes",
    );
    check_warnings_behind_minimal(&toml(7, SUBNETS), "");
    check_warnings_behind_minimal(&toml(6, &format!("{SUBNETS}{OTHER}")), "");
    check_warnings_behind_minimal(
        &toml(7, &format!("{SUBNETS}{OTHER}")),
        "config.toml:8:2: a source that is limited for an attack has 6 of the 7 limits of \
    interfaces' policies
8 | [detection.syn_flood]
  |  ^^^^^^^^^ write at most 6 of different windows, units and classes",
    );
}

/// A large bucket cannot fill as slowly as the other: with that amount its time does not fit a
/// word.
#[test]
fn token_buckets_of_interfaces_that_differ_in_the_burst_are_compared_as_they_are() {
    let toml = r#"[detection.syn_flood]
answer = "limit"
[policy.lan]
limits = [{ packets = 1, per = "31d", algorithm = "token-bucket", burst = 1 }]
[policy.dmz]
limits = [{ packets = 1_000_000, per = "31d", algorithm = "token-bucket", burst = 1_000_000 }]
[[interface]]
name = "rl1"
policy = "dmz"
[[interface]]
name = "rl2"
policy = "lan"
"#;
    check_warnings_behind_minimal(toml, "");
}
