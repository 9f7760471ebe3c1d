//! `pass-all`, over restarts and failures.

use super::*;
use crate::api::{PassAllRequest, PassAllStatus, What};

#[test]
fn everything_passes_until_it_is_ended_and_over_restarts() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], None).unwrap();
    let status = lab.pass_all(true, None).unwrap().unwrap();
    assert_eq!((status.until, status.author.as_str()), (None, "root"));
    lab.check("192.0.2.1", "pass", "pass-all", None, "default");
    lab.restart();
    assert!(lab.is_open());
    assert_eq!(lab.controller.status().pass_all, Some(status));
    lab.limit(None, 5).unwrap();
    assert!(lab.is_open(), "a change of limits ends it");
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
    lab.controller.tick();
    assert!(lab.is_open());
    lab.pass_all(true, Some(0.01)).unwrap();
    thread::sleep(Duration::from_millis(20));
    lab.restart();
    lab.controller.tick();
    assert!(!lab.is_open());
    assert_eq!(lab.controller.status().pass_all, None);
}

#[test]
fn its_begin_and_its_end_are_events() {
    let mut lab = Lab::new(config());
    lab.pass_all(true, None).unwrap();
    lab.pass_all(false, None).unwrap();
    lab.pass_all(true, Some(0.001)).unwrap();
    thread::sleep(Duration::from_millis(5));
    lab.controller.tick();
    let events = lab.controller.journal().kept();
    let bys = events.iter().map(|event| match &event.what {
        What::PassAllOn { by, .. } => (true, Some(by.as_ref())),
        What::PassAllOff { by } => (false, by.as_deref()),
        other => panic!("{other:?}"),
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
    std::fs::write(lab.state.path().join("pass-all.json"), "{").unwrap();
    lab.restart();
    assert!(lab.is_open());
    assert_eq!(lab.controller.status().pass_all.unwrap().author, "unknown");
    lab.pass_all(false, None).unwrap();
    lab.restart();
    assert!(!lab.is_open());
}

impl Lab {
    fn pass_all(
        &mut self,
        on: bool,
        seconds: Option<f64>,
    ) -> Result<Option<PassAllStatus>, Refused> {
        let request = PassAllRequest { on, seconds };
        self.controller.set_pass_all(request, "root")
    }

    fn is_open(&self) -> bool {
        self.memory.lock().unwrap().settings.pass_all()
    }
}
