//! Lists and policies of countries and networks, from databases that the test writes.

use std::{collections::BTreeMap, fs, path::Path};

use maxminddb_writer::{Database, metadata::IpVersion, paths::IpAddrWithMask};
use ratelimit_tests::{Lab, packet::datagram, require_root, service::Service, wait_until};

const FRENCH: &str = "203.0.113.9";
const GERMAN: &str = "198.51.100.9";

#[test]
fn a_country_is_banned_by_the_prefixes_of_a_database_and_follows_the_file() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, "[policy.default]\nlimits = []\n").unwrap();
    let (country, network) = (service.path("country.mmdb"), service.path("asn.mmdb"));
    write(
        &country,
        "Country",
        &[
            ("::203.0.113.0/120", "country_code", "FR"),
            ("::198.51.100.0/120", "country_code", "DE"),
        ],
    );
    write(&network, "ASN", &[("::203.0.113.0/120", "asn", "AS64500")]);
    let lists = |selection: &str| {
        format!(
            "[policy.default]\n\
             limits = []\n\
             [list.abroad]\n\
             mmdb = \"{}\"\n\
             {selection}\n\
             every = \"1s\"\n\
             [list.partner]\n\
             mmdb = \"{}\"\n\
             asn = [64500]\n\
             action = \"allow\"\n\
             every = \"1h\"\n",
            country.display(),
            network.display()
        )
    };
    service.configure(&lists("country = [\"DE\"]")).unwrap();
    service.start().unwrap();
    assert!(!passes(&lab, GERMAN));
    assert!(passes(&lab, FRENCH));
    let said = service.rlctl(&["check", GERMAN]).unwrap().stdout;
    assert!(said.contains("place: DE\n"), "{said}");
    assert!(
        said.contains("list: abroad bans 198.51.100.0/24 (country DE)"),
        "{said}"
    );
    let said = service.rlctl(&["check", FRENCH]).unwrap().stdout;
    assert!(said.contains("place: FR AS64500\n"), "{said}");
    assert!(
        said.contains("list: partner allows 203.0.113.0/24 (AS64500)"),
        "{said}"
    );
    // The file is replaced.
    replace(&country, &lab);
    assert!(!passes(&lab, "192.0.2.200"));
    // A damaged one leaves the list as it is.
    let bytes = fs::read(&country).unwrap();
    fs::write(&country, &bytes[..bytes.len() - 20]).unwrap();
    wait_until("an error", || {
        let status = service.rlctl_ok(&["status"]).unwrap();
        status.contains("is not a complete MaxMind database")
    });
    assert!(!passes(&lab, "192.0.2.200"));
    fs::write(&country, bytes).unwrap();
    service.configure(&lists("country = [\"FR\"]")).unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("list abroad: "), "{said:?}");
    assert!(
        said.stderr
            .contains("country.mmdb: has no prefix of country FR"),
        "{said:?}"
    );
}

#[test]
fn a_policy_limits_the_sources_of_a_country_and_follows_the_file() {
    require_root!();
    let lab = Lab::new().unwrap();
    let mut service = Service::new(&lab, "[policy.default]\nlimits = []\n").unwrap();
    let country = service.path("country.mmdb");
    write(
        &country,
        "Country",
        &[
            ("::203.0.113.0/120", "country_code", "FR"),
            ("::198.51.100.0/120", "country_code", "DE"),
        ],
    );
    let policy = |code: &str| {
        format!(
            "[policy.default]\n\
             limits = []\n\
             [policy.abroad]\n\
             mmdb = \"{}\"\n\
             country = [\"{code}\"]\n\
             every = \"1s\"\n\
             limits = [{{ packets = 2, per = \"1h\" }}]\n\
             [policy.guest]\n\
             sources = [\"198.51.100.77\"]\n\
             limits = []\n",
            country.display()
        )
    };
    service.configure(&policy("DE")).unwrap();
    service.start().unwrap();
    assert_eq!(
        [(); 4].map(|()| passes(&lab, GERMAN)),
        [true, true, false, false]
    );
    for unlimited in [FRENCH, "198.51.100.77"] {
        assert_eq!([(); 4].map(|()| passes(&lab, unlimited)), [true; 4]);
    }
    let said = service.rlctl(&["check", GERMAN]).unwrap().stdout;
    assert!(
        said.contains("policy abroad, for 198.51.100.0/24\n"),
        "{said}"
    );
    assert!(
        said.contains("list: [policy.abroad] selects 198.51.100.0/24 (country DE)"),
        "{said}"
    );
    let said = service.rlctl_ok(&["list", "limits"]).unwrap();
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .contains("abroad country DE 2 packets per 1h"),
        "{said}"
    );
    // The file is replaced.
    replace(&country, &lab);
    assert_eq!(
        [(); 3].map(|()| passes(&lab, "192.0.2.200")),
        [true, true, false]
    );
    service.configure(&policy("FR")).unwrap();
    let said = service.rlctl(&["reload"]).unwrap();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stderr
            .contains("country.mmdb: has no prefix of country FR"),
        "{said:?}"
    );
    // The database remembers the prefixes if the file is missing at the next start.
    service.configure(&policy("DE")).unwrap();
    fs::remove_file(&country).unwrap();
    service.stop("-TERM").unwrap();
    service.start().unwrap();
    assert!(!passes(&lab, "192.0.2.200"));
    // Without the database the policy is gone.
    service
        .configure("[policy.default]\nlimits = []\n")
        .unwrap();
    service.rlctl_ok(&["reload"]).unwrap();
    assert!(passes(&lab, "192.0.2.200"));
    assert_eq!(service.rlctl(&["list", "lists"]).unwrap().stdout, "");
}

fn passes(lab: &Lab, source: &str) -> bool {
    let source: std::net::IpAddr = source.parse().unwrap();
    lab.passes(&datagram(source)).unwrap()
}

/// Replaces the database by one without the address, and waits until it is read.
fn replace(country: &Path, lab: &Lab) {
    let networks = [("::192.0.2.128/121", "country_code", "DE")];
    write(country, "Country", &networks);
    wait_until("the new file", || passes(lab, GERMAN));
}

/// Writes a database of prefixes, each with one field.
fn write(path: &Path, kind: &str, records: &[(&str, &str, &str)]) {
    let mut database = Database::default();
    database.metadata.ip_version = IpVersion::V6;
    database.metadata.binary_format_major_version = 2;
    kind.clone_into(&mut database.metadata.database_type);
    for (prefix, field, value) in records {
        let record = database
            .insert_value(BTreeMap::from([(*field, *value)]))
            .unwrap();
        let prefix: IpAddrWithMask = prefix.parse().unwrap();
        database.insert_node(prefix, record);
    }
    fs::write(path, database.write_to(Vec::new()).unwrap()).unwrap();
}
