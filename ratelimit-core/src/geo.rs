//! Databases that map prefixes to a country or a network (AS number), in the `MaxMind` DB format.
//!
//! Lists select prefixes of a database (`mmdb`, `country` and `asn` of `[list.NAME]`), and answers
//! about a source name its country and network. No database is shipped because of their licences.

mod countries;
mod database;
mod record;
mod selection;
#[cfg(test)]
mod tests;

pub use self::{
    database::Database,
    selection::{Country, Selection, UnknownCountry},
};

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lists::{BadLines, Facts, Format, ListText, NoList, Reading};

/// Reads the selected prefixes of a database as a list.
///
/// # Errors
///
/// Returns those of [`Database::open`] and [`Database::select`].
pub fn read(
    source: ListText<'_>,
    selection: &Selection,
    allow_empty: bool,
) -> Result<Reading, NoList> {
    let database = Database::open(source.name, source.bytes)?;
    let (entries, reasons) = database.select(selection, allow_empty)?;
    Ok(Reading {
        format: Format::Mmdb,
        entries,
        reasons,
        facts: vec![Facts::default()],
        bad: BadLines::default(),
        skipped: std::collections::BTreeMap::new(),
        notes: Vec::new(),
        fetched: None,
    })
}

/// The country and network of an address.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Place {
    /// Country, as an ISO 3166-1 code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub country: Option<String>,
    /// Number of the autonomous system that announces the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asn: Option<u32>,
    /// Name of the network's operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
}

impl Place {
    /// Adds what another database knows.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            country: self.country.or(other.country),
            asn: self.asn.or(other.asn),
            organization: self.organization.or(other.organization),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asn = self.asn.map(|asn| format!("AS{asn}"));
        let parts = [&self.country, &asn, &self.organization];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        formatter.write_str(&parts.join(" "))
    }
}
