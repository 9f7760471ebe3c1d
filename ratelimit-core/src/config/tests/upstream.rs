use std::time::Duration;

use super::*;
use crate::upstream::{BanOrigin, Upstream};

#[test]
fn an_empty_table_is_the_defaults() {
    let upstream = load_text(&format!("{MINIMAL}[upstream]\n")).upstream;
    assert_eq!(upstream, Some(Upstream::default()));
    assert_eq!(load_text(MINIMAL).upstream, None);
}

#[test]
fn routes_are_bounded_in_number_time_and_width() {
    let text = "[upstream]\nnext_hop = \"192.0.2.1\"\nnext_hop_v6 = \"2001:db8::1\"\ncommunities = \
                [\"64500:666\", \"65535:666\"]\norigins = [\"automatic\", \"crowdsec\"]\n\
                routes_max = 50\nfor_min = \"5m\"\nipv4_prefix_min = 32\nipv6_prefix_min = 64\n";
    let upstream = load_text(&format!("{MINIMAL}{text}")).upstream.unwrap();
    let communities: Vec<String> = upstream
        .communities
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(communities, ["64500:666", "65535:666"]);
    let origins = [BanOrigin::Automatic, BanOrigin::Crowdsec];
    assert_eq!(upstream.origins, origins);
    assert_eq!(
        (upstream.routes_max, upstream.for_min),
        (50, Duration::from_mins(5))
    );
    let accepts = |prefix: &str, origin: &str| {
        upstream.accepts(prefix.parse().unwrap(), &origin.parse().unwrap())
    };
    assert!(accepts("203.0.113.7", "automatic") && accepts("2001:db8::/64", "crowdsec"));
    assert!(!accepts("203.0.113.0/31", "automatic") && !accepts("2001:db8::/63", "automatic"));
    assert!(!accepts("203.0.113.7", "manual") && !accepts("203.0.113.7", "list:a"));
}
