//! `mmdb`, `country` and `asn` of a list or policy: prefixes from a database of countries or
//! networks.

use std::path::PathBuf;

use super::table::{Section, Value};
use crate::{
    diagnostic::Problem,
    geo::{Country, Selection, UnknownCountry},
};

const MMDB: &str = "mmdb = \"/var/lib/ratelimit-lists/country.mmdb\"";
const COUNTRY: &str = "country = [\"DE\", \"AT\"]";
const ASN: &str = "asn = [64500]";

/// Reads the file of the database and the selection; `None` if there is no `mmdb`.
pub fn read(section: &mut Section<'_>) -> Option<(Option<PathBuf>, Selection)> {
    let file = section.take("mmdb");
    let [countries, asns] = ["country", "asn"].map(|key| section.take(key));
    let Some(file) = file else {
        for key in [countries, asns].into_iter().flatten() {
            let message = "`country` and `asn` select prefixes of a database";
            key.complain(message, format!("add {MMDB}"));
        }
        return None;
    };
    if countries.is_none() && asns.is_none() {
        let message = "`mmdb` without `country` and `asn` selects nothing";
        file.complain(message, format!("add for example {COUNTRY} or {ASN}"));
    }
    let countries = countries.and_then(|value| value.each(COUNTRY, read_country));
    let asns = asns.and_then(|value| value.each(ASN, |it| it.integer_in(1..=u32::MAX, 64_500)));
    let selection = Selection {
        countries: countries.unwrap_or_default(),
        asns: asns.unwrap_or_default(),
    };
    Some((file.absolute_path(MMDB), selection))
}

fn read_country(value: &Value<'_>) -> Option<Country> {
    let text = value.text(COUNTRY)?;
    let hint = "write a code of ISO 3166-1 such as \"DE\" (for the United Kingdom \"GB\")";
    value.accept(
        text.parse()
            .map_err(|error: UnknownCountry| Problem::new(error.to_string(), hint)),
    )
}
