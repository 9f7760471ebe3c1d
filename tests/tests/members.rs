//! The permissions of a member of the socket's group who is not root.

use std::{
    fs, io,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixStream,
    },
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Lab, exchange::exchange, require_root, service::Service};

const MEMBER: u32 = 54_321;
/// A user of every Debian with a group of its own, unlike `nobody`.
const USER: &str = "daemon";
const TOML: &str = "[policy.default]\nlimits = [{ packets = 100, per = \"1s\" }]\n";
/// More than one user may have, and more than all users but root.
const MANY: usize = 100;

#[test]
fn a_member_has_no_file_of_root_read_and_no_key_sent() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = opened(&lab, TOML);
    let own = fs::read_to_string(service.config()).unwrap();
    for (addition, reported) in [
        (
            "[list.x]\nfile = \"/etc/shadow\"\n",
            "only root may apply [list.x]: /etc/shadow is outside the list directories",
        ),
        (
            "[crowdsec]\nurl = \"http://127.0.0.1:9\"\nkey_file = \"/etc/shadow\"\n",
            "only root may apply another url or key of [crowdsec]",
        ),
    ] {
        let text = format!("{own}{addition}");
        let body = serde_json::json!({"file": "/tmp/new.toml", "text": text, "seconds": 60.0});
        let answer = asked_by_member(&service, "POST", "/v1/apply", &body.to_string());
        assert!(answer.contains(reported), "{answer}");
    }
    // A member can also try a configuration that names no file.
    let body = serde_json::json!({"file": "/tmp/new.toml", "text": own, "seconds": 60.0});
    let answer = asked_by_member(&service, "POST", "/v1/apply", &body.to_string());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_member_is_told_what_is_wrong_and_not_what_stands_there() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, TOML).unwrap();
    service.user = USER;
    let list = service.path("list.txt");
    fs::write(&list, "root:$6$topsecret:19000\n").unwrap();
    let addition = format!("{TOML}[list.x]\nfile = \"{}\"\n", list.display());
    service.configure(&addition).unwrap();
    service.start().unwrap();
    open(&service);
    let reload = asked_by_member(&service, "POST", "/v1/reload", "");
    assert!(reload.contains("list.txt:1:1"), "{reload}");
    let lists = asked_by_member(&service, "GET", "/v1/lists", "");
    service.configure("allow = \"topsecret\"\n").unwrap();
    let refused = asked_by_member(&service, "POST", "/v1/reload", "");
    assert!(refused.contains("config.toml:1:"), "{refused}");
    let status = asked_by_member(&service, "GET", "/v1/status", "");
    let events = asked_by_member(&service, "GET", "/v1/events", "");
    for answer in [reload, lists, refused, status, events] {
        assert!(!answer.contains("topsecret"), "{answer}");
    }
    assert!(
        service.log().matches("topsecret").count() >= 2,
        "{}",
        service.log()
    );
    // Root may read every file.
    let said = service.rlctl(&["reload"]).unwrap();
    assert!(
        said.code == 1 && said.stderr.contains("topsecret"),
        "{said:?}"
    );
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(status.contains("topsecret"), "{status}");
}

#[test]
fn idle_connections_of_a_member_keep_nobody_out() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = opened(&lab, TOML);
    let path = socket(&service);
    let idle: Vec<UnixStream> = as_member(&service, move || {
        let connect = || UnixStream::connect(&path).unwrap();
        (0..MANY).map(|_| connect()).collect()
    });
    // They are cut off after a minute.
    let begun = Instant::now();
    assert_eq!(service.rlctl(&["status"]).unwrap().code, 0);
    let answer = asked_by_member(&service, "GET", "/v1/limits", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        begun.elapsed() < Duration::from_secs(50),
        "{:?}",
        begun.elapsed()
    );
    drop(idle);
}

fn opened(lab: &Lab, toml: &str) -> Service {
    let mut service = Service::new(lab, toml).unwrap();
    service.user = USER;
    service.start().unwrap();
    open(&service);
    service
}

/// Lets others than root through to the socket.
fn open(service: &Service) {
    for directory in [service.path(""), service.path("run")] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn socket(service: &Service) -> PathBuf {
    service.path("run").join("control.sock")
}

fn asked_by_member(service: &Service, method: &str, path: &str, body: &str) -> String {
    let path_of_socket = socket(service);
    let words = [method, path, body].map(str::to_owned);
    as_member(service, move || {
        let [method, path, body] = &words;
        exchange(&path_of_socket, method, path, body).unwrap()
    })
}

/// Does it in a thread that is a user of its own, in the group of the socket.
fn as_member<T: Send + 'static>(service: &Service, what: impl FnOnce() -> T + Send + 'static) -> T {
    let group = fs::metadata(socket(service)).unwrap().gid();
    let member = move || {
        // SAFETY: they take no pointers.
        let answers = unsafe {
            [
                libc::syscall(libc::SYS_setresgid, group, group, group),
                libc::syscall(libc::SYS_setresuid, MEMBER, MEMBER, MEMBER),
            ]
        };
        assert_eq!(answers, [0; 2], "{}", io::Error::last_os_error());
        what()
    };
    thread::spawn(member).join().unwrap()
}
