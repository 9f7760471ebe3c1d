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
