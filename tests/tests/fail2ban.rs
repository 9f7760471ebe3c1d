//! The action file for fail2ban, driven by a real fail2ban, seen in the kernel.

use std::time::Duration;

use ratelimit_daemon::api::{Ban, Origin};
use ratelimit_tests::{
    Frame, Lab,
    fail2ban::Fail2ban,
    lab::{Receiver, Sender},
    require_package, require_root,
    service::Service,
};

const TOML: &str = "[policy.default]\nlimits = []\n";
const V4: &str = "203.0.113.9";
const V6: &str = "2001:db8::9";
/// How long a frame that has passed takes at most.
const LATE: Duration = Duration::from_millis(300);

#[test]
fn a_failure_in_a_log_bans_in_the_kernel_until_the_bantime_is_over() {
    require_root!();
    require_package!("fail2ban");
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, TOML).unwrap();
    let fail2ban = Fail2ban::started(&service, &[("web", "6")]).unwrap();
    assert!(passes(&lab, V4) && passes(&lab, V6));
    fail2ban.failure("web", V4).unwrap();
    fail2ban.failure("web", V6).unwrap();
    for source in [V4, V6] {
        let unbanned = |it: &Fail2ban| Ok(it.log().contains(&format!("[web] Unban {source}")));
        let is_dropped = |_: &Fail2ban| Ok(!passes(&lab, source));
        fail2ban.wait_for("the ban", is_dropped).unwrap();
        fail2ban.wait_for("the unban", unbanned).unwrap();
        fail2ban.wait_for("the end", |_| Ok(passes(&lab, source))).unwrap();
    }
    assert!(bans(&service).is_empty());
    check_log(&fail2ban);
}

#[test]
fn bans_outlive_restarts_of_fail2ban_and_of_the_daemon_and_keep_their_ends() {
    require_root!();
    require_package!("fail2ban");
    let lab = Lab::new().unwrap();
    let mut service = Service::started(&lab, TOML).unwrap();
    let mut fail2ban = Fail2ban::started(&service, &[("web", "1h"), ("ever", "-1")]).unwrap();
    fail2ban.failure("web", V4).unwrap();
    fail2ban.failure("ever", V6).unwrap();
    let banned = |_: &Fail2ban| Ok(bans(&service).len() == 2);
    fail2ban.wait_for("two bans", banned).unwrap();
    let before = bans(&service);
    assert_eq!(before[0].origin, Origin::program("fail2ban/web"));
    assert_eq!(before[0].reason.as_deref(), Some("fail2ban web"));
    assert_eq!(before[1].until, None);

    fail2ban.stop().unwrap();
    assert!(!passes(&lab, V4) && !passes(&lab, V6));
    assert_eq!(bans(&service).len(), 2);

    fail2ban.start().unwrap();
    let restored = |it: &Fail2ban| Ok(it.log().matches("Restore Ban").count() == 2);
    fail2ban.wait_for("the bans from before", restored).unwrap();
    let again = |_: &Fail2ban| {
        let after = bans(&service);
        Ok(after.len() == 2 && after[0].since > before[0].since)
    };
    fail2ban.wait_for("their being named again", again).unwrap();
    let moved = |after: &Ban| {
        let moved = after.until.unwrap().duration_since(before[0].until.unwrap());
        moved.abs().as_secs()
    };
    // The remaining time is in whole seconds.
    assert!(moved(&bans(&service)[0]) <= 1);
    assert_eq!(bans(&service)[1].until, None);

    service.stop("-KILL").unwrap();
    assert!(!passes(&lab, V4) && !passes(&lab, V6));
    service.start().unwrap();
    assert_eq!(bans(&service).len(), 2);
    assert!(!passes(&lab, V4) && !passes(&lab, V6));

    fail2ban.client(&["unban", V4]).unwrap();
    assert!(passes(&lab, V4) && !passes(&lab, V6));
    check_log(&fail2ban);
}

#[test]
fn a_jail_ends_neither_the_bans_of_another_nor_those_by_hand() {
    require_root!();
    require_package!("fail2ban");
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, TOML).unwrap();
    let fail2ban = Fail2ban::started(&service, &[("web", "1h"), ("again", "2h")]).unwrap();
    service.rlctl_ok(&["ban", V6, "--reason", "by hand"]).unwrap();
    for jail in ["web", "again"] {
        fail2ban.failure(jail, V4).unwrap();
        fail2ban.failure(jail, V6).unwrap();
    }
    let banned = |_: &Fail2ban| Ok(bans(&service).len() == 5);
    fail2ban.wait_for("five bans", banned).unwrap();
    fail2ban.client(&["set", "web", "unbanip", V4, V6]).unwrap();
    assert_eq!(bans(&service).len(), 3);
    assert!(!passes(&lab, V4));
    fail2ban.client(&["set", "again", "unbanip", V4, V6]).unwrap();
    assert!(passes(&lab, V4) && !passes(&lab, V6));
    let left: Vec<Origin> = bans(&service).into_iter().map(|ban| ban.origin).collect();
    assert_eq!(left, [Origin::Manual]);
    check_log(&fail2ban);
}

#[test]
fn without_a_daemon_fail2ban_says_so_and_bans_at_the_next_failure() {
    require_root!();
    require_package!("fail2ban");
    let lab = Lab::new().unwrap();
    let mut service = Service::started(&lab, TOML).unwrap();
    let fail2ban = Fail2ban::started(&service, &[("web", "1h")]).unwrap();
    service.stop("-KILL").unwrap();
    fail2ban.failure("web", V4).unwrap();
    let told = |it: &Fail2ban| Ok(it.log().contains("no daemon answers"));
    fail2ban.wait_for("the error", told).unwrap();
    let ended = |it: &Fail2ban| Ok(it.log().contains("Failed to execute ban jail 'web'"));
    fail2ban.wait_for("its end", ended).unwrap();
    service.start().unwrap();
    assert!(passes(&lab, V4));
    fail2ban.failure("web", V4).unwrap();
    fail2ban.wait_for("the ban", |_| Ok(!passes(&lab, V4))).unwrap();
}

#[track_caller]
fn check_log(fail2ban: &Fail2ban) {
    let log = fail2ban.log();
    assert!(!log.contains("ERROR") && !log.contains("WARNING"), "{log}");
}

fn bans(service: &Service) -> Vec<Ban> {
    serde_json::from_str(&service.rlctl_ok(&["--json", "list", "bans"]).unwrap()).unwrap()
}

fn passes(lab: &Lab, source: &str) -> bool {
    let frame = match source.parse() {
        Ok(source) => Frame::ethernet().ipv4(source),
        Err(_) => Frame::ethernet().ipv6(source.parse().unwrap()),
    };
    let mut receiver = Receiver::new(&lab.near).unwrap();
    let frame = frame.udp(53).pad_to(70).build();
    Sender::new(&lab.far).unwrap().send(&frame).unwrap();
    receiver.next(LATE).unwrap().is_some()
}
