use std::time::Duration;

use ratelimit_common::new_sources::Beyond;

use super::*;

#[test]
fn new_sources_have_a_budget_where_one_is_written() {
    for (word, beyond) in [
        ("pass", Beyond::Pass),
        ("drop", Beyond::Drop),
        ("aggregate", Beyond::Aggregate),
    ] {
        let text = format!(
            "[source]\nnew_sources = {{ count = 100_000, per = \"2s\", beyond = \"{word}\" }}\n"
        );
        let config = load_text(&format!("{MINIMAL}{text}"));
        let budget = config.new_sources.unwrap();
        assert_eq!((budget.count.get(), budget.beyond), (100_000, beyond));
        assert_eq!(budget.per, Duration::from_secs(2));
        assert_eq!(budget.share(4).amount(), 25_000);
        assert_eq!(
            budget.to_string(),
            format!("100000 per 2s, beyond them {word}")
        );
    }
    assert_eq!(load_text(MINIMAL).new_sources, None);
}

#[test]
fn a_budget_says_how_many_and_what_becomes_of_others() {
    check_behind_minimal(
        "[source]\nnew_sources = { count = 0, per = \"1ms\", beyond = \"deny\", burst = 1 }\n",
        "",
    );
    check_behind_minimal("[source]\nnew_sources = {}\n", "");
    check_behind_minimal("[source]\nnew_sources = 100_000\n", "");
    check_behind_minimal(
        "[source]\nnew_sources = { count = 9, per = 1, beyond = \"drop\" }\n",
        "",
    );
}

#[test]
fn sources_as_wide_as_what_they_would_be_charged_with_are_refused() {
    check_behind_minimal(
        "[source]\nipv4_prefix = 24\nipv6_prefix = 48\nnew_sources = { count = 9, per = \"1s\", beyond = \"aggregate\" }\n",
        "",
    );
}
