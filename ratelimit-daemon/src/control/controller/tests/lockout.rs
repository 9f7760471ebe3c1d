//! All combinations of requesters, protected addresses and prefixes: permitted, refused or exempt.

use ratelimit_core::intent::FOREVER;

use super::*;
use crate::protected::{Requester, Why};

/// The protected addresses, a kind each, in both families.
const PROTECTED: [(&str, &str); 10] = [
    ("own", "198.51.100.7"),
    ("own", "2001:db8:7::7"),
    ("gateway", "198.51.100.1"),
    ("gateway", "fe80::1"),
    ("resolver", "203.0.113.53"),
    ("resolver", "2001:db8:53::53"),
    ("SSH peer", "192.0.2.99"),
    ("SSH peer", "2001:db8:99:1::99"),
    ("loopback", "127.0.0.1"),
    ("loopback", "::1"),
];
/// The lengths of the prefixes around each of them, the address itself first.
const LENGTHS_V4: [u8; 8] = [32, 31, 29, 24, 16, 8, 4, 0];
const LENGTHS_V6: [u8; 8] = [128, 127, 64, 48, 32, 19, 8, 0];

/// The outcome of a ban.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Effect {
    /// It is refused, and nothing changes.
    Refused,
    /// It applies, and stops at the protected address.
    Exemptions,
    /// It applies for the protected address too.
    Holds,
}

#[test]
fn of_the_ways_to_lock_oneself_out_only_the_forced_ones_do() {
    assert!(lock_out(5) >= 40);
}

#[test]
#[ignore = "thorough"]
fn of_more_than_200_ways_to_lock_oneself_out_only_the_forced_ones_do() {
    assert!(lock_out(1) >= 200);
}

/// Tries bans by all requesters for every `step`th prefix around a protected address. Returns their
/// number.
fn lock_out(step: usize) -> u32 {
    let mut scenarios = 0;
    for (kind, address) in PROTECTED {
        for length in lengths(address).into_iter().step_by(step) {
            for requester in [
                Requester::Operator { forced: false },
                Requester::Operator { forced: true },
                Requester::Automatic,
                Requester::List { forced: false },
                Requester::List { forced: true },
                Requester::Other,
            ] {
                let expected = expected(requester, address, length);
                let found = outcome(requester, address, length);
                assert_eq!(
                    found, expected,
                    "{requester:?}: {kind} {address} in a /{length}"
                );
                scenarios += 1;
            }
        }
    }
    scenarios
}

#[test]
fn what_the_configuration_protects_is_never_banned_and_limited_all_the_same() {
    let mut lab = Lab::new(config());
    let own = address("203.0.113.7");
    lab.ban(&["203.0.113.7"], None).unwrap();
    assert_eq!(lab.action(own), "drop");
    let mut protecting = config();
    protecting.protected = vec![prefix("203.0.113.0/25")];
    lab.replace_config(protecting).unwrap();
    assert_eq!(lab.action(own), "pass");
    assert_eq!(lab.policy_amount("203.0.113.7"), 50);
    let refused = lab.ban(&["203.0.113.0/24"], None).unwrap_err();
    let expected = "203.0.113.0/24 covers 203.0.113.0/25, protected by the configuration";
    assert_eq!(refused.error, expected);
    ban(
        &mut lab,
        prefix("203.0.113.0/24"),
        Requester::List { forced: false },
    )
    .unwrap();
    assert_eq!(lab.action(own), "pass");
    assert_eq!(lab.action(address("203.0.113.200")), "drop");
    assert!(ban(&mut lab, prefix("203.0.113.9"), Requester::Automatic).is_err());
    lab.replace_config(config()).unwrap();
    assert_eq!(lab.action(own), "drop");
}

#[test]
fn a_protected_address_that_could_not_be_exempted_is_exempt_once_the_tables_have_room() {
    let own = prefix("203.0.113.9");
    let mut lab = Lab::new(config());
    ban(
        &mut lab,
        prefix("203.0.113.0/24"),
        Requester::List { forced: false },
    )
    .unwrap();
    lab.leave_room(0);
    let mut found = Protected::default();
    found.add(own, Why::Gateway("eth0".into()));
    lab.protect(found);
    lab.tick();
    assert!(!lab.held().contains_key(&own));
    lab.make_room();
    lab.tick();
    assert!(lab.held().contains_key(&own));
    assert_eq!(lab.reconciliation().repaired.sum(), 0);
}

/// The documented result.
fn expected(requester: Requester, address: &str, length: u8) -> Effect {
    let widest = if address.contains(':') { 19 } else { 8 };
    match requester {
        _ if length == 0 => Effect::Refused,
        Requester::Operator { forced: true } => Effect::Holds,
        Requester::Operator { forced: false } | Requester::Automatic => Effect::Refused,
        Requester::List { forced: true } => Effect::Exemptions,
        Requester::List { forced: false } | Requester::Other => {
            if length < widest {
                Effect::Refused
            } else {
                Effect::Exemptions
            }
        }
    }
}

/// The outcome for the protected address and its neighbour in the prefix.
fn outcome(requester: Requester, address: &str, length: u8) -> Effect {
    let mut lab = Lab::protecting(config(), protected());
    let own: IpAddr = address.parse().unwrap();
    let banned = Prefix::around(own, length).unwrap();
    let before = lab.entries();
    if ban(&mut lab, banned, requester).is_err() {
        assert_eq!(lab.entries(), before);
        assert_eq!(lab.action(own), "pass");
        return Effect::Refused;
    }
    let inside = neighbour(own);
    if banned.covers(inside.into()) && !protected().contains(inside.into()) {
        // All of 127.0.0.0/8 is the loopback.
        let is_loopback = own.is_loopback()
            && own.is_ipv4()
            && requester != (Requester::Operator { forced: true });
        let action = if is_loopback { "pass" } else { "drop" };
        assert_eq!(lab.action(inside), action, "{requester:?}: {inside}");
    }
    lab.restart();
    match lab.action(own).as_str() {
        "drop" => Effect::Holds,
        _ => Effect::Exemptions,
    }
}

/// Bans as each of them does: people by a command, the others after they were vetted.
fn ban(lab: &mut Lab, prefix: Prefix, requester: Requester) -> Result<(), Refused> {
    let origin = match requester {
        Requester::Operator { forced } => {
            let request = BanRequest {
                prefixes: vec![prefix],
                force: forced,
                ..BanRequest::default()
            };
            return lab.controller.ban(request, "root").map(drop);
        }
        Requester::Automatic => Origin::Automatic,
        Requester::List { .. } => Origin::list("field"),
        Requester::Other => Origin::cluster("edge-2"),
    };
    lab.state.protection.vet(prefix, requester)?;
    let edit = super::ban(&prefix.to_string(), origin, FOREVER);
    lab.state.apply([edit], Cause::Origin)?;
    Ok(())
}

#[test]
fn a_refusal_says_what_is_covered_why_it_is_protected_and_what_to_write() {
    let mut lab = Lab::protecting(config(), protected());
    let mut refusal = |text: &str| {
        let refused = lab.ban(&[text], None).unwrap_err();
        (refused.error, refused.hint.unwrap())
    };
    let (error, hint) = refusal("198.51.100.0/24");
    assert_eq!(
        error,
        "198.51.100.0/24 covers 198.51.100.1, the default gateway of eth0"
    );
    assert!(hint.contains("--force"), "{hint}");
    let (error, _) = refusal("192.0.2.99");
    assert_eq!(error, "192.0.2.99 is the client of an SSH session");
    let (error, _) = refusal("127.0.0.0/16");
    assert_eq!(
        error,
        "127.0.0.0/16 is inside 127.0.0.0/8, the loopback of this host"
    );
    let (error, hint) = refusal("64.0.0.0/7");
    assert_eq!(
        error,
        "64.0.0.0/7 is wider than /8, the widest that is banned without --force"
    );
    assert!(hint.contains("--force"), "{hint}");
    let (error, hint) = refusal("::/0");
    assert_eq!(error, "a ban of ::/0 would cut this host off");
    assert!(!hint.contains("--force"), "{hint}");
}

#[test]
fn what_becomes_protected_is_exempt_from_the_bans_that_are_there() {
    let mut lab = Lab::new(config());
    let gateway: IpAddr = "198.51.100.1".parse().unwrap();
    lab.ban(&["198.51.100.0/24"], None).unwrap();
    assert_eq!(lab.action(gateway), "drop");
    lab.protect(protected());
    assert_eq!(lab.action(gateway), "pass");
    let views = lab.protected();
    let exempt: Vec<String> = views
        .iter()
        .filter(|view| view.exempt)
        .map(|view| view.prefix.to_string())
        .collect();
    assert_eq!(exempt, ["198.51.100.1", "198.51.100.7"]);
    lab.protect(Protected::default());
    assert_eq!(lab.action(gateway), "drop");
    assert!(lab.protected().is_empty());
}

#[test]
fn a_list_that_exempts_an_address_does_not_keep_it_banned() {
    let mut lab = Lab::protecting(config(), protected());
    let mut held = |address: &str| {
        let prefixes = vec![prefix(address)];
        lab.edit(&[super::ban(address, Origin::list("field"), FOREVER)]);
        let changed = lab.controller.unban(PrefixesRequest { prefixes }, "root");
        changed.unwrap().held.len()
    };
    assert_eq!((held("198.51.100.1"), held("198.51.100.9")), (0, 1));
}

#[test]
fn a_check_says_that_an_address_is_protected_and_which_bans_hold_all_the_same() {
    let mut lab = Lab::protecting(config(), protected());
    let gateway: IpAddr = "198.51.100.1".parse().unwrap();
    ban(
        &mut lab,
        prefix("198.51.100.0/24"),
        Requester::List { forced: false },
    )
    .unwrap();
    let check = lab.controller.check(gateway).unwrap();
    assert_eq!(check.action, "pass");
    assert_eq!(
        check.protected.as_deref(),
        Some("the default gateway of eth0")
    );
    let forced = BanRequest {
        prefixes: vec![prefix("198.51.100.1")],
        seconds: Some(60.0),
        reason: None,
        force: true,
        ..BanRequest::default()
    };
    lab.controller.ban(forced, "root").unwrap();
    let check = lab.controller.check(gateway).unwrap();
    assert_eq!(check.action, "drop");
    assert_eq!(check.rule, Some(prefix("198.51.100.1")));
    assert!(check.until.is_some(), "the ban of the list has no end");
    let deciding = check.covering.iter().find(|entry| entry.decides).unwrap();
    let ratelimit_core::api::CoveringEntry::Ban(ban) = &deciding.entry else {
        panic!("{deciding:?}");
    };
    assert_eq!(ban.origin, Origin::Forced);
    let stranger = lab.checked("198.51.100.2");
    assert_eq!(stranger.protected, None);
}

#[test]
fn where_a_command_comes_from_is_protected_before_it_is_carried_out() {
    let mut lab = Lab::new(config());
    let peer: IpAddr = "192.0.2.50".parse().unwrap();
    lab.run(ProtectSshPeer(peer));
    let refused = lab.ban(&["192.0.2.50"], None).unwrap_err();
    assert!(refused.error.contains("SSH session"), "{}", refused.error);
    // Addresses found on the host are protected as well.
    lab.protect(protected());
    lab.protect(Protected::default());
    lab.ban(&["192.0.2.0/24"], None).unwrap_err();
}

#[test]
fn a_forced_ban_and_another_by_hand_replace_each_other() {
    let mut lab = Lab::protecting(config(), protected());
    let gateway = "198.51.100.1";
    let force = |force, seconds| BanRequest {
        prefixes: vec![prefix(gateway)],
        seconds,
        forever: seconds.is_none(),
        reason: None,
        force,
        ..BanRequest::default()
    };
    lab.controller.ban(force(true, None), "root").unwrap();
    lab.ban(&[gateway], None).unwrap_err();
    assert_eq!(lab.listed_bans().len(), 1);
    assert_eq!(lab.listed_bans()[0].origin, Origin::Forced);
    lab.protect(Protected::default());
    let changed = lab
        .controller
        .ban(force(false, Some(600.0)), "root")
        .unwrap();
    assert_eq!((changed.added, changed.updated, changed.removed), (0, 1, 0));
    assert_eq!(lab.listed_bans().len(), 1);
    assert_eq!(lab.listed_bans()[0].origin, Origin::Manual);
}

#[test]
fn limits_hold_for_a_protected_address() {
    let mut lab = Lab::protecting(config(), protected());
    lab.limit(Some("198.51.100.0/24"), 3).unwrap();
    assert_eq!(lab.policy_amount("198.51.100.1"), 3);
    lab.restart();
    assert_eq!(lab.policy_amount("198.51.100.1"), 3);
}

fn protected() -> Protected {
    let mut protected = Protected::loopback();
    let why = |kind: &str| match kind {
        "own" => Why::Own("eth0".into()),
        "gateway" => Why::Gateway("eth0".into()),
        "resolver" => Why::Resolver("/etc/resolv.conf"),
        "SSH peer" => Why::SshPeer,
        _ => Why::Loopback,
    };
    let found = PROTECTED.iter().filter(|(kind, _)| *kind != "loopback");
    protected.extend(found.map(|(kind, address)| (address.parse().unwrap(), why(kind))));
    protected
}

fn lengths(address: &str) -> [u8; 8] {
    if address.contains(':') {
        LENGTHS_V6
    } else {
        LENGTHS_V4
    }
}

/// The address that differs in the last bit.
fn neighbour(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => std::net::Ipv4Addr::from_bits(address.to_bits() ^ 1).into(),
        IpAddr::V6(address) => std::net::Ipv6Addr::from_bits(address.to_bits() ^ 1).into(),
    }
}

impl Lab {
    fn action(&self, address: IpAddr) -> String {
        self.controller.check(address).unwrap().action
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}
