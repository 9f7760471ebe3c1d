//! Commands for a wrong ban, a new file, or a look back at the last hour.

use std::{fs, io::Write as _, path::Path, process::Stdio};

use ratelimit_core::api::{Ban, Event};
use ratelimit_tests::{
    executable, require_command, require_root,
    service::{Service, binary},
};

const CONFIG: &str = "[policy.default]\nlimits = [{ packets = 100, per = \"1s\" }]\n";

#[test]
fn bans_are_found_and_ended_by_what_is_known_of_them() {
    require_root!();
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    for line in [
        "ban 203.0.113.7 --for 5m --reason scan",
        "ban 203.0.113.8 --reason Flood",
        "ban 198.51.100.9 --program sshd --for 1h",
        "ban 198.51.100.0/25 --forever",
    ] {
        service.rlctl_ok(&words(line)).unwrap();
    }
    let list = fs::write(service.path("list.txt"), "203.0.113.64/26\n");
    list.unwrap();
    let path = service.path("list.txt").display().to_string();
    service
        .rlctl_ok(&["import", &path, "--list", "drop"])
        .unwrap();
    for (filter, expected) in [
        (
            "--within 203.0.113.0/24",
            "203.0.113.7 203.0.113.8 203.0.113.64/26",
        ),
        ("--origin list", "203.0.113.64/26"),
        ("--origin program", "198.51.100.9"),
        ("--reason flood", "203.0.113.8"),
        ("--ending 10m", "203.0.113.7"),
        ("--ending 2h --within 198.51.100.0/24", "198.51.100.9"),
        ("--origin cluster", ""),
    ] {
        let line = format!("list bans --json {filter}");
        let said = service.rlctl_ok(&words(&line)).unwrap();
        let mut bans: Vec<Ban> = serde_json::from_str(&said).unwrap();
        bans.sort_by_key(|ban| ban.prefix);
        let found: Vec<String> = bans.iter().map(|ban| ban.prefix.to_string()).collect();
        let mut expected = words(expected);
        expected.sort_unstable();
        let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{filter}");
    }
    let said = service
        .rlctl(&words("unban --within 203.0.113.0/24"))
        .unwrap();
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (0, "removed 2 bans\n"),
        "{said:?}"
    );
    let said = service
        .rlctl(&words("unban --within 203.0.113.0/24"))
        .unwrap();
    assert_eq!(
        said.code, 1,
        "the list stays, and nothing else was there: {said:?}"
    );
    let said = service.rlctl_ok(&words("unban --origin program")).unwrap();
    assert_eq!(said, "removed 1 ban\n");
    assert_eq!(service.rlctl(&["unban"]).unwrap().code, 2);
    assert_eq!(
        service.rlctl_ok(&words("unban --all")).unwrap(),
        "removed 1 ban\n"
    );
}

#[test]
fn a_difference_is_shown_and_nothing_changes() {
    require_root!();
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    let same = service.rlctl_ok(&words("reload --dry-run")).unwrap();
    assert!(same.contains("no changes"), "{same}");
    service.configure(&CONFIG.replace("100", "200")).unwrap();
    let said = service.rlctl_ok(&words("reload --dry-run")).unwrap();
    assert!(
        said.contains(": 1 change\n  policy default: 100 packets per 1s -> 200 packets per 1s"),
        "{said}"
    );
    let file = service.path("new.toml");
    let new = fs::read_to_string(service.config())
        .unwrap()
        .replace("packets = 200", "packets = 300");
    fs::write(&file, new).unwrap();
    let file = file.display().to_string();
    let said = service.rlctl_ok(&["reload", "--dry-run", &file]).unwrap();
    assert!(
        said.contains("100 packets per 1s -> 300 packets per 1s"),
        "{said}"
    );
    let limits = service.rlctl_ok(&["list", "limits"]).unwrap();
    assert!(limits.contains("100 packets per 1s"), "{limits}");
    fs::write(&file, "[policy.default]\nlimit = 3\n").unwrap();
    assert_eq!(
        service.rlctl(&["reload", "--dry-run", &file]).unwrap().code,
        1
    );
}

#[test]
fn shells_complete_at_the_first_tab() {
    require_root!();
    require_command!("fish");
    require_command!("script");
    require_command!("zsh");
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    service
        .rlctl_ok(&["ban", "203.0.113.7", "--program", "sshd"])
        .unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/debian/completions");
    let rlctl = binary("rlctl");
    let path = format!("{}:/usr/bin:/bin", rlctl.parent().unwrap().display());
    let home = service.path("home");
    fs::create_dir_all(home.join(".config/fish/completions")).unwrap();
    fs::copy(
        shipped.join("rlctl.fish"),
        home.join(".config/fish/completions/rlctl.fish"),
    )
    .unwrap();
    let shell = |program: &str| {
        let mut shell = service.inside(Path::new(program));
        shell.env("PATH", &path).env("HOME", &home);
        shell.env("RATELIMIT_SOCKET", service.path("run/control.sock"));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        shell
    };
    for (line, expected) in [
        ("rlctl unb", "unban"),
        ("rlctl unban 203", "203.0.113.7"),
        ("rlctl unban --origin prog", "program:sshd"),
        ("rlctl stats --quota policy:", "policy:default"),
    ] {
        let complete = format!("complete -C '{line}'");
        let output = shell("fish").args(["-c", &complete]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.lines().any(|it| it.starts_with(expected)), "{said}");
    }
    // In zsh, three Tabs complete the end of the ban.
    let mut zsh = shell("script")
        .args(["-qec", "zsh -f -i", "/dev/null"])
        .spawn()
        .unwrap();
    let typed = format!(
        "fpath=({} $fpath); autoload -Uz compinit; compinit -u -D\n\
         rlctl unb\t--ori\tprog\t\n\
         exit\n",
        shipped.display()
    );
    let mut stdin = zsh.stdin.take().unwrap();
    stdin.write_all(typed.as_bytes()).unwrap();
    let said = zsh.wait_with_output().unwrap();
    drop(stdin);
    let bans = service.rlctl_ok(&["list", "bans", "--json"]).unwrap();
    assert_eq!(bans, "[]\n", "{}", String::from_utf8_lossy(&said.stdout));
}

#[test]
fn a_program_hears_of_each_event_once_however_often_the_follower_restarts() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(CONFIG).unwrap();
    let ban = |service: &Service, source: &str| service.rlctl_ok(&["ban", source]).unwrap();
    ban(&service, "203.0.113.1");
    let (program, heard) = (service.path("hook"), service.path("heard"));
    let script = format!("#!/bin/sh\ncat >> {}\n", heard.display());
    executable::script(&program, &script).unwrap();
    let cursor = service.path("cursor");
    let follow = |service: &Service| {
        let mut rlctl = service.inside(&binary("rlctl"));
        rlctl.arg("--socket").arg(service.path("run/control.sock"));
        rlctl.args(["events", "--follow", "--kind", "bans", "--cursor-file"]);
        rlctl.arg(&cursor).arg("--run").arg(&program);
        rlctl.stdout(Stdio::null()).spawn().unwrap()
    };
    let heard_of = || -> Vec<String> {
        let heard = fs::read_to_string(&heard).unwrap_or_default();
        let events = heard.lines().map(serde_json::from_str::<Event>);
        let prefix = |event: Event| event.what.prefix().unwrap().to_string();
        events.map(|event| prefix(event.unwrap())).collect()
    };
    let number = || -> u64 {
        let cursor = fs::read_to_string(&cursor).unwrap_or_default();
        let change = cursor.split('-').next().unwrap_or_default();
        change.parse().unwrap_or(0)
    };
    // Earlier events are not shown, as they were not requested.
    let mut follower = follow(&service);
    service.wait_until("the first", || number() > 0);
    let first = number();
    ban(&service, "203.0.113.2");
    service.wait_until("the second", || number() == first + 1);
    follower.kill().unwrap();
    follower.wait().unwrap();
    ban(&service, "203.0.113.3");
    let mut follower = follow(&service);
    ban(&service, "203.0.113.4");
    service.wait_until("what was missed", || number() == first + 3);
    service.stop("-TERM").unwrap();
    follower.wait().unwrap();
    service.start().unwrap();
    let mut follower = follow(&service);
    ban(&service, "203.0.113.5");
    service.wait_until("the last", || number() > first + 3);
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert_eq!(
        heard_of(),
        ["203.0.113.2", "203.0.113.3", "203.0.113.4", "203.0.113.5"]
    );
    fs::write(&cursor, "behind the others\n").unwrap();
    let cursor = cursor.to_str().unwrap();
    let said = service.rlctl(&["events", "--cursor-file", cursor]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
