use super::*;

#[test]
fn an_unknown_key_is_refused_with_the_known_one_that_is_close() {
    check_behind_minimal(
        "[source]
ipv4_prefx = 32
",
        "config.toml:9:1: unknown key `ipv4_prefx` in [source]
9 | ipv4_prefx = 32
  | ^^^^^^^^^^ did you mean `ipv4_prefix`?",
    );
    check(
        r#"obsrve = true

[[interface]]
name = "eth0"
[policy.default]
limits = []
"#,
        "config.toml:1:1: unknown key `obsrve` in the top level
1 | obsrve = true
  | ^^^^^^ did you mean `observe`?",
    );
    check_behind_minimal(
        "[polcy.partner]
limits = []
",
        "config.toml:8:2: unknown key `polcy` in the top level
8 | [polcy.partner]
  |  ^^^^^ did you mean `policy`?",
    );
}

#[test]
fn a_compact_store_is_refused_where_64_bits_do_not_tell_sources_apart() {
    check_behind_minimal(
        r#"[source]
store = "compact"
ipv6_prefix = 96
"#,
        r#"config.toml:9:9: the compact store distinguishes 64 bits of IPv6 sources, but ipv6_prefix is 96
9 | store = "compact"
  |         ^^^^^^^^^ write ipv6_prefix = 64 or less, or store = "lru""#,
    );
    check_behind_minimal(
        r#"[source]
store = "compat"
"#,
        r#"config.toml:9:9: unknown store `compat`
9 | store = "compat"
  |         ^^^^^^^^ did you mean "compact"?"#,
    );
}

#[test]
fn a_value_that_is_meant_is_in_the_hint() {
    check_limits(
        "  { packets = \"5k\", per = \"1s\" },\n  { packets = 1e6, per = \"1m\" },",
        r#"config.toml:11:15: `packets` is a string, not an integer
11 |   { packets = "5k", per = "1s" },
   |               ^^^^ write packets = 5000
config.toml:12:15: `packets` is a fraction, not an integer
12 |   { packets = 1e6, per = "1m" },
   |               ^^^ write packets = 1000000"#,
    );
    check_behind_minimal(
        "[subnet]\nipv4 = [{ prefix = \"/16\", packets = 10, per = \"1s\" }]\n",
        r#"config.toml:9:20: `prefix` is a string, not an integer
9 | ipv4 = [{ prefix = "/16", packets = 10, per = "1s" }]
  |                    ^^^^^ write prefix = 16"#,
    );
    check_limits(
        "  { bytes = \"300Mbit\", per = \"1s\" },",
        r#"config.toml:11:13: `Mbit` in `300Mbit` is a unit of bits
11 |   { bytes = "300Mbit", per = "1s" },
   |             ^^^^^^^^^ write the bytes, an eighth: `37500kB`"#,
    );
    check_behind_minimal(
        "[whitelist]\nsources = []\n",
        r"config.toml:8:2: unknown key `whitelist` in the top level
8 | [whitelist]
  |  ^^^^^^^^^ write [allow] with `sources`",
    );
    check_behind_minimal(
        "[class.x]\nsource = [\"198.51.100.0/24\"]\naction = \"drop\"\n",
        r#"config.toml:9:10: a class does not select sources by prefix
9 | source = ["198.51.100.0/24"]
  |          ^^^^^^^^^^^^^^^^^^^ remove it, and write a [policy.NAME] with these `sources`; for a drop of all that they send, a [list.NAME] or `rlctl ban`"#,
    );
    check(
        "interface = \"eth*\"\n[policy.default]\nlimits = []\n",
        r#"config.toml:1:13: `interface` is a string, not a table
1 | interface = "eth*"
  |             ^^^^^^ write [[interface]] and under it name = "eth0", one for each interface: patterns are not supported"#,
    );
}

#[test]
fn quotation_marks_of_word_processors_are_distinguished_from_those_of_toml() {
    for (open, close) in [('“', '”'), ('„', '“'), ('‘', '’'), ('«', '»')] {
        check(
            &format!("[[interface]]\nname = {open}eth0{close}\n[policy.default]\nlimits = []\n"),
            &format!(
                "config.toml:2:8: syntax error: TOML does not use these quotation marks\n\
                 2 | name = {open}eth0{close}\n  \
                 |        ^^^^^^ write \"eth0\", with the quotation marks of a keyboard"
            ),
        );
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_known_ones() {
    check_behind_minimal(
        r#"[policy.a]
sources = ["10.0.0.0/8"]
limits = []
bans = { after = 5000 }
"#,
        "config.toml:11:1: unknown key `bans` in [policy.a]
11 | bans = { after = 5000 }
   | ^^^^ did you mean `ban`?",
    );
    check_behind_minimal(
        r#"[list.spamhaus]
download = "https://example.com"
"#,
        "config.toml:8:1: [list.spamhaus] has no `file`
8 | [list.spamhaus]
  | ^^^^^^^^^^^^^^^ write file = \"/var/lib/lists/drop.txt\"
config.toml:9:1: unknown key `download` in [list.spamhaus]
9 | download = \"https://example.com\"
  | ^^^^^^^^ remove it; known here: mmdb, country, asn, file, url, every, action, skip_bad, force, \
      allow_empty, allow_wide, min_count, json_path, connected",
    );
    check_behind_minimal(
        r#"[allow]
file = "x"
"#,
        r#"config.toml:9:1: unknown key `file` in [allow]
9 | file = "x"
  | ^^^^ remove it; known here: sources"#,
    );
    check_behind_minimal(
        "[metrics]
port = 9798
",
        "config.toml:9:1: unknown key `port` in [metrics]
9 | port = 9798
  | ^^^^ remove it; known here: listen, dashboard, token_file",
    );
}

#[test]
fn a_token_without_the_dashboard_that_it_is_for_is_refused() {
    check_behind_minimal(
        "[metrics]\ntoken_file = \"/etc/token\"\n",
        "config.toml:9:14: `token_file` is for the dashboard, which [metrics] does not enable
9 | token_file = \"/etc/token\"
  |              ^^^^^^^^^^^^ write dashboard = true beside it, or remove it",
    );
}

/// One slip is one error.
#[test]
fn a_key_that_is_misspelt_is_not_missing_too() {
    check_behind_minimal(
        "[policy.partner]\nsources = [\"192.0.2.1\"]\nlimts = []\n",
        "config.toml:10:1: unknown key `limts` in [policy.partner]
10 | limts = []
   | ^^^^^ did you mean `limits`?",
    );
}

#[test]
fn a_history_without_a_sensible_length_is_refused() {
    check_behind_minimal(
        "[history]
retention = \"5m\"
",
        "config.toml:9:13: `retention` is out of range
9 | retention = \"5m\"
  |             ^^^^ write a time from 1h to 366d",
    );
    check_behind_minimal(
        "[history]
retention = true
",
        "config.toml:9:13: `retention` is true: it needs a duration
9 | retention = true
  |             ^^^^ write retention = \"30d\", or false to keep nothing",
    );
}

#[test]
fn snapshots_without_a_sensible_interval_are_refused() {
    check_behind_minimal(
        "[snapshot]
every = \"0s\"
",
        "config.toml:9:9: `every` is out of range
9 | every = \"0s\"
  |         ^^^^ write a time from 1s to 1d",
    );
    check_behind_minimal(
        "[snapshot]
every = true
",
        "config.toml:9:9: `every` is true: it needs a duration
9 | every = true
  |         ^^^^ write every = \"5m\", or false to take no snapshots",
    );
}

#[test]
fn what_cannot_be_watched_is_refused() {
    check_behind_minimal(
        r#"[history]
watch = ["192.0.2.1", "192.0.2.1"]
"#,
        r#"config.toml:9:23: `watch` names 192.0.2.1 twice
9 | watch = ["192.0.2.1", "192.0.2.1"]
  |                       ^^^^^^^^^^^ remove it"#,
    );
    check_behind_minimal(
        r#"[history]
watch = ["::1", "::2", "::3", "::4", "::5", "::6", "::7", "::8", "::9"]
"#,
        r#"config.toml:9:66: `watch` has more than 8 entries
9 | watch = ["::1", "::2", "::3", "::4", "::5", "::6", "::7", "::8", "::9"]
  |                                                                  ^^^^^ remove entries that you no longer need"#,
    );
    check_behind_minimal(
        r#"[history]
watch = ["policy:defalt"]
"#,
        r#"config.toml:9:10: there is no [policy.defalt]
9 | watch = ["policy:defalt"]
  |          ^^^^^^^^^^^^^^^ did you mean "policy:default"?"#,
    );
}

#[test]
fn a_top_level_key_behind_a_table_is_reported_where_it_belongs() {
    check_behind_minimal(
        r#"observe = true
[allow]
on_stop = "keep"
"#,
        r#"config.toml:10:1: unknown key `on_stop` in [allow]
10 | on_stop = "keep"
   | ^^^^^^^ move `on_stop` up, above the first [table]"#,
    );
}

#[test]
fn a_value_of_a_wrong_type_is_refused_with_the_right_one() {
    check_behind_minimal(
        r#"[source]
ipv4_prefix = "32"
capacity = 1e6
"#,
        r#"config.toml:9:15: `ipv4_prefix` is a string, not an integer
9 | ipv4_prefix = "32"
  |               ^^^^ write ipv4_prefix = 32
config.toml:10:12: `capacity` is a fraction, not an integer
10 | capacity = 1e6
   |            ^^^ write capacity = 1000000"#,
    );
    check_behind_minimal(
        r#"[policy.a]
sources = "10.0.0.0/8"
limits = { packets = 1000, per = "1s" }
observe = "yes"
"#,
        r#"config.toml:9:11: `sources` is a string, not a list
9 | sources = "10.0.0.0/8"
  |           ^^^^^^^^^^^^ write sources = ["192.0.2.0/24", "2001:db8::1"]
config.toml:10:10: `limits` is a table, not a list
10 | limits = { packets = 1000, per = "1s" }
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write limits = [{ packets = 1000, per = "1s" }]
config.toml:11:11: `observe` is a string, not true or false
11 | observe = "yes"
   |           ^^^^^ write observe = true"#,
    );
    check_behind_minimal(
        "[policy]
a = 10
",
        "config.toml:9:5: `a` is an integer, not a table
9 | a = 10
  |     ^^ write [policy.default] above it",
    );
    check_behind_minimal(
        "[allow]
sources = [10]
",
        r#"config.toml:9:12: `sources` is an integer, not a string
9 | sources = [10]
  |            ^^ write sources = ["192.0.2.0/24", "2001:db8::1"]"#,
    );
    check_behind_minimal(
        "[paths]
state = true
",
        r#"config.toml:9:9: `state` is a boolean, not a string
9 | state = true
  |         ^^^^ write "/var/lib/ratelimit""#,
    );
    check_behind_minimal(
        "[paths]
pins = 1979-05-27
",
        r#"config.toml:9:8: `pins` is a date, not a string
9 | pins = 1979-05-27
  |        ^^^^^^^^^^ write "/sys/fs/bpf/ratelimit""#,
    );
    check_behind_minimal(
        "[metrics]
listen = 9798
",
        r#"config.toml:9:10: `listen` is an integer, not a string
9 | listen = 9798
  |          ^^^^ write "127.0.0.1:9798", or false for none"#,
    );
    check(
        "source = 64
[[interface]]
name = 0
[policy.default]
limits = []
",
        r#"config.toml:1:10: `source` is an integer, not a table
1 | source = 64
  |          ^^ write [source]
config.toml:3:8: `name` is an integer, not a string
3 | name = 0
  |        ^ write name = "eth0""#,
    );
}

#[test]
fn an_interface_in_single_brackets_is_warned_about_the_double_ones() {
    check(
        r#"[interface]
name = "eth0"
[policy.default]
limits = []
"#,
        "config.toml:1:1: `interface` is a table, not a list
1 | [interface]
  | ^^^^^^^^^^^ write [[interface]], with two brackets",
    );
}

#[test]
fn a_number_out_of_range_is_refused_with_the_range() {
    check_behind_minimal(
        "[source]
ipv4_prefix = 0
ipv6_prefix = 129
capacity = 0
",
        "config.toml:9:15: `ipv4_prefix` is out of range
9 | ipv4_prefix = 0
  |               ^ write a number from 1 to 32
config.toml:10:15: `ipv6_prefix` is out of range
10 | ipv6_prefix = 129
   |               ^^^ write a number from 1 to 128
config.toml:11:12: `capacity` is out of range
11 | capacity = 0
   |            ^ write a number from 1 to 134217728",
    );
    check_behind_minimal(
        "[source]
ipv4_prefix = 33
ipv6_prefix = -1
capacity = 134_217_729
",
        "config.toml:9:15: `ipv4_prefix` is out of range
9 | ipv4_prefix = 33
  |               ^^ write a number from 1 to 32
config.toml:10:15: `ipv6_prefix` is out of range
10 | ipv6_prefix = -1
   |               ^^ write a number from 1 to 128
config.toml:11:12: `capacity` is out of range
11 | capacity = 134_217_729
   |            ^^^^^^^^^^^ write a number from 1 to 134217728",
    );
    check_behind_minimal(
        "[source]
capacity = 99999999999999999999999999999999999999999999
",
        "config.toml:9:12: `capacity` is out of range
9 | capacity = 99999999999999999999999999999999999999999999
  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write a number from 1 to 134217728",
    );
}

#[test]
fn an_unknown_mode_or_stop_is_refused_with_the_choice() {
    check_behind_minimal(
        r#"[[interface]]
name = "eth1"
mode = "driver"
"#,
        r#"config.toml:10:8: unknown mode `driver`
10 | mode = "driver"
   |        ^^^^^^^^ write "auto" or "native" or "generic" or "pinned""#,
    );
    check(
        r#"on_stop = "detatch"
[[interface]]
name = "eth0"
mode = "natve"
[policy.default]
limits = []
"#,
        r#"config.toml:1:11: unknown on_stop `detatch`
1 | on_stop = "detatch"
  |           ^^^^^^^^^ did you mean "detach"?
config.toml:4:8: unknown mode `natve`
4 | mode = "natve"
  |        ^^^^^^^ did you mean "native"?"#,
    );
}

#[test]
fn a_name_that_no_interface_can_have_is_refused() {
    check_behind_minimal(
        r#"[[interface]]
name = ""
[[interface]]
name = "enp0s31f6-uplink"
[[interface]]
name = "eth0/1"
"#,
        r#"config.toml:9:8: the name of the interface is empty
9 | name = ""
  |        ^^ write a name that `ip link` shows, such as eth0
config.toml:11:8: `enp0s31f6-uplink` has 16 bytes, and names of interfaces at most 15
11 | name = "enp0s31f6-uplink"
   |        ^^^^^^^^^^^^^^^^^^ write a name that `ip link` shows, such as eth0
config.toml:13:8: `eth0/1` is not a valid interface name
13 | name = "eth0/1"
   |        ^^^^^^^^ write a name that `ip link` shows, such as eth0"#,
    );
    check_behind_minimal(
        r#"[[interface]]
mode = "auto"
"#,
        r#"config.toml:8:1: [[interface]] has no `name`
8 | [[interface]]
  | ^^^^^^^^^^^^^ write for example name = "eth0""#,
    );
}

#[test]
fn an_interface_that_appears_twice_is_refused_with_the_first_place() {
    check_behind_minimal(
        r#"[[interface]]
name = "eth0"
"#,
        r#"config.toml:9:8: duplicate interface `eth0`, first at config.toml:2:8
9 | name = "eth0"
  |        ^^^^^^ remove one of them"#,
    );
}

#[test]
fn a_configuration_without_an_interface_is_refused() {
    check(
        "[policy.default]
limits = []
",
        r#"config.toml: no interface
hint: write [[interface]], and under it name = "eth0""#,
    );
}

#[test]
fn a_configuration_without_a_default_policy_is_refused() {
    check(
        r#"[[interface]]
name = "eth0"
"#,
        "config.toml: no [policy.default]
hint: write limits = [] there if sources without a policy are to be unlimited",
    );
    check(
        "",
        r#"config.toml: no [policy.default]
hint: write limits = [] there if sources without a policy are to be unlimited
config.toml: no interface
hint: write [[interface]], and under it name = "eth0""#,
    );
}

#[test]
fn an_address_to_listen_on_that_is_none_is_refused() {
    check_behind_minimal(
        r#"[metrics]
listen = "off"
"#,
        r#"config.toml:9:10: `off` is not an address with a port
9 | listen = "off"
  |          ^^^^^ write "127.0.0.1:9798", or false for none"#,
    );
    check_behind_minimal(
        "[metrics]
listen = true
",
        r#"config.toml:9:10: `listen` is true: it is not said where
9 | listen = true
  |          ^^^^ write "127.0.0.1:9798", or false for none"#,
    );
    check_behind_minimal(
        r#"[metrics]
listen = "localhost:9798"
"#,
        r#"config.toml:9:10: `localhost:9798` is not an address with a port
9 | listen = "localhost:9798"
  |          ^^^^^^^^^^^^^^^^ write "127.0.0.1:9798", or false for none"#,
    );
    check_behind_minimal(
        r#"[metrics]
listen = "127.0.0.1"
"#,
        r#"config.toml:9:10: `127.0.0.1` is not an address with a port
9 | listen = "127.0.0.1"
  |          ^^^^^^^^^^^ write "127.0.0.1:9798", or false for none"#,
    );
}

#[test]
fn a_path_that_is_not_absolute_is_refused() {
    check_behind_minimal(
        r#"[paths]
state = "lib/ratelimit"
runtime = ""
"#,
        r#"config.toml:9:9: `lib/ratelimit` is not an absolute path
9 | state = "lib/ratelimit"
  |         ^^^^^^^^^^^^^^^ write one that begins with /, such as "/var/lib/ratelimit"
config.toml:10:11: `` is not an absolute path
10 | runtime = ""
   |           ^^ write one that begins with /, such as "/run/ratelimit""#,
    );
}

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_the_file() {
    check(
        r#"observ = true
[[interface]]
nam = "eth0"
[source]
capacity = 0
[policy.partner]
limits = [{ packets = 0, per = "1x" }]
"#,
        r#"config.toml:1:1: unknown key `observ` in the top level
1 | observ = true
  | ^^^^^^ did you mean `observe`?
config.toml:3:1: unknown key `nam` in [[interface]]
3 | nam = "eth0"
  | ^^^ did you mean `name`?
config.toml:5:12: `capacity` is out of range
5 | capacity = 0
  |            ^ write a number from 1 to 134217728
config.toml:6:1: [policy.partner] has no `sources`
6 | [policy.partner]
  | ^^^^^^^^^^^^^^^^ add sources = ["192.0.2.0/24"], or select the policy with `policy` in an [[interface]]
config.toml:7:23: an amount of 0 would drop every packet
7 | limits = [{ packets = 0, per = "1x" }]
  |                       ^ write at least 1; to drop everything of a source, ban it
config.toml:7:32: `x` in `1x` is not a unit of time
7 | limits = [{ packets = 0, per = "1x" }]
  |                                ^^^^ write w, d, h, m (minutes), s, ms, us or ns
config.toml: no [policy.default]
hint: write limits = [] there if sources without a policy are to be unlimited"#,
    );
}
