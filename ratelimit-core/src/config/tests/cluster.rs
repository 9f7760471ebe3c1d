use std::time::Duration;

use super::*;
use crate::{config::crowdsec::Key, limit::Division};

const SECRET: &str = "0123456789abcdef";

#[test]
fn a_cluster_has_a_store_a_name_a_secret_and_a_period() {
    let text = "[cluster]\n\
                url = \"redis://u:p@store:6379/1\"\n\
                node = \"edge-1\"\n\
                secret = \"0123456789abcdef\"\n";
    let cluster = load_text(&format!("{MINIMAL}{text}")).cluster.unwrap();
    assert_eq!(
        cluster.store.expose(cluster.store.hosts()[0]),
        "redis://u:p@store:6379/1"
    );
    assert_eq!(&*cluster.node, "edge-1");
    assert_eq!(cluster.period, Duration::from_millis(250));
    let shown = format!("{cluster:?}");
    assert!(!shown.contains(SECRET) && !shown.contains("u:p"), "{shown}");

    let text = "[cluster]\n\
                url = \"/run/redis.sock\"\n\
                node = \"b\"\n\
                secret_file = \"/etc/secret\"\n\
                period = \"2s\"\n";
    let cluster = load_text(&format!("{MINIMAL}{text}")).cluster.unwrap();
    assert_eq!(cluster.secret, Key::File("/etc/secret".into()));
    assert_eq!(cluster.period, Duration::from_secs(2));
    assert_eq!(load_text(MINIMAL).cluster, None);
}

#[test]
fn a_certificate_has_its_key() {
    let cluster = "[cluster]\nurl = \"rediss://store\"\nnode = \"a\"\nsecret_file = \"/s\"\n";
    let both = "cert_file = \"/node.pem\"\nkey_file = \"/node.key\"\n";
    let config = load_text(&format!("{MINIMAL}{cluster}{both}"));
    let certificate = config.cluster.unwrap().certificate.unwrap();
    assert_eq!(
        (certificate.cert_file, certificate.key_file),
        ("/node.pem".into(), "/node.key".into())
    );
    check_behind_minimal(
        &format!("{cluster}cert_file = \"/node.pem\"\n"),
        r#"config.toml:8:1: [cluster] has `cert_file` but no `key_file`
8 | [cluster]
  | ^^^^^^^^^ write key_file = "/etc/ratelimit/cluster-node.key""#,
    );
    check_behind_minimal(
        &format!("{cluster}key_file = \"/node.key\"\n"),
        r#"config.toml:8:1: [cluster] has `key_file` but no `cert_file`
8 | [cluster]
  | ^^^^^^^^^ write cert_file = "/etc/ratelimit/cluster-node.pem""#,
    );
}

const CLUSTER: &str = "[cluster]\nurl = \"/run/r\"\nnode = \"a\"\nsecret_file = \"/s\"\n";

#[test]
fn a_limit_of_the_cluster_is_divided_by_its_nodes() {
    let limit =
        "{ packets = 1000, per = \"1s\", scope = \"cluster\", division = \"proportional\" }";
    let policy = format!("[policy.x]\nsources = [\"192.0.2.0/24\"]\nlimits = [{limit}]\n");
    let config = load_text(&format!("{MINIMAL}{policy}{CLUSTER}nodes = 3\n"));
    let limit = &config.policies["x"].limits[0];
    assert_eq!(limit.division(), Some(Division::Proportional));
    assert_eq!(limit.part(3).amount(), 333);
    assert_eq!(limit.part(0).amount(), 1000);
    assert_eq!(limit.with_amount(0).amount(), 1);
    assert_eq!(config.cluster.unwrap().nodes, 3);
}
