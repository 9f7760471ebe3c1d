//! The bouncer for `CrowdSec`, driven by a real local API and `cscli`, seen in the kernel.

use std::{
    fs,
    io::{self, BufRead, BufReader, BufWriter, Write},
    net::{IpAddr, Ipv4Addr},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    thread,
    time::{Duration, Instant},
};

use ratelimit_core::api::{Ban, CrowdsecStatus, Origin, Status};
use ratelimit_tests::{
    Lab, PATIENCE,
    crowdsec::{Crowdsec, KEY, URL},
    packet::datagram,
    require_package, require_root,
    service::Service,
};

const V4: &str = "203.0.113.9";
const V6: &str = "2001:db8::9";

#[test]
fn decisions_are_enforced_and_end_by_deletion_and_by_their_own_end() {
    require_root!();
    require_package!("crowdsec");
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, &toml(KEY)).unwrap();
    let crowdsec = Crowdsec::started(&service).unwrap();
    let add = |arguments: &[&str]| {
        crowdsec
            .cscli(&[&["decisions", "add"], arguments].concat())
            .unwrap();
    };
    add(&["--ip", V4, "--duration", "1h", "--reason", "from before"]);
    service.start().unwrap();
    service.wait_until("the ban from before", || !passes(&lab, V4));
    let ban = bans(&service).remove(0);
    assert_eq!((&ban.origin, &*ban.author), (&Origin::Crowdsec, "cscli"));
    assert_eq!(ban.reason.as_deref(), Some("from before"));
    let reported = service.rlctl_ok(&["status"]).unwrap();
    assert!(
        reported.contains("CrowdSec: connected to http://127.0.0.1:8080 since"),
        "{reported}"
    );
    let bouncers = crowdsec.cscli(&["bouncers", "list"]).unwrap();
    assert!(bouncers.contains("\"type\": \"ratelimit\""), "{bouncers}");

    // A range with host bits, as the API accepts it, and captchas and countries, which ban nothing.
    add(&["--range", "2001:db8::7/48", "--duration", "1h"]);
    add(&["--ip", "198.51.100.1", "--type", "captcha"]);
    service.wait_until("the range", || !passes(&lab, V6));
    service.wait_until("the captcha", || status(&service).ignored["type"] > 0);
    assert!(passes(&lab, "198.51.100.1"));

    // The longer one is deleted, and the shorter one holds until its own end.
    add(&["--ip", V4, "--duration", "2h", "--reason", "longer"]);
    service.wait_until("the longer one", || reason(&service, V4) == "longer");
    let list = crowdsec.cscli(&["decisions", "list", "--ip", V4]).unwrap();
    crowdsec
        .cscli(&["decisions", "delete", "--id", &id_of("longer", &list)])
        .unwrap();
    service.wait_until("the one before", || reason(&service, V4) == "from before");
    crowdsec
        .cscli(&["decisions", "delete", "--ip", V4])
        .unwrap();
    service.wait_until("the deletion", || passes(&lab, V4));

    // The command itself may take long on a busy machine.
    thread::scope(|scope| {
        scope.spawn(|| add(&["--ip", V4, "--duration", "5s"]));
        service.wait_until("the brief ban", || !passes(&lab, V4));
    });
    service.wait_until("its end", || passes(&lab, V4));
    // The kernel knows of an end up to a second before the daemon takes notice.
    service.wait_until("its being forgotten", || bans(&service).len() == 1);
    let metrics = service.metrics().unwrap();
    for line in [
        "ratelimit_crowdsec_connected 1",
        "ratelimit_crowdsec_bans 1",
        "ratelimit_crowdsec_ignored_total{reason=\"type\"} 1",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
}

#[test]
fn when_the_api_is_gone_bans_stay_and_when_it_is_back_all_of_them_are_replaced() {
    require_root!();
    require_package!("crowdsec");
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, &toml(KEY)).unwrap();
    let mut crowdsec = Crowdsec::started(&service).unwrap();
    crowdsec.cscli(&["decisions", "add", "--ip", V4]).unwrap();
    crowdsec.cscli(&["decisions", "add", "--ip", V6]).unwrap();
    service.start().unwrap();
    service.wait_until("two bans", || bans(&service).len() == 2);
    let before = bans(&service);

    crowdsec.kill().unwrap();
    service.wait_until("the loss", || status(&service).connected == Some(false));
    let reported = service.rlctl_ok(&["status"]).unwrap();
    assert!(
        reported.contains("no answer from http://127.0.0.1:8080"),
        "{reported}"
    );
    // The API is not needed to start either.
    service.stop("-KILL").unwrap();
    service.start().unwrap();
    service.wait_until("the loss", || status(&service).connected == Some(false));
    assert!(!passes(&lab, V4) && !passes(&lab, V6));
    let metrics = service.metrics().unwrap();
    assert!(
        metrics.contains("\nratelimit_crowdsec_connected 0\n"),
        "{metrics}"
    );

    crowdsec.start().unwrap();
    crowdsec
        .cscli(&["decisions", "delete", "--ip", V6])
        .unwrap();
    service.wait_until("the deletion meanwhile", || passes(&lab, V6));
    assert!(!passes(&lab, V4));
    // Unchanged bans are not touched.
    let kept = before.iter().find(|ban| ban.prefix == V4.parse().unwrap());
    assert_eq!(bans(&service)[0].since, kept.unwrap().since);
    let log = service.log();
    assert_eq!(log.matches("CrowdSec is unreachable").count(), 2, "{log}");
}

#[test]
fn a_wrong_key_is_reported_and_a_reload_brings_the_right_one_and_no_section_ends_the_bans() {
    require_root!();
    require_package!("crowdsec");
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, &toml("wrong")).unwrap();
    let crowdsec = Crowdsec::started(&service).unwrap();
    crowdsec.cscli(&["decisions", "add", "--ip", V4]).unwrap();
    service.start().unwrap();
    service.wait_until("the refusal", || status(&service).error.is_some());
    let error = status(&service).error.unwrap();
    assert!(
        error.contains("the key was rejected (access forbidden)"),
        "{error}"
    );
    assert!(passes(&lab, V4) && !service.log().contains("wrong"));

    let reported = service.reload(&toml(KEY)).unwrap();
    assert!(reported.contains("crowdsec: changed"), "{reported}");
    service.wait_until("the ban", || !passes(&lab, V4));

    service.rlctl_ok(&["ban", V6]).unwrap();
    service.reload("[policy.default]\nlimits = []\n").unwrap();
    service.wait_until("the end", || passes(&lab, V4));
    assert!(!passes(&lab, V6));
}

/// Decisions of the answer that is measured; `RATELIMIT_DECISIONS` asks for others.
const DECISIONS: u64 = 60_000;
/// The peak memory per decision in bytes: the decision, the ban, and a temporary copy for a change
/// of all of them. Measured are 650; a copy of each change for each of its steps would take 1,280.
const BYTES_MAX: u64 = 900;

#[test]
fn a_whole_answer_takes_memory_for_the_bans_that_it_has_and_not_for_copies_of_them() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::new(&lab, "[policy.default]\nlimits = []\n").unwrap();
    let decisions = std::env::var("RATELIMIT_DECISIONS").ok();
    let decisions = decisions.map_or(DECISIONS, |count| count.parse().unwrap());
    let socket = service.path("api.sock");
    let api = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    // It ends with the process of the tests.
    thread::spawn(move || {
        for stream in api.incoming() {
            // The client may disconnect.
            let _ = answer(stream.unwrap(), decisions);
        }
    });
    let mut service = service;
    service.start().unwrap();
    let at_rest = service.memory("VmRSS").unwrap();
    service
        .reload(&format!(
            "[policy.default]\n\
             limits = []\n\
             [crowdsec]\n\
             url = \"unix://{}\"\n\
             key = \"{KEY}\"\n\
             every = \"1s\"\n",
            socket.display()
        ))
        .unwrap();
    let deadline = Instant::now() + 10 * PATIENCE;
    // While it processes all of them, the status says so.
    let bans = |said: &str| {
        serde_json::from_str::<Status>(said)
            .ok()?
            .crowdsec
            .map(|it| it.bans)
    };
    let reported = || bans(&service.rlctl(&["--json", "status"]).unwrap().stdout);
    while reported() != usize::try_from(decisions).ok() {
        assert!(Instant::now() < deadline, "{}", service.log());
        thread::sleep(Duration::from_millis(200));
    }
    let peak = service.memory("VmHWM").unwrap();
    let each = (peak - at_rest) / decisions;
    println!(
        "{decisions} decisions: {} MiB at rest, {} MiB at the peak, {} MiB then, {each} bytes each",
        at_rest >> 20,
        peak >> 20,
        service.memory("VmRSS").unwrap() >> 20
    );
    assert!(each < BYTES_MAX, "{each} bytes for each decision");
}

/// Answers a request of the bouncer: the first with all decisions, the others with none.
fn answer(mut stream: UnixStream, decisions: u64) -> io::Result<()> {
    let mut head = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    head.read_line(&mut request)?;
    let mut line = String::new();
    while head.read_line(&mut line)? > 2 {
        line.clear();
    }
    write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
    let mut body = BufWriter::new(stream);
    write!(body, "{{\"deleted\":null,\"new\":[")?;
    let all = request.contains("startup=true");
    for id in 0..if all { decisions } else { 0 } {
        // In no order, as of a community list.
        let host = Ipv4Addr::from(0x1000_0000 + u32::try_from(id * 7_919 % decisions).unwrap());
        let comma = if id == 0 { "" } else { "," };
        write!(
            body,
            "{comma}{{\"duration\":\"3h59m{}.5s\",\"id\":{id},\"origin\":\"CAPI\",\
             \"scenario\":\"crowdsecurity/ssh-bf-{}\",\
             \"scope\":\"Ip\",\"type\":\"ban\",\"value\":\"{host}\"}}",
            id % 60,
            id % 40
        )?;
    }
    write!(body, "]}}")?;
    body.flush()
}

fn toml(key: &str) -> String {
    format!(
        "[policy.default]\n\
         limits = []\n\
         [crowdsec]\n\
         url = \"{URL}\"\n\
         key = \"{key}\"\n\
         every = \"1s\"\n"
    )
}

fn bans(service: &Service) -> Vec<Ban> {
    service.json(&["list", "bans"]).unwrap()
}

fn reason(service: &Service, address: &str) -> String {
    let prefix = address.parse().unwrap();
    let ban = bans(service).into_iter().find(|ban| ban.prefix == prefix);
    ban.and_then(|ban| ban.reason)
        .map_or_else(String::new, |reason| reason.to_string())
}

fn status(service: &Service) -> CrowdsecStatus {
    let status: Status = service.json(&["status"]).unwrap();
    status.crowdsec.unwrap()
}

/// The number of the decision for `reason`, in what `cscli decisions list` prints.
fn id_of(reason: &str, list: &str) -> String {
    let alerts: Vec<serde_json::Value> = serde_json::from_str(list).unwrap();
    let mut decisions = alerts
        .iter()
        .filter_map(|alert| alert["decisions"].as_array())
        .flatten();
    let decision = decisions.find(|it| it["scenario"] == reason);
    decision.unwrap()["id"].to_string()
}

fn passes(lab: &Lab, source: &str) -> bool {
    let source: IpAddr = source.parse().unwrap();
    lab.passes(&datagram(source)).unwrap()
}
