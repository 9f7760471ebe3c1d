//! `rlctl suggest` names what known sources have sent, also after a crash of the daemon.

use std::{fs, net::Ipv4Addr};

use jiff::SignedDuration;
use ratelimit_core::api::{Status, Suggested, openapi};
use ratelimit_tests::{Frame, lab::Sender, require_root, service::Service};
use serde_json::{Value, json};

const SOURCES: u32 = 100;

/// For a sliding window, each sample counts its content.
const TOML: &str = "[policy.default]\n\
                    limits = \
                    [{ packets = 1000, per = \"1h\", algorithm = \"sliding-window\" }]\n";

#[test]
fn measured_rates_are_proposed_with_headroom() {
    require_root!();
    let (lab, mut service) = Service::in_lab(TOML).unwrap();
    let early = service.rlctl(&["suggest"]).unwrap();
    assert_eq!(early.code, 1, "{early:?}");
    assert!(early.stderr.contains("too few samples"), "{early:?}");
    let sender = Sender::new(&lab.far).unwrap();
    // Source n sends n packets at once: nearly every look of the next hour finds all of them.
    for source in 1..=SOURCES {
        let address = Ipv4Addr::from(0x0a01_0000 + source);
        let frame = Frame::ethernet().ipv4(address).udp(9).pad_to(60).build();
        for _ in 0..source {
            sender.send(&frame).unwrap();
        }
    }
    let found = service.wait_for("enough windows", || {
        let enough = |found: &Suggested| found.limits[0].windows > 3 * u64::from(SOURCES);
        suggested(&service).filter(enough)
    });
    check(&found);
    // Not since the hour began. The looks begin while the daemon starts, which takes a busy machine
    // seconds.
    let status: Status = service.json(&["status"]).unwrap();
    let start = SignedDuration::from_secs(20);
    assert!(found.since + start >= status.started, "{}", found.since);
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    let kept = suggested(&service).unwrap();
    check(&kept);
    assert!(kept.limits[0].windows >= found.limits[0].windows);
    let toml = service
        .rlctl_ok(&["suggest", "--percentile", "90", "--toml"])
        .unwrap();
    let file = service.path("proposed.toml");
    let text = format!("[[interface]]\nname = \"rl0\"\n{toml}");
    fs::write(&file, &text).unwrap();
    let file = file.to_str().unwrap();
    service.rlctl_ok(&["config", "check", file]).unwrap();
    assert!(text.contains("[policy.default]"), "{text}");
    let table = service.rlctl_ok(&["suggest", "--percentile", "90"]);
    assert!(table.unwrap().contains("1000 packets per 1h"));
}

/// Nine in ten of the sources that send 1 to 100 send at most 90. Bins are 1 % wide, and one sample
/// in four may have found a part.
fn check(found: &Suggested) {
    let limit = &found.limits[0];
    assert_eq!(limit.policy, "default");
    assert!((86..=91).contains(&limit.at), "{limit:?}");
    assert!((43..=52).contains(&limit.median), "{limit:?}");
    assert!((98..=101).contains(&limit.most), "{limit:?}");
    assert!(limit.sources <= u64::from(SOURCES), "{limit:?}");
    let proposed = limit.proposed.as_ref().unwrap().amount();
    assert!((170..=190).contains(&proposed), "{proposed}");
}

/// Returns the suggestion, after checking its description.
fn suggested(service: &Service) -> Option<Suggested> {
    let said = service.rlctl(&["--json", "suggest", "--percentile", "90"]);
    let said: Value = serde_json::from_str(&said.unwrap().stdout).ok()?;
    if said.get("error").is_none() {
        let document = openapi::document();
        let content = &document["paths"]["/v1/suggest"]["get"]["responses"]["200"]["content"];
        let schema = json!({
            "allOf": [content["application/json"]["schema"]],
            "components": document["components"],
        });
        jsonschema::validate(&schema, &said).unwrap();
    }
    serde_json::from_value(said).ok()
}
