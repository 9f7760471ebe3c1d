use std::time::Duration;

use super::*;
use crate::folding::Fold;

#[test]
fn a_policy_says_when_it_bans() {
    let config = load_text(&with_ban(
        r#"{ after = 5000, within = "10s", for = "10m", factor = 3, max = "2h", forgeable = "ban" }"#,
    ));
    let ban = config.default_policy.ban.unwrap();
    let expected = "5000 drops within 10s: banned for 10m, then 3 times as long, up to 2h, \
                    forgeable sources too";
    assert_eq!(ban.to_string(), expected);
    assert!(ban.compile().bans_forgeable());
    assert_eq!(config.bans_per_minute.get(), 1000);
}

#[test]
fn what_a_ban_does_not_say_is_usual() {
    let ban = |text| load_text(&with_ban(text)).default_policy.ban.unwrap();
    let usual = ban(r#"{ after = 5000, within = "10s", for = "10m" }"#);
    let expected = "5000 drops within 10s: banned for 10m, then 2 times as long, up to 1d";
    assert_eq!(usual.to_string(), expected);
    assert!(!usual.compile().bans_forgeable());
    let long = ban(r#"{ after = 1, within = "100ms", for = "7d" }"#);
    assert_eq!(long.length(9), Duration::from_hours(7 * 24));
    assert_eq!(long.to_string(), "1 drop within 100ms: banned for 7d");
}

#[test]
fn wide_sources_are_not_banned_by_a_policy() {
    let wide = "[source]\nipv4_prefix = 16\nipv6_prefix = 47\n";
    let ban = with_ban(r#"{ after = 9, within = "10s", for = "1h" }"#);
    check(
        &format!("{ban}{wide}"),
        r#"config.toml:6:7: a source is a /16, too wide for bans by policies
6 | ban = { after = 9, within = "10s", for = "1h" }
  |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write ipv4_prefix = 24 or more in [source], or remove `ban`
config.toml:6:7: a source is a /47, too wide for bans by policies
6 | ban = { after = 9, within = "10s", for = "1h" }
  |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write ipv6_prefix = 48 or more in [source], or remove `ban`"#,
    );
    let narrow = "[source]\nipv4_prefix = 24\nipv6_prefix = 48\n";
    load_text(&format!("{ban}{narrow}"));
}

#[test]
fn there_may_be_so_many_bans_a_minute() {
    let config = load_text(&format!("{MINIMAL}[detection]\nbans_per_minute = 7\n"));
    assert_eq!(config.bans_per_minute.get(), 7);
    assert_eq!(config.forgeable_per_minute.get(), 250);
    let config = load_text(&format!("{MINIMAL}[detection]\nforgeable_per_minute = 9\n"));
    assert_eq!(config.bans_per_minute.get(), 1000);
    assert_eq!(config.forgeable_per_minute.get(), 9);
    check_behind_minimal(
        "[detection]\nbans_per_minute = 0\n",
        "config.toml:9:19: `bans_per_minute` is out of range
9 | bans_per_minute = 0
  |                   ^ write a number from 1 to 16777213",
    );
}

#[test]
fn prefixes_are_folded_if_the_configuration_says_so() {
    let fold = |text: &str| load_text(&format!("{MINIMAL}[ban]\n{text}\n")).fold;
    assert_eq!(load_text(MINIMAL).fold, None);
    assert_eq!(fold("fold = false"), None);
    let usual = Fold {
        percent: 75,
        prefixes: [24, 56],
        sources: [32, 64],
    };
    assert_eq!(fold("fold = { percent = 75 }"), Some(usual));
    let given = Fold {
        percent: 1,
        prefixes: [28, 60],
        ..usual
    };
    let text = "fold = { percent = 1, ipv4_prefix = 28, ipv6_prefix = 60 }";
    assert_eq!(fold(text), Some(given));
}

#[test]
fn a_folded_prefix_is_wider_than_a_source_and_may_be_banned_automatically() {
    check_behind_minimal(
        "[ban]\nfold = { ipv4_prefix = 23, ipv6_prefix = 128, share = 9 }\n",
        r"config.toml:9:8: `fold` of [ban] has no `percent`
9 | fold = { ipv4_prefix = 23, ipv6_prefix = 128, share = 9 }
  |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write the share of sources: percent = 75
config.toml:9:24: `ipv4_prefix` is out of range
9 | fold = { ipv4_prefix = 23, ipv6_prefix = 128, share = 9 }
  |                        ^^ write a number from 24 to 31
config.toml:9:42: `ipv6_prefix` is out of range
9 | fold = { ipv4_prefix = 23, ipv6_prefix = 128, share = 9 }
  |                                          ^^^ write a number from 48 to 127
config.toml:9:47: unknown key `share` in `fold` of [ban]
9 | fold = { ipv4_prefix = 23, ipv6_prefix = 128, share = 9 }
  |                                               ^^^^^ remove it; known here: percent, ipv4_prefix, ipv6_prefix",
    );
    check_behind_minimal(
        "[ban]\nfold = { percent = 75, ipv6_prefix = 56 }\n[source]\nipv6_prefix = 56\n",
        "config.toml:9:38: a /56 is not wider than a source, which is a /56
9 | fold = { percent = 75, ipv6_prefix = 56 }
  |                                      ^^ write a number below 56, or remove it",
    );
    // Without an own length, prefixes of that family are not folded.
    let text = "[ban]\nfold = { percent = 75 }\n[source]\nipv6_prefix = 56\n";
    let fold = load_text(&format!("{MINIMAL}{text}")).fold.unwrap();
    assert_eq!(fold.around("2001:db8::/56".parse().unwrap()), None);
}

/// A file whose default policy bans: line 6.
fn with_ban(ban: &str) -> String {
    let limits = "limits = [{ packets = 1000, per = \"1s\" }]";
    format!("[[interface]]\nname = \"eth0\"\n\n[policy.default]\n{limits}\nban = {ban}\n")
}
