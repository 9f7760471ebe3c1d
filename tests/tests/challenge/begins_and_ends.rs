//! When the challenge is on, how long a source stays verified, and how that is reported.

use std::time::{Duration, Instant};

use ratelimit_core::api::{Check, Status};
use ratelimit_tests::{require_root, service::Service, wait_until};

use super::*;

#[test]
fn no_source_is_challenged_before_too_many_ask_and_it_says_since_when() {
    require_root!();
    let lab = lab();
    let toml = generic(&ALWAYS.replace("always", "over 500 syn/s"));
    let service = Service::started(&lab, &toml).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("drop", "challenged").unwrap(), 0);
    let status = || {
        service
            .json::<Status>(&["status"])
            .unwrap()
            .challenge
            .unwrap()
    };
    assert!(!status().is_on && status().since.is_none());
    flooded(&lab, NEAR[0], || {
        wait_until("it is on", || status().is_on);
        connect(&lab, NEAR[0]);
    });
    assert!(status().since.is_some());
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
    let check: Check = service.json(&["check", FAR[0]]).unwrap();
    assert!(check.challenge.unwrap().verified_until.is_some());
    let began = "challenge is on (over 500 syn/s): unverified TCP clients are challenged";
    service.wait_for_event(began);
    service.wait_for_event("challenge of TCP clients is off");
}

#[test]
fn if_no_proof_comes_back_it_is_told_until_one_does() {
    require_root!();
    let lab = lab();
    // The other end of the veth does not accept what a program sends back.
    let toml = format!("{ALWAYS}back_off = \"3s\"\n");
    let service = Service::started(&lab, &toml).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    let status = || service.rlctl_ok(&["status"]).unwrap();
    let told = "no client completes the challenge";
    let metric = |value: &str| {
        let metrics = service.metrics().unwrap();
        metrics.contains(&format!("\nratelimit_challenge_unanswered {value}\n"))
    };
    flooded(&lab, NEAR[0], || {
        let address = SocketAddr::new(NEAR[0], PORT);
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(2));
        assert!(lab.far.enter(connect).is_err());
        assert!(!status().contains(told) && metric("0"));
        wait_until("it is told", || status().contains(told));
        assert!(metric("1"));
        // It backs off, and tries again.
        let paused = "challenge paused until";
        wait_until("it is paused", || status().contains(paused));
        self::connect(&lab, NEAR[0]);
        assert_eq!(service.packets("pass", "verified").unwrap(), 0);
        wait_until("it is tried again", || !status().contains(paused));
        assert!(status().contains(told));
        let challenged = service.packets("drop", "challenged").unwrap();
        wait_until("it is tried again", || {
            service.packets("drop", "challenged").unwrap() > challenged
        });
    });
    service.wait_for_log(told).unwrap();
    service.wait_for_event(told);
    service.wait_for_event("challenge is paused until");
    let _polled = polled(&lab);
    connect(&lab, NEAR[0]);
    wait_until("it is over", || !status().contains(told));
    assert!(metric("0"));
}

#[test]
fn beyond_the_answers_of_a_second_requests_are_judged_as_without_a_challenge() {
    require_root!();
    let lab = lab();
    let toml = generic(&format!("{ALWAYS}answers_per_second = 100\n"));
    let service = Service::started(&lab, &toml).unwrap();
    let answered = |packets, work: &dyn Fn()| {
        let before = service.packets("drop", "challenged").unwrap();
        let judged = service.received().unwrap() + packets;
        let start = Instant::now();
        work();
        wait_until("all were judged", || service.received().unwrap() >= judged);
        let seconds = start.elapsed().as_secs() + 2;
        (
            service.packets("drop", "challenged").unwrap() - before,
            seconds,
        )
    };
    let (count, seconds) = answered(2_000, &|| burst(&lab, 2_000));
    assert!((100..=100 * seconds).contains(&count), "{count}");
    let passed = service.packets("pass", "unlimited").unwrap();
    // A host sends a few packets of its own.
    assert!(
        (2_000..2_020).contains(&(passed + count)),
        "{passed} {count}"
    );
    let unanswered = || {
        let status: Status = service.json(&["status"]).unwrap();
        status.challenge.unwrap().unanswered_packets
    };
    assert_eq!(unanswered(), 2_000 - count);
    let said = service.rlctl_ok(&["status"]).unwrap();
    assert!(
        said.contains("unanswered: challenge answer budget exhausted"),
        "{said}"
    );
    // No source gets more than eight per second.
    thread::sleep(Duration::from_secs(1));
    let (count, seconds) = answered(500, &|| {
        let sender = Sender::new(&lab.far).unwrap();
        for _ in 0..500 {
            sender.send(&forged(1, NEAR[0])).unwrap();
        }
    });
    assert!((8..=8 * seconds).contains(&count), "{count}");
    let metrics = service.metrics().unwrap();
    let counter = format!("ratelimit_challenge_over_budget_total {}", unanswered());
    assert!(metrics.contains(&counter), "{metrics}");
}

#[test]
fn the_kernel_continues_when_the_daemon_is_killed() {
    require_root!();
    let lab = lab();
    let mut service = Service::started(&lab, &generic(ALWAYS)).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    service.stop("-KILL").unwrap();
    let before = Listening::of(&lab.near);
    flooded(&lab, NEAR[0], || {
        connect(&lab, NEAR[0]);
        thread::sleep(Duration::from_millis(200));
    });
    let opened = Listening {
        opened: 1,
        ..Listening::default()
    };
    assert_eq!(Listening::of(&lab.near).since(&before), opened);
    service.start().unwrap();
    // Verified sources stay verified over a restart.
    connect(&lab, NEAR[0]);
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
}
