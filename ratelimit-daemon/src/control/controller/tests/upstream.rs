//! The routes follow what the host drops.

use ratelimit_core::upstream::Upstream;

use super::*;
use crate::{
    control::commands::{Command as _, Detach},
    protected::Why,
};

#[test]
fn a_ban_gets_its_route_when_its_address_is_no_longer_protected() {
    let mut protected = Protected::default();
    protected.add(prefix("198.51.100.1"), Why::Gateway("eth0".into()));
    let mut lab = Lab::protecting(announcing(), protected);
    let until = clock::after(Duration::from_mins(1));
    lab.edit(&[ban("198.51.100.1", Origin::Forced, until)]);
    lab.tick();
    assert!(lab.routes().is_empty());
    lab.state.protect(|all| all.find(Protected::default()));
    lab.tick();
    assert_eq!(lab.routes(), ["198.51.100.1"]);
}

#[test]
fn nothing_is_announced_while_the_program_is_detached() {
    let mut lab = Lab::new(announcing());
    lab.ban(&["198.51.100.1"], Some(60.0)).unwrap();
    lab.tick();
    assert_eq!(lab.routes(), ["198.51.100.1"]);
    Detach("root".into()).run(&mut lab).unwrap();
    lab.tick();
    assert!(lab.routes().is_empty());
    lab.interfaces.links.attach();
    lab.tick();
    assert_eq!(lab.routes(), ["198.51.100.1"]);
}

impl Lab {
    pub(super) fn routes(&self) -> Vec<String> {
        let routes = self.feeds.upstream.routes().unwrap().routes;
        routes.iter().map(ToString::to_string).collect()
    }
}

fn announcing() -> Config {
    Config {
        upstream: Some(Upstream::default()),
        ..config()
    }
}
