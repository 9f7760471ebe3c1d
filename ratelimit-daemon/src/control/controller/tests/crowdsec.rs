//! Decisions of the local API of `CrowdSec`.

use std::collections::BTreeMap;

use ratelimit_core::config::{
    Crowdsec,
    crowdsec::{Key, Secret},
};

use super::*;
use crate::crowdsec::{Ignored, Update, Wanted};

#[test]
fn an_answer_with_all_decisions_replaces_what_is_held_of_crowdsec_and_nothing_else() {
    let mut lab = followed();
    lab.ban(&["192.0.2.1"], None).unwrap();
    assert!(lab.take(&[("192.0.2.2", Some(60)), ("192.0.2.3", Some(60))], true));
    assert!(lab.take(&[("192.0.2.3", Some(60)), ("192.0.2.4", Some(60))], true));
    let banned = ["192.0.2.1", "192.0.2.3", "192.0.2.4"];
    assert_eq!(lab.banned(), banned);
    lab.restart();
    assert_eq!(lab.banned(), banned);
    assert!(lab.take(&[], true));
    assert_eq!(lab.banned(), ["192.0.2.1"]);
}

#[test]
fn an_answer_with_changes_changes_what_it_names() {
    let mut lab = followed();
    lab.take(&[("192.0.2.2", Some(60)), ("192.0.2.3", Some(60))], true);
    assert!(lab.take(&[("192.0.2.2", None), ("192.0.2.4", Some(60))], false));
    assert_eq!(lab.banned(), ["192.0.2.3", "192.0.2.4"]);
}

#[test]
fn a_ban_with_the_same_end_is_not_touched_and_one_with_another_is() {
    let mut lab = followed();
    lab.take(&[("192.0.2.2", Some(60)), ("192.0.2.3", Some(60))], true);
    let before = lab.listed_bans();
    lab.take(&[("192.0.2.2", Some(61)), ("192.0.2.3", Some(90))], true);
    let after = lab.listed_bans();
    assert_eq!(before[0].since, after[0].since);
    assert!(before[1].until < after[1].until);
}

#[test]
fn a_prefix_that_takes_force_is_not_banned_and_counted() {
    let mut lab = followed();
    assert!(lab.take(&[("64.0.0.0/7", Some(60)), ("192.0.2.2", Some(60))], true));
    assert_eq!(lab.banned(), ["192.0.2.2"]);
    assert_eq!(lab.link().ignored[Ignored::Wide.label()], 1);
}

#[test]
fn decisions_that_do_not_fit_are_not_in_force_and_the_status_says_why() {
    let mut lab = followed();
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.leave_room(0);
    let decisions = [("192.0.2.2", Some(60)), ("192.0.2.3", Some(60))];
    assert!(!lab.take(&decisions, true));
    let link = lab.link();
    assert!(link.error.unwrap().contains("is full"));
    assert_eq!((link.connected, link.bans), (Some(true), 0));
    assert_eq!(lab.banned(), ["192.0.2.1"]);
    lab.make_room();
    assert!(lab.take(&decisions, true));
    assert_eq!((lab.link().error, lab.link().bans), (None, 2));
}

#[test]
fn when_the_api_is_lost_its_bans_stay_and_the_status_says_so() {
    let mut lab = followed();
    assert_eq!(lab.link().connected, None);
    lab.take(&[("192.0.2.2", Some(60))], true);
    lab.lose_crowdsec("nobody listens".to_owned());
    let lost = lab.link();
    lab.lose_crowdsec("still nobody".to_owned());
    let link = lab.link();
    assert_eq!((link.connected, link.since), (Some(false), lost.since));
    assert_eq!(link.error.as_deref(), Some("still nobody"));
    assert_eq!((link.bans, link.pulls, link.failures), (1, 1, 2));
}

#[test]
fn without_the_section_its_bans_end_and_no_others() {
    let mut lab = followed();
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.take(&[("192.0.2.2", Some(60))], true);
    let wish = lab.feeds.crowdsec.wishes();
    assert!(wish.borrow().is_some());
    lab.replace_config(config()).unwrap();
    assert!(wish.has_changed().unwrap() && wish.borrow().is_none());
    lab.end_crowdsec_bans();
    assert_eq!(lab.banned(), ["192.0.2.1"]);
    assert_eq!(lab.status().crowdsec, None);
}

pub(super) fn followed() -> Lab {
    Lab::new(Config {
        crowdsec: Some(Crowdsec {
            address: "http://127.0.0.1:8080".parse().unwrap(),
            key: Key::Given(Secret::new("key").unwrap()),
            every: Duration::from_secs(10),
        }),
        ..config()
    })
}

impl Lab {
    /// Applies bans with these lifetimes in seconds, or bans that have ended.
    pub(super) fn take(&mut self, bans: &[(&str, Option<u64>)], whole: bool) -> bool {
        let wanted = |seconds| Wanted {
            until: clock::after(Duration::from_secs(seconds)),
            reason: "test".into(),
            author: "cscli".into(),
        };
        let bans: BTreeMap<Prefix, Option<Wanted>> = bans
            .iter()
            .map(|(text, seconds)| (prefix(text), seconds.map(wanted)))
            .collect();
        self.take_decisions(Update {
            bans: bans.into_iter().collect(),
            whole,
            ..Update::default()
        })
    }

    /// Returns the bans, after checking that list and datapath agree.
    fn banned(&self) -> Vec<String> {
        let bans = self.listed_bans().into_iter();
        let banned: Vec<String> = bans.map(|ban| ban.prefix.to_string()).collect();
        let entries = self.entries().into_iter();
        let dropped = entries.filter(|(_, entry)| entry.is_banned(clock::now()));
        let dropped: Vec<String> = dropped.map(|(prefix, _)| prefix.to_string()).collect();
        assert_eq!(banned, dropped);
        banned
    }

    fn link(&self) -> ratelimit_core::api::CrowdsecStatus {
        self.status().crowdsec.unwrap()
    }
}
