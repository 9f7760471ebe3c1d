//! Bans of one network become a ban of its prefix, and an unban undoes that.

use std::net::Ipv4Addr;

use ratelimit_core::api::{Ban, Changed, Check};
use ratelimit_tests::{Lab, packet::datagram, require_root, service::Service};

const TOML: &str = "[policy.default]\nlimits = []\n";
const WIDE: &str = "198.51.100.0/24";
const BANS: u8 = 100;
const NEIGHBOUR: u8 = 250;

#[test]
fn many_bans_of_a_network_drop_all_of_it_until_one_of_them_is_unbanned() {
    require_root!();
    let toml = format!("{TOML}[ban]\nfold = {{ percent = 30 }}\n");
    let (lab, mut service) = Service::in_lab(&toml).unwrap();
    let banned: Vec<String> = (1..=BANS).map(|last| source(last).to_string()).collect();
    let banned: Vec<&str> = banned.iter().map(String::as_str).collect();
    service
        .rlctl_ok(&[&["ban"], &banned[..76]].concat())
        .unwrap();
    assert!(passes(&lab, NEIGHBOUR));
    service
        .rlctl_ok(&[&["ban"], &banned[76..]].concat())
        .unwrap();
    let folded = || !passes(&lab, NEIGHBOUR);
    service.wait_until("the fold", folded);
    let list = service.rlctl_ok(&["list", "bans"]).unwrap();
    assert_eq!(list.lines().count(), 2, "{list}");
    assert!(list.contains(WIDE) && list.contains("100 bans folded: at least 30 %"));
    let list = service.rlctl_ok(&["list", "bans", "--within", WIDE]);
    assert_eq!(list.unwrap().lines().count(), 102);
    let neighbour = source(NEIGHBOUR).to_string();
    let check: Check = service.json(&["check", &neighbour]).unwrap();
    assert_eq!(check.ban.unwrap().folded, Some(100));
    let check = service.rlctl(&["check", &neighbour]).unwrap();
    let hint = "folded: 100 bans inside 198.51.100.0/24; to lift the fold and keep them: rlctl \
                unban 198.51.100.0/24";
    assert!(check.stdout.contains(hint), "{}", check.stdout);
    restart(&mut service);
    assert!(folded() && !passes(&lab, 1));

    let changed: Changed = service.json(&["unban", banned[0]]).unwrap();
    assert_eq!((changed.removed, changed.unfolded[0].bans), (1, 99));
    let is_open = || passes(&lab, 1) && passes(&lab, NEIGHBOUR) && !passes(&lab, 2);
    assert!(is_open());
    restart(&mut service);
    // Two ticks.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(is_open());
    let bans: Vec<Ban> = service.json(&["list", "bans"]).unwrap();
    assert_eq!(bans.len(), 99);
    service
        .rlctl_ok(&["ban", &source(200).to_string()])
        .unwrap();
    service.wait_until("the next fold", || folded() && !passes(&lab, 1));
    service.wait_for_event("unfolded 198.51.100.0/24 by root");

    // Without the setting at a start, and with it at the next, as in a reload.
    service.configure(TOML).unwrap();
    restart(&mut service);
    assert!(is_open());
    service.configure(&toml).unwrap();
    restart(&mut service);
    service.wait_until("the third fold", folded);
    let answer = service.reload(TOML).unwrap();
    assert!(answer.contains("folding of bans: off; folded bans end"));
    assert!(is_open());
}

fn restart(service: &mut Service) {
    service.stop("-TERM").unwrap();
    service.start().unwrap();
}

fn passes(lab: &Lab, last: u8) -> bool {
    lab.passes(&datagram(source(last))).unwrap()
}

fn source(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, last)
}
