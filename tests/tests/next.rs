//! `chain`: passed packets continue to another XDP program, and dropped ones do not.

use std::{
    net::Ipv4Addr,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{
    Lab,
    foreign::{Answer, Pin},
    lab::{INTERFACE, LAST, Receiver, Sender},
    packet::datagram,
    require_command, require_root,
    service::Service,
};

const BANNED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const FREE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const ALSO: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
const COUNTED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 200);
const FILTERED: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 77);
/// The longest time until a frame arrives, and the longest delay behind one that was sent later.
const LATE: Duration = Duration::from_millis(500);
const SOON: Duration = Duration::from_millis(20);
const POLICY: &str = "[policy.default]\nlimits = []\n";

/// The fate of a packet that was sent to the interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    /// The stack has it.
    Passed,
    /// It came back.
    Returned,
    /// It has arrived nowhere.
    Dropped,
}

#[test]
fn only_passing_packets_reach_the_next_program() {
    require_root!();
    let next = Pin::answering(Answer::Return, false).unwrap();
    let lab = lab();
    let mut service = Service::started(&lab, &with_next(&next, "")).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    let expect = |step: &str, fates: [Fate; 2]| {
        assert_eq!([BANNED, FREE].map(|it| fate(&lab, it)), fates, "{step}");
    };
    expect("as it is", [Fate::Dropped, Fate::Returned]);
    let status = service.rlctl_ok(&["status"]).unwrap();
    let told = "passed packets go to the program at /sys/fs/bpf/";
    assert!(status.contains(told), "{status}");
    let check = service.rlctl_ok(&["check", &FREE.to_string()]).unwrap();
    assert!(
        check.contains("next: packets that pass on rl0 go to"),
        "{check}"
    );
    service
        .rlctl_ok(&["pass-all", "on", "--for", "1m"])
        .unwrap();
    expect("everything passes", [Fate::Returned, Fate::Returned]);
    service.rlctl_ok(&["pass-all", "off"]).unwrap();
    service.stop("-KILL").unwrap();
    expect("no daemon", [Fate::Dropped, Fate::Returned]);
    service.start().unwrap();
    expect("the next daemon", [Fate::Dropped, Fate::Returned]);
    service
        .reload(&with_next(&next, "").replace("limits", "observe = true\nlimits"))
        .unwrap();
    expect("a dry run of the policy", [Fate::Dropped, Fate::Returned]);
    service
        .reload(&format!("observe = true\n{}", with_next(&next, "")))
        .unwrap();
    expect("a dry run", [Fate::Returned, Fate::Returned]);
    let said = service.reload(POLICY).unwrap();
    assert!(said.contains("interface rl0: next /sys/fs/bpf/"), "{said}");
    expect("no next program", [Fate::Dropped, Fate::Passed]);
    let other = Pin::answering(Answer::Pass, false).unwrap();
    service.reload(&with_next(&other, "")).unwrap();
    expect("another one", [Fate::Dropped, Fate::Passed]);
    service.reload(&with_next(&next, "")).unwrap();
    expect("the first again", [Fate::Dropped, Fate::Returned]);
}

#[test]
fn frames_of_several_buffers_continue_too() {
    require_root!();
    let next = Pin::answering(Answer::Return, true).unwrap();
    let lab = lab();
    let service = Service::started(&lab, &with_next(&next, "jumbo = true\n")).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    let fates = [BANNED, FREE].map(|it| fate(&lab, it));
    assert_eq!(fates, [Fate::Dropped, Fate::Returned]);
}

/// xdp-filter drops a source after our program, which continues to drop its own, and passes the
/// others.
#[test]
fn xdp_filter_gets_passing_packets() {
    require_root!();
    require_command!("xdp-loader");
    require_command!("bpftool");
    let next = Pin::xdp_filter().unwrap();
    filter(&next, FILTERED);
    let lab = lab();
    let service = Service::started(&lab, &with_next(&next, "")).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    let fates = [BANNED, FILTERED, FREE].map(|it| fate(&lab, it));
    assert_eq!(fates, [Fate::Dropped, Fate::Dropped, Fate::Passed]);
    // Ours has not seen it as dropped.
    let stats: serde_json::Value = service.json(&["stats"]).unwrap();
    let rows = stats.as_array().unwrap().iter();
    let dropped = rows.filter(|row| row["action"] == "drop");
    let dropped: u64 = dropped.map(|row| row["packets"].as_u64().unwrap()).sum();
    assert_eq!(dropped, 1, "{stats}");
}

#[test]
fn a_program_that_cannot_be_called_is_named_and_the_old_one_keeps_running() {
    require_root!();
    require_command!("bpftool");
    let lab = lab();
    let service = Service::started(&lab, POLICY).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    let frags = Pin::answering(Answer::Return, true).unwrap();
    let whole = Pin::answering(Answer::Return, false).unwrap();
    let filter = Pin::socket_filter().unwrap();
    let ours = Pin::vacant();
    let run = "bpftool -j net show dev \"$1\" | grep -o '\"id\":[0-9]*' | head -1 | cut -d: -f2";
    let mut shell = service.inside(std::path::Path::new("sh"));
    let id = shell.args(["-c", run, "sh", INTERFACE]).output().unwrap();
    let id = String::from_utf8(id.stdout).unwrap();
    let pin = ["prog", "pin", "id", id.trim(), ours.text()];
    assert!(
        Command::new("bpftool")
            .args(pin)
            .status()
            .unwrap()
            .success()
    );
    for (next, more, expected) in [
        (&Pin::vacant(), "", "there is no program at"),
        (
            &frags,
            "",
            "supports multi-buffer frames (`xdp.frags`), but ours does not",
        ),
        (
            &whole,
            "jumbo = true\n",
            "does not support multi-buffer frames",
        ),
        (&filter, "", "is not an XDP program"),
        (&ours, "", "is ratelimit itself"),
    ] {
        service.configure(&with_next(next, more)).unwrap();
        let said = service.rlctl(&["reload"]).unwrap();
        let said = format!("{}{}", said.stdout, said.stderr);
        assert!(said.contains(expected), "{said}");
        let fates = [BANNED, FREE].map(|it| fate(&lab, it));
        assert_eq!(fates, [Fate::Dropped, Fate::Passed], "{expected}");
        assert!(!is_told(&service), "{expected}");
    }
    service.reload(&with_next(&whole, "")).unwrap();
    assert_eq!(fate(&lab, FREE), Fate::Returned);
    assert!(is_told(&service));
    // The program of before keeps its next one too.
    service
        .configure(&with_next(&whole, "jumbo = true\n"))
        .unwrap();
    service.rlctl(&["reload"]).unwrap();
    assert_eq!(fate(&lab, FREE), Fate::Returned);
}

/// The kernel holds what it calls: a pin that is renamed or removed takes nothing away, until
/// another program is asked for.
#[test]
fn a_called_program_continues_if_its_pin_is_renamed_or_removed() {
    require_root!();
    let (next, renamed) = (
        Pin::answering(Answer::Return, false).unwrap(),
        Pin::vacant(),
    );
    let lab = lab();
    let mut service = Service::started(&lab, &with_next(&next, "")).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    let goes_on = |step: &str| {
        let fates = [BANNED, FREE].map(|it| fate(&lab, it));
        assert_eq!(fates, [Fate::Dropped, Fate::Returned], "{step}");
    };
    std::fs::rename(next.path(), renamed.path()).unwrap();
    goes_on("renamed");
    service.rlctl_ok(&["reload"]).unwrap();
    goes_on("reloaded without the pin");
    // The program is replaced by one with more features.
    let node = "[node]\nlimits = [{ packets = 1_000_000, per = \"1s\" }]\n";
    service.reload(&with_next(&next, node)).unwrap();
    goes_on("another program without the pin");
    // It comes with tables of its own.
    let refused = format!(
        "[source]\nstore = \"compact\"\n\
         [policy.refused]\nsources = [\"{FILTERED}\"]\naction = \"drop\"\n"
    );
    service.reload(&with_next(&next, &refused)).unwrap();
    goes_on("other tables without the pin");
    assert_eq!(fate(&lab, FILTERED), Fate::Dropped);
    service.reload(&with_next(&renamed, "")).unwrap();
    goes_on("by its new name");
    std::fs::remove_file(renamed.path()).unwrap();
    goes_on("removed");
    service.stop("-KILL").unwrap();
    goes_on("no daemon");
    service.start().unwrap();
    goes_on("the next daemon");
    // The previous program judges the packets, so everything is enforced.
    let status = service.rlctl_ok(&["status"]).unwrap();
    let gone = format!("there is no program at {}", renamed.text());
    assert!(status.contains(&gone), "{status}");
    let other = Pin::answering(Answer::Pass, false).unwrap();
    service.reload(&with_next(&other, "")).unwrap();
    assert_eq!(
        [BANNED, FREE].map(|it| fate(&lab, it)),
        [Fate::Dropped, Fate::Passed]
    );
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(!status.contains(&gone), "{status}");
}

/// The program that runs then has the tables of the previous configuration, which nobody fills.
#[test]
fn a_start_with_other_tables_and_without_the_pin_enforces_the_new_rules_and_keeps_the_chain() {
    require_root!();
    let next = Pin::answering(Answer::Return, false).unwrap();
    let lab = lab();
    let mut service = Service::started(&lab, &with_next(&next, "")).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    let expect = |step: &str, sources: [Ipv4Addr; 2]| {
        let fates = sources.map(|it| fate(&lab, it));
        assert_eq!(fates, [Fate::Dropped, Fate::Returned], "{step}");
    };
    let gone = |service: &Service, path: &str| {
        let status = service.rlctl_ok(&["status"]).unwrap();
        let gone = format!("there is no program at {path}");
        assert!(status.contains(&gone), "{status}");
    };
    std::fs::remove_file(next.path()).unwrap();
    let refused = format!(
        "[policy.refused]\nsources = [\"{FILTERED}\"]\naction = \"drop\"\n\
         [policy.counted]\nsources = [\"{COUNTED}\"]\nlimits = [{{ packets = 9, per = \"1h\" }}]\n"
    );
    let elsewhere = Pin::vacant();
    // The next programs of the old rules and of the new ones, with tables that do not fit the
    // previous ones.
    for (tables, chain) in [
        ("store = \"compact\"\nipv4_prefix = 24", &next),
        ("ipv4_prefix = 28", &elsewhere),
    ] {
        for (signal, used) in [("-TERM", 1), ("-KILL", 2)] {
            service.stop(signal).unwrap();
            expect("no daemon", [BANNED, FREE]);
            let config = format!("{}[source]\n{tables}\n{refused}", with_next(chain, ""));
            service.configure(&config).unwrap();
            service.start().unwrap();
            expect("a ban of before", [BANNED, FREE]);
            expect("a policy of the new configuration", [FILTERED, FREE]);
            // The daemon sees what the program counts.
            assert_eq!(fate(&lab, COUNTED), Fate::Returned);
            gone(&service, chain.text());
            service.rlctl_ok(&["ban", &ALSO.to_string()]).unwrap();
            expect("a ban of now", [ALSO, FREE]);
            service.rlctl_ok(&["unban", &ALSO.to_string()]).unwrap();
            let check = service.rlctl_ok(&["check", &COUNTED.to_string()]).unwrap();
            let used = format!("limit: 9 packets per 1h: {used} used");
            assert!(check.contains(&used), "{check}");
        }
    }
    // The same by a reload that also names a pin that is not there.
    let reloaded = format!("{refused}[source]\nstore = \"compact\"\n");
    service.configure(&with_next(&next, &reloaded)).unwrap();
    service.rlctl(&["reload"]).unwrap();
    service.rlctl_ok(&["ban", &ALSO.to_string()]).unwrap();
    expect("after a reload", [ALSO, FREE]);
    gone(&service, next.text());
    let again = Pin::answering(Answer::Pass, false).unwrap();
    std::fs::rename(again.path(), next.path()).unwrap();
    service.wait_until("the pin is taken", || fate(&lab, FREE) == Fate::Passed);
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(!status.contains("there is no program"), "{status}");
}

/// Without a previous chain, packets that pass go to the stack, as before.
#[test]
fn a_start_with_other_tables_and_a_chain_that_is_missing_enforces_the_new_rules() {
    require_root!();
    let lab = lab();
    let mut service = Service::started(&lab, POLICY).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    service.stop("-KILL").unwrap();
    let missing = Pin::vacant();
    let config = with_next(&missing, "[source]\nstore = \"compact\"\n");
    service.configure(&config).unwrap();
    service.start().unwrap();
    service.rlctl_ok(&["ban", &ALSO.to_string()]).unwrap();
    let fates = [BANNED, ALSO, FREE].map(|it| fate(&lab, it));
    assert_eq!(fates, [Fate::Dropped, Fate::Dropped, Fate::Passed]);
    let status = service.rlctl_ok(&["status"]).unwrap();
    let gone = format!("there is no program at {}", missing.text());
    assert!(status.contains(&gone) && !is_told(&service), "{status}");
}

/// A program for frames of several buffers cannot call one for frames in one buffer, and ours is
/// not replaced without what it calls. The rules change as far as its tables are known.
#[test]
fn a_change_to_jumbo_frames_waits_for_the_pin_of_the_next_program() {
    require_root!();
    let next = Pin::answering(Answer::Return, false).unwrap();
    let lab = lab();
    let mut service = Service::started(&lab, &with_next(&next, "")).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    std::fs::remove_file(next.path()).unwrap();
    let refused = format!("[policy.refused]\nsources = [\"{FILTERED}\"]\naction = \"drop\"\n");
    let expect = |step: &str, sources: [Ipv4Addr; 3], fates: [Fate; 3]| {
        assert_eq!(sources.map(|it| fate(&lab, it)), fates, "{step}");
    };
    let reports = |service: &Service, part: &str| {
        service.wait_until(part, || {
            service.rlctl(&["status"]).unwrap().stdout.contains(part)
        });
    };
    let jumbo = with_next(&next, &format!("jumbo = true\n{refused}"));
    service.configure(&jumbo).unwrap();
    service.rlctl(&["reload"]).unwrap();
    let enforced = [Fate::Dropped, Fate::Dropped, Fate::Returned];
    let gone = format!("there is no program at {}", next.text());
    expect("a reload", [BANNED, FILTERED, FREE], enforced);
    reports(&service, &gone);
    reports(&service, "the previous program remains in use");
    for signal in ["-TERM", "-KILL"] {
        service.stop(signal).unwrap();
        service.start().unwrap();
        expect(signal, [BANNED, FILTERED, FREE], enforced);
        reports(&service, &gone);
    }
    // Nothing reaches the program of before if the tables are others, which is a failure.
    service.stop("-KILL").unwrap();
    let other = format!("{jumbo}[source]\nstore = \"compact\"\n");
    service.configure(&other).unwrap();
    service.start().unwrap();
    expect("other tables", [BANNED, FILTERED, FREE], enforced);
    let behind = "the previous program continues with the previous rules";
    reports(&service, behind);
    reports(&service, &gone);
    // Only a program for frames of several buffers can call this one.
    let again = Pin::answering(Answer::Return, true).unwrap();
    std::fs::rename(again.path(), next.path()).unwrap();
    service.wait_until("the pin is taken", || {
        !service.rlctl(&["status"]).unwrap().stdout.contains(behind)
    });
    service.rlctl_ok(&["ban", &ALSO.to_string()]).unwrap();
    expect("with the pin", [ALSO, FILTERED, FREE], enforced);
}

/// As an operator does with another version of that program.
#[test]
fn a_program_pinned_again_is_called_from_then_on() {
    require_root!();
    let next = Pin::answering(Answer::Pass, false).unwrap();
    let lab = lab();
    let mut service = Service::started(&lab, &with_next(&next, "")).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    let pin_anew = |other: Pin| std::fs::rename(other.path(), next.path()).unwrap();
    let answering = |answer, frags| Pin::answering(answer, frags).unwrap();
    let expect = |step: &str, free: Fate| {
        let fates = [BANNED, FREE].map(|it| fate(&lab, it));
        assert_eq!(fates, [Fate::Dropped, free], "{step}");
    };
    let taken = format!(
        "passed packets now go to the new program pinned at {}",
        next.text()
    );
    let told = |service: &Service| service.log().matches(&taken).count();
    expect("as it is", Fate::Passed);
    pin_anew(answering(Answer::Return, false));
    service.wait_until("taken", || told(&service) == 1);
    expect("by itself", Fate::Returned);
    let events = service.wait_for_event(&taken);
    assert_eq!(events.matches(&taken).count(), 1, "{events}");
    // A program that cannot be called is reported, as is a missing one.
    let gone = format!("there is no program at {}", next.text());
    let remark = |part: &str| {
        service.wait_until(part, || {
            service.rlctl_ok(&["status"]).unwrap().contains(part)
        });
        expect(part, Fate::Returned);
    };
    std::fs::remove_file(next.path()).unwrap();
    remark(&gone);
    remark("the previous program remains in use");
    pin_anew(answering(Answer::Pass, true));
    remark("supports multi-buffer frames");
    pin_anew(Pin::socket_filter().unwrap());
    remark("is not an XDP program");
    std::fs::remove_file(next.path()).unwrap();
    let said = service.rlctl_ok(&["reload"]).unwrap();
    assert!(said.contains(&gone), "{said}");
    expect("reloaded without it", Fate::Returned);
    assert_eq!(told(&service), 1, "{}", service.log());
    pin_anew(answering(Answer::Pass, false));
    let said = service.rlctl_ok(&["reload"]).unwrap();
    // The daemon may have seen it by itself the moment before.
    assert_eq!(told(&service), 2, "{said}");
    expect("reloaded", Fate::Passed);
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(!status.contains("is called on"), "{status}");
    // Nothing is left to be told, and the next daemon finds it.
    let since = told(&service);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(told(&service), since, "{}", service.log());
    service.stop("-KILL").unwrap();
    pin_anew(answering(Answer::Return, false));
    service.start().unwrap();
    expect("the next daemon", Fate::Returned);
}

/// Whether `status` and `check` say that another program gets what passes.
fn is_told(service: &Service) -> bool {
    let told = [vec!["status"], vec!["check", "198.51.100.9"]].map(|arguments| {
        let said = service.rlctl_ok(&arguments).unwrap();
        said.contains("go to the program at")
    });
    assert_eq!(told[0], told[1]);
    told[0]
}

/// A veth interface takes what its peer returns only where it has a program of its own.
fn lab() -> Lab {
    let lab = Lab::new().unwrap();
    let pass = Pin::answering(Answer::Pass, false).unwrap();
    let attach = ["link", "set", "dev", INTERFACE, "xdpdrv", "pinned"];
    // Not `ip -netns`, which hides the bpffs.
    let attached = || Command::new("ip").args(attach).arg(pass.path()).status();
    assert!(lab.far.enter(attached).unwrap().success());
    lab
}

fn with_next(next: &Pin, more: &str) -> String {
    format!(
        "{POLICY}[[interface]]\nname = \"{INTERFACE}\"\nchain = \"{}\"\n{more}",
        next.text()
    )
}

fn fate(lab: &Lab, source: Ipv4Addr) -> Fate {
    let frame = datagram(source);
    let mut here = Receiver::new(&lab.near).unwrap();
    let mut back = Receiver::new(&lab.far).unwrap();
    let sender = Sender::new(&lab.far).unwrap();
    sender.send(&frame).unwrap();
    sender.send(&LAST).unwrap();
    let mut deadline = Instant::now() + LATE;
    while Instant::now() < deadline {
        for (receiver, fate) in [(&mut here, Fate::Passed), (&mut back, Fate::Returned)] {
            while let Some(seen) = receiver.next(Duration::ZERO).unwrap() {
                if seen == frame {
                    return fate;
                }
                if seen == LAST {
                    deadline = Instant::now() + SOON;
                }
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    Fate::Dropped
}

/// Lets xdp-filter drop a source, in the map of its program.
fn filter(pin: &Pin, source: Ipv4Addr) {
    /// `MAP_FLAG_SRC` of xdp-filter.
    const OF_SOURCE: u8 = 1;
    let key: Vec<String> = source.octets().iter().map(u8::to_string).collect();
    let script = format!(
        "set -e; for id in $(bpftool -j prog show pinned {} | grep -o '\"map_ids\":[^]]*' | tr -dc \
         '0-9,' | tr , ' '); do if bpftool map show id $id | grep -q filter_ipv4; then bpftool map \
         update id $id key {} value {OF_SOURCE} 0 0 0 0 0 0 0; fi; done",
        pin.text(),
        key.join(" "),
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
