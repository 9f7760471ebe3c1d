//! Limits of users, tokens and URLs: through real proxies, in bulk, and over restarts.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Instant,
};

use serde_json::{Value, json};

use ratelimit_tests::{
    Lab, PATIENCE,
    cluster::{Node, started, wait_for_all},
    debian,
    redis::Redis,
    require_command, require_package, require_root,
    service::Service,
    wait_until,
};

/// Requests pass by it, and all others are refused until the test is over.
const USERS: &str = "[policy.default]\n\
                     limits = []\n\
                     [keys]\n\
                     listen = \"127.0.0.1:9180\"\n\
                     [keys.users]\n\
                     limits = [{ requests = 15, per = \"1h\" }]\n\
                     key = { header = \"X-User\" }\n";

#[test]
fn nginx_admits_fifteen_requests_of_each_user_and_answers_429_to_others() {
    require_root!();
    require_command!("curl");
    require_package!("nginx");
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, USERS).unwrap();
    let config = format!(
        "daemon off;\n\
         error_log stderr;\n\
         pid {0}/nginx.pid;\n\
         events {{}}\n\
         http {{\n\
         access_log off;\n\
         client_body_temp_path {0}/a; proxy_temp_path {0}/b; fastcgi_temp_path {0}/c; \
         uwsgi_temp_path {0}/d; scgi_temp_path {0}/e;\n\
         upstream ratelimit {{ server 127.0.0.1:9180; keepalive 16; }}\n\
         server \
         {{ listen 8080; include {1}; location / {{ auth_request /_ratelimit; root {0}/www; }} }} \
         }}\n",
        service.path("").display(),
        contrib("nginx.conf"),
    );
    fs::create_dir_all(service.path("www")).unwrap();
    fs::write(service.path("www/index.html"), "hello").unwrap();
    fs::write(service.path("nginx.conf"), config).unwrap();
    let mut nginx = program(&service, "nginx", "usr/sbin/nginx");
    nginx.arg("-c").arg(service.path("nginx.conf"));
    let _proxy = Proxy::started(&service, nginx);
    check_users(&service);
}

#[test]
fn caddy_admits_fifteen_requests_of_each_user_and_answers_429_to_others() {
    require_root!();
    require_command!("curl");
    require_package!("caddy");
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, USERS).unwrap();
    let config = format!(
        "{{\n\
         \tadmin off\n\
         }}\n\
         import {}\n\
         http://:8080 {{\n\
         \timport ratelimit\n\
         \trespond hello\n\
         }}\n",
        contrib("ratelimit.caddy"),
    );
    fs::write(service.path("Caddyfile"), config).unwrap();
    let mut caddy = program(&service, "caddy", "usr/bin/caddy");
    caddy
        .args(["run", "--config"])
        .arg(service.path("Caddyfile"));
    caddy.env("HOME", service.path(""));
    let _proxy = Proxy::started(&service, caddy);
    check_users(&service);
}

#[test]
fn haproxy_admits_fifteen_requests_of_each_user_and_answers_429_to_others() {
    require_root!();
    require_command!("curl");
    require_package!("haproxy");
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, USERS).unwrap();
    let config = format!(
        "global\n  \
         lua-load {}\n\
         defaults\n  \
         mode http\n  \
         timeout connect 10s\n  \
         timeout client 10s\n  \
         timeout server 10s\n\
         frontend web\n  \
         bind 127.0.0.1:8080\n  \
         http-request lua.ratelimit users\n  \
         http-request return status 200 content-type text/plain string hello\n",
        contrib("haproxy.lua"),
    );
    fs::write(service.path("haproxy.cfg"), config).unwrap();
    let mut haproxy = program(&service, "haproxy", "usr/sbin/haproxy");
    haproxy
        .arg("-db")
        .arg("-f")
        .arg(service.path("haproxy.cfg"));
    let _proxy = Proxy::started(&service, haproxy);
    check_users(&service);
}

#[test]
fn workers_that_obtain_in_bulk_get_no_more_than_the_limit() {
    require_root!();
    require_command!("curl");
    let lab = Lab::new().unwrap();
    // The shorter windows have room for all, however long the test takes.
    let limits = "[policy.default]\n\
                  limits = []\n\
                  [keys.jobs]\n\
                  limits = [{ requests = 5000, per = \"1m\" }, \
                  { requests = 4000, per = \"1h\", algorithm = \"sliding-window\" }, \
                  { requests = 3000, per = \"1d\", algorithm = \"token-bucket\" }, \
                  { requests = 1000, per = \"7d\", algorithm = \"sliding-log\" }, \
                  { requests = 700, per = \"31d\" }]\n";
    let mut service = Service::started(&lab, limits).unwrap();
    let sum = AtomicU64::new(0);
    let bulk: Vec<Value> = (1..=40)
        .map(|amount| {
            json!(
                {"space": "jobs", "key": "tenant", "amount": amount % 7 + 1, "mode": "some"}
            )
        })
        .collect();
    let bulk = Value::from(bulk).to_string();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    for answer in obtain(&service, &bulk).as_array().unwrap() {
                        sum.fetch_add(answer["obtained"].as_u64().unwrap(), Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(sum.load(Relaxed), 700);
    let other = json!({"space": "jobs", "key": "other", "amount": 600}).to_string();
    assert_eq!(obtain(&service, &other)["remaining"], 100);
    // A restart and a reload of another amount keep it.
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    assert_eq!(obtain(&service, &bulk)[0]["obtained"], 0);
    assert_eq!(obtain(&service, &other)["obtained"], 0);
    let said = service.reload(&limits.replace("700", "900")).unwrap();
    assert!(said.contains("keys jobs: 5000 requests per 1m, "), "{said}");
    assert_eq!(obtain(&service, &other)["obtained"], 0);
    let some = json!({"space": "jobs", "key": "tenant", "amount": 999, "mode": "some"});
    assert_eq!(obtain(&service, &some.to_string())["obtained"], 200);
    let checked = service.rlctl_ok(&["keys", "jobs", "tenant"]).unwrap();
    assert!(checked.contains("900 requests per 31d"), "{checked}");
    assert!(
        service
            .metrics()
            .unwrap()
            .contains("ratelimit_keys_held{space=\"jobs\"} 2\n")
    );
    // One that is reset begins anew; a damaged file is named, and not used.
    service
        .rlctl_ok(&["keys", "jobs", "other", "--reset"])
        .unwrap();
    assert_eq!(obtain(&service, &other)["obtained"], 600);
    service.stop("-TERM").unwrap();
    let file = service.path("state/keys.usage");
    let damaged = fs::read_to_string(&file)
        .unwrap()
        .replace("\"tenant\"", "\"tenanT\"");
    fs::write(&file, damaged).unwrap();
    service.start().unwrap();
    let status = service.rlctl_ok(&["status"]).unwrap();
    assert!(
        status.contains("keys.usage cannot be used: it is damaged"),
        "{status}"
    );
    assert_eq!(obtain(&service, &other)["obtained"], 600);
}

#[test]
fn workers_that_obtain_from_two_nodes_get_no_more_than_the_limit() {
    require_root!();
    require_command!("curl");
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let limits = "[policy.default]\n\
                  limits = []\n\
                  [keys.jobs]\n\
                  limits = [{ requests = 1000, per = \"1h\", scope = \"cluster\" }]\n\
                  key = { header = \"X-User\" }\n";
    let nodes = started(&redis, &["edge-1", "edge-2"], limits).unwrap();
    let obtained = |node: &Node, key: &str| {
        let some = json!({"space": "jobs", "key": key, "amount": 7, "mode": "some"});
        obtain(&node.service(), &some.to_string())["obtained"]
            .as_u64()
            .unwrap()
    };
    // A node that misses a report on a busy machine may use limit / nodes in any case, so a sum can
    // be larger, by half of the limit at most. It is exact when all reports arrive.
    let is_exact = |sums: [u64; 2]| {
        assert!(
            sums.iter().all(|sum| (1000..=1500).contains(sum)),
            "{sums:?}"
        );
        sums == [1000; 2]
    };
    let last = (1..=5).find(|round| {
        let together = together(&nodes, &format!("tenant {round}"), &obtained);
        is_exact([
            together,
            in_turn(&nodes, &format!("alone {round}"), &obtained),
        ])
    });
    let alone = format!(
        "alone {}",
        last.expect("a round in which all reports arrive")
    );
    // A proxy is told that nothing is left, though this node has used little.
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--include", "--unix-socket"])
        .arg(nodes[1].service().path("run/control.sock"))
        .args(["--header", &format!("X-User: {alone}")])
        .arg("http://localhost/v1/forward-auth/jobs");
    let told = String::from_utf8(curl.output().unwrap().stdout).unwrap();
    assert!(told.starts_with("HTTP/1.1 429"), "{told}");
    assert!(told.contains("ratelimit: \"jobs\";r=0;t="), "{told}");
    let checked = nodes[0]
        .service()
        .rlctl_ok(&["keys", "jobs", &alone])
        .unwrap();
    assert!(
        checked.contains("1000 requests per 1h, shared by all nodes"),
        "{checked}"
    );
}

#[test]
fn the_headers_of_a_visitor_command_nothing_and_hide_no_path() {
    require_root!();
    require_command!("curl");
    let lab = Lab::new().unwrap();
    let config = USERS.replace("{ header = \"X-User\" }", "[{ path = \"/login\" }]");
    let service = Service::started(&lab, &config.replace("15", "2")).unwrap();
    let ask = |target: &str| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--output", "/dev/null"]);
        curl.args(["--write-out", "%{http_code}", "--unix-socket"]);
        curl.arg(service.path("run/control.sock"));
        for header in [
            "Ratelimit-Ssh-Peer: 192.0.2.9",
            "Origin: https://shop.example",
            &format!("X-Forwarded-Uri: {target}"),
        ] {
            curl.args(["--header", header]);
        }
        curl.arg("http://shop.example/v1/forward-auth/users");
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    };
    for expected in ["204", "204", "429", "429"] {
        assert_eq!(ask("/login?é"), expected);
    }
    assert_eq!(ask("/logout"), "204");
    let protected = service.rlctl_ok(&["list", "protected"]).unwrap();
    assert!(!protected.contains("192.0.2.9"), "{protected}");
    service.rlctl_ok(&["ban", "192.0.2.9"]).unwrap();
}

#[test]
fn a_client_that_is_refused_again_and_again_is_banned_and_a_proxy_is_not() {
    require_root!();
    require_command!("curl");
    let lab = Lab::new().unwrap();
    let config = USERS.replace(
        "listen = ",
        "trusted_proxies = [\"127.0.0.0/8\", \"198.51.100.0/24\"]\nlisten = ",
    ) + "on_refused = { after = 5, within = \"1h\", ban = \"2h\" }\n";
    let service = Service::started(&lab, &config).unwrap();
    let ask_through = |addresses: &str| {
        let mut curl = service.inside(Path::new("curl"));
        curl.args([
            "--silent",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
        ]);
        curl.args(["--header", &format!("X-Forwarded-For: {addresses}")]);
        curl.args([
            "--header",
            "X-User: mallory",
            "http://127.0.0.1:9180/v1/forward-auth/users",
        ]);
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    };
    let ask = |client: &str| ask_through(&format!("192.0.2.99, {client}"));
    for _ in 0..15 {
        assert_eq!(ask("203.0.113.1"), "204");
    }
    for proxies in ["198.51.100.7", "127.0.0.1"] {
        // The client before the proxy is counted.
        assert_eq!(ask(proxies), "429");
    }
    // Requests of a proxy itself are counted for no ban.
    for _ in 0..10 {
        assert_eq!(ask_through("198.51.100.7"), "429");
    }
    let bans = || service.rlctl_ok(&["list", "bans"]).unwrap();
    for _ in 0..4 {
        assert_eq!(ask("203.0.113.9"), "429");
    }
    assert!(!bans().contains("203.0.113.9"));
    assert_eq!(ask("203.0.113.9"), "429");
    wait_until("the ban", || bans().contains("203.0.113.9"));
    for _ in 0..3 {
        assert_eq!(ask("198.51.100.7"), "429");
    }
    wait_until("the ban of the client before the proxy", || {
        bans().contains("192.0.2.99")
    });
    let bans = bans();
    assert!(
        bans.contains("keys/users") && bans.contains("refused 5 times by [keys.users]"),
        "{bans}"
    );
    for proxy in ["198.51.100.7", "127.0.0.1"] {
        assert!(!bans.contains(proxy), "{bans}");
    }
}

#[test]
fn a_proxy_that_is_trusted_no_more_is_refused_on_its_connection() {
    require_root!();
    let lab = Lab::new().unwrap();
    let service = Service::started(&lab, USERS).unwrap();
    let proxy = lab.near.enter(|| TcpStream::connect("127.0.0.1:9180"));
    let mut proxy = proxy.unwrap();
    let mut ask = || {
        let request = "GET /v1/forward-auth/users HTTP/1.1\r\nHost: localhost\r\n\r\n";
        proxy.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let bytes = proxy.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..bytes]).into_owned()
    };
    assert!(ask().starts_with("HTTP/1.1 204"));
    let trusted = "trusted_proxies = [\"203.0.113.1\"]\nlisten = ";
    service
        .reload(&USERS.replace("listen = ", trusted))
        .unwrap();
    assert!(ask().starts_with("HTTP/1.1 403"));
}

/// Four workers ask two nodes until nothing is left; returns what they got.
fn together(nodes: &[Node], key: &str, obtained: &(impl Fn(&Node, &str) -> u64 + Sync)) -> u64 {
    let sum = AtomicU64::new(0);
    let deadline = Instant::now() + PATIENCE;
    thread::scope(|scope| {
        for node in nodes.iter().chain(nodes) {
            let sum = &sum;
            scope.spawn(move || {
                while sum.load(Relaxed) < 1000 && Instant::now() < deadline {
                    sum.fetch_add(obtained(node, key), Relaxed);
                }
            });
        }
    });
    // Shares follow reports of two periods ago, so what would be too much comes later.
    wait_for_all(nodes).unwrap();
    sum.into_inner() + nodes.iter().map(|node| obtained(node, key)).sum::<u64>()
}

/// One node is asked alone, and gets what the other does not need; then that gets the rest. Returns
/// what both got.
fn in_turn(nodes: &[Node], key: &str, obtained: &impl Fn(&Node, &str) -> u64) -> u64 {
    let mut sum = 0;
    for (node, enough) in nodes.iter().zip([901, 1000]) {
        node.wait_until("what the other node does not need", || {
            sum += obtained(node, key);
            sum >= enough
        });
    }
    wait_for_all(nodes).unwrap();
    sum + nodes.iter().map(|node| obtained(node, key)).sum::<u64>()
}

fn obtain(service: &Service, body: &str) -> Value {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--unix-socket"])
        .arg(service.path("run/control.sock"));
    curl.args([
        "--header",
        "content-type: application/json",
        "--data",
        body,
        "http://localhost/v1/obtain",
    ]);
    serde_json::from_slice(&curl.output().unwrap().stdout).unwrap()
}

/// Checks the duties of every proxy: 15 requests of each user, and 429 with its fields afterwards.
fn check_users(service: &Service) {
    for user in ["alice", "bob"] {
        let header = format!("X-User: {user}");
        for request in 1..=15 {
            let answer = curl(service, &["--header", &header]);
            assert!(
                answer.starts_with("HTTP/1.1 200"),
                "{user} {request}: {answer}"
            );
        }
        let answer = curl(service, &["--header", &header]);
        assert!(answer.starts_with("HTTP/1.1 429"), "{user}: {answer}");
        let field = |name: &str| {
            let mut lines = answer.lines();
            let line =
                lines.find_map(|line| line.to_lowercase().strip_prefix(name).map(str::to_owned));
            line.unwrap_or_else(|| panic!("no {name} in {answer}"))
        };
        assert_eq!(field("ratelimit-policy: "), "\"users\";q=15;w=3600");
        assert!(
            field("ratelimit: ").starts_with("\"users\";r=0;t="),
            "{answer}"
        );
        let after: u64 = field("retry-after: ").parse().unwrap();
        assert!((3000..=3600).contains(&after), "{after}");
    }
    let top = service.rlctl_ok(&["keys", "users"]).unwrap();
    assert!(top.contains("alice") && top.contains("bob"), "{top}");
}

fn curl(service: &Service, arguments: &[&str]) -> String {
    let mut curl = service.inside(Path::new("curl"));
    curl.args([
        "--silent",
        "--include",
        "--http1.1",
        "http://127.0.0.1:8080/index.html",
    ]);
    let output = curl.args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn contrib(file: &str) -> String {
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/keys");
    contrib
        .join(file)
        .canonicalize()
        .unwrap()
        .display()
        .to_string()
}

/// Returns a program of a package, with the libraries beside it.
fn program(service: &Service, package: &str, path: &str) -> Command {
    let directory = debian::directory(package);
    let mut command = service.inside(&directory.join(path));
    let libraries = directory.join("usr/lib/x86_64-linux-gnu");
    command.env("LD_LIBRARY_PATH", libraries);
    command
}

/// A proxy that is killed when this is dropped.
struct Proxy(Child);

impl Proxy {
    /// Starts a proxy, and waits until its port takes connections.
    fn started(service: &Service, mut command: Command) -> Self {
        let log = fs::File::create(service.path("proxy.log")).unwrap();
        command
            .stdin(Stdio::null())
            .stderr(log.try_clone().unwrap())
            .stdout(log);
        let mut proxy = Self(command.spawn().unwrap());
        wait_until("the proxy", || {
            let log = || fs::read_to_string(service.path("proxy.log")).unwrap();
            assert!(proxy.0.try_wait().unwrap().is_none(), "{}", log());
            let connect = service
                .inside(Path::new("bash"))
                .args(["-c", "exec 3<>/dev/tcp/127.0.0.1/8080"])
                .stderr(Stdio::null())
                .status();
            connect.unwrap().success()
        });
        proxy
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let id = self.0.id().to_string();
        let _ = Command::new("kill").arg(id).status();
        let _ = self.0.wait();
    }
}
