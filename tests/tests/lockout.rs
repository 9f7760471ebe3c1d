//! Safety from lockout: this host's needs survive a list that covers everything, an unconfirmed
//! configuration is rolled back, and everything can be opened at once.

use std::{
    fs,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use ratelimit_core::{
    api::Origin,
    config,
    intent::{Edit, EntryRow, FOREVER},
};
use ratelimit_daemon::{
    control::{Cause, Controller, Store, commands::Detach, open_kernel},
    loader::Local,
    protected::{Protected, Why},
};
use ratelimit_tests::{
    Lab, PATIENCE, lab::INTERFACE, packet::datagram, require_command, require_root,
    service::Service, wait_until,
};

#[test]
fn neighbours_gateway_resolver_and_ssh_continue_under_a_list_of_everything() {
    require_root!();
    require_command!("ping");
    for (mode, family) in [("native", &IPV4), ("generic", &IPV4), ("native", &IPV6)] {
        let lab = Lab::new().unwrap();
        family.set_up(&lab);
        let mut ssh = Session::open(&lab, family.near, family.peer);
        let host = Host::install(&lab, mode, family);
        for namespace in [&lab.near, &lab.far] {
            namespace.ip(&["neighbour", "flush", "all"]).unwrap();
        }
        assert!(!pings(&lab, family.stranger), "{mode}: the list holds");
        assert!(pings(&lab, family.gateway), "{mode}: {}", family.gateway);
        ssh.exchange(b"still there");
        let answer = ask(&lab, family.resolver);
        assert_eq!(answer, b"an answer", "{mode}: {}", family.resolver);
        drop(host);
        assert!(pings(&lab, family.stranger), "{mode}: without the list");
    }
}

#[test]
fn protected_addresses_follow_addresses_routes_and_sessions() {
    require_root!();
    let (lab, mut service) = Service::in_lab(UNLIMITED).unwrap();
    let is_protected = |service: &Service, address: &str| {
        let listed = service.rlctl_ok(&["list", "protected"]).unwrap();
        listed
            .lines()
            .any(|line| line.split_whitespace().next() == Some(address))
    };
    lab.near
        .ip(&["address", "add", "203.0.113.1/24", "dev", INTERFACE])
        .unwrap();
    wait_until("an address", || is_protected(&service, "203.0.113.1"));
    let route = [
        "route",
        "add",
        "default",
        "via",
        "203.0.113.254",
        "table",
        "77",
    ];
    lab.near.ip(&route).unwrap();
    wait_until("a gateway", || is_protected(&service, "203.0.113.254"));
    let said = service.rlctl(&["ban", "203.0.113.0/24"]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stderr
            .contains("203.0.113.1, the address of rl0 on this host"),
        "{said:?}"
    );
    let said = service.rlctl(&["ban", "203.0.113.254"]).unwrap();
    assert!(
        said.stderr.contains("the default gateway of rl0"),
        "{said:?}"
    );
    assert!(said.stderr.contains("--force"), "{said:?}");
    lab.near
        .ip(&["route", "del", "default", "table", "77"])
        .unwrap();
    wait_until("no gateway", || !is_protected(&service, "203.0.113.254"));
    service.rlctl_ok(&["ban", "203.0.113.254"]).unwrap();
    service.ssh_connection = "198.51.100.22 51514 203.0.113.1 22".to_owned();
    let said = service.rlctl(&["ban", "198.51.100.0/24"]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stderr
            .contains("198.51.100.22, the client of an SSH session"),
        "{said:?}"
    );
    service
        .rlctl_ok(&["ban", "198.51.100.0/24", "--force"])
        .unwrap();
}

#[test]
fn a_ban_stops_at_what_becomes_protected_and_holds_again_afterwards() {
    require_root!();
    let (lab, service) = Service::in_lab(UNLIMITED).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.0/24"]).unwrap();
    assert!(!passes(&lab, GATEWAY));
    lab.near
        .ip(&["address", "add", "198.51.100.1/24", "dev", INTERFACE])
        .unwrap();
    let route = [
        "default",
        "via",
        "203.0.113.254",
        "dev",
        INTERFACE,
        "onlink",
    ];
    lab.near
        .ip(&[&["route", "add"], &route[..]].concat())
        .unwrap();
    service
        .wait_for_log("a ban covers protected addresses")
        .unwrap();
    assert!(passes(&lab, GATEWAY));
    assert!(!passes(&lab, BANNED));
    lab.near
        .ip(&[&["route", "del"], &route[..]].concat())
        .unwrap();
    wait_until("the ban", || !passes(&lab, GATEWAY));
}

#[test]
fn pass_all_opens_everything_says_so_everywhere_and_outlives_the_daemon() {
    require_root!();
    require_command!("curl");
    let (lab, mut service) = Service::in_lab(UNLIMITED).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    assert!(!passes(&lab, BANNED));
    service.rlctl_ok(&["pass-all", "on"]).unwrap();
    assert!(passes(&lab, BANNED));
    service.stop("-KILL").unwrap();
    assert!(passes(&lab, BANNED), "with the daemon dead");
    service.start().unwrap();
    assert!(passes(&lab, BANNED), "after a restart");
    for command in [
        &["status"][..],
        &["list", "bans"],
        &["check", "203.0.113.9"],
        &["unban", "192.0.2.5"],
    ] {
        let said = service.rlctl(command).unwrap();
        assert!(
            said.stderr.contains("warning: pass-all is on since "),
            "{said:?}"
        );
    }
    let json = service.rlctl(&["--json", "list", "bans"]).unwrap();
    assert!(
        json.stderr.starts_with("{\"warning\":\"pass-all is on"),
        "{json:?}"
    );
    let health = service.get("/healthz", "*/*").unwrap();
    assert!(
        health.contains("200 OK") && health.contains("pass-all is on"),
        "{health}"
    );
    let metrics = service.get("/metrics", "*/*").unwrap();
    assert!(metrics.contains("\nratelimit_pass_all 1\n"), "{metrics}");
    assert!(metrics.contains("reason=\"pass-all\""), "{metrics}");
    assert!(
        service.log().matches("pass-all is on").count() >= 2,
        "{}",
        service.log()
    );
    let said = service.rlctl(&["pass-all", "off"]).unwrap();
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert!(!passes(&lab, BANNED));
    let metrics = service.get("/metrics", "*/*").unwrap();
    assert!(metrics.contains("\nratelimit_pass_all 0\n"), "{metrics}");
}

#[test]
fn pass_all_ends_in_the_kernel_also_when_the_daemon_was_killed() {
    require_root!();
    let (lab, mut service) = Service::in_lab(UNLIMITED).unwrap();
    service.rlctl_ok(&["ban", "203.0.113.9"]).unwrap();
    service
        .rlctl_ok(&["pass-all", "on", "--for", "2s"])
        .unwrap();
    service.stop("-KILL").unwrap();
    assert!(passes(&lab, BANNED));
    wait_until("the end", || !passes(&lab, BANNED));
    service.start().unwrap();
    assert!(!passes(&lab, BANNED));
    let said = service.rlctl(&["status"]).unwrap();
    assert_eq!(said.stderr, "");
}

#[test]
fn a_configuration_that_nobody_confirms_goes_away_also_when_the_daemon_was_killed() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(UNLIMITED).unwrap();
    let new = service.path("new.toml");
    let tried = fs::read_to_string(service.config()).unwrap();
    fs::write(&new, tried.replace("limits = []", STRICT)).unwrap();
    let new = new.to_str().unwrap().to_owned();
    let apply = |service: &Service, time: &str| {
        let said = service
            .rlctl_ok(&["apply", &new, "--confirm", time])
            .unwrap();
        assert!(said.contains("new.toml until"), "{said}");
        assert!(limit(service).contains("1 packet per 1m"));
    };
    apply(&service, "2s");
    service.wait_for_log("rolled back").unwrap();
    assert!(
        limit(&service).contains("(unlimited)"),
        "{}",
        limit(&service)
    );

    apply(&service, "1h");
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    assert!(limit(&service).contains("1 packet per 1m"));
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(status.contains("not confirmed: "), "{status}");
    service.rlctl_ok(&["rollback"]).unwrap();
    assert!(
        limit(&service).contains("(unlimited)"),
        "{}",
        limit(&service)
    );

    apply(&service, "2s");
    service.stop("-KILL").unwrap();
    thread::sleep(Duration::from_millis(2100));
    service.start().unwrap();
    assert!(
        limit(&service).contains("(unlimited)"),
        "{}",
        limit(&service)
    );

    apply(&service, "1h");
    let said = service.rlctl(&["reload"]).unwrap();
    assert!(
        said.code == 1 && said.stderr.contains("rlctl confirm"),
        "{said:?}"
    );
    service.rlctl_ok(&["confirm"]).unwrap();
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    assert!(limit(&service).contains("1 packet per 1m"));
}

#[test]
fn on_a_terminal_enter_confirms() {
    require_root!();
    require_command!("script");
    let (_lab, service) = Service::in_lab(UNLIMITED).unwrap();
    let config = service.config();
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("limits = []", STRICT)).unwrap();
    let said = service
        .rlctl_on_terminal(&["apply", config.to_str().unwrap()], "\n")
        .unwrap();
    assert!(said.stdout.contains("press Enter to keep it"), "{said:?}");
    assert!(said.stdout.contains("confirmed "), "{said:?}");
    assert!(limit(&service).contains("1 packet per 1m"));
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(!status.contains("confirm"), "{status}");
}

#[test]
fn on_a_terminal_the_timeout_is_reported_also_when_the_previous_one_was_tried_from_the_same_file() {
    require_root!();
    require_command!("script");
    let (_lab, service) = Service::in_lab(UNLIMITED).unwrap();
    let new = service.path("new.toml");
    let text = fs::read_to_string(service.config()).unwrap();
    fs::write(&new, text.replace("limits = []", STRICT)).unwrap();
    let apply = |keys: &str| {
        let arguments = ["apply", new.to_str().unwrap(), "--confirm", "2s"];
        service.rlctl_on_terminal(&arguments, keys).unwrap()
    };
    let said = apply("\n");
    assert!(said.stdout.contains("confirmed "), "{said:?}");
    let stricter = text.replace("limits = []", &STRICT.replace("1m", "2m"));
    fs::write(&new, stricter).unwrap();
    let said = apply("");
    assert!(said.stdout.contains("was not confirmed"), "{said:?}");
    assert_eq!(said.code, 1, "{said:?}");
    assert!(limit(&service).contains("1 packet per 1m"));
}

const UNLIMITED: &str = "[policy.default]\nlimits = []\n";
const STRICT: &str = "limits = [{ packets = 1, per = \"1m\" }]";
const BANNED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 254);

fn limit(service: &Service) -> String {
    service.rlctl_ok(&["check", "8.8.8.8"]).unwrap()
}

fn passes(lab: &Lab, source: Ipv4Addr) -> bool {
    lab.passes(&datagram(source)).unwrap()
}

/// The addresses of one family: one of the host, the others at the far end of the link.
struct Family {
    near: &'static str,
    gateway: &'static str,
    resolver: &'static str,
    peer: &'static str,
    stranger: &'static str,
    length: u8,
    /// Prefixes that hold all addresses, none of them everything.
    halves: [&'static str; 2],
}

const IPV4: Family = Family {
    near: "192.0.2.1",
    gateway: "192.0.2.2",
    resolver: "192.0.2.3",
    peer: "192.0.2.4",
    stranger: "192.0.2.5",
    length: 24,
    halves: ["0.0.0.0/1", "128.0.0.0/1"],
};
const IPV6: Family = Family {
    near: "2001:db8::1",
    gateway: "2001:db8::2",
    resolver: "2001:db8::3",
    peer: "2001:db8::4",
    stranger: "2001:db8::5",
    length: 64,
    halves: ["::/1", "8000::/1"],
};

impl Family {
    /// Gives both ends their addresses, and the near one its default route.
    fn set_up(&self, lab: &Lab) {
        for namespace in [&lab.near, &lab.far] {
            let path = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6");
            namespace.enter(|| fs::write(path, "0")).unwrap();
        }
        let add = |namespace: &ratelimit_tests::lab::Namespace, address: &str| {
            let address = format!("{address}/{}", self.length);
            let mut words = vec!["address", "add", &address, "dev", INTERFACE];
            // An address that is still looked for elsewhere cannot be used.
            words.extend(address.contains(':').then_some("nodad"));
            namespace.ip(&words).unwrap();
        };
        add(&lab.near, self.near);
        for address in [self.gateway, self.resolver, self.peer, self.stranger] {
            add(&lab.far, address);
        }
        lab.near
            .ip(&["route", "add", "default", "via", self.gateway])
            .unwrap();
    }
}

/// A controller with a program on the near interface, and a list of everything.
struct Host {
    controller: Controller,
    pins: String,
    _directory: tempfile::TempDir,
}

impl Host {
    fn install(lab: &Lab, mode: &str, family: &Family) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().display();
        let pins = format!("/sys/fs/bpf/rltest-{}", lab.near.name());
        let toml = format!(
            "[policy.default]\n\
             limits = []\n\
             [metrics]\n\
             listen = false\n\
             [[interface]]\n\
             name = \"{INTERFACE}\"\n\
             mode = \"{mode}\"\n\
             [paths]\n\
             pins = \"{pins}\"\n\
             state = \"{state}\"\n\
             runtime = \"{state}\"\n"
        );
        let path = directory.path().join("config.toml");
        fs::write(&path, toml).unwrap();
        let config = config::load(&path).unwrap();
        let store = Store::open(directory.path()).unwrap();
        let (kernel, store) = lab.near.enter(|| {
            let kernel = open_kernel(&config, &store, Box::new(Local::default()));
            (kernel.unwrap(), store)
        });
        // Own addresses and the gateway are found, as on any host.
        let mut protected = lab.near.enter(Protected::find);
        for found in [family.near, family.gateway] {
            assert!(
                protected.contains(found.parse().unwrap()),
                "{found} is found"
            );
        }
        protected.extend([
            (
                family.resolver.parse().unwrap(),
                Why::Resolver("/etc/resolv.conf"),
            ),
            (family.peer.parse().unwrap(), Why::SshPeer),
        ]);
        let mut controller = Controller::new(config, store, kernel.datapath, protected).unwrap();
        let row = EntryRow {
            until: FOREVER,
            since: Timestamp::now(),
            reason: None,
            author: "test".into(),
        };
        let edits = family.halves.map(|half| {
            let half = half.parse().unwrap();
            Edit::Ban(half, Origin::list("everything"), Some(row.clone()))
        });
        controller.state.apply(edits, Cause::Origin).unwrap();
        lab.near.enter(|| controller.attach());
        Self {
            controller,
            pins,
            _directory: directory,
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A failure here leaves only pins behind; the test has already reported its result.
        let author = "test".into();
        let _ = self.controller.run(Detach(author));
        let _ = fs::remove_dir_all(&self.pins);
    }
}

/// A TCP connection to the host that was there before.
struct Session {
    near: TcpStream,
    far: TcpStream,
}

impl Session {
    fn open(lab: &Lab, near: &str, far: &str) -> Self {
        let near: IpAddr = near.parse().unwrap();
        let listener = lab.near.enter(|| TcpListener::bind((near, 22))).unwrap();
        // The far end has several addresses; the route says which of them the connection is from.
        let host = near.to_string();
        let route = ["route", "replace", &host, "dev", INTERFACE, "src", far];
        lab.far.ip(&route).unwrap();
        let far = lab.far.enter(|| TcpStream::connect((near, 22))).unwrap();
        let (near, _) = listener.accept().unwrap();
        for stream in [&near, &far] {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        Self { near, far }
    }

    /// Says something from the far end, and something back.
    fn exchange(&mut self, text: &[u8]) {
        let mut heard = vec![0; text.len()];
        self.far.write_all(text).unwrap();
        self.near.read_exact(&mut heard).unwrap();
        assert_eq!(heard, text);
        self.near.write_all(text).unwrap();
        self.far.read_exact(&mut heard).unwrap();
        assert_eq!(heard, text);
    }
}

/// Asks the resolver at the far end something, from the host.
fn ask(lab: &Lab, resolver: &str) -> Vec<u8> {
    let resolver: IpAddr = resolver.parse().unwrap();
    let far = lab.far.enter(|| UdpSocket::bind((resolver, 53))).unwrap();
    let any: IpAddr = if resolver.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let near = lab.near.enter(|| UdpSocket::bind((any, 0))).unwrap();
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    near.send_to(b"a question", (resolver, 53)).unwrap();
    let mut buffer = [0; 64];
    let (_, asks) = far.recv_from(&mut buffer).unwrap();
    far.send_to(b"an answer", asks).unwrap();
    let (length, _) = near.recv_from(&mut buffer).unwrap();
    buffer[..length].to_vec()
}

fn pings(lab: &Lab, address: &str) -> bool {
    lab.near
        .run("ping", &["-c", "1", "-W", "2", address])
        .is_ok()
}
