//! The table at the top of the module, row by row.

use super::*;

#[test]
fn everything_is_never_banned() {
    for requester in REQUESTERS {
        check("0.0.0.0/0", requester, Err("would cut this host off"));
        check("::/0", requester, Err("would cut this host off"));
    }
}

#[test]
fn what_is_very_wide_is_banned_by_those_who_insist() {
    for (prefix, widest) in [("64.0.0.0/7", "/8"), ("2000::/18", "/19")] {
        check(prefix, Requester::Operator { forced: false }, Err(widest));
        check(prefix, Requester::List { forced: false }, Err(widest));
        check(prefix, Requester::Other, Err(widest));
        check(prefix, Requester::Operator { forced: true }, Ok(()));
        check(prefix, Requester::List { forced: true }, Ok(()));
    }
    for prefix in ["64.0.0.0/8", "2000::/19"] {
        check(prefix, Requester::Operator { forced: false }, Ok(()));
        check(prefix, Requester::List { forced: false }, Ok(()));
        check(prefix, Requester::Other, Ok(()));
    }
}

#[test]
fn small_networks_at_most_are_banned_automatically() {
    for prefix in [
        "64.0.0.0/24",
        "64.0.0.1",
        "2001:db8:5::/48",
        "2001:db8:5::/64",
    ] {
        check(prefix, Requester::Automatic, Ok(()));
    }
    check(
        "64.0.0.0/23",
        Requester::Automatic,
        Err("wider than /24, the widest that is banned automatically"),
    );
    check("2001:db8::/47", Requester::Automatic, Err("wider than /48"));
}

#[test]
fn what_is_protected_stops_people_and_automatic_bans_and_is_cut_out_of_lists() {
    for prefix in ["192.0.2.1", "192.0.2.0/24", "2001:db8::1", "2001:db8::/64"] {
        check(
            prefix,
            Requester::Operator { forced: false },
            Err("the default gateway of eth0"),
        );
        check(
            prefix,
            Requester::Automatic,
            Err("the default gateway of eth0"),
        );
        check(prefix, Requester::Operator { forced: true }, Ok(()));
        check(prefix, Requester::List { forced: false }, Ok(()));
        check(prefix, Requester::Other, Ok(()));
    }
    check("192.0.2.2", Requester::Operator { forced: false }, Ok(()));
    check("2001:db8:0:1::/64", Requester::Automatic, Ok(()));
}

const REQUESTERS: [Requester; 6] = [
    Requester::Operator { forced: false },
    Requester::Operator { forced: true },
    Requester::Automatic,
    Requester::List { forced: false },
    Requester::List { forced: true },
    Requester::Other,
];

/// Vets a ban on a host whose gateways are 192.0.2.1 and `2001:db8::1`; a refusal has these words.
fn check(prefix: &str, requester: Requester, expected: Result<(), &str>) {
    let mut protected = Protected::default();
    let gateways = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().unwrap());
    protected.extend(gateways.map(|gateway| (gateway, Why::Gateway("eth0".into()))));
    let found = protected.vet(prefix.parse().unwrap(), requester);
    match (found, expected) {
        (Ok(()), Ok(())) => {}
        (Err(refused), Err(words)) => {
            assert!(refused.error.contains(words), "{refused:?}");
            assert!(refused.hint.is_some());
        }
        (found, expected) => panic!("{prefix}, {requester:?}: {found:?} and not {expected:?}"),
    }
}
