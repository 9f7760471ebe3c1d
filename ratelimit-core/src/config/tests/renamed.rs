//! Keys by their names from before 1.0.

use super::*;
use crate::config::{File, settings, upgrade};

const OLD: &str = r#"# what was written
[[interface]]
name = "eth0"
next   = "/sys/fs/bpf/other" # the other one
node = { limits = [{ packets = 9_000, per = "1s" }] }

[source]
logs = 1_000
"inner" = ["gre"]

[challenge.tcp]
when = "always"
answers = 5
way = "syncookie"

[policy.default]
limits = [
  { packets = 9, per = "1s", scope = "cluster", share = "equal" }, # share = "equal"
]
ban = { after = 9, within = "1s", for = "1m", unverified = "ban" }

[[aggregate.ipv4]]
prefix = 24
packets = 100
per = "1s"
scope = "cluster"
share = "proportional"

[[aggregate.ipv6]]
prefix = 48
packets = 100
per = "1s"

[detection]
unverified_per_minute = 9

[detection.syn_flood]
above = 7

[node]
limits = [{ packets = 100, per = "1s", scope = "cluster", share = "equal" }]

[history]
keep = "7d"

[upstream]
origins = ["manual", "detected"]

[cluster]
url = "redis://store"
node = "a"
secret = "0123456789abcdef"
nodes = 3
"#;

#[test]
fn each_old_name_means_what_the_new_one_does() {
    let old = OLD.to_owned();
    let (new, renamed) = upgrade(&old);
    let [old, present] = [&old, &new].map(|text| Config {
        files: vec![],
        ..load_text(text)
    });
    assert_eq!(old, present);
    assert_eq!(renamed.len(), 12, "{renamed:?}");
    let (answer, _directory) = inspect_files(&[("config.toml", &new)]);
    let warnings = answer.unwrap().1;
    assert!(
        !warnings
            .iter()
            .any(|it| it.problem.message.contains("is now called"))
    );
}

#[test]
fn an_upgrade_changes_the_old_names_and_nothing_else() {
    let (new, _) = upgrade(OLD);
    let expected = OLD
        .replace("next   =", "chain   =")
        .replace("logs =", "sliding_logs =")
        .replace("\"inner\" =", "tunnels =")
        .replace("answers =", "answers_per_second =")
        .replace("unverified", "forgeable")
        .replace("\"detected\"", "\"automatic\"")
        .replace("way =", "method =")
        .replace(
            "scope = \"cluster\", share =",
            "scope = \"cluster\", division =",
        )
        .replace("\nshare =", "\ndivision =")
        .replace("[[aggregate.", "[[subnet.")
        .replace("above =", "threshold =")
        .replace("keep =", "retention =");
    assert_eq!(new, expected);
    assert_eq!(upgrade(&new), (new.clone(), vec![]));
}

#[test]
fn the_settings_in_force_have_present_names() {
    let file = File {
        path: "config.toml".into(),
        text: OLD.to_owned(),
    };
    let settings = settings(&[file]);
    let value = |key: &str| {
        settings
            .iter()
            .find(|it| it.key == key)
            .map(|it| it.value.as_str())
    };
    assert_eq!(value("interface.eth0.chain"), Some("\"/sys/fs/bpf/other\""));
    let limits = value("policy.default.limits").unwrap();
    assert!(limits.contains("division = \"equal\""), "{limits}");
    assert_eq!(value("history.keep"), None);
}
