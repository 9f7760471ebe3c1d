//! `pass-all`, over restarts and failures.

use std::fs;

use ratelimit_core::api::{PassAllRequest, PassAllStatus, What};

use super::*;

#[test]
fn everything_passes_until_it_is_ended_and_over_restarts() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], None).unwrap();
    let status = lab.pass_all(true, None).unwrap().unwrap();
    assert_eq!((status.until, status.author.as_str()), (None, "root"));
    lab.check("192.0.2.1", "pass", "pass-all", None, "default");
    lab.restart();
    assert!(lab.is_open());
    assert_eq!(lab.status().pass_all, Some(status));
    lab.limit(None, 5).unwrap();
    assert!(lab.is_open(), "a change of limits ends it");
    assert!(lab.pass_all(false, None).unwrap().is_some(), "what ended");
    assert_eq!(lab.pass_all(false, None).unwrap(), None);
    assert!(!lab.is_open());
    lab.restart();
    assert!(!lab.is_open());
    lab.pass_all(false, None).unwrap();
}

#[test]
fn it_ends_by_itself_at_its_end() {
    let mut lab = Lab::new(config());
    lab.pass_all(true, Some(600.0)).unwrap();
    lab.tick();
    assert!(lab.is_open());
    lab.pass_all(true, Some(0.01)).unwrap();
    thread::sleep(Duration::from_millis(20));
    lab.restart();
    lab.tick();
    assert!(!lab.is_open());
    assert_eq!(lab.status().pass_all, None);
}

#[test]
fn the_kernel_knows_its_end_and_is_told_the_same_again_after_a_restart() {
    let mut lab = Lab::new(config());
    assert_eq!(lab.open_until(), Instant::from_nanos(0));
    lab.pass_all(true, None).unwrap();
    assert_eq!(lab.open_until(), Instant::from_nanos(u64::MAX));
    lab.pass_all(true, Some(600.0)).unwrap();
    let until = lab.open_until();
    let length = until.as_nanos() - clock::now().as_nanos();
    assert!((590_000_000_000..600_000_000_000).contains(&length));
    lab.restart();
    assert_eq!(lab.open_until(), until);
    lab.pass_all(false, None).unwrap();
    assert_eq!(lab.open_until(), Instant::from_nanos(0));
}

#[test]
fn in_another_boot_it_lasts_no_longer_than_it_was_to_whatever_the_wall_clock_shows() {
    let mut lab = Lab::new(config());
    lab.pass_all(true, Some(600.0)).unwrap();
    let file = lab.directory.path().join("pass-all.json");
    let kept = fs::read_to_string(&file).unwrap();
    let boot = clock::boot_id();
    fs::write(&file, kept.replace(&boot, "another boot")).unwrap();
    lab.restart();
    let length = lab.open_until().as_nanos() - clock::now().as_nanos();
    assert!(
        (580_000_000_000..601_000_000_000).contains(&length),
        "{length}"
    );
    let status = lab.status().pass_all.unwrap();
    let year = |time: Timestamp| time.to_string()[..4].to_owned();
    let (since, until) = (year(status.since), year(status.until.unwrap()));
    // The wall clock was wrong by centuries when it began.
    let shifted = fs::read_to_string(&file).unwrap();
    let shifted = shifted.replace(&since, "2190").replace(&until, "2190");
    fs::write(&file, shifted).unwrap();
    lab.restart();
    let length = lab.open_until().as_nanos() - clock::now().as_nanos();
    assert!(
        (580_000_000_000..601_000_000_000).contains(&length),
        "{length}"
    );
}

#[test]
fn its_begin_and_its_end_are_events() {
    let mut lab = Lab::new(config());
    lab.pass_all(true, None).unwrap();
    lab.pass_all(false, None).unwrap();
    lab.pass_all(true, Some(0.001)).unwrap();
    thread::sleep(Duration::from_millis(5));
    lab.tick();
    let events = lab.events();
    let bys = events.iter().map(|event| {
        if let What::PassAllOn { by, .. } = &event.what {
            return (true, Some(by.as_ref()));
        }
        let What::PassAllOff { by } = &event.what else {
            panic!("{event:?}");
        };
        (false, by.as_deref())
    });
    let root = Some("root");
    let expected = [(true, root), (false, root), (true, root), (false, None)];
    assert!(bys.eq(expected), "{events:?}");
}

#[test]
fn a_time_that_makes_no_sense_is_refused() {
    let mut lab = Lab::new(config());
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        lab.pass_all(true, Some(seconds)).unwrap_err();
    }
    assert!(!lab.is_open());
}

#[test]
fn a_file_that_is_damaged_is_still_the_last_word() {
    let mut lab = Lab::new(config());
    lab.pass_all(true, None).unwrap();
    fs::write(lab.directory.path().join("pass-all.json"), "{").unwrap();
    lab.restart();
    assert!(lab.is_open());
    assert_eq!(lab.status().pass_all.unwrap().author, "unknown");
    lab.pass_all(false, None).unwrap();
    lab.restart();
    assert!(!lab.is_open());
}

#[test]
fn it_ends_also_where_that_cannot_be_written_down() {
    let runtime: fn(&mut Lab) = |lab| drop(lab.pass_all(false, None).unwrap());
    let by_its_time: fn(&mut Lab) = |lab| {
        thread::sleep(Duration::from_millis(20));
        lab.tick();
    };
    for (seconds, end) in [(None, runtime), (Some(0.01), by_its_time)] {
        let mut lab = Lab::new(config());
        lab.pass_all(true, seconds).unwrap();
        let file = lab.directory.path().join("pass-all.json");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        end(&mut lab);
        assert!(!lab.is_open());
        lab.tick();
        let unkept = lab.unkept();
        assert!(unkept[0].contains("pass-all.json"), "{unkept:?}");
        fs::remove_dir(&file).unwrap();
        lab.tick();
        assert!(lab.unkept().is_empty());
        lab.restart();
        assert!(!lab.is_open());
    }
}

#[test]
fn it_opens_everything_also_where_that_cannot_be_written_down() {
    let mut lab = Lab::new(config());
    let obstacle = lab.directory.path().join("pass-all.new");
    fs::create_dir(&obstacle).unwrap();
    lab.pass_all(true, None).unwrap().unwrap();
    assert!(lab.is_open());
    assert_eq!(lab.unkept().len(), 1);
    fs::remove_dir(&obstacle).unwrap();
    lab.tick();
    assert!(lab.unkept().is_empty());
    lab.restart();
    assert!(lab.is_open());
}

#[test]
fn what_the_kernel_refuses_is_not_told_as_done() {
    let mut lab = Lab::new(config());
    for is_open in [false, true] {
        lab.refuse_settings(true);
        lab.pass_all(!is_open, None).unwrap_err();
        assert_eq!(lab.feeds.pass_all.status().is_some(), is_open);
        lab.refuse_settings(false);
        lab.tick();
        assert_eq!(lab.is_open(), is_open);
        lab.pass_all(true, None).unwrap();
    }
}

impl Lab {
    fn pass_all(
        &mut self,
        on: bool,
        seconds: Option<f64>,
    ) -> Result<Option<PassAllStatus>, Refused> {
        let request = PassAllRequest { on, seconds };
        self.set_pass_all(request, "root")
    }

    fn open_until(&self) -> Instant {
        self.tables().policies.pass_all_until().unwrap()
    }

    fn is_open(&self) -> bool {
        self.settings().pass_all()
    }
}
