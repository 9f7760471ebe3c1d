//! Random sequences of reloads, trials, rollbacks and starts between kinds of rules, under traffic
//! of a source that each of them refuses: none of its packets may pass. Configurations also use
//! different features, so most steps replace the programs.

use std::{
    fmt::Write as _,
    fs,
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
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
/// The pause between two packets.
const PAUSE: Duration = Duration::from_micros(400);
/// A daemon that is killed while it starts has lived for less.
const START: Duration = Duration::from_millis(1_500);
/// The amount of a new limit, and how many new limits a step may create: that of the next rule, and
/// of the one that returns.
const ANEW: u64 = 2;

const NOTHING: &str = "[policy.default]\nlimits = []\n";
const ONE: &str = "limits = [{ packets = 1, per = \"1h\" }]\n";

/// Further parts of a configuration that do not affect [`SOURCE`]: a name, the table, and the
/// incompatible tables of rules.
const EXTRAS: [(&str, &str, &[&str]); 9] = [
    (
        "bans",
        "[policy.strikes]\n\
         sources = [\"203.0.112.0/24\"]\n\
         limits = [{ packets = 5, per = \"1s\" }]\n\
         ban = { after = 9, within = \"10s\", for = \"1m\" }\n",
        &[],
    ),
    (
        "classes",
        "[class.far]\n\
         protocol = \"udp\"\n\
         ttl = [\"200-255\"]\n\
         [class.there]\n\
         protocol = \"udp\"\n\
         destination = [\"192.0.2.53\"]\n\
         action = \"drop\"\n\
         [policy.classed]\n\
         sources = [\"192.0.2.0/25\"]\n\
         limits = [{ packets = 50, per = \"1s\", match = \"far\" }]\n",
        &[],
    ),
    (
        "algorithms",
        "[policy.algorithms]\n\
         sources = [\"192.0.2.128/25\"]\n\
         limits = [{ packets = 100, per = \"1s\", algorithm = \"token-bucket\" }, \
         { packets = 100, per = \"1m\", algorithm = \"sliding-window\" }, \
         { packets = 100, per = \"50ms\", algorithm = \"sliding-log\" }]\n",
        &[],
    ),
    (
        "total",
        "[node]\nlimits = [{ packets = 1_000_000, per = \"1s\" }]\n",
        &["[node]"],
    ),
    (
        "prefixes",
        "[subnet]\nipv4 = [{ prefix = 16, packets = 1_000_000, per = \"1s\" }]\n",
        &["[subnet]"],
    ),
    (
        "destinations",
        "[destination.\"192.0.2.0/24\"]\n\
         limits = [{ packets = 100_000, per = \"1s\" }]\n\
         source_limits = [{ packets = 1_000, per = \"1s\" }]\n",
        &[],
    ),
    (
        "challenge",
        "[challenge.tcp]\n\
         when = \"over 50_000 syn/s\"\n\
         [challenge.dns]\n\
         when = \"over 50_000 packets/s\"\n",
        &[],
    ),
    (
        "attacks",
        "[detection.icmp_flood]\nthreshold = 5_000\n",
        &[],
    ),
    (
        "jumbo",
        "[[interface]]\n\
         name = \"rl0\"\n\
         jumbo = true\n\
         node = { limits = [{ packets = 1_000_000, per = \"1s\" }] }\n",
        &["[node]", "[[interface]]"],
    ),
];
/// Further lines of `[source]`.
const OF_SOURCE: [(&str, &str); 5] = [
    (
        "budget",
        "new_sources = { count = 100_000, per = \"1s\", over_budget = \"drop\" }\n",
    ),
    ("tunnels", "tunnels = [\"gre\", \"ipip\"]\n"),
    ("compact", "store = \"compact\"\n"),
    ("capacity", "capacity = 4096\n"),
    ("networks", "ipv4_prefix = 28\n"),
];

/// A rule that refuses [`SOURCE`].
#[derive(Clone, Debug)]
struct Rule {
    name: String,
    toml: String,
    /// Whether it is a ban: a new limit may admit a packet.
    is_ban: bool,
}

impl Rule {
    /// The rule, with what is named behind each `+`: `one+budget+attacks`.
    fn named(rules: &[Self], name: &str) -> Result<Self> {
        let mut words = name.split('+');
        let own = words.next().unwrap_or_default();
        let rule = rules.iter().find(|rule| rule.name == own);
        let rule = rule.with_context(|| format!("no rule {own}"))?;
        let mut toml = rule.toml.clone();
        let mut source = String::new();
        for word in words {
            let line = OF_SOURCE.iter().find(|(name, _)| *name == word);
            let table = EXTRAS.iter().find(|(name, ..)| *name == word);
            match (line, table) {
                (Some((_, line)), _) => source.push_str(line),
                (None, Some((_, table, _))) => toml.push_str(table),
                (None, None) => bail!("nothing is called {word}"),
            }
        }
        if !source.is_empty() {
            toml.push_str("[source]\n");
            toml.push_str(&source);
        }
        Ok(Self {
            name: name.to_owned(),
            toml,
            is_ban: rule.is_ban,
        })
    }

    /// The name of a rule beside which nothing, everything or something is in use.
    fn any(rules: &[Self], random: &mut Rng) -> Result<String> {
        let rule = random.choice(rules).context("there are rules")?;
        let odds = *random.choice(&[0.0, 0.3, 1.0]).context("there are odds")?;
        let mut name = rule.name.clone();
        let mut toml = rule.toml.clone();
        for (extra, table, others) in EXTRAS {
            if random.f64() < odds && !others.iter().any(|other| toml.contains(other)) {
                write!(name, "+{extra}")?;
                toml.push_str(table);
            }
        }
        for (extra, _) in OF_SOURCE {
            if random.f64() < odds {
                write!(name, "+{extra}")?;
            }
        }
        Ok(name)
    }
}

/// The step between two rules.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
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

/// The result of a sequence.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The rules and steps.
    pub text: String,
    /// The number of packets that were sent.
    pub sent: u64,
    /// The number of packets that passed although none of the rules admits them.
    pub passed: u64,
}

/// Plays the sequence of a seed, which is of one kind of steps where `only` says so.
pub fn play(seed: u64, only: Option<Step>) -> Result<Sequence> {
    let mut random = Rng::with_seed(seed);
    let lab = Lab::new()?;
    let service = Service::new(&lab, NOTHING)?;
    let rules = rules(&service)?;
    let first = Rule::any(&rules, &mut random)?;
    let steps = (0..STEPS).map(|_| {
        let step = *random.choice(&ALL).context("there are steps")?;
        Ok((only.unwrap_or(step), Rule::any(&rules, &mut random)?))
    });
    let steps: Vec<_> = steps.collect::<Result<_>>()?;
    play_in(&lab, service, &rules, &first, &steps, &mut random)
}

/// Plays these steps, each to the rule of a name.
pub fn play_steps(first: &str, steps: &[(Step, &str)], random: &mut Rng) -> Result<Sequence> {
    let lab = Lab::new()?;
    let service = Service::new(&lab, NOTHING)?;
    let rules = rules(&service)?;
    let steps = steps.iter().map(|(step, name)| (*step, (*name).to_owned()));
    let steps: Vec<_> = steps.collect();
    play_in(&lab, service, &rules, first, &steps, random)
}

fn play_in(
    lab: &Lab,
    mut service: Service,
    rules: &[Rule],
    first: &str,
    steps: &[(Step, String)],
    random: &mut Rng,
) -> Result<Sequence> {
    let mut now = Rule::named(rules, first)?;
    service.configure(&now.toml)?;
    service.start()?;
    // The first packets use up what a limit admits.
    lab.send(&datagram(SOURCE), 20)?;
    let mut traffic = Receiver::new(&lab.near)?;
    let mut text = now.name.clone();
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
            let (step, next) = (*step, Rule::named(rules, next)?);
            let begun = Instant::now();
            let is_next = take(&mut service, random, step, [&now, &next])
                .with_context(|| format!("{text} -{step:?}-> {}: {}", next.name, service.log()))?;
            let admitted = [&now, &next].iter().filter(|rule| !rule.is_ban).count() as u64 * ANEW;
            let came = arrived(&mut traffic)?;
            let took = begun.elapsed().as_millis();
            write!(text, " -{step:?} ({took} ms)-> {}", next.name)?;
            if came > admitted {
                write!(text, " [{came} passed]")?;
                passed += came - admitted;
            }
            if is_next {
                now = next;
            }
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

/// Does a step, and answers whether the next rule is in force after it.
fn take(
    service: &mut Service,
    random: &mut Rng,
    step: Step,
    [now, next]: [&Rule; 2],
) -> Result<bool> {
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
            return Ok(false);
        }
        Step::KilledOnTrial => {
            attempt(service, [now, next])?;
            service.stop("-KILL")?;
            service.start()?;
            service.rlctl_ok(&["rollback"])?;
            return Ok(false);
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
    Ok(true)
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

/// Counts the packets of the source that came through since the last call.
fn arrived(traffic: &mut Receiver) -> Result<u64> {
    let mut arrived = 0;
    while let Some(frame) = traffic.next(Duration::from_millis(2))? {
        arrived += u64::from(frame.get(26..30) == Some(&SOURCE.octets()));
    }
    Ok(arrived)
}

/// The kinds of rules.
fn rules(service: &Service) -> Result<Vec<Rule>> {
    let limit = |name: &str, toml: String| Rule {
        name: name.to_owned(),
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
            name: name.to_owned(),
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
            "[policy.default]\n\
             limits = [{ packets = 900, per = \"1h\" }, { bytes = \"9MB\", per = \"1h\" }, \
             { packets = 1, per = \"2h\" }]\n"
                .to_owned(),
        ),
        policy("address", "198.51.100.9", "{ packets = 1, per = \"1h\" }"),
        policy(
            "network",
            "198.51.100.0/24",
            "{ packets = 1, per = \"2h\" }",
        ),
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
            format!("{NOTHING}[subnet]\nipv4 = [{{ prefix = 24, packets = 1, per = \"1h\" }}]\n"),
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
            format!(
                "{NOTHING}[policy.lan]\n{ONE}[[interface]]\nname = \"rl0\"\npolicy = \"lan\"\n"
            ),
        ),
        list("one", "198.51.100.9\n".to_owned(), "")?,
        list("other", "198.51.100.0/24\n192.0.2.0/24\n".to_owned(), "")?,
        list("many", many, "")?,
        list(
            "limited",
            "198.51.100.9\n".to_owned(),
            &format!("[node]\n{ONE}"),
        )?,
    ])
}
