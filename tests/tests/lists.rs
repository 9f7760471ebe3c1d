//! Lists in the kernel: listed sources are dropped, from the import to the restart.

use std::{fs, net::Ipv4Addr};

use ratelimit_tests::{Lab, require_root, service::Service};

const CONFIG: &str = "[policy.default]\nlimits = []\n";

#[test]
fn an_imported_list_is_in_the_kernel_until_it_is_taken_away() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(CONFIG).unwrap();
    let file = service.path("drop.txt");
    fs::write(&file, "192.0.2.1\n198.51.100.0/24 ; SBL1\n2001:db8::/32\n").unwrap();
    let file = file.to_str().unwrap().to_owned();
    let said = service
        .rlctl_ok(&["import", &file, "--list", "bad"])
        .unwrap();
    assert_eq!(said, "list:bad: +3 -0 =0\n");
    for address in ["192.0.2.1", "198.51.100.7", "2001:db8::7"] {
        assert!(is_banned(&service, address), "{address}");
    }
    fs::write(&file, "192.0.2.2\n2001:db8::/32\n").unwrap();
    service
        .rlctl_ok(&["import", &file, "--list", "bad"])
        .unwrap();
    assert!(is_banned(&service, "192.0.2.2") && is_banned(&service, "2001:db8::7"));
    assert!(!is_banned(&service, "192.0.2.1") && !is_banned(&service, "198.51.100.7"));
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    assert!(is_banned(&service, "192.0.2.2") && is_banned(&service, "2001:db8::7"));
    service.rlctl_ok(&["import", "--remove", "bad"]).unwrap();
    assert!(!is_banned(&service, "192.0.2.2"));
}

/// A hundred thousand bans take seconds here, and the daemon is asked ten times a second.
#[test]
fn on_a_terminal_an_import_shows_how_far_the_daemon_is_and_nowhere_else() {
    require_root!();
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    let file = service.path("long.txt");
    let hosts = (0..100_000).map(|host| Ipv4Addr::from(0x0a00_0000 + 2 * host).to_string());
    fs::write(&file, hosts.collect::<Vec<_>>().join("\n")).unwrap();
    let import = ["import", file.to_str().unwrap(), "--ban"];
    let drawn = service.rlctl_on_terminal(&import, "").unwrap().stdout;
    let daemons = |line: &&str| line.contains("importing 1.") && line.contains("%, ");
    assert!(drawn.split('\r').any(|line| daemons(&line)), "{drawn}");
    assert!(drawn.contains("bans: +100000 -0 =0"), "{drawn}");
    let said = service.rlctl(&import).unwrap();
    assert_eq!(said.stdout, "bans: +0 -0 =100000\n");
    assert_eq!(
        said.stderr,
        "note: format plain; covers 0 public addresses of IPv4 (0 %)\n"
    );
}

#[test]
fn entries_at_protected_addresses_are_reported_where_they_are_imported_and_listed() {
    require_root!();
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    let file = service.path("own.txt");
    fs::write(&file, "127.0.0.1\n192.0.2.1\n").unwrap();
    let file = file.to_str().unwrap();
    for import in [
        &["import", file, "--ban", "--dry-run"][..],
        &["import", file, "--list", "own"],
        &["list", "lists"],
    ] {
        let said = service.rlctl(import).unwrap();
        let reported = "127.0.0.1 is inside 127.0.0.0/8, the loopback of this host";
        assert!(said.stderr.contains(reported), "{import:?}: {said:?}");
        assert!(said.stderr.contains("--force"), "{import:?}: {said:?}");
    }
    let json: serde_json::Value = service.json(&["import", file, "--ban"]).unwrap();
    assert_eq!(json["spared"]["count"], 1);
    assert_eq!(json["spared"]["first"][0]["prefix"], "127.0.0.1");
}

#[test]
fn an_import_leaves_the_network_of_this_host_alone_until_it_is_told_what_to_do() {
    require_root!();
    let (lab, service) = Service::in_lab(CONFIG).unwrap();
    let neighbour = "10.0.4.7 lladdr 02:00:00:00:00:07 nud reachable dev rl0";
    let neighbour: Vec<&str> = neighbour.split(' ').collect();
    lab.near.ip(&["link", "set", "rl0", "up"]).unwrap();
    lab.near
        .ip(&[&["neighbour", "add"], &neighbour[..]].concat())
        .unwrap();
    lab.near
        .ip(&["address", "add", "10.0.4.1/24", "dev", "rl0"])
        .unwrap();
    let protects = || service.rlctl_ok(&["list", "protected"]).unwrap();
    service.wait_until("a new address", || protects().contains("10.0.4.1"));
    let file = service.path("wide.txt");
    fs::write(&file, "10.0.0.0/8\n192.0.2.1\n").unwrap();
    let import = ["import", file.to_str().unwrap(), "--list", "wide"];
    let said = service.rlctl(&import).unwrap();
    let expected = "error: the list covers networks that this host is connected to:
  10.0.0.0/8 would ban 10.0.4.0/24, the network of rl0 with 10.0.4.7
hint: nothing was imported; exempt these networks with --exempt-connected, or ban them with \
    --include-connected
";
    assert_eq!((said.code, said.stderr.as_str()), (1, expected));
    assert!(!is_banned(&service, "192.0.2.1"));
    let with = |word| [&import[..], &[word]].concat();
    let said = service.rlctl(&with("--exempt-connected")).unwrap();
    assert!(
        said.stderr
            .contains("10.0.0.0/8: banned except 10.0.4.0/24, the network of rl0"),
        "{said:?}"
    );
    let split = "10.0.0.0/8 is 16 prefixes without the connected networks inside";
    assert!(said.stderr.contains(split), "{said:?}");
    assert!(is_banned(&service, "10.0.5.1") && !is_banned(&service, "10.0.4.7"));
    service.rlctl_ok(&with("--include-connected")).unwrap();
    assert!(is_banned(&service, "10.0.4.7") && !is_banned(&service, "10.0.4.1"));
}

#[test]
fn a_list_in_a_file_is_enforced_and_its_errors_are_counted() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, CONFIG).unwrap();
    let file = service.path("drop.txt");
    fs::write(&file, "192.0.2.1\n").unwrap();
    let toml = format!(
        "{CONFIG}[list.drop]\nfile = \"{}\"\nevery = \"1s\"\n",
        file.display()
    );
    service.configure(&toml).unwrap();
    service.start().unwrap();
    assert!(is_banned(&service, "192.0.2.1"));
    fs::write(&file, "192.0.2.2\n").unwrap();
    service.wait_for_log("removed=1").unwrap();
    assert!(is_banned(&service, "192.0.2.2") && !is_banned(&service, "192.0.2.1"));
    fs::write(&file, "").unwrap();
    service.wait_for_log("cannot load a list").unwrap();
    assert!(is_banned(&service, "192.0.2.2"));
    let metrics = service.get("/metrics", "*/*").unwrap();
    assert!(
        metrics.contains("ratelimit_list_entries{list=\"drop\"} 1\n"),
        "{metrics}"
    );
    assert!(
        !metrics.contains("ratelimit_list_errors_total{list=\"drop\"} 0\n"),
        "{metrics}"
    );
}

/// Needs kernel 6.4; older kernels do not report the memory of entries.
#[test]
fn the_memory_of_a_list_is_reported_as_it_grows() {
    require_root!();
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    let file = service.path("drop.txt");
    let entries =
        (0..=u8::MAX).flat_map(|third| (0..8).map(move |it| Ipv4Addr::new(192, 18, third, it)));
    let text: Vec<String> = entries.map(|address| address.to_string()).collect();
    fs::write(&file, text.join("\n")).unwrap();
    let empty = list_memory(&service);
    let file = file.to_str().unwrap().to_owned();
    service
        .rlctl_ok(&["import", &file, "--list", "bad"])
        .unwrap();
    let filled = list_memory(&service);
    assert!(
        filled >= empty + 2048 * 32,
        "{empty} bytes, and {filled} with 2048 entries"
    );
}

fn list_memory(service: &Service) -> u64 {
    let metrics = service.get("/metrics", "*/*").unwrap();
    let name = "ratelimit_map_memory_bytes{map=\"LISTS_V4\"} ";
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name));
    value.unwrap().parse().unwrap()
}

/// Whether the kernel's tables have a ban.
fn is_banned(service: &Service, address: &str) -> bool {
    let said = service.rlctl(&["check", address]).unwrap();
    said.code == 3
}
