//! `connections` of a policy: a source with as many cannot open others until it has closed some.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use ratelimit_tests::{Lab, lab::INTERFACE, require_root, service::Service, wait_until};

const CONFIG: &str = r#"
[policy.default]
limits = []
connections = 20

[policy.partner]
sources = ["10.77.0.3"]
limits = []
connections = 40

[allow]
sources = ["10.77.0.4"]
"#;
const FAR: &str = "10.77.0.2";
const PARTNER: &str = "10.77.0.3";
const ALLOWED: &str = "10.77.0.4";
const SERVER: &str = "10.77.0.5";
/// Before a SYN is repeated.
const PATIENCE: Duration = Duration::from_millis(700);
/// Connections are counted several times in it.
const COUNTED: Duration = Duration::from_secs(2);

#[test]
fn a_source_opens_no_more_connections_than_its_policy_permits() {
    require_root!();
    let lab = Lab::new().unwrap();
    let far = [FAR, PARTNER, ALLOWED, SERVER].map(|address| format!("{address}/24"));
    lab.add_addresses(
        &["10.77.0.1/24", "fd77::1/64"],
        &[
            &far[0],
            &far[1],
            &far[2],
            &far[3],
            "fd78::2/64",
            "fd78::3/64",
        ],
    )
    .unwrap();
    lab.near
        .ip(&["route", "add", "fd78::/64", "dev", INTERFACE])
        .unwrap();
    let service = Service::started(&lab, CONFIG).unwrap();
    let limits = || service.rlctl_ok(&["list", "limits"]).unwrap();
    assert!(limits().contains(" 40 TCP connections"), "{}", limits());
    assert!(!limits().contains("[detected]"), "{}", limits());
    let near = echo(&lab, "10.77.0.1:8080");
    let near_v6 = echo(&lab, "[fd77::1]:8080");

    let mut open = opened(&lab, FAR, near, 20);
    let is_limited = |source: &str| {
        let check = service.rlctl(&["check", source]).unwrap();
        check.stdout.contains("no new TCP connections from")
    };
    wait_until("it is limited", || is_limited(FAR));
    assert!(limits().contains("[detected]"), "{}", limits());
    for _ in 0..3 {
        assert!(connect(&lab, FAR, near).is_err(), "it has 20 already");
    }
    for stream in &mut open {
        stream.write_all(b"still there").unwrap();
        stream.read_exact(&mut [0; 11]).unwrap();
    }
    let events = service.rlctl_ok(&["events", "--last", "5"]).unwrap();
    assert!(events.contains("connections"), "{events}");

    // Others have limits of their own, or none.
    let partner = opened(&lab, PARTNER, near, 30);
    let allowed = opened(&lab, ALLOWED, near, 50);
    let to_server = {
        let server = lab.far.enter(|| TcpListener::bind((SERVER, 9000))).unwrap();
        let connect = || TcpStream::connect((SERVER, 9000)).unwrap();
        let streams: Vec<TcpStream> = lab.near.enter(|| (0..30).map(|_| connect()).collect());
        (server, streams)
    };
    thread::sleep(COUNTED);
    for source in [PARTNER, ALLOWED, SERVER, "fd78::2"] {
        assert!(!is_limited(source), "{source}");
    }
    drop((partner, allowed, to_server));

    // All addresses of a /64 are one source.
    let halves = ["fd78::2", "fd78::3"].map(|source| opened(&lab, source, near_v6, 10));
    wait_until("the /64 is limited", || is_limited("fd78::9"));
    assert!(connect(&lab, "fd78::2", near_v6).is_err());
    drop(halves);

    open.truncate(19);
    wait_until("it may open another one", || !is_limited(FAR));
    open.push(connect(&lab, FAR, near).unwrap());
    wait_until("it is limited again", || is_limited(FAR));
    let changes = service
        .reload(&CONFIG.replace("connections = 20\n", ""))
        .unwrap();
    assert!(changes.contains("connections 20 -> any"), "{changes}");
    wait_until("nothing is limited any more", || !is_limited(FAR));
    open.extend(opened(&lab, FAR, near, 20));
}

/// A server that sends back what it gets.
fn echo(lab: &Lab, address: &str) -> SocketAddr {
    let listener = lab.near.enter(|| TcpListener::bind(address)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut bytes = [0; 64];
                while let Ok(read @ 1..) = stream.read(&mut bytes) {
                    let _ = stream.write_all(&bytes[..read]);
                }
            });
        }
    });
    address
}

fn opened(lab: &Lab, source: &str, server: SocketAddr, count: usize) -> Vec<TcpStream> {
    let streams = (0..count).map(|_| connect(lab, source, server).unwrap());
    streams.collect()
}

/// Connects from an address of the far end.
fn connect(lab: &Lab, source: &str, server: SocketAddr) -> std::io::Result<TcpStream> {
    let server_ip = server.ip().to_string();
    let route = [
        "route", "replace", &server_ip, "dev", INTERFACE, "src", source,
    ];
    lab.far.ip(&route).unwrap();
    let stream = lab
        .far
        .enter(|| TcpStream::connect_timeout(&server, PATIENCE))?;
    assert_eq!(stream.local_addr()?.ip().to_string(), source);
    Ok(stream)
}
