//! `rlctl config show` prints a configuration that loads again, as TOML and as JSON.

use ratelimit_core::config::{self, Config, File};
use serde_json::{Value, json};

use crate::{
    daemon::{Daemon, ScriptedDaemon},
    run,
};

const SHIPPED: &str = include_str!("../../../contrib/config.toml");
const OWN: &str = r#"
interface = [{ name = "eth0", observe = true }, { name = "eth1.7", node = { limits = [{ packets = 9, per = "1s" }] } }]
[policy.default]
limits = [{ packets = 1000, per = "1s" }, { bytes = "50MB", per = "1s", burst = "100MB", match = "web" }]
ban = { after = 5000, within = "10s", for = "10m", factor = 2, max = "24h" }
[class.web]
protocol = "tcp"
destination_ports = [80, 443]
[destination."198.51.100.0/24"]
limits = [{ packets = 20_000, per = "1s" }]
[allow]
sources = ["192.0.2.10", "2001:db8::/48"]
"#;

#[test]
fn the_settings_load_again_as_toml_and_as_json() {
    for text in [SHIPPED, OWN] {
        let expected = loaded(text);
        assert_eq!(loaded(&shown(text, &[])), expected);
        let json: Value = serde_json::from_str(&shown(text, &["--json"])).unwrap();
        assert_eq!(loaded(&toml::to_string(&json).unwrap()), expected);
    }
}

/// The output for a daemon whose configuration is `text`.
fn shown(text: &str, options: &[&str]) -> String {
    let settings = json!(config::settings(&[file(text)]));
    let daemon = ScriptedDaemon::start(Daemon::Answers(200, settings.to_string()));
    let output = run(&daemon, &[&["config", "show"], options].concat(), "", &[]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn loaded(text: &str) -> Config {
    config::parse(&[file(text)])
        .unwrap_or_else(|error| panic!("{error}: {text}"))
        .0
}

fn file(text: &str) -> File {
    File {
        path: "config.toml".into(),
        text: text.to_owned(),
    }
}
