//! A world with a true time, in which clocks are set, machines sleep and are switched off.

use proptest::prelude::*;

use super::*;

const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

#[test]
fn after_three_days_switched_off_with_a_right_clock_a_ban_of_an_hour_is_over() {
    let mut world = World::new();
    let hour = world.ban(HOUR);
    let week = world.ban(7 * DAY);
    world.reboot(3 * DAY, 0);
    assert!(world.has_ended(hour));
    assert_eq!(world.left(week), 4 * DAY);
}

#[test]
fn a_step_of_the_wall_clock_moves_no_end() {
    for step in [-10 * YEAR, -HOUR, HOUR, 10 * YEAR] {
        let mut world = World::new();
        let ban = world.ban(HOUR);
        world.step(step);
        world.run(MINUTE);
        assert_eq!(world.left(ban), HOUR - MINUTE);
        world.restart();
        assert_eq!(world.left(ban), HOUR - MINUTE);
        // The machine keeps the wrong time when it is off.
        world.reboot(MINUTE, 0);
        assert_eq!(world.left(ban), HOUR - 2 * MINUTE, "{step}");
    }
}

#[test]
fn a_wrong_clock_after_a_reboot_neither_ends_nor_prolongs_a_ban_until_it_is_right() {
    for wrong in [-10 * YEAR, -HOUR, 10 * YEAR] {
        let mut world = World::new();
        let ban = world.ban(5 * DAY);
        world.reboot(MINUTE, wrong);
        world.run(HOUR);
        assert_eq!(world.left(ban), 5 * DAY - HOUR, "{wrong}");
        world.step(-wrong);
        world.run(MINUTE);
        assert_eq!(world.left(ban), 5 * DAY - HOUR - 2 * MINUTE, "{wrong}");
    }
}

#[test]
fn a_clock_that_is_wrong_over_two_reboots_is_made_up_for() {
    let mut world = World::new();
    let ban = world.ban(5 * DAY);
    world.reboot(DAY, -10 * YEAR);
    world.run(HOUR);
    world.reboot(DAY, -10 * YEAR);
    world.run(HOUR);
    world.step(20 * YEAR);
    world.run(MINUTE);
    assert_eq!(world.left(ban), 3 * DAY - 2 * HOUR - MINUTE);
}

#[test]
fn a_ban_ends_while_the_machine_sleeps() {
    let mut world = World::new();
    let (hour, day) = (world.ban(HOUR), world.ban(DAY));
    world.sleep(2 * HOUR);
    assert!(world.has_ended(hour));
    assert_eq!(world.left(day), 22 * HOUR);
    world.restart();
    assert_eq!(world.left(day), 22 * HOUR);
}

#[test]
fn a_clock_of_the_hardware_that_is_seconds_behind_is_right() {
    let mut world = World::new();
    let ban = world.ban(HOUR);
    world.reboot(5 * SECOND, -20 * SECOND);
    assert_eq!(world.keeper.unsettled, None);
    assert_eq!(world.left(ban), HOUR);
}

#[test]
fn a_note_is_written_each_minute_and_when_the_wall_clock_is_set() {
    let mut world = World::new();
    let note = world.note.clone();
    world.run(SECOND);
    assert_eq!(world.note, note);
    world.step(2 * SECOND);
    world.run(0);
    assert_ne!(world.note, note);
    let note = world.note.clone();
    world.run(MINUTE);
    assert_ne!(world.note, note);
}

#[test]
fn a_restart_of_the_daemon_moves_no_end_by_a_nanosecond() {
    let mut world = World::new();
    let ban = world.ban(HOUR);
    let until = world.keeper.instant(ban.until);
    for jitter in [1, -300, 50_000_000] {
        world.asleep += jitter;
        world.restart();
        assert_eq!(world.keeper.instant(world.keeper.time(until)), until);
        assert_eq!(world.keeper.asleep, 0);
    }
}

proptest! {
    /// As long as no clock is wrong, a ban ends exactly at its expiry, whatever the machine does.
    #[test]
    fn with_a_right_clock_a_ban_ends_after_its_length(
        events in events(false), length in 1..20 * DAY,
    ) {
        let mut world = World::new();
        let ban = world.ban(length);
        for event in events {
            world.happen(event);
            let left = length - (world.truth - ban.since);
            prop_assert_eq!(world.left(ban), left.max(0));
        }
    }

    /// With clocks that are set by tens of years, a ban never ends before its length is over, and
    /// always when the machine was on, or asleep, for its length.
    #[test]
    fn with_wrong_clocks_a_ban_ends_neither_too_early_nor_never(
        events in events(true), length in 1..20 * DAY,
    ) {
        let mut world = World::new();
        let ban = world.ban(length);
        for event in events {
            world.happen(event);
            let elapsed = world.truth - ban.since;
            let left = world.left(ban);
            prop_assert!(left >= (length - elapsed).max(0), "ends too early");
            prop_assert!(left <= (length - world.on).max(0), "ends too late");
        }
    }
}

/// An event in the world.
#[derive(Clone, Copy, Debug)]
enum Event {
    Run(i64),
    Sleep(i64),
    Restart,
    /// The wall clock is set by so much.
    Step(i64),
    /// Off for so long, and then with a wall clock that is wrong by so much more.
    Reboot(i64, i64),
}

fn events(wrong: bool) -> impl Strategy<Value = Vec<Event>> {
    let tens = if wrong { -2..=2i64 } else { 0..=0 };
    let event = prop_oneof![
        (0..3 * DAY).prop_map(Event::Run),
        (SECOND..3 * DAY).prop_map(Event::Sleep),
        Just(Event::Restart),
        tens.clone().prop_map(|tens| Event::Step(tens * 10 * YEAR)),
        (0..3 * DAY, tens).prop_map(|(off, tens)| Event::Reboot(off, tens * 10 * YEAR)),
    ];
    prop::collection::vec(event, 1..20)
}

/// A machine, and a daemon that keeps its time.
struct World {
    truth: i64,
    /// The lead of the wall clock over the true time.
    wrong: i64,
    booted: i64,
    boots: u32,
    asleep: i64,
    /// The time for which the machine was on or asleep since the ban.
    on: i64,
    keeper: BanClock,
    note: Note,
}

#[derive(Clone, Copy)]
struct WorldBan {
    since: i64,
    until: i64,
}

impl World {
    fn new() -> Self {
        let truth = 56 * YEAR;
        let mut world = Self {
            truth,
            wrong: 0,
            booted: truth - HOUR,
            boots: 0,
            asleep: 0,
            on: 0,
            keeper: BanClock::resume(
                None,
                "",
                Reading {
                    monotonic: 0,
                    since_boot: 0,
                    wall: 0,
                },
            ),
            note: Note {
                boot: String::new(),
                ahead_ns: 0,
                asleep_ns: 0,
                moment: Moment { time: 0, wall: 0 },
                unsettled: None,
            },
        };
        world.keeper = BanClock::resume(None, "0", world.reading());
        world.write();
        world
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Run(time) => self.run(time),
            Event::Sleep(time) => self.sleep(time),
            Event::Restart => self.restart(),
            Event::Step(step) => {
                self.step(step);
                self.run(0);
            }
            Event::Reboot(off, wrong) => self.reboot(off, wrong),
        }
    }

    fn run(&mut self, time: i64) {
        self.truth += time;
        self.on += time;
        self.tick();
    }

    fn sleep(&mut self, time: i64) {
        self.truth += time;
        self.on += time;
        self.asleep += time;
        self.tick();
    }

    fn step(&mut self, step: i64) {
        self.wrong += step;
    }

    fn restart(&mut self) {
        let boot = self.boots.to_string();
        self.keeper = BanClock::resume(Some(&self.note), &boot, self.reading());
        self.write();
    }

    fn reboot(&mut self, off: i64, wrong: i64) {
        // A machine that is switched off orderly writes its last note.
        self.write();
        self.truth += off;
        self.wrong += wrong;
        self.booted = self.truth;
        self.boots += 1;
        self.asleep = 0;
        self.restart();
    }

    fn tick(&mut self) {
        let now = self.reading();
        if self.keeper.advance(now) || self.keeper.should_note(now) {
            self.write();
        }
    }

    fn write(&mut self) {
        self.note = self.keeper.note(self.reading());
    }

    fn reading(&self) -> Reading {
        let since_boot = self.truth - self.booted;
        Reading {
            monotonic: since_boot - self.asleep,
            since_boot,
            wall: self.truth + self.wrong,
        }
    }

    fn ban(&mut self, length: i64) -> WorldBan {
        self.on = 0;
        let now = Instant::from_nanos(self.reading().monotonic.cast_unsigned());
        WorldBan {
            since: self.truth,
            until: self.keeper.time(now) + length,
        }
    }

    /// Returns the rest of a ban by the kernel's clock.
    fn left(&self, ban: WorldBan) -> i64 {
        let until = signed(self.keeper.instant(ban.until).as_nanos());
        (until - self.reading().monotonic).max(0)
    }

    fn has_ended(&self, ban: WorldBan) -> bool {
        self.left(ban) == 0
    }
}
