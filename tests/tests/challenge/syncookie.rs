//! `method = "syncookie"`: the answer is a cookie of the listener, with the options that the
//! listener keeps.

use std::{io::ErrorKind, process::Command, time::Duration};

use ratelimit_tests::{
    attached, require_command, require_root, service::Service, skip, wait_until,
};
use tokio::runtime::Builder;

use super::{
    crowd::{CROWD, Case, client, connect_from, crowd_lives_behind},
    *,
};

#[test]
fn connections_by_syncookie_have_the_options_of_those_that_the_listener_opens_by_its_own_cookies() {
    require_root!();
    for is_ipv6 in [false, true] {
        let near = NEAR[usize::from(is_ipv6)];
        let lab = lab();
        if !lab
            .near
            .enter(|| fs::exists("/proc/sys/net/core/rmem_max"))
            .unwrap()
        {
            return skip::kernel_lacks("net.core.rmem_max in network namespaces");
        }
        let case = Case {
            is_ipv6,
            way: "syncookie",
            has_timestamps: true,
            has_small_segments: false,
        };
        crowd_lives_behind(&lab, case);
        sysctl(&lab.near, "net/ipv4/tcp_syncookies", "2");
        sysctl(&lab.near, "net/ipv4/tcp_timestamps", "2");
        let server = Server::new(&lab, near);
        let mut numbers = 1..=CROWD;
        // A connection of a new client.
        let mut options = || {
            let client = client(near, numbers.next().unwrap());
            let before = Listening::of(&lab.near);
            let mut stream = lab.far.enter(|| {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(connect_from(client, near))
            });
            for _ in 0..16 {
                exchange(&mut stream, &vec![7; 60_000]);
            }
            let counted = Listening::of(&lab.near).since(&before);
            assert_eq!((counted.opened, counted.taken), (1, 1), "{counted:?}");
            (options_of(&lab.near, client), counted.cookies)
        };
        let clients = [
            ("tcp_timestamps", ["0", "1"]),
            ("tcp_sack", ["0", "1"]),
            ("tcp_window_scaling", ["0", "1"]),
        ];
        let mut all_options = |pause: Duration| {
            let mut all = vec![options()];
            for (name, [off, on]) in clients {
                sysctl(&lab.far, &format!("net/ipv4/{name}"), off);
                all.push(options());
                sysctl(&lab.far, &format!("net/ipv4/{name}"), on);
            }
            for (name, [off, on]) in &clients[1..] {
                sysctl(&lab.near, &format!("net/ipv4/{name}"), off);
                thread::sleep(pause);
                all.push(options());
                sysctl(&lab.near, &format!("net/ipv4/{name}"), on);
            }
            all
        };
        let of_listener = all_options(Duration::ZERO);
        assert!(of_listener.iter().all(|(_, cookies)| *cookies == 1));
        let has_all = |options: &[String]| {
            let mut options = options.iter();
            options.len() == 3 && options.any(|it| it.starts_with("wscale:"))
        };
        let (first, _) = &of_listener[0];
        assert!(has_all(first), "{first:?}");

        let toml = |scaling| {
            generic(&format!(
                "{ALWAYS}method = \"syncookie\"\nwindow_scaling = {scaling}\n"
            ))
        };
        let service = Service::started(&lab, &toml(true)).unwrap();
        // A daemon follows the settings of listeners within a second.
        let of_program = all_options(Duration::from_millis(1_200));
        for ((own, _), (ours, cookies)) in of_listener.iter().zip(of_program) {
            assert_eq!((own, 0), (&ours, cookies), "{near}");
        }
        service.configure(&toml(false)).unwrap();
        service.rlctl_ok(&["reload"]).unwrap();
        let without_scale = ["ts", "sack"].map(str::to_owned);
        assert_eq!(options(), (without_scale.to_vec(), 0));
        // With a secret offset, only the segment size remains.
        sysctl(&lab.near, "net/ipv4/tcp_timestamps", "1");
        thread::sleep(Duration::from_millis(1_200));
        assert_eq!(options(), (vec![], 0));
        assert_eq!(
            u64::try_from(of_listener.len() * 2 + 2).unwrap(),
            server.accepted()
        );
    }
}

/// The options of the connection of a client at this host: `ts`, `sack`, and both scales of
/// windows.
fn options_of(namespace: &Namespace, client: IpAddr) -> Vec<String> {
    let client = match client {
        IpAddr::V4(client) => client.to_string(),
        IpAddr::V6(client) => format!("[{client}]"),
    };
    let words = ["-tinoH", "state", "established", "dst", &client];
    let said = namespace.enter(|| Command::new("ss").args(words).output());
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    let words = said.split_whitespace();
    let is_option = |word: &&str| matches!(*word, "ts" | "sack") || word.starts_with("wscale:");
    words.filter(is_option).map(str::to_owned).collect()
}

#[test]
fn if_no_listener_gives_a_cookie_sources_prove_themselves_by_a_reset() {
    require_root!();
    let lab = lab();
    let service =
        Service::started(&lab, &generic(&format!("{ALWAYS}method = \"syncookie\"\n"))).unwrap();
    service
        .wait_for_log("net.ipv4.tcp_syncookies is not 2")
        .unwrap();
    // Without a listener, the stack says so when the source is verified.
    let address = SocketAddr::new(NEAR[0], PORT);
    let refused = lab
        .far
        .enter(|| TcpStream::connect_timeout(&address, PATIENCE));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(
        status.contains("always challenged by syncookie"),
        "{status}"
    );
}

#[test]
fn a_challenge_by_cookies_is_refused_where_the_kernel_gives_none() {
    require_root!();
    let lab = lab();
    sysctl(&lab.near, "net/ipv4/tcp_syncookies", "0");
    let toml = generic(&format!("{ALWAYS}method = \"syncookie\"\n"));
    let refusal = Service::new(&lab, &toml).unwrap().refusal().unwrap();
    for part in [
        "net.ipv4.tcp_syncookies is 0",
        "net.ipv4.tcp_syncookies = 2",
        "method = \"rst\"",
    ] {
        assert!(refusal.contains(part), "{refusal}");
    }
    let service = Service::started(&lab, &generic(ALWAYS)).unwrap();
    service.configure(&toml).unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    assert!(
        said.code != 0 && said.stderr.contains("tcp_syncookies is 0"),
        "{said:?}"
    );
}

#[test]
fn a_listener_whose_queue_is_full_gives_cookies_where_the_kernel_has_them_on_demand() {
    require_root!();
    let lab = lab();
    sysctl(&lab.near, "net/ipv4/tcp_syncookies", "1");
    // These are never challenged, and fill the queue.
    let toml =
        format!("{ALWAYS}method = \"syncookie\"\n{GENERIC}[allow]\nsources = [\"96.0.0.0/4\"]\n");
    let service = Service::started(&lab, &toml).unwrap();
    let _server = Server::new(&lab, NEAR[0]);
    burst(&lab, 1_000);
    let before = Listening::of(&lab.near);
    assert!(before.cookies > 0, "the queue is full: {before:?}");
    connect(&lab, NEAR[0]);
    let expected = Listening {
        opened: 1,
        taken: 1,
        ..Listening::default()
    };
    // The stack itself sent no cookie: the program did.
    assert_eq!(Listening::of(&lab.near).since(&before), expected);
    assert_eq!(service.packets("pass", "verified").unwrap(), 1);
}

#[test]
fn options_that_cannot_be_put_in_force_are_a_trouble_and_one_line_of_the_log() {
    require_root!();
    require_command!("bpftool");
    let lab = lab();
    sysctl(&lab.near, "net/ipv4/tcp_syncookies", "2");
    sysctl(&lab.near, "net/ipv4/tcp_timestamps", "1");
    let service =
        Service::started(&lab, &generic(&format!("{ALWAYS}method = \"syncookie\"\n"))).unwrap();
    let status = || service.rlctl_ok(&["status"]).unwrap();
    let (trouble, told) = (
        "failure of options of SYN cookies",
        "SYN-ACKs advertise options",
    );
    assert!(!status().contains(trouble), "{}", status());
    // Writes into the map of the rules fail from here on.
    let map = attached::pin(&service, "CHALLENGE");
    let frozen = Command::new("bpftool")
        .args(["map", "freeze", "pinned"])
        .arg(map)
        .status();
    assert!(frozen.unwrap().success());
    sysctl(&lab.near, "net/ipv4/tcp_timestamps", "2");
    wait_until("it is told", || status().contains(trouble));
    service.wait_for_log(told).unwrap();
    service.wait_for_event(told);
    thread::sleep(Duration::from_millis(2_500));
    assert_eq!(service.log().matches(told).count(), 1);
    let events = service.rlctl_ok(&["events", "--since", "5m"]).unwrap();
    assert_eq!(events.matches(told).count(), 1, "{events}");
    // With the old setting, they are correct again.
    sysctl(&lab.near, "net/ipv4/tcp_timestamps", "1");
    wait_until("it is over", || !status().contains(trouble));
}
