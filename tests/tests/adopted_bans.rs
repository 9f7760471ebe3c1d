//! Bans of policies that user space takes out of the kernel's map.

use std::{fs, net::IpAddr, path::Path};

use aya::maps::{HashMap, Map, MapData};
use ratelimit_common::{Ipv4, PolicyBan, layout::VERSION};
use ratelimit_core::config;
use ratelimit_daemon::{
    control::{Store, open_kernel},
    datapath::Datapath,
    loader::Local,
};
use ratelimit_tests::{Lab, lab::INTERFACE, require_root};

#[test]
fn a_ban_that_the_program_made_meanwhile_stays() {
    require_root!();
    let lab = Lab::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let pins = Pins(format!("/sys/fs/bpf/rltest-{}", lab.near.name()));
    let bans = &mut load(&lab, directory.path(), &pins.0).policy_bans;
    let pin = format!("{}/v{VERSION}/maps/POLICY_BANS_V4", pins.0);
    let map = Map::HashMap(MapData::from_pin(pin).unwrap());
    let mut map: HashMap<_, Ipv4, PolicyBan> = map.try_into().unwrap();
    let sources = [1, 2, 3].map(|host| [192, 0, 2, host]);
    let ban = |at_ns| PolicyBan {
        at_ns,
        until_ns: at_ns + 10,
        ..PolicyBan::default()
    };
    for source in sources {
        map.insert(Ipv4::new(source), ban(100), 0).unwrap();
    }
    let mut taken = bans.all().unwrap();
    taken.sort_by_key(|(source, _)| *source);
    assert_eq!(taken, sources.map(|it| (IpAddr::from(it), ban(100))));
    // The first has ended, the second not; the third is gone.
    map.insert(Ipv4::new(sources[0]), ban(110), 0).unwrap();
    map.insert(Ipv4::new(sources[1]), ban(109), 0).unwrap();
    map.remove(&Ipv4::new(sources[2])).unwrap();
    bans.forget(&taken).unwrap();
    let left = bans.all().unwrap();
    assert_eq!(left, [(sources[0].into(), ban(110))]);
    bans.forget(&left).unwrap();
    assert_eq!(bans.all().unwrap(), []);
}

struct Pins(String);

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn load(lab: &Lab, directory: &Path, pins: &str) -> Datapath {
    let state = directory.display();
    let toml = format!(
        "[policy.default]\n\
         limits = []\n\
         [metrics]\n\
         listen = false\n\
         [[interface]]\n\
         name = \"{INTERFACE}\"\n\
         [paths]\n\
         pins = \"{pins}\"\n\
         state = \"{state}\"\n\
         runtime = \"{state}\"\n"
    );
    let path = directory.join("config.toml");
    fs::write(&path, toml).unwrap();
    let config = config::load(&path).unwrap();
    let store = Store::open(directory).unwrap();
    let open = move || open_kernel(&config, &store, Box::new(Local::default()));
    lab.near.enter(open).unwrap().datapath
}
