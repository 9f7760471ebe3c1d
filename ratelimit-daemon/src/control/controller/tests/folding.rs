//! Bans of one network that become a ban of its prefix.

use ratelimit_core::{
    api::{ExportRequest, Unfolded, What},
    folding::Fold,
    upstream::Upstream,
};

use super::*;
use crate::{clock, control::lists::export, protected::Why};

const WIDE: &str = "198.51.100.0/24";
const FIRST: &str = "198.51.100.1";
const NEIGHBOUR: &str = "198.51.100.99";

#[test]
fn enough_bans_of_a_prefix_fold_it_and_the_unban_of_one_lifts_that() {
    let mut lab = Lab::new(folding(1));
    lab.ban_members(1..3);
    assert_eq!(lab.fold(), None, "2 of 256 are less than 1 %");
    lab.ban_members(3..5);
    let fold = lab.fold().unwrap();
    assert_eq!((fold.folded, &*fold.author), (Some(4), "folding"));
    let reason = "at least 1 % of its sources are banned";
    assert_eq!(fold.reason.as_deref(), Some(reason));
    lab.is_dropped(NEIGHBOUR, Some(WIDE));
    assert_eq!(lab.checked(NEIGHBOUR).ban.unwrap().folded, Some(4));
    lab.restart();
    lab.tick();
    lab.is_dropped(NEIGHBOUR, Some(WIDE));

    let changed = lab.unban(&[FIRST]).unwrap();
    assert_eq!((changed.removed, changed.held.len()), (1, 0));
    assert_eq!(changed.unfolded, [unfolded(3)]);
    let events = lab.events();
    let is_unfolded = |what: &What| {
        matches!(what, What::BanRemoved { ban, by: Some(by) }
            if ban.origin == Origin::Folded && &**by == "root")
    };
    assert!(events.iter().any(|event| is_unfolded(&event.what)));
    for _ in 0..2 {
        lab.tick();
        assert_eq!(lab.fold(), None);
        lab.passes(FIRST);
        lab.passes(NEIGHBOUR);
        lab.is_dropped("198.51.100.2", Some("198.51.100.2"));
        lab.restart();
    }
    // It is banned before the fold, and less than enough after another unban.
    lab.ban_members(9..10);
    lab.is_dropped(FIRST, Some(WIDE));
    lab.unban(&["198.51.100.2", "198.51.100.3"]).unwrap();
    lab.ban_members(9..10);
    lab.passes(NEIGHBOUR);
}

#[test]
fn an_unban_of_the_prefix_lifts_only_the_fold() {
    let mut lab = Lab::new(folding(1));
    lab.ban_members(1..6);
    let changed = lab.unban(&[WIDE]).unwrap();
    assert_eq!((changed.removed, changed.unfolded), (1, vec![unfolded(5)]));
    lab.tick();
    lab.passes(NEIGHBOUR);
    lab.is_dropped(FIRST, Some(FIRST));
    assert_eq!(lab.listed_bans().len(), 5);
}

#[test]
fn a_prefix_is_not_folded_because_of_bans_before_an_unban() {
    let mut lab = Lab::new(folding(1));
    lab.ban(&[FIRST, "198.51.100.2", "198.51.100.3"], None)
        .unwrap();
    lab.ban(&["198.51.100.4"], None).unwrap();
    lab.unban(&[FIRST]).unwrap();
    lab.tick();
    lab.passes(FIRST);
    lab.ban_members(5..6);
    lab.is_dropped(FIRST, Some(WIDE));
    // The same of an unban of the prefix.
    lab.ban(&["198.51.100.6"], None).unwrap();
    lab.unban(&[WIDE]).unwrap();
    lab.tick();
    lab.passes(FIRST);
}

#[test]
fn a_shorter_ban_of_an_address_lifts_the_fold_and_one_as_long_does_not() {
    let mut lab = Lab::new(folding(1));
    lab.ban_members(1..5);
    let end = clock::after(Duration::from_mins(30));
    lab.edit(&[ban(FIRST, Origin::program("sshd"), end)]);
    lab.edit(&[Edit::Ban(prefix(FIRST), Origin::program("sshd"), None)]);
    assert!(lab.fold().is_some());
    let changed = lab.ban(&[FIRST], Some(60.0)).unwrap();
    assert_eq!((changed.added, changed.updated), (0, 1));
    assert_eq!(changed.unfolded, [unfolded(4)]);
    lab.tick();
    assert_eq!(lab.fold(), None);
}

#[test]
fn a_fold_ends_with_the_ban_that_the_share_needs_and_a_later_one_prolongs_it() {
    let mut lab = Lab::new(folding(1));
    let [soon, later, last] = [1, 2, 3].map(|hours| clock::after(Duration::from_hours(hours)));
    let long = ["198.51.100.2", "198.51.100.3"].map(|it| ban(it, Origin::Crowdsec, last));
    lab.edit(&long);
    lab.edit(&[ban(FIRST, Origin::Automatic, soon)]);
    lab.tick();
    assert_eq!(lab.until(WIDE).unwrap().as_nanos(), soon.as_nanos() | 1);
    let since = lab.fold().unwrap().since;
    let added = |lab: &Lab| {
        let events = lab.events();
        let is_folded = |what: &What| {
            let What::BanAdded(ban) = what else {
                return false;
            };
            ban.origin == Origin::Folded
        };
        events.iter().filter(|event| is_folded(&event.what)).count()
    };
    assert_eq!(added(&lab), 1);
    lab.edit(&[ban("198.51.100.4", Origin::Automatic, later)]);
    lab.tick();
    assert_eq!(lab.until(WIDE).unwrap().as_nanos(), later.as_nanos() | 1);
    assert_eq!(lab.fold().unwrap().since, since);
    assert_eq!(added(&lab), 1, "it only lasts longer");

    // The third ban ends before the next tick but one.
    let mut lab = Lab::new(folding(1));
    let soon = clock::after(Duration::from_millis(500));
    let bans = [
        (FIRST, soon),
        ("198.51.100.2", last),
        ("198.51.100.3", last),
    ];
    lab.edit(&bans.map(|(text, until)| ban(text, Origin::Manual, until)));
    lab.tick();
    lab.is_dropped(NEIGHBOUR, Some(WIDE));
    thread::sleep(Duration::from_millis(510));
    lab.passes(NEIGHBOUR);
    lab.tick();
    assert_eq!(lab.listed_bans().len(), 2);
    lab.passes(NEIGHBOUR);
}

#[test]
fn without_the_setting_no_prefix_is_folded() {
    let mut lab = Lab::new(folding(1));
    lab.ban_members(1..5);
    let changes = lab.replace(folding(2)).unwrap();
    assert_eq!(changes, ["folding of bans: changed"]);
    lab.is_dropped(NEIGHBOUR, Some(WIDE));
    lab.tick();
    lab.passes(NEIGHBOUR);
    let changes = lab.replace(folding(1)).unwrap();
    assert_eq!(changes, ["folding of bans: changed"]);
    lab.tick();
    lab.is_dropped(NEIGHBOUR, Some(WIDE));
    let narrow = Fold {
        prefixes: [28, 56],
        ..folding(1).fold.unwrap()
    };
    let narrower = Config {
        fold: Some(narrow),
        ..config()
    };
    lab.replace(narrower).unwrap();
    lab.passes(NEIGHBOUR);
    lab.tick();
    lab.is_dropped("198.51.100.14", Some("198.51.100.0/28"));
    let changes = lab.replace(config()).unwrap();
    assert_eq!(changes, ["folding of bans: off; folded bans end"]);
    lab.passes("198.51.100.14");
    lab.is_dropped(FIRST, Some(FIRST));
    lab.tick();
    assert_eq!(lab.listed_bans().len(), 4);

    let mut lab = Lab::new(folding(1));
    lab.ban_members(1..5);
    lab.config = config();
    lab.start_again();
    lab.passes(NEIGHBOUR);
    lab.is_dropped(FIRST, Some(FIRST));
}

#[test]
fn a_prefix_with_an_address_that_this_host_needs_is_not_folded() {
    let mut protected = Protected::default();
    protected.add(prefix("198.51.100.200"), Why::Gateway("eth0".into()));
    let mut lab = Lab::protecting(folding(1), protected);
    lab.ban_members(1..9);
    lab.passes(NEIGHBOUR);
    lab.is_dropped(FIRST, Some(FIRST));
}

#[test]
fn an_unban_that_fails_lifts_nothing() {
    let mut lab = Lab::new(folding(1));
    lab.ban_members(1..5);
    let (entries, bans) = (lab.entries(), lab.listed_bans());
    lab.switches().writes_left.insert("LISTS_V4", 0);
    lab.unban(&[FIRST]).unwrap_err();
    lab.switches().writes_left.clear();
    assert_eq!((lab.entries(), lab.listed_bans()), (entries, bans));
}

#[test]
fn the_route_of_a_fold_stands_for_those_of_its_bans() {
    let config = Config {
        upstream: Some(Upstream::default()),
        ..folding(1)
    };
    let mut lab = Lab::new(config);
    lab.ban_members(1..3);
    assert_eq!(lab.routes(), ["198.51.100.1", "198.51.100.2"]);
    lab.ban_members(3..4);
    assert_eq!(lab.routes(), [WIDE]);
    // A prefix with an allowed address has no route.
    lab.allow(NEIGHBOUR, None).unwrap();
    lab.tick();
    assert_eq!(
        lab.routes(),
        ["198.51.100.1", "198.51.100.2", "198.51.100.3"]
    );
}

#[test]
fn a_fold_is_neither_exported_nor_imported() {
    let mut lab = Lab::new(folding(1));
    lab.ban_members(1..4);
    let bans = export::some_bans(&lab.state.intent, None);
    let request = ExportRequest::default();
    let export = export::export(&lab.state.intent, &request).unwrap();
    assert_eq!((bans.len(), export.of_bans(&bans).lines().count()), (4, 3));
    let line = format!("{{\"prefix\":\"{WIDE}\",\"origin\":\"folded\"}}\n");
    let imported = lab.import_lines(false, &line).unwrap();
    assert_eq!(imported.skipped["of folding, which bans them itself"], 1);
}

impl Lab {
    /// Bans addresses of the prefix for an hour, and judges it.
    fn ban_members(&mut self, range: std::ops::Range<u8>) {
        let members: Vec<String> = range.map(|last| format!("198.51.100.{last}")).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        self.ban(&members, Some(3600.0)).unwrap();
        self.tick();
    }

    /// The ban of the whole prefix.
    fn fold(&self) -> Option<Ban> {
        let mut bans = self.listed_bans().into_iter();
        bans.find(|ban| ban.origin == Origin::Folded)
    }

    fn passes(&self, address: &str) {
        self.check(address, "pass", "conforming", None, "default");
    }

    fn is_dropped(&self, address: &str, by: Option<&str>) {
        self.check(address, "drop", "banned", by, "default");
    }
}

fn unfolded(bans: usize) -> Unfolded {
    Unfolded {
        prefix: prefix(WIDE),
        bans,
    }
}

fn folding(percent: u8) -> Config {
    let fold = Fold {
        percent,
        prefixes: [24, 56],
        sources: [32, 64],
    };
    Config {
        fold: Some(fold),
        ..config()
    }
}
