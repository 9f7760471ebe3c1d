//! Lists in files.

use super::*;
use crate::{
    lists::{Action, Connected},
    policies::list_name,
};

#[test]
fn a_list_has_a_file_and_what_is_done_with_it() {
    let text = "[list.drop]\n\
                file = \"/var/lib/drop.txt\"\n\
                [list.offices]\n\
                file = \"/etc/offices\"\n\
                every = \"1h\"\n\
                action = \"allow\"\n\
                skip_bad = true\n\
                [list.firehol]\n\
                file = \"/f\"\n\
                connected = \"include\"\n";
    let config = load_text(&format!("{MINIMAL}\n{text}"));
    let drop = &config.lists["drop"];
    assert_eq!(
        (drop.every, drop.action, drop.skip_bad),
        (None, Action::Ban, false)
    );
    assert_eq!(drop.connected, None);
    let firehol = &config.lists["firehol"];
    assert_eq!(firehol.connected, Some(Connected::Include));
    let offices = &config.lists["offices"];
    assert_eq!(offices.every, Some(Duration::from_hours(1)));
    assert_eq!((offices.action, offices.skip_bad), (Action::Allow, true));
}

#[test]
fn a_list_selects_countries_and_networks_of_a_database() {
    let text = "[list.abroad]\n\
                mmdb = \"/c.mmdb\"\n\
                country = [\"de\", \"XK\"]\n\
                [list.as]\n\
                mmdb = \"/a.mmdb\"\n\
                asn = 64500\n\
                every = \"1h\"\n\
                action = \"allow\"\n";
    let config = load_text(&format!("{MINIMAL}{text}"));
    let selected = |name: &str| {
        let list = &config.lists[name];
        let selection = list.selection.as_ref().unwrap();
        let countries: Vec<String> = selection
            .countries
            .iter()
            .map(ToString::to_string)
            .collect();
        (list.file.to_str().unwrap(), countries.join(" "), list.every)
    };
    let minutes = |minutes| Some(Duration::from_mins(minutes));
    assert_eq!(
        selected("abroad"),
        ("/c.mmdb", "DE XK".to_owned(), minutes(5))
    );
    assert_eq!(selected("as"), ("/a.mmdb", String::new(), minutes(60)));
    check_behind_minimal(
        "[list.a]\n\
         mmdb = \"/c.mmdb\"\n\
         country = [\"UK\"]\n\
         min_count = 3\n\
         [list.b]\n\
         mmdb = \"/c.mmdb\"\n\
         [list.c]\n\
         file = \"/c\"\n\
         asn = [64500]\n\
         [list.d]\n\
         mmdb = \"c.mmdb\"\n\
         asn = [0]\n",
        r#"config.toml:10:12: there is no country `UK`
10 | country = ["UK"]
   |            ^^^^ write a code of ISO 3166-1 such as "DE" (for the United Kingdom "GB")
config.toml:11:13: `min_count` is not used with `mmdb`
11 | min_count = 3
   |             ^ remove `min_count`, or `mmdb`
config.toml:13:8: `mmdb` without `country` and `asn` selects nothing
13 | mmdb = "/c.mmdb"
   |        ^^^^^^^^^ add for example country = ["DE", "AT"] or asn = [64500]
config.toml:16:7: `country` and `asn` select prefixes of a database
16 | asn = [64500]
   |       ^^^^^^^ add mmdb = "/var/lib/ratelimit-lists/country.mmdb"
config.toml:18:8: `c.mmdb` is not an absolute path
18 | mmdb = "c.mmdb"
   |        ^^^^^^^^ write one that begins with /, such as mmdb = "/var/lib/ratelimit-lists/country.mmdb"
config.toml:19:8: `asn` is out of range
19 | asn = [0]
   |        ^ write a number from 1 to 4294967295"#,
    );
}

#[test]
fn a_policy_selects_countries_and_networks_of_a_database_as_a_list_does() {
    let text = "[policy.abroad]\n\
                mmdb = \"/c.mmdb\"\n\
                country = [\"DE\"]\n\
                asn = [64500]\n\
                limits = []\n\
                [policy.both]\n\
                sources = [\"192.0.2.0/24\"]\n\
                mmdb = \"/a.mmdb\"\n\
                asn = 64500\n\
                every = \"1h\"\n\
                allow_wide = true\n\
                action = \"drop\"\n";
    let config = load_text(&format!("{MINIMAL}{text}"));
    let [abroad, both] = ["abroad", "both"].map(|policy| &config.lists[&list_name(policy)]);
    assert_eq!(abroad.file.to_str(), Some("/c.mmdb"));
    let selection = abroad.selection.as_ref().unwrap();
    assert_eq!(selection.to_string(), "country DE, AS64500");
    assert_eq!(abroad.every, Some(Duration::from_mins(5)));
    assert_eq!((abroad.action, abroad.allow_wide), (Action::Policy, false));
    assert_eq!(both.every, Some(Duration::from_hours(1)));
    assert_eq!((both.action, both.allow_wide), (Action::Policy, true));
    assert_eq!(config.policies["both"].sources.len(), 1);
    check_behind_minimal(
        "[policy.a]\n\
         mmdb = \"/c.mmdb\"\n\
         country = [\"UK\"]\n\
         min_count = 3\n\
         limits = []\n\
         [policy.b]\n\
         mmdb = \"/c.mmdb\"\n\
         limits = []\n\
         [policy.c]\n\
         sources = [\"192.0.2.0/24\"]\n\
         asn = [64500]\n\
         every = \"1h\"\n\
         limits = []\n\
         [policy.d]\n\
         mmdb = \"d.mmdb\"\n\
         asn = [64500]\n\
         limits = []\n",
        "config.toml:10:12: there is no country `UK`
10 | country = [\"UK\"]
   |            ^^^^ write a code of ISO 3166-1 such as \"DE\" (for the United Kingdom \"GB\")
config.toml:11:1: unknown key `min_count` in [policy.a]
11 | min_count = 3
   | ^^^^^^^^^ remove it; known here: sources, mmdb, country, asn, every, allow_empty, \
         allow_wide, action, limits, established, connections, ban, observe
config.toml:14:8: `mmdb` without `country` and `asn` selects nothing
14 | mmdb = \"/c.mmdb\"
   |        ^^^^^^^^^ add for example country = [\"DE\", \"AT\"] or asn = [64500]
config.toml:18:7: `country` and `asn` select prefixes of a database
18 | asn = [64500]
   |       ^^^^^^^ add mmdb = \"/var/lib/ratelimit-lists/country.mmdb\"
config.toml:19:1: unknown key `every` in [policy.c]
19 | every = \"1h\"
   | ^^^^^ remove it; known here: sources, mmdb, country, asn, action, limits, \
         established, connections, ban, observe
config.toml:22:8: `d.mmdb` is not an absolute path
22 | mmdb = \"d.mmdb\"
   |        ^^^^^^^^ write one that begins with /, such as \
         mmdb = \"/var/lib/ratelimit-lists/country.mmdb\"",
    );
    let default = "mmdb = \"/c.mmdb\"\ncountry = [\"DE\"]\nlimits = []\n";
    check(
        &format!("[[interface]]\nname = \"eth0\"\n[policy.default]\n{default}"),
        "config.toml:4:8: [policy.default] is for the sources that no other policy is for
4 | mmdb = \"/c.mmdb\"
  |        ^^^^^^^^^ remove `mmdb`, or give the policy another name",
    );
}

#[test]
fn a_list_is_downloaded_from_an_address() {
    let text = "[list.drop]\n\
                file = \"/var/lib/ratelimit-lists/drop\"\n\
                url = \"https://example.com/drop.txt\"\n";
    let config = load_text(&format!("{MINIMAL}{text}"));
    let url = config.lists["drop"].url.as_deref();
    assert_eq!(url, Some("https://example.com/drop.txt"));
    // A downloaded list is enforced without confirmation.
    let every = config.lists["drop"].every;
    assert_eq!(every, Some(Duration::from_mins(5)));
    let config = load_text(&format!("{MINIMAL}{text}every = \"1h\"\n"));
    let every = config.lists["drop"].every;
    assert_eq!(every, Some(Duration::from_hours(1)));
    check_behind_minimal(
        "[list.drop]\nfile = \"/d\"\nurl = \"file:///etc/shadow\"\n",
        "config.toml:10:7: `file:///etc/shadow` is not the address of a list
10 | url = \"file:///etc/shadow\"
   |       ^^^^^^^^^^^^^^^^^^^^ write one that begins with https:// or http://",
    );
}
