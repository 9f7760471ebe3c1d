use super::*;
use crate::clock;

const NATIVE: AttachMode = AttachMode::Native;

#[test]
fn the_program_of_an_interface_that_is_missing_is_loaded_once_until_it_is_configured_again() {
    let mut links = Links::default();
    let configured = ["a", "b"].map(wanted);
    links.configure(&configured);
    assert_eq!(links.prepare(), None, "it is not known that one is missing");
    links.note("a", LinkState::Missing, clock::wall());
    links.note(
        "b",
        LinkState::Failed {
            error: String::new(),
        },
        clock::wall(),
    );
    let prepared = links.prepare().map(|it| it.name);
    assert_eq!(prepared.as_deref(), Some("a"));
    assert_eq!(links.prepare(), None);
    links.configure(&configured);
    assert!(links.prepare().is_some(), "it may be another program");
}

/// A machine with interfaces and the daemon's attachments.
#[derive(Default)]
struct World {
    interfaces: Vec<InterfaceState>,
    /// The numbers of our programs, by the configured name.
    programs: BTreeMap<String, u32>,
    next: u32,
    /// The steps taken on each configured interface.
    done: Vec<(String, Step)>,
}

impl World {
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn add(&mut self, name: &str) {
        let index = self.number();
        self.interfaces.push(InterfaceState {
            index,
            name: name.to_owned(),
            mtu: 1500,
            ..InterfaceState::default()
        });
    }

    fn find(&mut self, name: &str) -> Option<&mut InterfaceState> {
        self.interfaces.iter_mut().find(|it| it.name == name)
    }

    fn sight(&self, name: &str) -> Sight {
        let program = self.programs.get(name).map(|own| {
            let runs = |it: &&InterfaceState| it.program.is_some_and(|(_, id)| id == *own);
            Running {
                on: self.interfaces.iter().find(runs).cloned(),
                is_behind_another: false,
                takes_long_frames: true,
                next: None,
                entry: None,
                is_behind: false,
            }
        });
        let there = self.interfaces.iter().find(|it| it.name == name).cloned();
        Sight { there, program }
    }

    fn take_off(&mut self, name: &str) {
        if let Some(own) = self.programs.remove(name) {
            for interface in &mut self.interfaces {
                interface.program = interface.program.filter(|(_, id)| *id != own);
            }
        }
    }

    /// `false` if a foreign program is attached.
    fn attach(&mut self, name: &str) -> bool {
        let (own, number) = (self.programs.get(name).copied(), self.number());
        let Some(interface) = self.find(name) else {
            return false;
        };
        if interface.program.is_some_and(|(_, id)| Some(id) != own) {
            return false;
        }
        interface.program = Some((NATIVE, number));
        self.programs.insert(name.to_owned(), number);
        true
    }

    /// The daemon's steps at each check.
    fn settle(&mut self, links: &mut Links, now: Instant) {
        let names: Vec<String> = links.wanted().map(|it| it.name.clone()).collect();
        for name in names {
            let sight = self.sight(&name);
            let step = links.step(&name, &sight, now);
            let done = match step {
                Step::Stay => true,
                Step::Attach => self.attach(&name),
                Step::Move => {
                    self.take_off(&name);
                    self.attach(&name)
                }
                Step::TakeOff => {
                    self.take_off(&name);
                    true
                }
            };
            if step != Step::Stay {
                self.done.push((name.clone(), step));
            }
            let seen = self.sight(&name);
            if !done {
                links.note_failure(&name, seen.clone(), now);
            }
            let is_failed = matches!(link_state(&seen), LinkState::Failed { .. });
            if step == Step::Stay && is_failed && !links.are_detached() {
                continue;
            }
            let reported = if done {
                link_state(&seen)
            } else {
                LinkState::Failed {
                    error: "taken".to_owned(),
                }
            };
            links.note(&name, reported, Timestamp::UNIX_EPOCH);
        }
    }
}

fn wanted(name: &str) -> Interface {
    Interface {
        name: name.to_owned(),
        mode: Mode::Auto,
        jumbo: false,
        next: None,
        policy: None,
        node: None,
        observe: false,
    }
}

fn configured(names: &[&str]) -> (World, Links) {
    let mut world = World::default();
    let mut links = Links::default();
    let interfaces: Vec<Interface> = names.iter().map(|name| wanted(name)).collect();
    links.configure(&interfaces);
    for name in names {
        world.add(name);
    }
    world.settle(&mut links, clock::monotonic());
    world.done.clear();
    (world, links)
}

#[test]
fn what_is_to_be_done_follows_from_what_is_seen() {
    let state = |index, name: &str| InterfaceState {
        index,
        name: name.to_owned(),
        mtu: 1500,
        program: Some((NATIVE, 7)),
        ..InterfaceState::default()
    };
    let runs = |on: Option<InterfaceState>| Running {
        on,
        is_behind_another: false,
        takes_long_frames: false,
        next: None,
        entry: None,
        is_behind: false,
    };
    let check = |there: Option<InterfaceState>, program: Option<Running>, expected| {
        let sight = Sight { there, program };
        assert_eq!(step(&wanted("eth0"), &sight), expected, "{sight:?}");
    };
    let eth0 = || state(1, "eth0");
    check(None, None, Step::Stay);
    check(Some(eth0()), None, Step::Attach);
    check(Some(eth0()), Some(runs(Some(eth0()))), Step::Stay);
    check(Some(eth0()), Some(runs(None)), Step::Attach);
    check(None, Some(runs(Some(state(1, "wan0")))), Step::Stay);
    check(
        Some(state(2, "eth0")),
        Some(runs(Some(state(1, "wan0")))),
        Step::Move,
    );
    check(None, Some(runs(None)), Step::TakeOff);
    let long = InterfaceState {
        mtu: 9000,
        ..eth0()
    };
    check(Some(long.clone()), Some(runs(Some(long))), Step::Attach);
}

#[test]
fn a_rename_opens_nothing_and_is_said_and_a_new_interface_of_the_name_gets_the_program() {
    let (mut world, mut links) = configured(&["eth0", "eth1"]);
    let now = clock::monotonic();
    world.find("eth0").unwrap().name = "wan0".to_owned();
    world.settle(&mut links, now);
    assert_eq!(world.done, []);
    assert!(world.find("wan0").unwrap().program.is_some());
    assert!(!links.statuses()[0].attached);
    assert_eq!(links.statuses()[0].renamed_to.as_deref(), Some("wan0"));
    assert!(links.unenforced()[0].why.contains("renamed to wan0"));
    world.add("eth0");
    world.settle(&mut links, now);
    assert_eq!(world.done, [("eth0".to_owned(), Step::Move)]);
    assert!(world.find("wan0").unwrap().program.is_none());
    assert!(links.unenforced().is_empty());
}

#[test]
fn what_failed_is_tried_again_when_something_is_different_and_after_a_second() {
    let (mut world, mut links) = configured(&["eth0"]);
    let now = clock::monotonic();
    world.find("eth0").unwrap().program = Some((NATIVE, 999));
    world.settle(&mut links, now);
    world.settle(&mut links, now);
    assert_eq!(world.done.len(), 1, "{:?}", world.done);
    assert_eq!(links.unenforced()[0].why, "taken");
    world.settle(&mut links, now + AGAIN);
    assert_eq!(world.done.len(), 2);
    world.find("eth0").unwrap().program = None;
    world.settle(&mut links, now + AGAIN);
    assert!(links.link_state("eth0").unwrap().is_attached());
}

#[test]
fn what_somebody_wanted_off_stays_off_until_the_configuration_is_read_again() {
    let (mut world, mut links) = configured(&["eth0"]);
    let now = clock::monotonic();
    links.detach("root");
    world.take_off("eth0");
    world.settle(&mut links, now + AGAIN);
    assert!(world.done.is_empty(), "{:?}", world.done);
    assert!(!links.enforces_anywhere());
    assert!(
        links.unenforced()[0]
            .why
            .contains("root detached the program")
    );
    links.configure(&[wanted("eth0")]);
    world.settle(&mut links, now + AGAIN);
    assert!(!links.enforces_anywhere());
    links.attach();
    world.settle(&mut links, now + AGAIN);
    assert!(links.unenforced().is_empty() && links.enforces_anywhere());
}

/// Whatever happens to interfaces: after a look each one that is there is attached or told, a
/// program runs on none that is not wanted but for a renamed one. Unchanged interfaces are left
/// alone.
#[test]
fn after_any_changes_what_is_reported_is_what_is_so() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % 1_000_003).unwrap() % below
    };
    let names = ["eth0", "eth1", "wan0", "wan1"];
    for _ in 0..500 {
        let (mut world, mut links) = configured(&["eth0", "eth1", "quiet"]);
        let mut now = clock::monotonic();
        for _ in 0..30 {
            let name = names[draw(names.len())];
            let there = world.find(name).is_some();
            match draw(5) {
                0 if there => world.interfaces.retain(|it| it.name != name),
                1 if !there => world.add(name),
                2 if there => {
                    let free = names
                        .iter()
                        .find(|free| world.interfaces.iter().all(|it| it.name != **free));
                    if let Some(free) = free {
                        world.find(name).unwrap().name = (*free).to_owned();
                    }
                }
                3 if there => world.find(name).unwrap().program = Some((NATIVE, 0)),
                4 if there => world.find(name).unwrap().program = None,
                _ => continue,
            }
            if draw(3) == 0 {
                continue;
            }
            now += AGAIN;
            world.settle(&mut links, now);
            world.settle(&mut links, now);
            compare(&world, &links);
        }
        assert!(world.done.iter().all(|(name, _)| name != "quiet"));
    }
}

fn compare(world: &World, links: &Links) {
    for status in links.statuses() {
        let there = world.interfaces.iter().find(|it| it.name == status.name);
        let own = world.programs.get(&status.name);
        let runs =
            there.is_some_and(|it| it.program.map(|(_, id)| id).as_ref() == own && own.is_some());
        assert_eq!(status.attached, runs, "{status:?}");
        let is_free = there.is_some_and(|it| it.program.is_none());
        assert!(!is_free, "{status:?} could be attached");
        assert_eq!(status.why.is_some(), !runs, "{status:?}");
    }
    for interface in &world.interfaces {
        let Some((_, id)) = interface.program.filter(|(_, id)| *id != 0) else {
            continue;
        };
        let (name, _) = world.programs.iter().find(|(_, own)| **own == id).unwrap();
        let reported = links
            .statuses()
            .into_iter()
            .find(|it| it.name == *name)
            .unwrap();
        let tells = reported.renamed_to.as_ref().unwrap_or(&reported.name);
        assert_eq!(*tells, interface.name, "{reported:?}");
    }
}
