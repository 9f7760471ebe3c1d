//! The records of the databases in use: those of `MaxMind`, DB-IP, `IP2Location` and `IPinfo`.

use serde::Deserialize;

use super::Place;

/// The fields of all of them that name a country or a network.
#[derive(Deserialize)]
pub struct Record {
    #[serde(default)]
    country: Option<Country>,
    #[serde(default)]
    country_code: Option<String>,
    #[serde(default)]
    autonomous_system_number: Option<Asn>,
    #[serde(default)]
    autonomous_system_organization: Option<String>,
    #[serde(default)]
    asn: Option<Asn>,
    #[serde(default)]
    as_name: Option<String>,
}

/// `IPinfo` has a code or a name instead of the table.
#[derive(Deserialize)]
#[serde(untagged)]
enum Country {
    Table {
        #[serde(default)]
        iso_code: Option<String>,
    },
    Text(String),
}

/// `IPinfo` has `AS64500`, and other writers have integers of any width.
#[derive(Deserialize)]
#[serde(untagged)]
enum Asn {
    Number(u64),
    Text(String),
}

impl From<Record> for Place {
    fn from(record: Record) -> Self {
        let of_country = record.country.and_then(|country| match country {
            Country::Table { iso_code } => iso_code,
            Country::Text(text) => (text.len() == 2).then_some(text),
        });
        let asn = record.autonomous_system_number.or(record.asn);
        let asn = asn.and_then(|asn| match asn {
            Asn::Number(number) => u32::try_from(number).ok(),
            Asn::Text(text) => text.trim_start_matches("AS").parse().ok(),
        });
        Self {
            country: record.country_code.or(of_country),
            asn,
            organization: record.autonomous_system_organization.or(record.as_name),
        }
    }
}
