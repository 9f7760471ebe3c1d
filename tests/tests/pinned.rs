//! `mode = "pinned"`: another program is attached to the interface, and calls ours.

use std::{
    net::Ipv4Addr,
    path::Path,
    process::{Command, Output},
};

use ratelimit_tests::{
    Lab,
    foreign::Pin,
    lab::INTERFACE,
    packet::datagram,
    require_command, require_root,
    service::{Service, binary},
};

const BANNED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const FREE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
/// Debian's object of xdp-filter that drops whatever its maps do not list.
const DROPS_ALL: &str = "/usr/lib/x86_64-linux-gnu/bpf/xdpfilt_dny_all.o";
/// `EX_NOT_ENFORCED` of rlctl: packets of an interface are not judged.
const NOT_ENFORCED: i32 = 6;

fn pinned() -> String {
    format!(
        "[policy.default]\nlimits = []\n[[interface]]\nname = \"{INTERFACE}\"\nmode = \"pinned\"\n"
    )
}

/// The real xdp-loader holds ours: in its dispatcher where the kernel lets that call it, else
/// alone.
#[test]
fn xdp_loader_holds_ours() {
    require_root!();
    require_command!("xdp-loader");
    let (lab, mut service) = Service::in_lab(&pinned()).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    expect(&lab, "nobody calls it", [true, true]);
    let status = service.rlctl(&["status"]).unwrap();
    assert_eq!(status.code, NOT_ENFORCED, "{status:?}");
    let why = "no XDP program runs there that could call ours";
    assert!(status.stdout.contains(why), "{status:?}");
    let object = service.path("entry.o");
    let mut write = Command::new(binary("ratelimitd"));
    let written = write.arg("--entry").arg(&object).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let directory = service.pins().join("entries").join(INTERFACE);
    let load = |object: &Path, name: &str, priority: &str, alone: bool| {
        let mut load = service.inside(Path::new("xdp-loader"));
        load.args(["load", "-v", "-P", priority, "-n", name, "-p"]);
        load.arg(&directory).arg(INTERFACE).arg(object);
        if alone {
            load.env("LIBXDP_SKIP_DISPATCHER", "1");
        }
        load.output().unwrap()
    };
    // Not every kernel lets every libxdp have an entry in its dispatcher: docs/operating.md.
    let mut loaded = load(&object, "ratelimit_entry", "10", false);
    let is_dispatched = loaded.status.success() && !text(&loaded).contains("Falling back");
    if !loaded.status.success() {
        eprintln!("SKIPPED: the dispatcher: {}", text(&loaded));
        loaded = load(&object, "ratelimit_entry", "10", true);
    }
    assert!(loaded.status.success(), "{loaded:?}");
    expect(&lab, "it is called", [false, true]);
    service.rlctl_ok(&["check", &FREE.to_string()]).unwrap();
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(status.contains("pinned, waiting for a caller"), "{status}");
    assert!(status.contains("has to call"), "{status}");
    let doctor = service.rlctl(&["doctor", INTERFACE]).unwrap();
    assert!(doctor.stdout.contains("has to call"), "{doctor:?}");
    if is_dispatched {
        let other = load(Path::new(DROPS_ALL), "xdpfilt_dny_all", "60", false);
        assert!(other.status.success(), "{other:?}");
        expect(&lab, "the next of the chain drops", [false, false]);
        unload(&service);
        let loaded = load(&object, "ratelimit_entry", "10", false);
        assert!(loaded.status.success(), "{loaded:?}");
    }
    service.stop("-KILL").unwrap();
    expect(&lab, "no daemon", [false, true]);
    service.start().unwrap();
    expect(&lab, "the next daemon", [false, true]);
    service.rlctl_ok(&["unban", &BANNED.to_string()]).unwrap();
    expect(&lab, "its tables are those that are asked", [true, true]);
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    unload(&service);
    expect(&lab, "nobody calls it any more", [true, true]);
    let status = service.rlctl(&["status"]).unwrap();
    assert_eq!(status.code, NOT_ENFORCED, "{status:?}");
    // Ours on the interface itself, and back.
    service.reload(&pinned().replace("pinned", "auto")).unwrap();
    expect(&lab, "attached", [false, true]);
    assert!(!directory.exists());
    service.configure(&pinned()).unwrap();
    service.rlctl(&["reload"]).unwrap();
    expect(&lab, "pinned again", [true, true]);
    assert!(directory.join("program").exists());
}

/// Another program calls the pinned one through its own array, which keeps working over reloads.
#[test]
fn a_foreign_program_array_calls_ours() {
    require_root!();
    let (lab, service) = Service::in_lab(&pinned()).unwrap();
    service.rlctl_ok(&["ban", &BANNED.to_string()]).unwrap();
    let entry = service.pins().join("entries").join(INTERFACE);
    let caller = Pin::calling(&entry.join("program")).unwrap();
    let attach = ["link", "set", "dev", INTERFACE, "xdpdrv", "pinned"];
    // Not `ip -netns`, which hides the bpffs.
    let attached = || Command::new("ip").args(attach).arg(caller.path()).status();
    assert!(lab.near.enter(attached).unwrap().success());
    expect(&lab, "it is called", [false, true]);
    // A next program changes the constants of ours, which is loaded again.
    let next = Pin::answering(ratelimit_tests::foreign::Answer::Pass, false).unwrap();
    let with_next = format!("{}chain = \"{}\"\n", pinned(), next.text());
    service.reload(&with_next).unwrap();
    service.rlctl_ok(&["ban", &FREE.to_string()]).unwrap();
    service.rlctl_ok(&["unban", &BANNED.to_string()]).unwrap();
    expect(&lab, "the next program of ours", [true, false]);
    // It would call itself.
    let own = entry.join("program");
    let with_own = format!("{}chain = \"{}\"\n", pinned(), own.display());
    service.configure(&with_own).unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    let said = format!("{}{}", said.stdout, said.stderr);
    assert!(said.contains("is ratelimit itself"), "{said}");
    expect(&lab, "the next program stays", [true, false]);
    // The caller holds the entry, which has nothing behind it until a reload. That a trial ends
    // changes nothing.
    service.configure(&pinned()).unwrap();
    service.rlctl_ok(&["reload"]).unwrap();
    let tried = pinned().replace("limits = []", "limits = [{ packets = 9, per = \"1s\" }]");
    service.configure(&tried).unwrap();
    let file = service.config();
    let apply = ["apply", file.to_str().unwrap(), "--confirm", "5m"];
    service.rlctl_ok(&apply).unwrap();
    expect(&lab, "a trial", [true, false]);
    service.rlctl_ok(&["detach"]).unwrap();
    expect(&lab, "detached", [true, true]);
    service.rlctl(&["rollback"]).unwrap();
    expect(&lab, "detached still", [true, true]);
    service.rlctl_ok(&["reload"]).unwrap();
    expect(&lab, "behind the same entry again", [true, false]);
}

fn unload(service: &Service) {
    let mut unload = service.inside(Path::new("xdp-loader"));
    let output = unload.args(["unload", INTERFACE, "-a"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn text(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr];
    both.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

/// Checks which of the two sources the stack hears.
#[track_caller]
fn expect(lab: &Lab, step: &str, heard: [bool; 2]) {
    let hears = [BANNED, FREE].map(|source| lab.passes(&datagram(source)).unwrap());
    assert_eq!(hears, heard, "{step}");
}
