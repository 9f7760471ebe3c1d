use super::*;

#[test]
fn control_characters_do_not_reach_the_terminal() {
    check_behind_minimal(
        "x = \u{1b}[31m\n",
        r#"config.toml:8:5: syntax error: neither a number nor a string
8 | x = �[31m
  |     ^ write "�", or a number, true or false"#,
    );
    check_behind_minimal(
        "[allow]\nsources = [\"\\u001b[31m\"]\n",
        r#"config.toml:9:12: `�[31m` is not an IPv4 or IPv6 address or prefix
9 | sources = ["\u001b[31m"]
  |            ^^^^^^^^^^^^ write for example 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32"#,
    );
}

#[test]
fn tabs_and_wide_characters_count_as_one_column() {
    check_behind_minimal(
        "[allow]\nsources = [\t\"äöü€\" ]\n",
        r#"config.toml:9:13: `äöü€` is not an IPv4 or IPv6 address or prefix
9 | sources = [ "äöü€" ]
  |             ^^^^^^ write for example 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32"#,
    );
}

#[test]
fn carriage_returns_are_not_shown() {
    check_behind_minimal(
        "[metrics]\r\nport = 1\r\n",
        "\
config.toml:9:1: unknown key `port` in [metrics]
9 | port = 1
  | ^^^^ remove it; known here: listen, dashboard, token_file",
    );
}

#[test]
fn a_byte_order_mark_does_not_shift_the_first_line() {
    check(
        "\u{feff}observ = true\n[[interface]]\nname = \"eth0\"\n[policy.default]\nlimits = []\n",
        "\
config.toml:1:1: unknown key `observ` in the top level
1 | observ = true
  | ^^^^^^ did you mean `observe`?",
    );
}
