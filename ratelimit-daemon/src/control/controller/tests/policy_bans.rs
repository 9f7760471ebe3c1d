//! Bans that policies made in the kernel, and what happens to them.

use ratelimit_common::{
    PolicyBan,
    policy_ban::{BanResult, Tally},
};
use ratelimit_core::{
    ban::{BanSpec, Forgeable},
    intent::EntryRow,
};

use super::*;
use crate::{clock, protected::Why};

const SOURCE: &str = "192.0.2.1";

#[test]
fn a_ban_of_a_policy_is_taken_over() {
    let mut lab = Lab::new(banning());
    lab.ban_now();
    assert_eq!(lab.bans(), [(prefix(SOURCE), 600)]);
    assert!(lab.is_banned(SOURCE));
    assert!(lab.found().is_empty());
    let bans = lab.listed_bans();
    let ban = &bans[0];
    assert_eq!(ban.origin, Origin::Automatic);
    assert_eq!(&*ban.author, "policy default");
    let reason = "9 drops by the limits of default, ban 1";
    assert_eq!(ban.reason.as_deref(), Some(reason));
    lab.restart();
    assert_eq!(lab.bans().len(), 1);
}

#[test]
fn of_a_dry_run_no_ban_is_kept() {
    let observing = Config {
        observe: true,
        ..banning()
    };
    let mut lab = Lab::new(observing);
    lab.ban_now();
    assert_eq!(lab.bans(), []);
    lab.ban_by_policy(SOURCE, clock::now());
    let earnest = Config {
        observe: false,
        ..lab.state.intent.config.clone()
    };
    lab.replace_checked(earnest).unwrap();
    lab.tick();
    assert_eq!(lab.bans(), [], "what was banned just before it ended");
    assert!(lab.found().is_empty());
    lab.ban_by_policy(SOURCE, clock::now());
    lab.tick();
    assert_eq!(lab.bans(), [(prefix(SOURCE), 600)], "it is the first");
}

#[test]
fn the_source_of_ipv6_is_its_network() {
    let mut lab = Lab::new(banning());
    lab.ban_by_policy("2001:db8:0:7::", clock::now());
    lab.take_missed();
    assert_eq!(lab.bans()[0].0, prefix("2001:db8:0:7::/64"));
    lab.check(
        "2001:db8:0:7::9",
        "drop",
        "banned",
        Some("2001:db8:0:7::/64"),
        "default",
    );
}

#[test]
fn each_ban_is_longer_and_unban_restarts() {
    let mut lab = Lab::new(banning());
    for seconds in [600, 1200, 2400, 3600, 3600] {
        lab.ban_now();
        assert_eq!(lab.bans(), [(prefix(SOURCE), seconds)]);
        // Offences outlive the ban and the daemon.
        let ended = Edit::Ban(prefix(SOURCE), Origin::Automatic, None);
        lab.edit(&[ended]);
        lab.restart();
    }
    lab.ban_now();
    lab.unban(&[SOURCE]).unwrap();
    lab.ban_now();
    assert_eq!(lab.bans(), [(prefix(SOURCE), 600)]);
}

#[test]
fn a_source_that_was_quiet_for_as_long_as_the_longest_ban_is_forgotten() {
    let mut lab = Lab::new(banning());
    let ago = |duration: Duration| {
        let nanos = u64::try_from(duration.as_nanos()).unwrap();
        Instant::from_nanos(clock::now().as_nanos().checked_sub(nanos).unwrap())
    };
    // The machine may have started a minute ago, so the longest ban of this test is shorter than
    // that.
    let second = Duration::from_secs(1);
    lab.restart_with(with_ban(second, 2 * second));
    lab.ban_by_policy(SOURCE, ago(Duration::from_millis(3100)));
    lab.tick();
    assert_eq!(lab.bans(), [], "it has ended");
    assert_eq!(
        lab.state.intent.offence(prefix(SOURCE)),
        None,
        "and is forgotten"
    );
    lab.ban_by_policy(SOURCE, ago(Duration::from_millis(1500)));
    lab.tick();
    assert_eq!(lab.bans(), []);
    let offence = lab.state.intent.offence(prefix(SOURCE)).unwrap();
    assert_eq!(offence.bans, 1);
    lab.ban_now();
    assert_eq!(lab.bans(), [(prefix(SOURCE), 2)]);
}

#[test]
fn a_ban_that_takes_the_place_of_one_that_has_ended_is_not_lost() {
    let second = Duration::from_secs(1);
    let mut lab = Lab::new(with_ban(second, 60 * second));
    let now = clock::now();
    let ended = Instant::from_nanos(now.as_nanos() - 1_500_000_000);
    lab.ban_by_policy(SOURCE, ended);
    lab.ban_again_later(SOURCE, now);
    lab.take_missed();
    assert_eq!(lab.bans(), [], "what was read has ended");
    assert_eq!(lab.found().len(), 1);
    lab.take_missed();
    assert_eq!(lab.bans(), [(prefix(SOURCE), 2)], "it is the second");
    assert!(lab.found().is_empty());
}

#[test]
fn packets_under_way_with_that_of_a_ban_make_no_second_one() {
    let mut lab = Lab::new(banning());
    let now = clock::now();
    lab.ban_by_policy(SOURCE, now);
    lab.ban_again_later(SOURCE, Instant::from_nanos(now.as_nanos() + 500));
    lab.take_missed();
    assert!(lab.found().is_empty());
    lab.take_missed();
    assert_eq!(lab.bans(), [(prefix(SOURCE), 600)]);
}

/// Also where the policy has gone.
#[test]
fn bans_from_before_the_start_are_as_long_as_the_kernel_made_them() {
    for after in [banning(), config()] {
        let mut lab = Lab::new(banning());
        lab.ban_by_policy(SOURCE, clock::now());
        lab.restart_with(after);
        assert_eq!(lab.bans(), [(prefix(SOURCE), 600)]);
    }
}

#[test]
fn a_source_that_is_allowed_is_not_bans() {
    let mut lab = Lab::new(banning());
    lab.allow("192.0.2.0/24", None).unwrap();
    lab.ban_now();
    assert_eq!(lab.bans(), []);
    assert!(lab.found().is_empty());
}

#[test]
fn a_source_that_this_host_needs_is_not_bans() {
    let mut protected = Protected::default();
    protected.add(prefix(SOURCE), Why::Gateway("eth0".into()));
    let mut lab = Lab::protecting(banning(), protected);
    lab.ban_now();
    assert_eq!(lab.bans(), []);
    // The program does not ban it again, also after another look.
    let exempt = [(SOURCE.parse().unwrap(), PolicyBan::EXEMPT)];
    assert_eq!(lab.found(), exempt);
    lab.check(SOURCE, "pass", "conforming", None, "default");
    lab.restart();
    assert_eq!((lab.bans(), &lab.found()[..]), (vec![], &exempt[..]));
    lab.protect(Protected::default());
    lab.tick();
    assert_eq!((lab.bans(), lab.found()), (vec![], vec![]));
}

#[test]
fn where_there_is_no_room_the_ban_stays_with_the_kernel() {
    let mut lab = Lab::new(banning());
    lab.leave_room(0);
    lab.ban_now();
    assert_eq!(lab.found().len(), 1);
    lab.check(SOURCE, "drop", "banned", Some(SOURCE), "default");
    lab.make_room();
    lab.tick();
    assert_eq!(lab.bans(), [(prefix(SOURCE), 600)]);
}

#[test]
fn a_longer_ban_of_detection_stays() {
    let mut lab = Lab::new(banning());
    lab.ban_by_policy(SOURCE, clock::now());
    let longer = EntryRow {
        until: clock::after(Duration::from_hours(5)),
        since: clock::wall(),
        reason: None,
        author: "attack".into(),
    };
    let ban = Edit::Ban(prefix(SOURCE), Origin::Automatic, Some(longer));
    lab.edit(&[ban]);
    lab.take_missed();
    assert_eq!(lab.bans(), [(prefix(SOURCE), 5 * 3600)]);
    assert!(lab.found().is_empty());
    let offence = lab.state.intent.offence(prefix(SOURCE)).unwrap();
    assert_eq!(offence.bans, 1);
}

#[test]
fn a_ban_that_was_stored_before_a_kill_counts_once() {
    let mut lab = Lab::new(banning());
    let now = clock::now();
    lab.ban_by_policy(SOURCE, now);
    lab.take_missed();
    // As if the kernel's part had not been removed.
    lab.ban_by_policy(SOURCE, now);
    lab.restart();
    assert_eq!(lab.bans(), [(prefix(SOURCE), 600)]);
    assert!(lab.found().is_empty());
    let offence = lab.state.intent.offence(prefix(SOURCE)).unwrap();
    assert_eq!(offence.bans, 1);
}

#[test]
fn unban_ends_what_was_not_taken_over_yet() {
    let mut lab = Lab::new(banning());
    lab.ban_by_policy(SOURCE, clock::now());
    let changed = lab.unban(&[SOURCE]).unwrap();
    assert_eq!(changed.removed, 1);
    assert!(!lab.is_banned(SOURCE));
    assert!(lab.found().is_empty());
}

#[test]
fn a_check_tells_the_strikes() {
    let mut lab = Lab::new(banning());
    lab.ban_now();
    let strikes = lab.checked(SOURCE).strikes.unwrap();
    assert_eq!((strikes.strikes, strikes.bans), (0, 1));
    let expected = "9 drops within 10s: banned for 10m, then 2 times as long, up to 1h";
    assert_eq!(strikes.ban.to_string(), expected);
    let partner = lab.checked("203.0.113.1");
    assert_eq!(partner.strikes, None);
}

#[test]
fn the_tables_say_that_policies_ban_and_how_often() {
    let lab = Lab::new(banning());
    assert!(lab.settings().has_policy_bans());
    let budgets = lab.tables().policy_bans.budgets().unwrap();
    assert_eq!(budgets.established.amount(), 1000);
    assert!(!Lab::new(config()).settings().has_policy_bans());
}

pub(super) fn banning() -> Config {
    with_ban(Duration::from_mins(10), Duration::from_hours(1))
}

fn with_ban(length: Duration, longest: Duration) -> Config {
    let [nine, two] = [9, 2].map(|number| NonZeroU32::new(number).unwrap());
    let within = Duration::from_secs(10);
    let mut config = config();
    config.default_policy.ban =
        BanSpec::new((nine, within), length, (two, longest), Forgeable::Limit);
    assert!(config.default_policy.ban.is_some());
    config
}

/// Bans a source as the program does.
fn put(memory: &Memory, source: IpAddr, ban: PolicyBan) {
    insert(memory, ["POLICY_BANS_V4", "POLICY_BANS_V6"], source, ban);
    let tallies = memory.maps().per_cpu_array("BAN_RESULTS").unwrap();
    let mut cpus: Vec<Tally> = tallies.get(0).unwrap();
    cpus[0].results[BanResult::Banned as usize] += 1;
    tallies.set(0, &cpus).unwrap();
}

impl Lab {
    /// A new daemon with another configuration, over the same tables and database.
    pub(super) fn restart_with(&mut self, config: Config) {
        self.config = config;
        self.start_again();
    }

    /// Bans a source as the program does.
    pub(super) fn ban_by_policy(&self, source: &str, at: Instant) {
        let ban = self.policy_ban(at);
        put(&self.memory, source.parse().unwrap(), ban);
    }

    /// The bans that were not adopted yet.
    fn found(&self) -> Vec<(IpAddr, PolicyBan)> {
        self.tables().policy_bans.all().unwrap()
    }

    /// Bans a source as the program does, and adopts the ban.
    fn ban_now(&mut self) {
        self.ban_by_policy(SOURCE, clock::now());
        self.take_missed();
    }

    /// Bans a source while the bans that there are are adopted.
    fn ban_again_later(&self, source: &str, at: Instant) {
        let (source, ban) = (source.parse().unwrap(), self.policy_ban(at));
        let memory = Arc::clone(&self.memory);
        // Those of IPv6 are read after those of IPv4.
        let action = Box::new(move || put(&memory, source, ban));
        self.switches().before_read = Some(("POLICY_BANS_V6", action));
    }

    fn policy_ban(&self, at: Instant) -> PolicyBan {
        let named = self.state.compiled.policies.get("default").unwrap();
        PolicyBan {
            until_ns: named.policy.ban().unwrap().until(at).as_nanos(),
            at_ns: at.as_nanos(),
            scope: named.policy.scope(),
            strikes: 9,
            ..PolicyBan::default()
        }
    }

    /// Returns the banned sources with the remaining seconds, rounded.
    pub(super) fn bans(&self) -> Vec<(Prefix, i64)> {
        let left = |ban: Ban| {
            let left = ban.until.unwrap().duration_since(clock::wall());
            let seconds = (left + SignedDuration::from_millis(500)).as_secs();
            // A slow machine takes some of it.
            let minutes = seconds.cast_unsigned().div_ceil(60).cast_signed();
            (
                ban.prefix,
                if seconds > 60 { 60 * minutes } else { seconds },
            )
        };
        self.listed_bans().into_iter().map(left).collect()
    }
}
