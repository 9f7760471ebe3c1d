//! Three nodes with one Redis: one limit and one ban for all of them, also while Redis is gone.

mod board;

use std::{
    ops::RangeInclusive,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use ratelimit_core::api::ClusterStatus;
use ratelimit_tests::{
    Frame,
    cluster::{Node, set_load, started, under_load},
    debian,
    lab::INTERFACE,
    redis::Redis,
    service::Said,
};

use super::{figures::Figures, interrupt, screen::Screen};
use board::Board;

const NAMES: [&str; 3] = ["edge-1", "edge-2", "edge-3"];
/// Packets a second that all nodes together admit of a source.
const LIMIT: u64 = 1_000;
const TOML: &str = "\
[policy.default]
limits = [{ packets = 1000, per = \"1s\", scope = \"cluster\" }]
";
/// The source that is over the limit, and the one that is banned.
const BUSY: &str = "203.0.113.9";
const QUIET: &str = "203.0.113.10";
/// The quiet source sends one in this many packets.
const QUIET_IS_ONE_IN: usize = 20;
/// Packets a second to each node.
const EQUAL: [u32; 3] = [3_400, 3_300, 3_300];
const SKEWED: [u32; 3] = [9_000, 800, 200];
/// Shares have followed a load after this time.
const SETTLING: Duration = Duration::from_secs(2);
/// The deadline for a node to report the loss of Redis, in milliseconds.
const SAID_WITHIN_MS: u64 = 2_000;
/// The deadline for a ban to reach all nodes, in milliseconds.
const BANNED_WITHIN_MS: u64 = 1_000;
/// The deadline for the nodes to divide limits after Redis is back, in milliseconds.
const BACK_WITHIN_MS: u64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Shows it, and answers what was found.
pub fn run() -> Result<Figures> {
    ensure!(
        debian::directory("redis-server").is_dir(),
        "Debian's redis-server is not unpacked: run `cargo xtask setup`, on Debian or where \
         apt-get is"
    );
    let screen = Screen::new();
    screen.heading("Three network namespaces with a ratelimitd each, one Redis, and this file");
    println!("{TOML}\n[cluster]\nurl = \"/.../redis.sock\"\nnode = \"edge-1\"   # edge-2, edge-3");
    println!("nodes = 3\nsecret = \"...\"");
    let redis = Redis::started()?;
    let nodes = started(&redis, &NAMES, TOML)?;
    println!(
        "\n\
         3 of ratelimitd are ready: {INTERFACE} of each namespace attached, all nodes hear each \
         other"
    );
    let mut play = Play {
        screen,
        figures: Figures::default(),
        nodes: &nodes,
        redis,
    };
    under_load(&nodes, &frames()?, || play.run())?;
    for node in &nodes {
        node.service().stop("-TERM")?;
    }
    Ok(play.figures)
}

fn frames() -> Result<Vec<Vec<u8>>> {
    let of = |source: &str| -> Result<Vec<u8>> {
        let frame = Frame::ethernet().ipv4(source.parse()?);
        Ok(frame.udp(53).pad_to(70).build())
    };
    let mut frames = vec![of(BUSY)?; QUIET_IS_ONE_IN - 1];
    frames.push(of(QUIET)?);
    Ok(frames)
}

struct Play<'a> {
    screen: Screen,
    figures: Figures,
    nodes: &'a [Node],
    redis: Redis,
}

impl Play<'_> {
    fn run(&mut self) -> Result<()> {
        self.screen
            .heading("One source sends 9,500 packets a second, as many to each node");
        self.admit(EQUAL, &[300..=400, 300..=400, 300..=400], &about(LIMIT))?;
        self.screen
            .heading("The same source, most of it through edge-1");
        self.admit(SKEWED, &[0..=900, 0..=900, 0..=210], &about(LIMIT))?;
        self.ban()?;
        self.lose_redis()?;
        self.find_redis()?;
        self.unban()
    }

    /// Sends, shows who admits what, and compares it with what each node and all together may
    /// admit.
    fn admit(
        &mut self,
        load: [u32; 3],
        each: &[RangeInclusive<u64>; 3],
        all: &RangeInclusive<u64>,
    ) -> Result<()> {
        set_load(self.nodes, &load);
        let board = Board::new(self.nodes, load);
        board.watch(&mut self.screen, SETTLING)?;
        let counted = board.count(&mut self.screen)?;
        let mut marks = Vec::new();
        for (place, (range, admitted)) in each.iter().zip(&counted).enumerate() {
            let answer = self.figures.check(NAMES[place], range, *admitted);
            marks.push(self.screen.mark(&answer));
        }
        let sum = counted.iter().sum();
        let answer = self.figures.check("all nodes together", all, sum);
        marks.push(self.screen.mark(&answer));
        let rows = board.rows(&counted, &marks)?;
        self.screen.finish(&rows)?;
        Ok(())
    }

    fn ban(&mut self) -> Result<()> {
        self.screen.heading(
            "A ban on edge-1, of another source, which sends 500 packets a second to all nodes",
        );
        set_load(self.nodes, &EQUAL);
        wait(SETTLING)?;
        let began = Instant::now();
        self.type_in(0, &["ban", QUIET, "--for", "10m", "--reason", "demo"], 0)?;
        wait(SETTLING)?;
        for (name, node) in NAMES.iter().zip(self.nodes) {
            let last = node.last_admitted(tail(QUIET)?);
            let Some(last) = last.filter(|last| *last + SETTLING > began) else {
                bail!("{name} admitted nothing of {QUIET} before it was banned");
            };
            let took = millis(last.saturating_duration_since(began));
            let what = format!("{name} drops {QUIET}, ms after the ban was typed");
            let answer = self.figures.check(&what, &(0..=BANNED_WITHIN_MS), took);
            println!(
                "{name}: its last packet passed {took} ms after that  {}",
                self.screen.mark(&answer)
            );
        }
        self.type_in(2, &["check", QUIET], 3)
    }

    fn lose_redis(&mut self) -> Result<()> {
        self.screen.heading("Redis is killed");
        println!("$ kill -9 redis-server");
        let killed = Instant::now();
        self.redis.kill()?;
        self.wait_for("all nodes say that Redis is gone", |status| {
            status.connected == Some(false)
        })?;
        self.check_time("all nodes say so", killed, SAID_WITHIN_MS);
        self.wait_for("all nodes fall back", is_fallen_back)?;
        self.type_in(1, &["cluster", "status"], 0)?;
        println!("Each node admits the limit divided by 3, and no more:");
        let part = about(LIMIT / 3);
        self.admit(SKEWED, &[part.clone(), part, about(190)], &(0..=LIMIT))?;
        self.check_ban(killed)
    }

    fn find_redis(&mut self) -> Result<()> {
        self.screen
            .heading("Redis is started again, with nothing in it");
        println!("$ redis-server");
        let start = Instant::now();
        self.redis.start()?;
        self.wait_for("all nodes divide the limit again", |status| {
            status.connected == Some(true) && !is_fallen_back(status)
        })?;
        self.check_time("all nodes divide the limit again", start, BACK_WITHIN_MS);
        self.type_in(1, &["cluster", "status"], 0)?;
        self.admit(SKEWED, &[0..=900, 0..=900, 0..=210], &about(LIMIT))?;
        self.check_ban(start)
    }

    fn unban(&mut self) -> Result<()> {
        self.screen.heading("The ban is lifted on edge-3");
        set_load(self.nodes, &EQUAL);
        wait(SETTLING)?;
        let began = Instant::now();
        self.type_in(2, &["unban", QUIET], 0)?;
        wait(SETTLING)?;
        for (name, node) in NAMES.iter().zip(self.nodes) {
            let first = node.first_admitted(tail(QUIET)?, began);
            let took = first.map_or(u64::MAX, |first| millis(first - began));
            let what = format!("{name} admits {QUIET}, ms after the unban was typed");
            let answer = self.figures.check(&what, &(0..=BANNED_WITHIN_MS), took);
            println!(
                "{name}: its first packet passed {took} ms after that  {}",
                self.screen.mark(&answer)
            );
        }
        Ok(())
    }

    /// Compares what passed of the banned source since then with nothing.
    fn check_ban(&mut self, since: Instant) -> Result<()> {
        let source = tail(QUIET)?;
        let passes = |node: &&Node| node.first_admitted(source, since).is_some();
        let passed = self.nodes.iter().filter(passes).count() as u64;
        let what = format!("nodes that admit {QUIET}, which edge-1 banned");
        let answer = self.figures.check_exact(&what, 0, passed);
        println!("{what}: {passed}  {}", self.screen.mark(&answer));
        Ok(())
    }

    fn check_time(&mut self, what: &str, since: Instant, most: u64) {
        let took = millis(since.elapsed());
        let what = format!("{what}, after ms");
        let answer = self.figures.check(&what, &(0..=most), took);
        println!("{what}: {took}  {}", self.screen.mark(&answer));
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&ClusterStatus) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for node in self.nodes {
            while !is_so(&node.status()?) {
                ensure!(Instant::now() < deadline, "waited in vain: {what}");
                wait(POLL)?;
            }
        }
        Ok(())
    }

    /// Shows a command of `rlctl` on a node and its output. It must exit with `code`.
    fn type_in(&self, place: usize, arguments: &[&str], code: i32) -> Result<()> {
        let typed = format!("rlctl {}", arguments.join(" "));
        println!("{}$ {typed}", NAMES[place]);
        let said @ Said { stdout, stderr, .. } = &self.nodes[place].service().rlctl(arguments)?;
        print!("{stdout}");
        eprint!("{stderr}");
        ensure!(said.code == code, "`{typed}` ended with {}", said.code);
        Ok(())
    }
}

fn is_fallen_back(status: &ClusterStatus) -> bool {
    let sharing = status.sharing.as_ref();
    sharing.is_none_or(|sharing| sharing.fallback.is_some())
}

/// Within 5 %.
fn about(packets: u64) -> RangeInclusive<u64> {
    packets * 95 / 100..=packets * 105 / 100 + 1
}

/// Returns the last two bytes of a source, which identify its packets.
fn tail(source: &str) -> Result<u16> {
    let [.., high, low] = source.parse::<std::net::Ipv4Addr>()?.octets();
    Ok(u16::from_be_bytes([high, low]))
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Waits, unless the user presses Ctrl-C.
fn wait(time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        interrupt::check()?;
        thread::sleep(POLL.min(end.saturating_duration_since(Instant::now())));
    }
    interrupt::check()
}
