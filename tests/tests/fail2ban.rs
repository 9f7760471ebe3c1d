//! The action file for fail2ban, driven by a real fail2ban, seen in the kernel.

use std::net::IpAddr;

use jiff::SignedDuration;
use ratelimit_core::api::{Ban, Origin};
use ratelimit_tests::{
    Lab, fail2ban::Fail2ban, packet::datagram, require_package, require_root, service::Service,
};

const TOML: &str = "[policy.default]\nlimits = []\n";
const V4: &str = "203.0.113.9";
const V6: &str = "2001:db8::9";
const BESIDE: &str = "2001:db8::77";

#[test]
fn a_failure_in_a_log_bans_in_the_kernel_until_the_bantime_is_over() {
    require_root!();
    require_package!("fail2ban");
    let (lab, service) = Service::in_lab(TOML).unwrap();
    let fail2ban = Fail2ban::started(&service, &[("web", "15")]).unwrap();
    assert!(passes(&lab, V4) && passes(&lab, V6));
    fail2ban.failure("web", V4).unwrap();
    fail2ban.failure("web", V6).unwrap();
    // An address of IPv6 stands for its source, also when it is unbanned.
    let are_dropped =
        |_: &Fail2ban| Ok(!passes(&lab, V4) && !passes(&lab, V6) && !passes(&lab, BESIDE));
    fail2ban.wait_for("the bans", are_dropped).unwrap();
    let is_unbanned = |it: &Fail2ban| Ok(it.log().matches("[web] Unban").count() == 2);
    fail2ban.wait_for("the unbans", is_unbanned).unwrap();
    let is_over = |_: &Fail2ban| Ok(passes(&lab, V4) && passes(&lab, V6) && passes(&lab, BESIDE));
    fail2ban.wait_for("the end", is_over).unwrap();
    assert!(bans(&service).is_empty());
    check_log(&fail2ban);
}

#[test]
fn bans_outlive_restarts_of_fail2ban_and_of_the_daemon_and_keep_their_ends() {
    require_root!();
    require_package!("fail2ban");
    let (lab, mut service) = Service::in_lab(TOML).unwrap();
    let mut fail2ban = Fail2ban::started(&service, &[("web", "1h"), ("ever", "-1")]).unwrap();
    fail2ban.failure("web", V4).unwrap();
    fail2ban.failure("ever", V6).unwrap();
    let banned = |_: &Fail2ban| Ok(bans(&service).len() == 2);
    fail2ban.wait_for("two bans", banned).unwrap();
    let before = bans(&service);
    assert_eq!(before[0].origin, Origin::program("fail2ban/web"));
    assert_eq!(before[0].reason.as_deref(), Some("fail2ban web"));
    assert_eq!(before[1].until, None);
    assert_eq!(before[1].prefix.to_string(), "2001:db8::/64");

    fail2ban.stop().unwrap();
    assert!(!passes(&lab, V4) && !passes(&lab, V6));
    assert_eq!(bans(&service).len(), 2);

    fail2ban.start().unwrap();
    let restored = |it: &Fail2ban| Ok(it.log().matches("Restore Ban").count() == 2);
    fail2ban.wait_for("the bans from before", restored).unwrap();
    let again = |_: &Fail2ban| {
        let after = bans(&service);
        Ok(after.len() == 2
            && after
                .iter()
                .zip(&before)
                .all(|(it, before)| it.since > before.since))
    };
    fail2ban.wait_for("their being named again", again).unwrap();
    let (first, after) = (&before[0], &bans(&service)[0]);
    let moved = after.until.unwrap().duration_since(first.until.unwrap());
    // The remaining time is in whole seconds, and the command takes a moment. A new hour would end
    // later by the whole pause.
    let pause = after.since.duration_since(first.since);
    assert!(
        moved.abs() <= SignedDuration::from_secs(1).max(pause / 2),
        "{moved:?}, {pause:?}"
    );
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
fn a_ban_waits_for_a_daemon_that_is_restarted() {
    require_root!();
    require_package!("fail2ban");
    let (lab, mut service) = Service::in_lab(TOML).unwrap();
    let fail2ban = Fail2ban::started(&service, &[("web", "1h")]).unwrap();
    service.stop("-TERM").unwrap();
    fail2ban.failure("web", V4).unwrap();
    let begun = |it: &Fail2ban| Ok(it.log().contains("[web] Ban"));
    fail2ban.wait_for("the ban to begin", begun).unwrap();
    service.start().unwrap();
    fail2ban
        .wait_for("the ban", |_| Ok(!passes(&lab, V4)))
        .unwrap();
    check_log(&fail2ban);
}

#[track_caller]
fn check_log(fail2ban: &Fail2ban) {
    let log = fail2ban.log();
    assert!(!log.contains("ERROR") && !log.contains("CRITICAL"), "{log}");
}

fn bans(service: &Service) -> Vec<Ban> {
    service.json(&["list", "bans"]).unwrap()
}

fn passes(lab: &Lab, source: &str) -> bool {
    let source: IpAddr = source.parse().unwrap();
    lab.passes(&datagram(source)).unwrap()
}
