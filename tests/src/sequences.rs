//! Random sequences of reloads, trials, ends and starts between kinds of rules, under traffic of a
//! source that each of them refuses: nothing of it passes in between.

use std::{
    fmt::Write as _,
    fs,
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use crate::{
    Lab,
    lab::{Receiver, Sender},
    packet::datagram,
    service::Service,
};

/// The source that every rule refuses.
const SOURCE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
/// Steps of a sequence.
const STEPS: usize = 4;
/// From a packet to the next one.
const PAUSE: Duration = Duration::from_micros(400);
/// A daemon that is killed while it starts has lived for less.
const START: Duration = Duration::from_millis(1_500);
/// What a limit admits that begins anew, and how many of its step may: that of the rule that comes,
/// and of the one that comes back.
const ANEW: u64 = 2;

/// The rules by their names, as [`rules`] has them.
const RULES: [&str; 17] = [
    "default",
    "three",
    "address",
    "network",
    "bucket",
    "window",
    "log",
    "class",
    "aggregate",
    "destination",
    "to-destination",
    "node",
    "interface",
    "one",
    "other",
    "many",
    "limited",
];
const NOTHING: &str = "[policy.default]\nlimits = []\n";
const ONE: &str = "limits = [{ packets = 1, per = \"1h\" }]\n";

/// A rule that refuses [`SOURCE`].
#[derive(Clone, Debug)]
struct Rule {
    name: &'static str,
    toml: String,
    /// Whether it is a ban: a limit may admit a packet when it begins anew.
    is_ban: bool,
}

/// What happens between two rules.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// `rlctl reload`.
    Reload,
    /// `rlctl apply`, and `rlctl confirm`.
    Confirmed,
    /// `rlctl apply`, and `rlctl rollback`.
    RolledBack,
    /// Killed during a trial, which is rolled back after the next start.
    KilledOnTrial,
    /// Stopped and started again.
    Term,
    /// Killed and started again.
    Kill,
    /// Killed, and once more while it starts.
    KilledAtStart,
    /// Killed while it reloads.
    KilledInReload,
}

const ALL: [Step; 8] = [
    Step::Reload,
    Step::Confirmed,
    Step::RolledBack,
    Step::KilledOnTrial,
    Step::Term,
    Step::Kill,
    Step::KilledAtStart,
    Step::KilledInReload,
];

/// What a sequence came to.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Its rules and steps.
    pub text: String,
    /// How many packets were sent.
    pub sent: u64,
    /// How many passed that none of the rules admits.
    pub passed: u64,
}

/// Plays the sequence of a seed.
pub fn play(seed: u64) -> Result<Sequence> {
    let mut random = Rng::with_seed(seed);
    let first = RULES[random.usize(..RULES.len())];
    let steps = (0..STEPS).map(|_| {
        let step = ALL[random.usize(..ALL.len())];
        (step, RULES[random.usize(..RULES.len())])
    });
    let steps: Vec<_> = steps.collect();
    play_steps(first, &steps, &mut random)
}

/// Plays these steps, each to the rule of a name.
pub fn play_steps(first: &str, steps: &[(Step, &str)], random: &mut Rng) -> Result<Sequence> {
    let lab = Lab::new()?;
    let mut service = Service::new(&lab, NOTHING)?;
    let rules = rules(&service)?;
    let find = |name| rules.iter().find(|rule| rule.name == name);
    let find = |name| find(name).with_context(|| format!("no rule {name}"));
    let mut now = find(first)?;
    service.configure(&now.toml)?;
    service.start()?;
    // The first packets use up what a limit admits.
    lab.send(&datagram(SOURCE), 20)?;
    let mut traffic = Receiver::new(&lab.near)?;
    let mut text = now.name.to_owned();
    let (mut passed, stop, sent) = (0, AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let sender = Sender::new(&lab.far)?;
            while !stop.load(Relaxed) {
                sender.send(&datagram(SOURCE))?;
                sent.fetch_add(1, Relaxed);
                thread::sleep(PAUSE);
            }
            anyhow::Ok(())
        });
        let played = steps.iter().try_for_each(|(step, next)| {
            let (step, next) = (*step, find(next)?);
            let begun = Instant::now();
            let left = take(&mut service, random, step, [now, next])
                .with_context(|| format!("{text} -{step:?}-> {}: {}", next.name, service.log()))?;
            let admitted = [now, next].iter().filter(|rule| !rule.is_ban).count() as u64 * ANEW;
            let came = arrived(&mut traffic)?;
            let took = begun.elapsed().as_millis();
            write!(text, " -{step:?} ({took} ms)-> {}", left.name)?;
            if came > admitted {
                write!(text, " [{came} passed]")?;
                passed += came - admitted;
            }
            now = left;
            anyhow::Ok(())
        });
        stop.store(true, Relaxed);
        played
    })?;
    service.stop("-TERM")?;
    let sent = sent.into_inner();
    ensure!(sent > 0, "nothing was sent");
    Ok(Sequence { text, sent, passed })
}

/// Does a step, and answers the rule that is in force after it.
fn take<'a>(
    service: &mut Service,
    random: &mut Rng,
    step: Step,
    [now, next]: [&'a Rule; 2],
) -> Result<&'a Rule> {
    match step {
        Step::Reload => {
            service.configure(&next.toml)?;
            service.rlctl_ok(&["reload", "--discard"])?;
        }
        Step::Confirmed => {
            attempt(service, [now, next])?;
            service.rlctl_ok(&["confirm"])?;
            service.configure(&next.toml)?;
        }
        Step::RolledBack => {
            attempt(service, [now, next])?;
            service.rlctl_ok(&["rollback"])?;
            return Ok(now);
        }
        Step::KilledOnTrial => {
            attempt(service, [now, next])?;
            service.stop("-KILL")?;
            service.start()?;
            service.rlctl_ok(&["rollback"])?;
            return Ok(now);
        }
        Step::Term | Step::Kill => {
            let signal = if step == Step::Term { "-TERM" } else { "-KILL" };
            service.stop(signal)?;
            service.configure(&next.toml)?;
            service.start()?;
        }
        Step::KilledAtStart => {
            service.stop("-KILL")?;
            service.configure(&next.toml)?;
            service.begin()?;
            thread::sleep(START.mul_f64(random.f64()));
            service.stop("-KILL")?;
            service.start()?;
        }
        Step::KilledInReload => {
            service.configure(&next.toml)?;
            service.signal("-HUP")?;
            thread::sleep(START.mul_f64(random.f64() / 4.0));
            service.stop("-KILL")?;
            service.start()?;
        }
    }
    Ok(next)
}

/// Puts the next rule on trial, from a file of its own.
fn attempt(service: &Service, [now, next]: [&Rule; 2]) -> Result<()> {
    let tried = service.path("tried.toml");
    service.configure(&next.toml)?;
    fs::copy(service.config(), &tried)?;
    service.configure(&now.toml)?;
    let tried = tried.display().to_string();
    service.rlctl_ok(&["apply", &tried, "--confirm", "1h"])?;
    Ok(())
}

/// How many packets of the source came through since this was asked last.
fn arrived(traffic: &mut Receiver) -> Result<u64> {
    let mut arrived = 0;
    while let Some(frame) = traffic.next(Duration::from_millis(2))? {
        arrived += u64::from(frame.get(26..30) == Some(&SOURCE.octets()));
    }
    Ok(arrived)
}

/// The kinds of rules.
fn rules(service: &Service) -> Result<Vec<Rule>> {
    let limit = |name, toml: String| Rule {
        name,
        toml,
        is_ban: false,
    };
    let policy = |name, sources: &str, limits: &str| {
        let toml =
            format!("{NOTHING}[policy.own]\nsources = [\"{sources}\"]\nlimits = [{limits}]\n");
        limit(name, toml)
    };
    let list = |name: &'static str, entries: String, more: &str| -> Result<Rule> {
        let file = service.path(name);
        fs::write(&file, entries)?;
        let file = file.display();
        let toml = format!("{NOTHING}[list.{name}]\nfile = \"{file}\"\naction = \"ban\"\n{more}");
        Ok(Rule {
            name,
            toml,
            is_ban: true,
        })
    };
    let many = (0..3_000u32).map(|number| {
        let [.., high, low] = number.to_be_bytes();
        format!("203.0.{high}.{low}\n")
    });
    let many: String = many.chain(["198.51.100.8/31\n".to_owned()]).collect();
    Ok(vec![
        limit("default", format!("[policy.default]\n{ONE}")),
        limit(
            "three",
            "[policy.default]\nlimits = [{ packets = 900, per = \"1h\" }, { bytes = \"9MB\", per = \"1h\" }, { packets = 1, per = \"2h\" }]\n"
                .to_owned(),
        ),
        policy("address", "198.51.100.9", "{ packets = 1, per = \"1h\" }"),
        policy("network", "198.51.100.0/24", "{ packets = 1, per = \"2h\" }"),
        policy(
            "bucket",
            "198.51.100.8/30",
            "{ packets = 1, per = \"1h\", algorithm = \"token-bucket\" }",
        ),
        policy(
            "window",
            "198.51.0.0/16",
            "{ packets = 1, per = \"1h\", algorithm = \"sliding-window\" }",
        ),
        policy(
            "log",
            "198.51.100.9",
            "{ packets = 1, per = \"1h\", algorithm = \"sliding-log\" }",
        ),
        policy(
            "class",
            "198.51.100.9",
            "{ packets = 1, per = \"1h\", match = \"udp\" }",
        ),
        limit(
            "aggregate",
            format!("{NOTHING}[aggregate]\nipv4 = [{{ prefix = 24, packets = 1, per = \"1h\" }}]\n"),
        ),
        limit(
            "destination",
            format!("{NOTHING}[destination.\"198.51.100.0/24\"]\n{ONE}"),
        ),
        limit(
            "to-destination",
            format!("{NOTHING}[destination.\"198.51.100.0/24\"]\nsource_{ONE}"),
        ),
        limit("node", format!("{NOTHING}[node]\n{ONE}")),
        limit(
            "interface",
            format!("{NOTHING}[policy.lan]\n{ONE}[[interface]]\nname = \"rl0\"\npolicy = \"lan\"\n"),
        ),
        list("one", "198.51.100.9\n".to_owned(), "")?,
        list("other", "198.51.100.0/24\n192.0.2.0/24\n".to_owned(), "")?,
        list("many", many, "")?,
        list("limited", "198.51.100.9\n".to_owned(), &format!("[node]\n{ONE}"))?,
    ])
}
