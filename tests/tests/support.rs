//! `rlctl doctor --archive` with a running daemon: the content of the archive, and what it omits.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use ratelimit_tests::{Frame, Lab, lab::Sender, require_root, service::Service};

/// Secrets of the operator. None is a word, so that none occurs by chance.
const SECRETS: [&str; 4] = [
    "kq7crowdsecKey83",
    "zr5redisPassword",
    "0f9e8d7c6b5a49382716",
    "vx4commentedOut9",
];
/// Addresses that are in no network for documentation, as the test puts them in.
const ADDRESSES: [&str; 6] = [
    "10.97.31.7",
    "10.97.31.8",
    "10.97.32.0",
    "10.97.33.9",
    "fd97:31::",
    "fd97:32::9",
];

const TOML: &str = "
[policy.default]
limits = [{ packets = 1000, per = \"1s\" }]
# An old key, vx4commentedOut9, of 10.97.31.8.
[policy.partner]
sources = [\"10.97.32.0/24\"]
limits = [{ packets = 50, per = \"1s\" }]
[allow]
sources = [\"fd97:31::/48\"]
[crowdsec]
url = \"http://10.97.33.9:8080\"
key = \"kq7crowdsecKey83\"
[cluster]
url = \"redis://edge:zr5redisPassword@store.internal-97.net:6379\"
node = \"edge-1\"
secret_file = \"SECRET\"
";

#[test]
fn the_archive_of_a_daemon_has_no_secret_and_no_address() {
    require_root!();
    let scene = Scene::new();
    let text = scene.support(&[]);
    for hidden in SECRETS.iter().chain(&ADDRESSES).chain(&["internal-97"]) {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    for part in [
        "\"xdp-program\"",
        "node = \"edge-1\"",
        "http://192.0.2.",
        "redis://REDACTED@host1.example:6379",
        "\"reason\":\"scanner\"",
        "\"event\":\"ban-added\"",
        "ratelimit_packets_total",
        "\"reason\": \"banned\"",
        concat!("ratelimitd ", env!("CARGO_PKG_VERSION")),
        "running",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn addresses_stay_on_demand_and_secrets_do_not() {
    require_root!();
    let scene = Scene::new();
    let text = scene.support(&["--with-addresses"]);
    for hidden in SECRETS {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    for shown in [
        "10.97.31.7",
        "10.97.32.0/24",
        "fd97:31::/48",
        "store.internal-97.net",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
}

#[test]
fn a_file_that_exists_is_not_overwritten_and_nobody_else_reads_a_new_one() {
    require_root!();
    let lab = Lab::new().unwrap();
    // Without a daemon, its part is omitted, and the rest is there.
    let service = Service::new(&lab, "[policy.default]\nlimits = []\n").unwrap();
    let (archive, config) = (service.path("support.tar.gz"), service.config());
    let words = [
        "doctor",
        "--archive",
        archive.to_str().unwrap(),
        "--config",
        config.to_str().unwrap(),
    ];
    let said = service.rlctl_ok(&words).unwrap();
    assert!(
        said.contains("skipped: status.json: no daemon on "),
        "{said}"
    );
    assert!(said.contains("config.toml"), "{said}");
    let mode = fs::metadata(&archive).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let before = fs::read(&archive).unwrap();
    let again = service.rlctl(&words).unwrap();
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.stderr.contains("already exists"), "{again:?}");
    assert_eq!(fs::read(&archive).unwrap(), before);
}

/// A daemon that knows all of the secrets and addresses.
struct Scene {
    service: Service,
    _lab: Lab,
}

impl Scene {
    fn new() -> Self {
        let lab = Lab::new().unwrap();
        let mut service = Service::new(&lab, "").unwrap();
        let secret = service.path("cluster.secret");
        fs::write(&secret, "0f9e8d7c6b5a49382716\n").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
        let toml = TOML.replace("SECRET", secret.to_str().unwrap());
        service.configure(&toml).unwrap();
        service.start().unwrap();
        for words in [
            &["ban", "10.97.31.7", "--reason", "scanner"][..],
            &["allow", "add", "10.97.31.8"],
            &[
                "limit",
                "set",
                "--prefix",
                "fd97:32::9",
                "--packets",
                "5",
                "--per",
                "1s",
            ],
        ] {
            service.rlctl_ok(words).unwrap();
        }
        let frame = Frame::ethernet().ipv4("10.97.31.7".parse().unwrap());
        let frame = frame.udp(53).pad_to(60).build();
        let sender = Sender::new(&lab.far).unwrap();
        for _ in 0..5 {
            sender.send(&frame).unwrap();
        }
        Self { service, _lab: lab }
    }

    /// Creates an archive, and returns its files and the output.
    fn support(&self, options: &[&str]) -> String {
        let archive = self.service.path("support.tar.gz");
        let log = self.service.path("log");
        // A log with everything, which no part of the daemon would write.
        let everything = SECRETS.iter().take(3).chain(&ADDRESSES).copied();
        let line: Vec<&str> = everything.collect();
        let whole = self.service.log() + "running: " + &line.join(" and ") + "\n";
        fs::write(&log, whole).unwrap();
        let words = [
            "doctor",
            "--archive",
            archive.to_str().unwrap(),
            "--log",
            log.to_str().unwrap(),
        ];
        let said = self.service.rlctl_ok(&[&words, options].concat()).unwrap();
        said + &unpacked(&archive)
    }
}

/// Returns the names and contents of the files in an archive.
fn unpacked(archive: &Path) -> String {
    let tar = |words: &[&str]| {
        let output = Command::new("tar")
            .args(words)
            .arg(archive)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let names: PathBuf = "ratelimit-support/README.txt".into();
    let listed = tar(&["--list", "--file"]);
    assert!(listed.contains(names.to_str().unwrap()), "{listed}");
    listed + &tar(&["--extract", "--to-stdout", "--file"])
}
