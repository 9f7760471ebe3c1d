use std::time::Duration;

use ratelimit_common::settings::OverBudget;

use super::*;

#[test]
fn new_sources_have_a_budget_where_one_is_written() {
    for (word, over_budget) in [
        ("pass", OverBudget::Pass),
        ("drop", OverBudget::Drop),
        ("aggregate", OverBudget::Aggregate),
    ] {
        let text = format!(
            "[source]\n\
             new_sources = {{ count = 100_000, per = \"2s\", over_budget = \"{word}\" }}\n"
        );
        let config = load_text(&format!("{MINIMAL}{text}"));
        let budget = config.new_sources.unwrap();
        assert_eq!(
            (budget.count.get(), budget.over_budget),
            (100_000, over_budget)
        );
        assert_eq!(budget.per, Duration::from_secs(2));
        assert_eq!(
            budget.to_string(),
            format!("100000 per 2s, over budget {word}")
        );
    }
}

/// `lru` alone has a budget by default: a sixteenth of its capacity, and 1,024 at least.
#[test]
fn the_budget_is_by_default_a_part_of_the_capacity_and_drops_nothing() {
    let of = |source: &str| load_text(&format!("{MINIMAL}{source}")).new_sources;
    for (source, count) in [
        ("", 16_384),
        ("[source]\ncapacity = 1_000_000\n", 62_500),
        ("[source]\ncapacity = 100\n", 1_024),
    ] {
        let budget = of(source).unwrap();
        assert_eq!(budget.count.get(), count);
        assert_eq!(budget.per, Duration::from_secs(1));
        assert_eq!(budget.over_budget, OverBudget::Pass);
    }
    assert_eq!(of("[source]\nstore = \"compact\"\n"), None);
    assert_eq!(of("[source]\nnew_sources = \"unlimited\"\n"), None);
}

#[test]
fn a_budget_says_how_many_and_what_becomes_of_others() {
    check_behind_minimal(
        "[source]\nnew_sources = { count = 0, per = \"1ms\", over_budget = \"deny\", burst = 1 }\n",
        r#"config.toml:9:25: `count` is out of range
9 | new_sources = { count = 0, per = "1ms", over_budget = "deny", burst = 1 }
  |                         ^ write a number from 1 to 16777215
config.toml:9:34: `per` is out of range
9 | new_sources = { count = 0, per = "1ms", over_budget = "deny", burst = 1 }
  |                                  ^^^^^ write a time from 65536us to 1h
config.toml:9:55: unknown over_budget `deny`
9 | new_sources = { count = 0, per = "1ms", over_budget = "deny", burst = 1 }
  |                                                       ^^^^^^ write "pass" or "drop" or "aggregate"
config.toml:9:63: unknown key `burst` in new_sources
9 | new_sources = { count = 0, per = "1ms", over_budget = "deny", burst = 1 }
  |                                                               ^^^^^ remove it; known here: count, per, over_budget"#,
    );
    check_behind_minimal(
        "[source]\nnew_sources = {}\n",
        r#"config.toml:9:15: new_sources has no `count`
9 | new_sources = {}
  |               ^^ write count = 100_000
config.toml:9:15: new_sources has no `per`
9 | new_sources = {}
  |               ^^ write per = "1s"
config.toml:9:15: new_sources has no `over_budget`
9 | new_sources = {}
  |               ^^ write over_budget = "drop", "pass" or "aggregate": the verdict over budget"#,
    );
    check_behind_minimal(
        "[source]\nnew_sources = 100_000\n",
        r#"config.toml:9:15: `new_sources` is an integer, not a table
9 | new_sources = 100_000
  |               ^^^^^^^ write new_sources = { count = 100_000, per = "1s", over_budget = "drop" }"#,
    );
    check_behind_minimal(
        "[source]\nnew_sources = { count = 9, per = 1, over_budget = \"drop\" }\n",
        r#"config.toml:9:34: `per` is an integer, not a string
9 | new_sources = { count = 9, per = 1, over_budget = "drop" }
  |                                  ^ write per = "1s""#,
    );
}

#[test]
fn sources_as_wide_as_what_they_would_be_charged_with_are_refused() {
    check_behind_minimal(
        "[source]\n\
         ipv4_prefix = 24\n\
         ipv6_prefix = 48\n\
         new_sources = { count = 9, per = \"1s\", over_budget = \"aggregate\" }\n",
        r#"config.toml:11:54: new sources cannot be charged to their /24: ipv4_prefix is 24, and a source is no narrower than that
11 | new_sources = { count = 9, per = "1s", over_budget = "aggregate" }
   |                                                      ^^^^^^^^^^^ write over_budget = "drop" or "pass", or ipv4_prefix = 25 or more
config.toml:11:54: new sources cannot be charged to their /48: ipv6_prefix is 48, and a source is no narrower than that
11 | new_sources = { count = 9, per = "1s", over_budget = "aggregate" }
   |                                                      ^^^^^^^^^^^ write over_budget = "drop" or "pass", or ipv6_prefix = 49 or more"#,
    );
}
