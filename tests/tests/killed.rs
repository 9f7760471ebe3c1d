//! The daemon is killed while bans arrive: after each restart, exactly the acknowledged ones are
//! there.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    os::fd::AsFd as _,
    path::Path,
    thread,
    time::{Duration, SystemTime},
};

use aya::maps::MapData;
use ratelimit_common::list::lookup_cache::STATE;
use ratelimit_core::api::{Allow, Ban};
use ratelimit_daemon::datapath::Mapped;
use ratelimit_tests::{require_command, require_root, service::Service};

const TOML: &str = "[policy.default]\nlimits = []\n";
/// The number of times that the daemon is killed.
const ROUNDS: u32 = 6;
/// The number of clients that ban and unban at once.
const CLIENTS: u32 = 3;
/// The number of addresses in a request for several.
const SEVERAL: u32 = 50;

/// The last answer about an address.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reported {
    Banned,
    Unbanned,
    /// The daemon died during the request, so either may be in force. A request with several
    /// addresses applies to all or none.
    Nothing {
        request: u32,
    },
}

#[test]
fn after_each_kill_the_bans_are_those_that_were_acknowledged() {
    require_root!();
    require_command!("bpftool");
    let (_lab, mut service) = Service::in_lab(TOML).unwrap();
    let mut reported = BTreeMap::new();
    for round in 0..ROUNDS {
        let delay = Duration::from_millis(50) + Duration::from_millis(random() % 400);
        let answers = thread::scope(|scope| {
            let service = &service;
            let clients = (0..CLIENTS).map(|client| {
                scope.spawn(move || command_until_it_dies(service, round * CLIENTS + client))
            });
            let clients: Vec<_> = clients.collect();
            thread::sleep(delay);
            service.signal("-KILL").unwrap();
            let answers = clients.into_iter().map(|client| client.join().unwrap());
            answers.collect::<Vec<_>>()
        });
        reported.extend(answers.into_iter().flatten());
        service.stop("-KILL").unwrap();
        service.start().unwrap();
        compare(&service, &mut reported, delay);
    }
    let acknowledged = reported
        .values()
        .filter(|reported| **reported == Reported::Banned);
    assert!(
        acknowledged.count() > 50,
        "too few bans to tell: {}",
        reported.len()
    );
}

#[test]
fn a_daemon_whose_database_is_overwritten_keeps_the_bans_and_says_so() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(TOML).unwrap();
    service
        .rlctl_ok(&["ban", "192.0.2.1", "--for", "1h"])
        .unwrap();
    service.rlctl_ok(&["ban", "2001:db8::/48"]).unwrap();
    service.rlctl_ok(&["allow", "add", "198.51.100.7"]).unwrap();
    let limit = ["limit", "set", "--prefix", "203.0.113.7", "--packets", "7"];
    service
        .rlctl_ok(&[&limit[..], &["--per", "1s"]].concat())
        .unwrap();
    service.stop("-TERM").unwrap();
    std::fs::write(service.path("state/state.db"), [0x5a; 5000]).unwrap();
    service.start().unwrap();
    let bans = bans(&service);
    assert_eq!(bans.len(), 2);
    assert!(bans.iter().all(|ban| {
        ban.reason
            .as_deref()
            .unwrap()
            .contains("recovered from the kernel")
    }));
    let allows: Vec<Allow> = service.json(&["list", "allows"]).unwrap();
    let allows = allows.iter().map(|allow| allow.prefix.to_string());
    assert_eq!(allows.collect::<Vec<_>>(), ["198.51.100.7"]);
    let limits = service.rlctl_ok(&["list", "limits"]).unwrap();
    assert!(!limits.contains("203.0.113.7"), "{limits}");
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(
        status.contains("the database was damaged at startup"),
        "{status}"
    );
    assert!(status.contains("state.db.damaged-"), "{status}");
    assert!(
        service.log().contains("was moved aside"),
        "{}",
        service.log()
    );
    let metrics = service.metrics().unwrap();
    assert!(
        metrics.contains("ratelimit_database_damaged 1"),
        "{metrics}"
    );
    service
        .rlctl_ok(&["unban", "192.0.2.1", "2001:db8::/48"])
        .unwrap();
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(
        status.contains("1 damaged database from earlier starts"),
        "{status}"
    );
}

/// Bans one address, several, and unbans some, until `rlctl` fails.
fn command_until_it_dies(service: &Service, client: u32) -> BTreeMap<Ipv4Addr, Reported> {
    let mut reported = BTreeMap::new();
    let mut next = 0x0a00_0000 + (client << 16);
    for request in 0.. {
        let (verb, count) = match request % 4 {
            0 => ("ban", SEVERAL),
            3 => ("unban", 1),
            _ => ("ban", 1),
        };
        // The one that was banned last is unbanned.
        let first = if verb == "ban" { next } else { next - 1 };
        next = first + count;
        let addresses: Vec<Ipv4Addr> = (first..next).map(Ipv4Addr::from).collect();
        let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let mut arguments = vec![verb];
        arguments.extend(texts.iter().map(String::as_str));
        let done = service.rlctl(&arguments).unwrap().code == 0;
        let answer = match (done, verb) {
            (true, "ban") => Reported::Banned,
            (true, _) => Reported::Unbanned,
            (false, _) => Reported::Nothing {
                request: (client << 16) + request,
            },
        };
        reported.extend(addresses.into_iter().map(|address| (address, answer)));
        if !done {
            return reported;
        }
    }
    reported
}

/// Compares the reports with what `rlctl` lists and what the kernel has. From then on, the actual
/// state counts as reported.
fn compare(service: &Service, reported: &mut BTreeMap<Ipv4Addr, Reported>, delay: Duration) {
    let mut bans: Vec<String> = bans(service)
        .iter()
        .map(|ban| ban.prefix.to_string())
        .collect();
    bans.sort_unstable();
    let is_banned = |address: &Ipv4Addr| bans.binary_search(&address.to_string()).is_ok();
    let mut halves: BTreeMap<u32, bool> = BTreeMap::new();
    for (address, reported) in reported.iter_mut() {
        let banned = is_banned(address);
        match *reported {
            Reported::Banned => assert!(
                banned,
                "the ban of {address} is lost, killed after {delay:?}"
            ),
            Reported::Unbanned => {
                assert!(!banned, "{address} is banned again, killed after {delay:?}");
            }
            Reported::Nothing { request } => {
                let other = *halves.entry(request).or_insert(banned);
                assert_eq!(
                    other, banned,
                    "half of a request holds, killed after {delay:?}"
                );
                *reported = if banned {
                    Reported::Banned
                } else {
                    Reported::Unbanned
                };
            }
        }
    }
    let known = reported
        .values()
        .filter(|reported| **reported == Reported::Banned)
        .count();
    assert_eq!(bans.len(), known, "bans that nobody asked for");
    assert_eq!(
        dump(service).len(),
        known,
        "the kernel holds something else"
    );
}

#[test]
fn with_each_change_the_cpus_forget_what_the_lists_said_and_after_a_daemon_that_died_too() {
    require_root!();
    require_command!("bpftool");
    let (_lab, mut service) = Service::in_lab(TOML).unwrap();
    let before = generation(&service);
    service.rlctl_ok(&["ban", "192.0.2.1"]).unwrap();
    let banned = generation(&service);
    service.rlctl_ok(&["unban", "192.0.2.1"]).unwrap();
    let unbanned = generation(&service);
    assert!(before < banned && banned < unbanned);
    service.rlctl_ok(&["ban", "2001:db8::1"]).unwrap();
    assert_eq!(generation(&service), unbanned, "another family");
    service.stop("-KILL").unwrap();
    filter(&service).store(STATE, unbanned | 1);
    service.start().unwrap();
    assert!(generation(&service) > unbanned);
}

/// The generation of the IPv4 lists, which are at rest.
fn generation(service: &Service) -> u64 {
    let generation = filter(service).load(STATE);
    assert_eq!(generation % 2, 0, "a list changes");
    generation
}

/// The words of the prefix-length filter of IPv4.
fn filter(service: &Service) -> Mapped {
    let map = MapData::from_pin(map(service, "FILTER_V4")).unwrap();
    Mapped::new(map.fd().as_fd(), STATE as usize + 1).unwrap()
}

fn bans(service: &Service) -> Vec<Ban> {
    service.json(&["list", "bans"]).unwrap()
}

/// The bans in the kernel's list of IPv4 addresses.
fn dump(service: &Service) -> Vec<serde_json::Value> {
    let map = map(service, "LISTS_V4");
    let text = bpftool(service, &["-j", "map", "dump", "pinned", &map]);
    let mut entries: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    entries.retain(is_ban);
    entries
}

/// Returns whether an entry has an end, in its first 8 bytes: protected addresses have none.
fn is_ban(entry: &serde_json::Value) -> bool {
    let value: Vec<String> = serde_json::from_value(entry["value"].clone()).unwrap();
    value[..8].iter().any(|byte| byte != "0x00")
}

fn map(service: &Service, name: &str) -> String {
    let layout = service
        .pins()
        .join(format!("v{}", ratelimit_common::layout::VERSION));
    layout.join("maps").join(name).display().to_string()
}

fn bpftool(service: &Service, arguments: &[&str]) -> String {
    let output = service
        .inside(Path::new("bpftool"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A number that is another one each time.
fn random() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::from(now.unwrap().subsec_nanos()) / 1000
}
