//! Reports while the controller does not respond.

use std::sync::{
    atomic::{AtomicUsize, Ordering::SeqCst},
    mpsc,
};

use tokio::runtime::Runtime;

use super::*;
use crate::{clock, control, daemon::keep_time};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_controller_that_is_stuck_is_reported_with_what_and_no_one_says_that_it_lives() {
    let lab = Lab::new(config());
    let Lab { controller, .. } = lab;
    let (handle, thread) = controller.spawn().unwrap();
    let runtime = Runtime::new().unwrap();
    let alive = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&alive);
    let ticks = keep_time(handle.clone(), move || {
        counted.fetch_add(1, SeqCst);
    });
    let ticks = runtime.spawn(ticks);
    wait_until(|| alive.load(SeqCst) >= 2);
    let (release, held) = mpsc::channel::<()>();
    let stuck = handle.clone();
    runtime.spawn(control::asked_as("POST /v1/reload by root", async move {
        stuck.ask(waits(held)).await
    }));
    let is_stuck = || {
        handle
            .busy()
            .is_some_and(|it| it.to_string().contains("POST /v1/reload by root"))
    };
    wait_until(is_stuck);
    let reported = handle.busy().unwrap().to_string();
    assert!(
        reported.starts_with("busy with POST /v1/reload by root since 20"),
        "{reported}"
    );
    let before = alive.load(SeqCst);
    thread::sleep(Duration::from_millis(2500));
    assert!(alive.load(SeqCst) <= before + 1);
    release.send(()).unwrap();
    wait_until(|| alive.load(SeqCst) > before + 1);
    ticks.abort();
    drop(handle);
    drop(runtime);
    thread.join().unwrap();
}

fn wait_until(holds: impl Fn() -> bool) {
    let begun = clock::monotonic();
    while !holds() {
        assert!(clock::elapsed(begun) < PATIENCE, "it does not come");
        thread::sleep(Duration::from_millis(10));
    }
}
