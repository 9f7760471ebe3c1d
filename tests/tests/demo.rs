//! `rlctl demo`: all counts match their limits, and nothing remains, also after Ctrl-C.

use std::{
    fs,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use ratelimit_tests::{require_root, service::binary};

/// It sends by then.
const IN_THE_MIDDLE: Duration = Duration::from_secs(4);

#[test]
fn the_demo_matches_its_limits_and_removes_everything() {
    require_root!();
    let demo = start();
    let id = demo.id();
    let output = demo.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("All 8 counts match the limits"), "{said}");
    assert_eq!(remains(id), Vec::<String>::new());
}

#[test]
fn a_demo_that_is_interrupted_removes_everything() {
    require_root!();
    let demo = start();
    let id = demo.id();
    thread::sleep(IN_THE_MIDDLE);
    let kill = Command::new("kill")
        .args(["-INT", &id.to_string()])
        .status();
    assert!(kill.unwrap().success());
    let output = demo.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the demo failed: interrupted"), "{said}");
    assert_eq!(remains(id), Vec::<String>::new());
}

fn start() -> Child {
    let mut demo = Command::new(binary("rlctl"));
    demo.arg("demo")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    demo.spawn().unwrap()
}

/// Files and processes that have the name of the demo.
fn remains(id: u32) -> Vec<String> {
    let name = format!("ratelimit-demo-{id}");
    let files = [std::env::temp_dir(), "/sys/fs/bpf".into()].map(|it| it.join(&name));
    let files = files.into_iter().filter(|it| it.exists());
    let files = files.map(|it| it.display().to_string());
    let processes = fs::read_dir("/proc").unwrap().filter_map(|it| {
        let line = fs::read_to_string(it.ok()?.path().join("cmdline")).ok()?;
        line.contains(&name).then_some(line)
    });
    files.chain(processes).collect()
}
