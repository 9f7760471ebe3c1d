//! Databases that the tests write themselves.

use maxminddb_writer::{Database as Writer, metadata::IpVersion, paths::IpAddrWithMask};
use serde_json::{Value, json};

use super::*;

#[test]
fn prefixes_of_a_country_are_selected_from_every_usual_kind_of_record() {
    let bytes = database(
        "GeoLite2-Country",
        &[
            (
                "::192.0.2.0/120",
                json!({ "country": { "iso_code": "DE", "names": { "en": "Germany" } } }),
            ),
            (
                "::198.51.100.0/120",
                json!({ "country_code": "DE", "country": "Germany" }),
            ),
            ("2001:db8::/32", json!({ "country": "DE" })),
            (
                "::203.0.113.0/120",
                json!({ "country": { "iso_code": "FR" } }),
            ),
        ],
    );
    let selection = selection(&["DE"], &[]);
    let (entries, reasons) = open(&bytes).select(&selection, false).unwrap();
    let mut found: Vec<String> = entries.iter().map(|it| it.prefix.to_string()).collect();
    found.sort();
    assert_eq!(found, ["192.0.2.0/24", "198.51.100.0/24", "2001:db8::/32"]);
    assert_eq!(reasons.iter().collect::<Vec<_>>(), ["country DE"]);
    let place = open(&bytes).place("203.0.113.9".parse().unwrap());
    assert_eq!(place.unwrap().to_string(), "FR");
    assert_eq!(open(&bytes).place("8.8.8.8".parse().unwrap()), None);
}

#[test]
fn prefixes_of_a_network_are_selected_with_its_name_as_the_reason() {
    let bytes = database(
        "GeoLite2-ASN",
        &[
            (
                "::192.0.2.0/120",
                json!({ "autonomous_system_number": 64500_u32,
                        "autonomous_system_organization": "Example" }),
            ),
            (
                "::198.51.100.0/120",
                json!({ "asn": "AS64501", "as_name": "Other" }),
            ),
            ("2001:db8::/32", json!({ "asn": "AS64502" })),
        ],
    );
    let (entries, reasons) = open(&bytes)
        .select(&selection(&[], &[64500, 64501]), false)
        .unwrap();
    assert_eq!(entries.len(), 2);
    let mut reasons: Vec<&str> = reasons.iter().collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["AS64500 Example", "AS64501 Other"]);
    let place = open(&bytes).place("192.0.2.7".parse().unwrap()).unwrap();
    assert_eq!(place.to_string(), "AS64500 Example");
}

#[test]
fn a_database_of_another_type_or_without_the_country_is_refused() {
    let bytes = database(
        "DBIP-ASN",
        &[("::192.0.2.0/120", json!({ "asn": 64500_u32 }))],
    );
    let error = |countries: &[&str], asns: &[u32], allow_empty| {
        let selected = open(&bytes).select(&selection(countries, asns), allow_empty);
        selected
            .map(|(entries, _)| entries.len())
            .map_err(|refused| refused.error)
    };
    let needs = "x.mmdb: has no countries, which `country` needs: its type is `DBIP-ASN`";
    assert_eq!(error(&["DE"], &[], true), Err(needs.to_owned()));
    assert_eq!(
        error(&[], &[64501], false),
        Err("x.mmdb: has no prefix of AS64501".to_owned())
    );
    assert_eq!(error(&[], &[64501], true), Ok(0));
    let bytes = database(
        "Country",
        &[("::192.0.2.0/120", json!({ "country_code": "DE" }))],
    );
    let selected = open(&bytes).select(&selection(&["DE"], &[64500]), false);
    assert_eq!(
        selected.unwrap_err().error,
        "x.mmdb: has no AS numbers, which `asn` needs: its type is `Country`"
    );
}

#[test]
fn a_file_that_is_cut_or_damaged_is_refused_and_never_panics() {
    let records = [("::192.0.2.0/120", json!({ "country_code": "DE" }))];
    let bytes = database("Country", &records);
    for end in 0..bytes.len() {
        let Err(refused) = Database::open("x.mmdb", &bytes[..end]) else {
            panic!("{end} of {} bytes", bytes.len());
        };
        let expected = "x.mmdb: is not a complete MaxMind database (mmdb)";
        assert!(refused.error.starts_with(expected), "{refused}");
    }
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            if let Ok(database) = Database::open("x.mmdb", &damaged) {
                let _ = database.select(&selection(&["DE"], &[]), true);
                let _ = database.place("192.0.2.1".parse().unwrap());
            }
        }
    }
}

#[test]
fn a_code_is_that_of_a_country() {
    assert_eq!("de".parse::<Country>().unwrap().to_string(), "DE");
    for code in ["UK", "EU", "D", "DEU", "", "ÄÖ"] {
        let unknown = code.parse::<Country>().unwrap_err();
        assert_eq!(unknown.to_string(), format!("there is no country `{code}`"));
    }
}

fn selection(countries: &[&str], asns: &[u32]) -> Selection {
    let countries = countries.iter().map(|code| code.parse().unwrap());
    Selection {
        countries: countries.collect(),
        asns: asns.iter().copied().collect(),
    }
}

fn open(bytes: &[u8]) -> Database<'_> {
    Database::open("x.mmdb", bytes).unwrap()
}

/// Writes a database of IPv6, which contains IPv4 as `::a.b.c.d`, as all that are published.
fn database(kind: &str, records: &[(&str, Value)]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.metadata.ip_version = IpVersion::V6;
    writer.metadata.binary_format_major_version = 2;
    writer.metadata.database_type = kind.to_owned();
    for (prefix, record) in records {
        let record = writer.insert_value(record).unwrap();
        let prefix: IpAddrWithMask = prefix.parse().unwrap();
        writer.insert_node(prefix, record);
    }
    writer.write_to(Vec::new()).unwrap()
}
