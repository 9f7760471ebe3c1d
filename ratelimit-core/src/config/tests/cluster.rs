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
fn missing_keys_are_reported_with_a_hint() {
    check_behind_minimal(
        "[cluster]\n",
        r#"config.toml:8:1: [cluster] has no `url`
8 | [cluster]
  | ^^^^^^^^^ write url = "redis://127.0.0.1:6379"
config.toml:8:1: [cluster] has no `node`
8 | [cluster]
  | ^^^^^^^^^ write node = "edge-1", a name that no other node has
config.toml:8:1: [cluster] has no `secret_file`
8 | [cluster]
  | ^^^^^^^^^ write secret_file = "/etc/ratelimit/cluster.secret", with the same text on all nodes: `openssl rand -hex 32` makes one"#,
    );
}

#[test]
fn a_store_that_cannot_be_asked_is_refused() {
    check_behind_minimal(
        "[cluster]\nurl = \"redis+sentinel://store\"\nnode = \"a\"\nsecret_file = \"/s\"\n",
        r#"config.toml:9:7: `url` of [cluster] does not name the service of the sentinels
9 | url = "redis+sentinel://store"
  |       ^^^^^^^^^^^^^^^^^^^^^^^^ write "redis+sentinel://HOST1:26379,HOST2:26379/mymaster""#,
    );
    check_behind_minimal(
        "[cluster]\n\
         url = \"redis://store\"\n\
         ca_file = \"/ca.pem\"\n\
         node = \"a\"\n\
         secret_file = \"/s\"\n",
        r#"config.toml:10:11: [cluster] has `ca_file`, but its `url` does not use TLS
10 | ca_file = "/ca.pem"
   |           ^^^^^^^^^ write url = "rediss://HOST:6379""#,
    );
    check_behind_minimal(
        "[cluster]\n\
         url = \"rediss://store\"\n\
         ca_file = \"ca.pem\"\n\
         node = \"a\"\n\
         secret_file = \"/s\"\n",
        r#"config.toml:10:11: `ca.pem` is not an absolute path
10 | ca_file = "ca.pem"
   |           ^^^^^^^^ write one that begins with /, such as ca_file = "/etc/ratelimit/cluster-ca.pem""#,
    );
    check_behind_minimal(
        "[cluster]\nurl = \"http://store\"\nnode = \"a\"\nsecret_file = \"/s\"\n",
        r#"config.toml:9:7: `url` of [cluster] is not the address of a Redis or Valkey server
9 | url = "http://store"
  |       ^^^^^^^^^^^^^^ write "redis://HOST:6379", "rediss://USER:PASSWORD@HOST:6379/0", or the socket, "/run/redis/redis-server.sock""#,
    );
}

#[test]
fn a_name_that_is_none_is_refused() {
    check_behind_minimal(
        "[cluster]\nurl = \"/run/r\"\nnode = \"edge 1\"\nsecret_file = \"/s\"\n",
        r#"config.toml:10:8: `edge 1` is not a valid node name: use 1 to 64 letters, digits, `-`, `_` and `.`
10 | node = "edge 1"
   |        ^^^^^^^^ write node = "edge-1""#,
    );
}

#[test]
fn a_secret_is_in_one_place_is_long_and_is_not_shown() {
    for secret in ["", "short", "two words of a secret"] {
        check_behind_minimal(
            &format!("[cluster]\nurl = \"/run/r\"\nnode = \"a\"\nsecret = \"{secret}\"\n"),
            r#"config.toml:8:1: the `secret` of [cluster] must be one word of at least 16 characters
8 | [cluster]
  | ^^^^^^^^^ write secret_file = "/etc/ratelimit/cluster.secret", with the same text on all nodes: `openssl rand -hex 32` makes one"#,
        );
    }
    check_behind_minimal(
        "[cluster]\n\
         url = \"/run/r\"\n\
         node = \"a\"\n\
         secret = \"0123456789abcdef\"\n\
         secret_file = \"s\"\n",
        r#"config.toml:12:15: [cluster] has both `secret` and `secret_file`
12 | secret_file = "s"
   |               ^^^ remove one of them"#,
    );
    check_behind_minimal(
        "[cluster]\nurl = \"/run/r\"\nnode = \"a\"\nsecret_file = \"s\"\n",
        r#"config.toml:11:15: `s` is not an absolute path
11 | secret_file = "s"
   |               ^^^ write one that begins with /, such as secret_file = "/etc/ratelimit/cluster.secret""#,
    );
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

#[test]
fn a_period_that_is_none_is_refused() {
    check_behind_minimal(
        "[cluster]\nurl = \"/run/r\"\nnode = \"a\"\nsecret_file = \"/s\"\nperiod = \"1m\"\n",
        r#"config.toml:12:10: `period` is out of range
12 | period = "1m"
   |          ^^^^ write a time from 100ms to 10s"#,
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

#[test]
fn a_limit_that_nodes_cannot_share_is_refused() {
    let policy = |limit: &str| {
        format!("[policy.x]\nsources = [\"192.0.2.0/24\"]\nlimits = [{{ {limit} }}]\n")
    };
    let shared = "packets = 2, per = \"1s\", scope = \"cluster\"";
    check_behind_minimal(
        &policy(shared),
        r#"config.toml:10:11: a limit has scope = "cluster", and there is no [cluster]
10 | limits = [{ packets = 2, per = "1s", scope = "cluster" }]
   |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write [cluster] with `url`, `node`, `secret_file` and `nodes`, or remove `scope`"#,
    );
    check_behind_minimal(
        &format!("{}{CLUSTER}", policy(shared)),
        r"config.toml:11:1: [cluster] needs `nodes` because limits are shared
11 | [cluster]
   | ^^^^^^^^^ write how many nodes there are, the same on all: nodes = 3",
    );
    check_behind_minimal(
        &format!("{}{CLUSTER}nodes = 3\n", policy(shared)),
        r#"config.toml:10:11: 3 nodes cannot share a limit of 2: each has at least 1
10 | limits = [{ packets = 2, per = "1s", scope = "cluster" }]
   |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write at least 3, or remove `scope`"#,
    );
    check_behind_minimal(
        &format!(
            "{}{CLUSTER}nodes = 3\n",
            policy(
                "packets = 9, per = \"1s\", scope = \"cluster\", algorithm = \"token-bucket\", \
                 burst = 27"
            )
        ),
        r#"config.toml:10:11: nodes cannot share a token-bucket: its level depends on a single rate
10 | limits = [{ packets = 9, per = "1s", scope = "cluster", algorithm = "token-bucket", burst = 27 }]
   |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ the closest equivalent is 27 packets per 3s (sliding-window), or remove `scope`"#,
    );
    check_behind_minimal(
        &policy("packets = 9, per = \"1s\", scope = \"clustr\""),
        r#"config.toml:10:46: unknown scope `clustr`
10 | limits = [{ packets = 9, per = "1s", scope = "clustr" }]
   |                                              ^^^^^^^^ did you mean "cluster"?"#,
    );
    check_behind_minimal(
        &policy("packets = 9, per = \"1s\", division = \"equal\""),
        r#"config.toml:10:49: `division` needs scope = "cluster"
10 | limits = [{ packets = 9, per = "1s", division = "equal" }]
   |                                                 ^^^^^^^ write scope = "cluster" beside it, or remove it"#,
    );
}
