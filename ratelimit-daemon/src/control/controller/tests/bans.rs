//! The durations, the targets and the effects of bans.

use ratelimit_core::{
    api::{Allowed, LongerBan, UnbanRequest},
    config::{self, File},
};

use super::*;
use crate::{
    control::commands::{Ban as BanCommand, Unban as UnbanCommand},
    protected::Why,
};

const SOURCE: &str = "192.0.2.1";

#[test]
fn a_ban_of_which_no_time_is_said_lasts_as_the_configuration_says() {
    let mut lab = Lab::new(config());
    let changed = lab.ban_with(SOURCE, |_| {}).unwrap();
    let until = changed.until.unwrap();
    let left = until.duration_since(clock::wall());
    assert!((left - SignedDuration::from_hours(4)).abs() < SignedDuration::from_mins(1));
    let forever = Config {
        ban_for: None,
        ..config()
    };
    lab.replace(forever).unwrap();
    assert_eq!(lab.ban_with("192.0.2.2", |_| {}).unwrap().until, None);
    let both = |it: &mut BanRequest| (it.seconds, it.forever) = (Some(9.0), true);
    lab.ban_with("192.0.2.3", both).unwrap_err();
}

#[test]
fn the_time_is_a_key_of_the_configuration() {
    let read = |table: &str| {
        let rest = "[[interface]]\nname = \"eth0\"\n[policy.default]\nlimits = []\n";
        let file = File {
            path: "config.toml".into(),
            text: format!("{rest}{table}"),
        };
        config::parse(&[file]).map(|(config, _)| config.ban_for)
    };
    assert_eq!(read("").unwrap(), Some(Duration::from_hours(4)));
    let minutes = read("[ban]\nfor = \"9m\"\n");
    assert_eq!(minutes.unwrap(), Some(Duration::from_mins(9)));
    assert_eq!(read("[ban]\nfor = false\n").unwrap(), None);
    for wrong in ["true", "\"0s\"", "\"400d\"", "4"] {
        let refused = read(&format!("[ban]\nfor = {wrong}\n")).unwrap_err();
        assert!(refused.to_string().contains("for"), "{refused}");
    }
}

#[test]
fn only_a_ban_with_a_time_shortens_a_longer_one() {
    let mut lab = Lab::new(config());
    lab.ban(&[SOURCE], None).unwrap();
    let longer = |kept| {
        vec![LongerBan {
            prefix: prefix(SOURCE),
            until: None,
            kept,
        }]
    };
    let changed = lab.ban_with(SOURCE, |_| {}).unwrap();
    assert_eq!((changed.longer, changed.updated), (longer(true), 0));
    assert_eq!(lab.listed_bans()[0].until, None);
    let changed = lab.ban(&[SOURCE], Some(60.0)).unwrap();
    assert_eq!((changed.longer, changed.updated), (longer(false), 1));
    assert!(lab.listed_bans()[0].until.is_some());
    let changed = lab.ban_with(SOURCE, |_| {}).unwrap();
    assert_eq!(
        (changed.longer, changed.updated),
        (vec![], 1),
        "it is longer now"
    );
}

#[test]
fn an_address_of_ipv6_stands_for_its_source() {
    let mut lab = Lab::new(config());
    let address: IpAddr = "2001:db8::7".parse().unwrap();
    let source = |it: &mut BanRequest| {
        it.prefixes.clear();
        it.sources = vec![address];
    };
    let changed = lab.ban_with("::", source).unwrap();
    assert_eq!(changed.sources, [prefix("2001:db8::/64")]);
    lab.check(
        "2001:db8::8",
        "drop",
        "banned",
        Some("2001:db8::/64"),
        "default",
    );
    lab.ban(&["2001:db8::7"], None).unwrap();
    let unban = UnbanRequest {
        sources: vec![address],
        ..UnbanRequest::default()
    };
    let run = |lab: &mut Lab| {
        let command = UnbanCommand(unban.clone(), "root".into());
        lab.run(command).unwrap()
    };
    assert_eq!(
        run(&mut lab).removed,
        2,
        "its own ban and that of its source"
    );
    assert!(lab.listed_bans().is_empty());
    let changed = run(&mut lab);
    assert_eq!(
        (changed.removed, changed.absent),
        (0, vec![prefix("2001:db8::7")])
    );
}

#[test]
fn a_source_that_has_a_protected_address_names_the_way_to_ban_one() {
    let mut protected = Protected::default();
    protected.add(prefix("2001:db8::1"), Why::Configured);
    let mut lab = Lab::protecting(config(), protected);
    let source = |it: &mut BanRequest| {
        it.prefixes.clear();
        it.sources = vec!["2001:db8::7".parse().unwrap()];
    };
    let refused = lab.ban_with("::", source).unwrap_err();
    assert!(
        refused
            .hint
            .unwrap()
            .contains("`2001:db8::7/128` bans that address alone")
    );
}

#[test]
fn what_has_no_effect_because_of_an_allow_is_reported() {
    let mut lab = Lab::new(config());
    lab.allow("198.51.100.0/24", None).unwrap();
    let allowed = |of: &str, by: &str| {
        vec![Allowed {
            prefix: prefix(of),
            by: prefix(by),
        }]
    };
    let changed = lab.ban(&["198.51.100.9", SOURCE], None).unwrap();
    assert_eq!(changed.allowed, allowed("198.51.100.9", "198.51.100.0/24"));
    // The configuration allows it.
    let changed = lab.ban(&["192.0.2.10"], None).unwrap();
    assert_eq!(changed.allowed, allowed("192.0.2.10", "192.0.2.10"));
    let changed = lab.limit(Some("198.51.100.0/25"), 9).unwrap();
    assert_eq!(
        changed.allowed,
        allowed("198.51.100.0/25", "198.51.100.0/24")
    );
    let listed = "198.51.100.8\n198.51.100.9\n203.0.113.9\n";
    assert_eq!(lab.imported("drop", listed).allowed, 2);
}

#[test]
fn wide_allows_need_force() {
    let mut lab = Lab::new(config());
    let allow = |text: &str, force| AllowRequest {
        prefixes: vec![prefix(text)],
        force,
        ..AllowRequest::default()
    };
    for wide in ["0.0.0.0/0", "10.0.0.0/7", "2000::/15"] {
        let refused = lab.controller.allow(allow(wide, false), "root");
        assert!(
            refused.unwrap_err().error.contains("without --force"),
            "{wide}"
        );
    }
    for fine in ["10.0.0.0/8", "2001::/16"] {
        lab.controller.allow(allow(fine, false), "root").unwrap();
    }
    lab.controller
        .allow(allow("0.0.0.0/0", true), "root")
        .unwrap();
}

impl Lab {
    /// Bans an address without a time, unless `other` says more.
    fn ban_with(
        &mut self,
        text: &str,
        other: impl FnOnce(&mut BanRequest),
    ) -> Result<Changed, Refused> {
        let mut request = BanRequest {
            prefixes: vec![prefix(text)],
            ..BanRequest::default()
        };
        other(&mut request);
        self.run(BanCommand(request, "root".into()))
    }
}
