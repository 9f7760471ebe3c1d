//! The ways to a store: TLS, users with rights, Sentinel, Redis Cluster. Each server is a real one,
//! in the namespace of the daemon.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ratelimit_core::api::{ClusterStatus, Status};
use ratelimit_tests::{
    Lab, debian, redis::Redis, require_command, require_package, require_root, service::Service,
};
use tempfile::TempDir;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A daemon that does not run yet, and servers in its namespace.
struct Stage {
    service: Service,
    servers: Vec<(u16, Child)>,
    directory: TempDir,
    lab: Lab,
}

impl Stage {
    fn new() -> Self {
        let lab = Lab::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            service: Service::new(&lab, "").unwrap(),
            servers: Vec::new(),
            directory,
            lab,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A program of Redis, in the namespace.
    fn redis(&self, name: &str) -> Command {
        let program = debian::directory("redis-server").join("usr/bin").join(name);
        let mut command = self.service.inside(&program);
        for (key, value) in Redis::program(name).get_envs() {
            command.env(key, value.unwrap());
        }
        command
    }

    /// Starts a server that keeps nothing on disk.
    fn serve(&mut self, port: u16, arguments: &[&str]) {
        self.serve_with(port, "", arguments);
    }

    /// Starts a server with its own configuration file.
    fn serve_with(&mut self, port: u16, configuration: &str, arguments: &[&str]) {
        let directory = self.path(&port.to_string());
        fs::create_dir_all(&directory).unwrap();
        let mut server = self.redis("redis-server");
        let file = directory.join("redis.conf");
        fs::write(&file, configuration).unwrap();
        server.arg(&file).args(arguments);
        server
            .args(["--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(directory);
        let child = server.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        self.servers.push((port, child.unwrap()));
    }

    fn kill(&mut self, port: u16) {
        let place = self.servers.iter().position(|(it, _)| *it == port);
        let (_, mut child) = self.servers.remove(place.unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn cli(&self, port: u16, arguments: &[&str]) -> String {
        let mut client = self.redis("redis-cli");
        client.args(["-p", &port.to_string()]).args(arguments);
        String::from_utf8(client.output().unwrap().stdout).unwrap()
    }

    fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        self.service.wait_until(what, || is_so(self));
    }

    fn configure(&self, url: &str, more: &str) {
        let toml = format!(
            "[policy.default]\n\
             limits = []\n\
             [cluster]\n\
             url = \"{url}\"\n\
             node = \"edge-1\"\n\
             secret = \"{SECRET}\"\n\
             {more}"
        );
        self.service.configure(&toml).unwrap();
    }

    fn start(&mut self, url: &str, more: &str) {
        self.configure(url, more);
        self.service.start().unwrap();
    }

    fn reload(&self, url: &str, more: &str) {
        self.configure(url, more);
        self.service.rlctl_ok(&["reload"]).unwrap();
    }

    fn status(&self) -> ClusterStatus {
        let status: Status = self.service.json(&["status"]).unwrap();
        status.cluster.unwrap()
    }

    /// Waits until the node hears itself through the store.
    fn wait_for_store(&self, url: &str) {
        self.wait_for(url, |stage| {
            let status = stage.status();
            status.url == url && status.connected == Some(true) && status.nodes.len() == 1
        });
    }

    /// Waits until the status says a reason.
    fn wait_for_error(&self, part: &str) {
        let began = Instant::now();
        self.wait_for(part, |stage| {
            let error = stage.status().error.unwrap_or_default();
            let is_it = error.contains(part);
            if is_it {
                println!("after {:?}: {error}", began.elapsed());
            }
            is_it
        });
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for (_, server) in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn openssl(directory: &Path, arguments: &str) {
    let mut openssl = Command::new("openssl");
    let arguments = arguments.split_whitespace();
    let output = openssl
        .current_dir(directory)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Creates an authority `NAME.pem`, and a certificate for 127.0.0.1: `NAME-server.pem`,
/// `NAME-server.key`.
fn certify(directory: &Path, name: &str) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(
        directory,
        &format!("req -x509 {key} -subj /CN={name} -keyout {name}.key -out {name}.pem"),
    );
    openssl(
        directory,
        &format!(
            "req -x509 {key} -subj /CN=store -addext subjectAltName=IP:127.0.0.1 -addext \
             basicConstraints=critical,CA:FALSE -CA {name}.pem -CAkey {name}.key -keyout \
             {name}-server.key -out {name}-server.pem"
        ),
    );
    // The daemon reads its files with the rights of its own user.
    let key = directory.join(format!("{name}-server.key"));
    fs::set_permissions(key, fs::Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn tls_takes_a_certificate_of_the_authority_and_a_password_that_the_server_knows() {
    require_root!();
    require_package!("redis-server");
    require_command!("openssl");
    let mut stage = Stage::new();
    certify(stage.directory.path(), "one");
    certify(stage.directory.path(), "two");
    let file = |name: &str| stage.path(name).display().to_string();
    let (certificate, key) = (file("one-server.pem"), file("one-server.key"));
    let (other, other_key) = (file("two-server.pem"), file("two-server.key"));
    let (one, two, none) = (file("one.pem"), file("two.pem"), file("none.pem"));
    let tls = [
        "--port",
        "7001",
        "--tls-port",
        "7000",
        "--tls-auth-clients",
        "no",
    ];
    let pair = ["--tls-cert-file", &certificate, "--tls-key-file", &key];
    // Only the permissions in the documentation.
    let user = "user ratelimit on >right ~{ratelimit}:* +xadd +xread +xrevrange +set +mget\n";
    stage.serve_with(7000, user, &[&tls[..], &pair].concat());
    stage.wait_for("the server", |stage| {
        stage.cli(7001, &["PING"]).contains("PONG")
    });
    let authority = |file: &str| format!("ca_file = \"{file}\"\n");
    let url = "rediss://ratelimit:right@127.0.0.1:7000";
    stage.start(url, &authority(&one));
    stage.wait_for_store("rediss://127.0.0.1:7000");
    assert!(stage.cli(7001, &["XLEN", "{ratelimit}:stream"]).trim() != "0");

    stage.reload(url, &authority(&two));
    stage.wait_for_error("invalid peer certificate");
    stage.wait_for_error("`ca_file` of [cluster]");
    stage.reload(url, &authority(&none));
    stage.wait_for_error("reading `ca_file` of [cluster]");
    stage.reload("rediss://ratelimit:wrong@127.0.0.1:7000", &authority(&one));
    stage.wait_for_error("compare user and password");
    stage.reload("rediss://ratelimit:right@127.0.0.1:7001", &authority(&one));
    stage.wait_for_error("no TLS response");
    stage.reload("redis://127.0.0.1:7009", "");
    stage.wait_for_error("refused");
    // A server that asks for a certificate takes one of an authority that it knows, with its key,
    // and says what it does not take.
    stage.reload(url, &authority(&one));
    stage.wait_for_store("rediss://127.0.0.1:7000");
    stage.cli(7001, &["CONFIG", "SET", "tls-ca-cert-file", &one]);
    let said = stage.cli(7001, &["CONFIG", "SET", "tls-auth-clients", "yes"]);
    assert!(said.contains("OK"), "{said}");
    let shows = |certificate: &str, key: &str| {
        let files = format!("cert_file = \"{certificate}\"\nkey_file = \"{key}\"\n");
        authority(&one) + &files
    };
    stage.reload(url, &(authority(&one) + "period = \"300ms\"\n"));
    stage.wait_for_error("set `cert_file` and `key_file`");
    stage.reload(url, &shows(&other, &other_key));
    stage.wait_for_error("the server rejects the certificate in `cert_file`");
    stage.reload(url, &shows(&certificate, &other_key));
    stage.wait_for_error("must match the certificate in `cert_file`");
    stage.reload(url, &shows(&key, &key));
    stage.wait_for_error("`cert_file` of [cluster] must contain a PEM certificate");
    stage.reload(url, &shows(&certificate, &certificate));
    stage.wait_for_error("`key_file` of [cluster] must contain a PEM private key");
    stage.reload(url, &shows(&certificate, &none));
    stage.wait_for_error("reading `key_file` of [cluster]");
    stage.reload(url, &shows(&certificate, &key));
    stage.wait_for_store("rediss://127.0.0.1:7000");
    stage.cli(7001, &["CONFIG", "SET", "tls-auth-clients", "no"]);
    // The first of several servers that answers is used.
    stage.reload("redis://127.0.0.1:7009,127.0.0.1:7001", "");
    stage.wait_for_store("redis://127.0.0.1:7009,127.0.0.1:7001");
    let narrow = ["ACL", "SETUSER", "ratelimit", "-xadd"];
    stage.cli(7001, &narrow);
    stage.reload(url, &authority(&one));
    stage.wait_for_error("the user needs +xadd");
}

#[test]
fn sentinels_name_the_master_also_after_a_fail_over() {
    require_root!();
    require_package!("redis-server");
    let mut stage = Stage::new();
    stage.serve(7001, &["--port", "7001"]);
    stage.serve(7002, &["--port", "7002", "--replicaof", "127.0.0.1 7001"]);
    let sentinel = ["--sentinel", "--port", "7003"];
    let configuration = "sentinel monitor main 127.0.0.1 7001 1\n\
                         sentinel down-after-milliseconds main 500\n\
                         sentinel failover-timeout main 3000\n";
    stage.serve_with(7003, configuration, &sentinel);
    stage.wait_for("the replica", |stage| {
        stage
            .cli(7001, &["INFO", "replication"])
            .contains("state=online")
    });
    stage.wait_for("the sentinel", |stage| {
        stage
            .cli(7003, &["SENTINEL", "REPLICAS", "main"])
            .contains("7002")
    });
    let url = "redis+sentinel://127.0.0.1:7009,127.0.0.1:7003/main";
    stage.start(url, "");
    stage.wait_for_store(url);
    // A sentinel with a password gets its own, not that of the master.
    let user = ["ACL", "SETUSER", "asker", "on", ">s@:1"];
    stage.cli(7003, &[&user[..], &["+sentinel", "+client"]].concat());
    stage.cli(7003, &["ACL", "SETUSER", "default", "off"]);
    stage.reload(url, "period = \"300ms\"\n");
    stage.wait_for_error("of the sentinels after `?sentinel=`");
    stage.reload(&format!("{url}?sentinel=asker:s%40:1"), "");
    stage.wait_for_store(url);
    assert!(!stage.service.log().contains("s%40"));
    assert!(stage.cli(7001, &["XLEN", "{ratelimit}:stream"]).trim() != "0");
    stage.kill(7001);
    stage.wait_for("the loss", |stage| stage.status().connected == Some(false));
    stage.wait_for("the fail-over", |stage| {
        stage.cli(7002, &["ROLE"]).contains("master")
    });
    stage.wait_for_store(url);
    let other = "redis+sentinel://127.0.0.1:7003/other?sentinel=asker:s%40:1";
    stage.reload(other, "");
    stage.wait_for_error("does not know `other`");
}

/// Starts a Redis Cluster of servers on these ports.
fn clustered(stage: &mut Stage, ports: &[u16], replicas: &str) {
    for port in ports {
        let port_text = port.to_string();
        let cluster = ["--cluster-enabled", "yes", "--appendonly", "no"];
        let cluster = [&cluster[..], &["--repl-diskless-sync-delay", "0"]].concat();
        let cluster = [&cluster[..], &["--cluster-node-timeout", "1000"]].concat();
        stage.serve(*port, &[&["--port", &port_text][..], &cluster].concat());
        stage.wait_for("a server", |stage| {
            stage.cli(*port, &["PING"]).contains("PONG")
        });
    }
    let places: Vec<String> = ports.iter().map(|it| format!("127.0.0.1:{it}")).collect();
    let mut create = vec!["--cluster", "create"];
    create.extend(places.iter().map(String::as_str));
    create.extend(["--cluster-replicas", replicas, "--cluster-yes"]);
    let said = stage.cli(ports[0], &create);
    assert!(said.contains("All 16384 slots covered"), "{said}");
    stage.wait_for("the cluster", |stage| {
        let is_whole = |port: &u16| {
            stage
                .cli(*port, &["CLUSTER", "INFO"])
                .contains("cluster_state:ok")
        };
        ports.iter().all(is_whole)
    });
}

/// The port of the server that has the stream, and the length of the stream there.
fn owner(stage: &Stage, ports: &[u16]) -> Option<(u16, u64)> {
    ports.iter().find_map(|port| {
        let said = stage.cli(*port, &["XLEN", "{ratelimit}:stream"]);
        Some((*port, said.trim().parse().ok()?))
    })
}

fn id(stage: &Stage, port: u16) -> String {
    stage.cli(port, &["CLUSTER", "MYID"]).trim().to_owned()
}

/// Moves the slot of the keys to another server, key by key, as a reshard does.
fn move_slot(stage: &Stage, ports: &[u16], from: u16, to: u16) {
    let slot = stage.cli(from, &["CLUSTER", "KEYSLOT", "{ratelimit}:stream"]);
    let (slot, to_port) = (slot.trim(), to.to_string());
    let (from_id, to_id) = (id(stage, from), id(stage, to));
    let set = |port, verb, id: &str| stage.cli(port, &["CLUSTER", "SETSLOT", slot, verb, id]);
    assert!(set(to, "IMPORTING", &from_id).contains("OK"));
    assert!(set(from, "MIGRATING", &to_id).contains("OK"));
    loop {
        let keys = stage.cli(from, &["CLUSTER", "GETKEYSINSLOT", slot, "10"]);
        let keys: Vec<&str> = keys.split_whitespace().collect();
        if keys.is_empty() {
            break;
        }
        let migrate = ["MIGRATE", "127.0.0.1", &to_port, "", "0", "5000", "KEYS"];
        let said = stage.cli(from, &[&migrate[..], &keys].concat());
        assert!(said.contains("OK") || said.contains("NOKEY"), "{said}");
    }
    // Some time passes in which neither server has the slot whole.
    thread::sleep(Duration::from_millis(500));
    for port in [to, from] {
        assert!(set(port, "NODE", &to_id).contains("OK"));
    }
    for port in ports {
        set(*port, "NODE", &to_id);
    }
}

/// Bans under the ban before, and waits until the owner of the keys has it and the node hears
/// itself.
fn ban(stage: &Stage, ports: &[u16], address: &str) {
    stage.service.rlctl_ok(&["ban", address]).unwrap();
    let began = Instant::now();
    stage.wait_for("the ban at the store", |stage| {
        let part = "{ratelimit}:part:edge-1:0";
        let is_there = |port: &u16| {
            let said = stage.cli(*port, &["STRLEN", part]);
            said.trim().parse::<u64>().is_ok_and(|length| length > 0)
        };
        stage.status().connected == Some(true) && ports.iter().any(is_there)
    });
    println!("{address} is stored after {:?}", began.elapsed());
}

#[test]
fn a_slot_that_moves_and_a_master_that_fails_over_take_the_keys_with_them() {
    require_root!();
    require_package!("redis-server");
    let mut stage = Stage::new();
    // Three masters with a replica each.
    let ports = [7001, 7002, 7003, 7004, 7005, 7006];
    clustered(&mut stage, &ports, "1");
    let url = "redis://127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003";
    stage.start(url, "");
    stage.wait_for_store(url);
    ban(&stage, &ports, "192.0.2.1");
    let (from, _) = owner(&stage, &ports).unwrap();
    let to = ports[..3].iter().find(|port| **port != from).unwrap();
    move_slot(&stage, &ports, from, *to);
    stage.wait_for("the new owner", |stage| {
        owner(stage, &[*to]).is_some_and(|(_, length)| length > 0)
    });
    ban(&stage, &[*to], "192.0.2.2");
    let grows = |stage: &Stage, ports: &[u16]| {
        let before = owner(stage, ports);
        stage.wait_for("reports at the owner", |stage| {
            let now = owner(stage, ports);
            now.zip(before)
                .is_some_and(|((_, now), (_, before))| now > before)
        });
    };
    grows(&stage, &[*to]);
    assert_eq!(stage.status().bans, 0, "none of another node");

    // A replica that never had the data of its master does not take its place.
    stage.wait_for("a replica that has all of it", |stage| {
        stage
            .cli(*to, &["INFO", "replication"])
            .contains("state=online")
    });
    stage.kill(*to);
    let rest: Vec<u16> = ports.into_iter().filter(|port| port != to).collect();
    let killed = Instant::now();
    stage.wait_for("a replica that is master", |stage| {
        owner(stage, &rest).is_some()
    });
    println!("failed over after {:?}", killed.elapsed());
    grows(&stage, &rest);
    println!("reports again after {:?}", killed.elapsed());
    ban(&stage, &rest, "192.0.2.3");
    let bans = stage.service.rlctl_ok(&["list", "bans"]).unwrap();
    for last in 1..=3 {
        assert!(bans.contains(&format!("192.0.2.{last}")), "{bans}");
    }
}

#[test]
fn several_hosts_that_are_silent_cost_no_more_time_than_one() {
    require_root!();
    require_package!("redis-server");
    let mut stage = Stage::new();
    stage.serve(7001, &["--port", "7001"]);
    stage.wait_for("the server", |stage| {
        stage.cli(7001, &["PING"]).contains("PONG")
    });
    // No host answers at these addresses, not even with an error.
    stage.lab.add_addresses(&["203.0.113.1/24"], &[]).unwrap();
    let hosts: Vec<String> = (10..20).map(|last| format!("203.0.113.{last}")).collect();
    let near = &stage.lab.near;
    for host in &hosts {
        let mac = ["lladdr", "02:00:00:00:00:99", "dev", "rl0"];
        near.ip(&[&["neigh", "add", host][..], &mac].concat())
            .unwrap();
    }
    let url = format!("redis://{},127.0.0.1:7001", hosts.join(","));
    stage.start(&url, "");
    let began = Instant::now();
    let shown = format!("redis://{}:6379,127.0.0.1:7001", hosts.join(":6379,"));
    stage.wait_for_store(&shown);
    let took = began.elapsed();
    println!("connected after {took:?}");
    assert!(took < Duration::from_secs(8), "{took:?}");
    let hosts_alone = format!("redis://{}", hosts.join(","));
    stage.reload(&hosts_alone, "");
    stage.wait_for("the loss", |stage| stage.status().connected == Some(false));
}
