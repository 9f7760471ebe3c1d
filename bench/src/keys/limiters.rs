//! The limiters. Each admits as many requests of a user per minute, and refuses the others.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Result, bail, ensure};
use ratelimit_tests::{Lab, service::Service};
use tempfile::TempDir;

use crate::{
    client::{Address, Answer, Client},
    placement::{self, HOST},
    server::{self, Server, wait_for, write},
};

/// The requests of a user that are admitted per minute: more than one has while it is measured.
const LIMIT: u32 = 5_000;
/// The users who ask.
pub const USERS: u32 = 10_000;
/// Decisions in a request to the Unix socket.
pub const BATCH: u32 = 50;

/// As most programs limit: a counter that expires.
const SCRIPT: &str = "local used = redis.call('INCR', KEYS[1]) \
                      if used == 1 then redis.call('PEXPIRE', KEYS[1], 60000) end \
                      return used <= tonumber(ARGV[1]) and 1 or 0";

/// A limiter, and the way it is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// nginx itself, with `limit_req`.
    Nginx,
    /// `HAProxy` itself, with a stick table.
    Haproxy,
    /// A script in Redis, asked by its hash.
    Redis,
    /// `ratelimitd`, as proxies ask it.
    ForwardAuth,
    /// `ratelimitd`, as applications ask it on its Unix socket.
    Batches,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Nginx,
        Self::Haproxy,
        Self::Redis,
        Self::ForwardAuth,
        Self::Batches,
    ];

    /// Its name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Nginx => "nginx `limit_req`",
            Self::Haproxy => "HAProxy stick table",
            Self::Redis => "Redis script",
            Self::ForwardAuth => "`ratelimitd` forward-auth",
            Self::Batches => "`ratelimitd` batches of 50",
        }
    }

    /// Whether it is this limiter.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::ForwardAuth | Self::Batches)
    }

    /// Returns the address of those that wrk can ask.
    pub fn url(self) -> Option<String> {
        let is_http = !matches!(self, Self::Redis | Self::Batches);
        is_http.then(|| format!("http://127.0.0.1:{}{}", self.port(), self.path()))
    }

    const fn path(self) -> &'static str {
        match self {
            Self::ForwardAuth => "/v1/forward-auth/users",
            _ => "/",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Self::Nginx => 8080,
            Self::Haproxy => 8081,
            Self::Redis => 6379,
            Self::ForwardAuth | Self::Batches => 9180,
        }
    }
}

/// All limiters, on the loopback interface of a namespace.
pub struct Limiters {
    pub lab: Lab,
    service: Service,
    servers: [Server; 3],
    script_hash: String,
    _directory: TempDir,
}

impl Limiters {
    /// Starts them, and checks that each refuses what exceeds the limit.
    pub fn new() -> Result<Self> {
        let lab = Lab::new()?;
        let service = Service::started(&lab, &ratelimitd())?;
        placement::keep_on(HOST, service.pid()?)?;
        let directory = tempfile::tempdir()?;
        let path = directory.path();
        let nginx = write(path, "nginx.conf", &server::nginx(path, &nginx()))?;
        let haproxy = write(path, "haproxy.cfg", &haproxy())?;
        let redis = ["--port", "6379", "--save", "", "--appendonly", "no"];
        let near = &lab.near;
        let servers = [
            Server::start(near, "usr/sbin", "nginx", &["-c", &nginx])?,
            Server::start(near, "usr/sbin", "haproxy", &["-db", "-f", &haproxy])?,
            Server::start(near, "usr/bin", "redis-server", &redis)?,
        ];
        let mut limiters = Self {
            lab,
            service,
            servers,
            script_hash: String::new(),
            _directory: directory,
        };
        for kind in Kind::ALL {
            let connects = || limiters.client(kind).is_ok();
            wait_for(|| limiters.lab.near.enter(connects), kind.label())?;
        }
        limiters.script_hash = limiters.lab.near.enter(|| limiters.load_script())?;
        let check = |kind| limiters.lab.near.enter(|| limiters.check(kind));
        Kind::ALL.into_iter().try_for_each(check)?;
        Ok(limiters)
    }

    /// Returns the process of a limiter.
    pub fn pid(&self, kind: Kind) -> Result<u32> {
        let [nginx, haproxy, redis] = &self.servers;
        match kind {
            Kind::Nginx => Ok(nginx.pid()),
            Kind::Haproxy => Ok(haproxy.pid()),
            Kind::Redis => Ok(redis.pid()),
            Kind::ForwardAuth | Kind::Batches => self.service.pid(),
        }
    }

    /// Connects to a limiter, in its namespace.
    pub fn client(&self, kind: Kind) -> Result<Client> {
        Client::connect(&match kind {
            Kind::Batches => Address::Unix(self.service.path("run/control.sock")),
            _ => Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, kind.port()))),
        })
    }

    /// Returns a request on behalf of users: of one, unless it is a batch.
    pub fn request(&self, kind: Kind, mut user: impl FnMut() -> u32) -> Vec<u8> {
        let host = "Host: localhost\r\n";
        let request = match kind {
            Kind::Redis => {
                let key = format!("user-{}", user());
                let limit = LIMIT.to_string();
                command(&["EVALSHA", &self.script_hash, "1", &key, &limit])
            }
            Kind::Batches => {
                let one = |_| format!("{{\"space\":\"users\",\"key\":\"user-{}\"}}", user());
                let all = (0..BATCH).map(one).collect::<Vec<_>>().join(",");
                format!(
                    "POST /v1/obtain HTTP/1.1\r\n{host}Content-Type: application/json\r\n\
                     Content-Length: {}\r\n\r\n[{all}]",
                    all.len() + 2
                )
            }
            Kind::Nginx | Kind::Haproxy | Kind::ForwardAuth => format!(
                "GET {} HTTP/1.1\r\n{host}X-User: user-{}\r\n\r\n",
                kind.path(),
                user()
            ),
        };
        request.into_bytes()
    }

    fn load_script(&self) -> Result<String> {
        let mut client = self.client(Kind::Redis)?;
        let answer = client.ask(command(&["SCRIPT", "LOAD", SCRIPT]).as_bytes())?;
        Ok(String::from_utf8_lossy(&answer.body).trim().to_owned())
    }

    /// Checks that it refuses a user of its own, who asks too often, and nothing before.
    fn check(&self, kind: Kind) -> Result<()> {
        let mut client = self.client(kind)?;
        let request = self.request(kind, || USERS + kind as u32);
        let mut is_admitted = || is_admitted(client.ask(&request)?);
        ensure!(is_admitted()?, "{} admits nothing", kind.label());
        // A window may end meanwhile.
        for _ in 0..2 * LIMIT {
            if !is_admitted()? {
                return Ok(());
            }
        }
        bail!("{} refuses nothing", kind.label())
    }
}

/// Whether everything was admitted.
pub fn is_admitted(answer: &Answer) -> Result<bool> {
    let (status, body) = (answer.status.trim_end(), str::from_utf8(&answer.body));
    match status {
        ":1" | "HTTP/1.1 204 No Content" => Ok(true),
        // The image of nginx is no text.
        "HTTP/1.1 200 OK" => Ok(!body.is_ok_and(|body| body.contains("\"obtained\":0"))),
        ":0" | "HTTP/1.1 429 Too Many Requests" => Ok(false),
        other => bail!("a limiter says {other}"),
    }
}

/// A command of Redis, as arguments that are preceded by their lengths (RESP).
fn command(words: &[&str]) -> String {
    let words_with_lengths = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!(
        "*{}\r\n{}",
        words.len(),
        words_with_lengths.collect::<String>()
    )
}

/// The script for wrk, which makes the requests before it counts.
pub fn wrk_script() -> String {
    format!(
        "local requests = {{}}\n\
         function init()\n  \
         for user = 1, {USERS} do\n    \
         requests[user] = wrk.format(nil, nil, {{ [\"X-User\"] = \"user-\" .. user - 1 }})\n  \
         end\n\
         end\n\
         function request()\n  \
         return requests[math.random({USERS})]\n\
         end\n"
    )
}

fn ratelimitd() -> String {
    let port = Kind::ForwardAuth.port();
    format!(
        "[policy.default]\n\
         limits = []\n\
         [keys]\n\
         listen = \"127.0.0.1:{port}\"\n\
         [keys.users]\n\
         limits = [{{ requests = {LIMIT}, per = \"1m\" }}]\n\
         key = {{ header = \"X-User\" }}\n"
    )
}

/// With an answer of the content phase: `return` would answer before the limit.
fn nginx() -> String {
    let port = Kind::Nginx.port();
    format!(
        "keepalive_requests 1000000000;\n\
         limit_req_zone $http_x_user zone=users:10m rate={LIMIT}r/m;\n\
         limit_req_status 429;\n\
         server {{ listen 127.0.0.1:{port}; location / \
         {{ limit_req zone=users burst={LIMIT} nodelay; empty_gif; }} }}"
    )
}

fn haproxy() -> String {
    let port = Kind::Haproxy.port();
    format!(
        "global\n  \
         nbthread 1\n\
         defaults\n  \
         mode http\n  \
         timeout client 1m\n\
         frontend web\n  \
         bind 127.0.0.1:{port}\n  \
         stick-table type string len 32 size 100k expire 1m store http_req_rate(1m)\n  \
         http-request track-sc0 req.hdr(x-user)\n  \
         http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {LIMIT} }}\n  \
         http-request return status 204\n"
    )
}
