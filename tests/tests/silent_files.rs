//! Files on a file system that does not respond, such as one of a lost server: only the client that
//! requested them waits.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ratelimit_core::api::ListView;
use ratelimit_tests::{
    Lab, PATIENCE, require_file, require_root,
    service::{Service, binary},
    silent::Silent,
};

const UNLIMITED: &str = "[policy.default]\nlimits = []\n";
const SILENCE: &str = "its file system does not respond";

#[test]
fn a_reload_and_a_trial_that_wait_for_a_list_keep_nobody_from_banning() {
    require_root!();
    require_file!("/dev/fuse");
    let (_lab, service) = Service::in_lab(UNLIMITED).unwrap();
    let (_silent, file) = silent(&service);
    let config = format!("{UNLIMITED}[list.far]\nfile = \"{file}\"\n");
    service.configure(&config).unwrap();
    let whole = service.config().display().to_string();
    for (number, words) in [&["reload"][..], &["apply", &whole, "--confirm", "60s"]]
        .into_iter()
        .enumerate()
    {
        let mut waiting = spawn(&service, words);
        let source = format!("203.0.113.{number}");
        for word in ["ban", "check", "unban"] {
            let child = spawn(&service, &[word, &source]);
            let (code, said) = end(child, word);
            let expected = if word == "check" { 3 } else { 0 };
            assert_eq!(code, expected, "{word}: {said}");
            if word == "ban" {
                let is_over = waiting.try_wait().unwrap().is_some();
                assert!(!is_over, "{words:?} was over first: the ban waited for it");
            }
        }
        let (code, said) = end(waiting, words[0]);
        assert!(code == 1 && said.contains(SILENCE), "{words:?}: {said}");
    }
    let lists = service.rlctl_ok(&["--json", "list", "lists"]).unwrap();
    assert_eq!(lists.trim(), "[]");
}

#[test]
fn lists_are_read_beside_one_that_does_not_answer_which_is_read_when_it_does() {
    require_root!();
    require_file!("/dev/fuse");
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, UNLIMITED).unwrap();
    let near = service.path("near.txt");
    fs::write(&near, "203.0.113.1\n").unwrap();
    let far = service.path("far");
    fs::create_dir(&far).unwrap();
    fs::write(far.join("list.txt"), "203.0.113.2\n").unwrap();
    service
        .configure(&format!(
            "{UNLIMITED}[list.near]\n\
             file = \"{}\"\n\
             every = \"1s\"\n\
             [list.far]\n\
             file = \"{}\"\n\
             every = \"1s\"\n",
            near.display(),
            far.join("list.txt").display()
        ))
        .unwrap();
    service.start().unwrap();
    let silent = Silent::mounted(&far).unwrap();
    wait_for(&service, "the silence", |lists| {
        far_of(lists)
            .error
            .as_ref()
            .is_some_and(|it| it.contains(SILENCE))
    });
    fs::write(&near, "203.0.113.1\n203.0.113.3\n").unwrap();
    wait_for(&service, "the list beside it", |lists| {
        lists
            .iter()
            .any(|it| &*it.name == "near" && it.entries == 2)
    });
    // The daemon also starts, with what it knows.
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    wait_for(&service, "the start", |lists| far_of(lists).entries == 1);
    drop(silent);
    fs::write(far.join("list.txt"), "203.0.113.2\n203.0.113.4\n").unwrap();
    wait_for(&service, "its answer", |lists| far_of(lists).entries == 2);
}

/// A list in a directory that does not answer.
fn silent(service: &Service) -> (Silent, String) {
    let path = service.path("silent");
    fs::create_dir(&path).unwrap();
    let silent = Silent::mounted(&path).unwrap();
    (silent, path.join("list.txt").display().to_string())
}

fn spawn(service: &Service, words: &[&str]) -> Child {
    let socket: PathBuf = service.path("run/control.sock");
    let mut command: Command = service.inside(&binary("rlctl"));
    command.arg("--socket").arg(socket).args(words);
    let command = command.env("NO_COLOR", "1").env_remove("SSH_CONNECTION");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the exit code and the output of a child.
#[track_caller]
fn end(mut child: Child, what: &str) -> (i32, String) {
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{what} waits");
        }
        thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.code().unwrap(), said)
}

fn far_of(lists: &[ListView]) -> &ListView {
    lists.iter().find(|list| &*list.name == "far").unwrap()
}

#[track_caller]
fn wait_for(service: &Service, what: &str, is_so: impl Fn(&[ListView]) -> bool) {
    service.wait_until(what, || {
        let lists: Vec<ListView> = service.json(&["list", "lists"]).unwrap();
        is_so(&lists)
    });
}
