use std::time::Duration;

use super::*;
use crate::config::crowdsec::{Key, Secret};

#[test]
fn an_api_has_an_address_a_key_and_a_pace() {
    let text = "[crowdsec]\nurl = \"http://127.0.0.1:8080/\"\nkey = \"8f3e4d\"\n";
    let crowdsec = load_text(&format!("{MINIMAL}{text}")).crowdsec.unwrap();
    assert_eq!(crowdsec.address.to_string(), "http://127.0.0.1:8080");
    assert_eq!(crowdsec.key, Key::Given(Secret::new("8f3e4d").unwrap()));
    assert_eq!(crowdsec.every, Duration::from_secs(10));
    assert!(!format!("{crowdsec:?}").contains("8f3e4d"));

    let text =
        "[crowdsec]\nurl = \"/run/crowdsec.sock\"\nkey_file = \"/etc/key\"\nevery = \"1m\"\n";
    let crowdsec = load_text(&format!("{MINIMAL}{text}")).crowdsec.unwrap();
    assert_eq!(crowdsec.address.to_string(), "/run/crowdsec.sock");
    assert_eq!(crowdsec.key, Key::File("/etc/key".into()));
    assert_eq!(crowdsec.every, Duration::from_mins(1));
    assert_eq!(load_text(MINIMAL).crowdsec, None);
}
