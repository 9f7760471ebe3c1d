use std::time::Duration;

use super::*;
use crate::config::crowdsec::{Key, Secret};

#[test]
fn an_api_has_an_address_a_key_and_a_pace() {
    let text = "[crowdsec]\nurl = \"http://127.0.0.1:8080/\"\nkey = \"8f3e4d\"\n";
    let crowdsec = load_text(&format!("{MINIMAL}{text}")).crowdsec.unwrap();
    assert_eq!(crowdsec.address.to_string(), "http://127.0.0.1:8080");
    assert_eq!(crowdsec.key, Key::Given(Secret::new("8f3e4d").unwrap()));
    assert_eq!(crowdsec.every, Duration::from_secs(10));
    assert!(!format!("{crowdsec:?}").contains("8f3e4d"));

    let text =
        "[crowdsec]\nurl = \"/run/crowdsec.sock\"\nkey_file = \"/etc/key\"\nevery = \"1m\"\n";
    let crowdsec = load_text(&format!("{MINIMAL}{text}")).crowdsec.unwrap();
    assert_eq!(crowdsec.address.to_string(), "/run/crowdsec.sock");
    assert_eq!(crowdsec.key, Key::File("/etc/key".into()));
    assert_eq!(crowdsec.every, Duration::from_mins(1));
    assert_eq!(load_text(MINIMAL).crowdsec, None);
}

#[test]
fn missing_keys_are_reported_with_a_hint() {
    check_behind_minimal(
        "[crowdsec]\n",
        r#"config.toml:8:1: [crowdsec] has no `url`
8 | [crowdsec]
  | ^^^^^^^^^^ write url = "http://127.0.0.1:8080"
config.toml:8:1: [crowdsec] has no `key_file`
8 | [crowdsec]
  | ^^^^^^^^^^ write key_file = "/etc/ratelimit/crowdsec.key", or key = "...": `cscli bouncers add ratelimit` prints it"#,
    );
}

#[test]
fn an_address_that_cannot_be_asked_is_refused() {
    check_behind_minimal(
        "[crowdsec]\nurl = \"https://lapi.example\"\nkey = \"k\"\n",
        r#"config.toml:9:7: `https://lapi.example` uses TLS, which ratelimitd does not support
9 | url = "https://lapi.example"
  |       ^^^^^^^^^^^^^^^^^^^^^^ write the http:// address of an API on this host, or of a proxy that adds TLS"#,
    );
    check_behind_minimal(
        "[crowdsec]\nurl = \"127.0.0.1:8080\"\nkey = \"k\"\n",
        r#"config.toml:9:7: `127.0.0.1:8080` is not the address of a local API
9 | url = "127.0.0.1:8080"
  |       ^^^^^^^^^^^^^^^^ write "http://127.0.0.1:8080", or the socket, "/run/crowdsec.sock""#,
    );
}

#[test]
fn a_key_is_in_one_place_is_a_word_and_is_not_shown() {
    check_behind_minimal(
        "[crowdsec]\nurl = \"/run/c\"\nkey = \"k\"\nkey_file = \"/k\"\n",
        r#"config.toml:11:12: [crowdsec] has both `key` and `key_file`
11 | key_file = "/k"
   |            ^^^^ remove one of them"#,
    );
    check_behind_minimal(
        "[crowdsec]\nurl = \"/run/c\"\nkey = \"two words\"\n",
        r#"config.toml:8:1: the `key` of [crowdsec] must be one word without blanks
8 | [crowdsec]
  | ^^^^^^^^^^ write key_file = "/etc/ratelimit/crowdsec.key", or key = "...": `cscli bouncers add ratelimit` prints it"#,
    );
    check_behind_minimal(
        "[crowdsec]\nurl = \"/run/c\"\nkey_file = \"key\"\n",
        r#"config.toml:10:12: `key` is not an absolute path
10 | key_file = "key"
   |            ^^^^^ write one that begins with /, such as key_file = "/etc/ratelimit/crowdsec.key""#,
    );
}

#[test]
fn a_pace_that_is_none_is_refused() {
    check_behind_minimal(
        "[crowdsec]\nurl = \"/run/c\"\nkey = \"k\"\nevery = \"100ms\"\n",
        r#"config.toml:11:9: `every` is out of range
11 | every = "100ms"
   |         ^^^^^^^ write a time from 1s to 1h"#,
    );
    check_behind_minimal(
        "[crowdsec]\nurl = \"/run/c\"\nkey = \"k\"\nevery = 10\n",
        r#"config.toml:11:9: `every` is an integer, not a string
11 | every = 10
   |         ^^ write every = "10s""#,
    );
}

#[test]
fn an_api_is_named_in_one_file() {
    let section = "[crowdsec]\nurl = \"/run/c\"\nkey = \"k\"\n";
    check_files(
        &[
            ("config.toml", &format!("{MINIMAL}{section}")),
            ("conf.d/crowdsec.toml", section),
        ],
        "conf.d/crowdsec.toml:1:1: [crowdsec] is set twice, first at config.toml:8:1
1 | [crowdsec]
  | ^^^^^^^^^^ keep one of them",
    );
}
