//! The budget for new sources, as it comes and goes.

use ratelimit_common::{new_sources::Budget, settings::OverBudget};
use ratelimit_core::new_sources::NewSources;

use super::*;

#[test]
fn while_the_settings_ask_for_a_budget_there_is_one() {
    let budget = NewSources {
        count: NonZeroU32::new(1000).unwrap(),
        per: Duration::from_secs(1),
        over_budget: OverBudget::Drop,
    };
    let mut lab = Lab::new(config());
    for new_sources in [Some(budget), None] {
        lab.take_writes();
        let mut settings = lab.settings();
        let mut switched = lab.tables().switched().unwrap();
        let config = Config {
            new_sources,
            ..lab.state.intent.config.clone()
        };
        lab.replace_checked(config).unwrap();
        for write in lab.writes() {
            if let Write::Settings(new) = write {
                settings = new;
            } else if let Write::Switched(part) = &write {
                part.apply(&mut switched);
            } else {
                continue;
            }
            let in_force = switched.of(settings.generation()).new_sources;
            let is_there = in_force != Budget::default();
            assert!(is_there || !settings.has_new_sources(), "{write:?}");
        }
        assert_eq!(settings.has_new_sources(), new_sources.is_some());
        let in_force = switched.of(settings.generation()).new_sources;
        assert_eq!(in_force == Budget::default(), new_sources.is_none());
    }
}
