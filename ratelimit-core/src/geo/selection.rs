//! The countries and networks that a list or policy selects.

use std::{collections::BTreeSet, fmt, str::FromStr};

use super::{Place, countries};

/// A set of countries and networks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selection {
    /// The countries.
    pub countries: BTreeSet<Country>,
    /// AS numbers.
    pub asns: BTreeSet<u32>,
}

/// A country code of ISO 3166-1 in capital letters.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Country([u8; 2]);

/// The text is not a country code.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no country `{0}`")]
pub struct UnknownCountry(pub String);

impl FromStr for Country {
    type Err = UnknownCountry;

    fn from_str(text: &str) -> Result<Self, UnknownCountry> {
        let upper = text.to_ascii_uppercase();
        let code = countries::codes().find(|code| *code == upper);
        let code = code.and_then(|code| code.as_bytes().try_into().ok());
        code.map(Self)
            .ok_or_else(|| UnknownCountry(text.to_owned()))
    }
}

impl fmt::Display for Country {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.0.map(char::from);
        write!(formatter, "{first}{second}")
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let countries = self.countries.iter().map(|code| format!("country {code}"));
        let asns = self.asns.iter().map(|asn| format!("AS{asn}"));
        let parts: Vec<String> = countries.chain(asns).collect();
        formatter.write_str(&parts.join(", "))
    }
}

impl Selection {
    /// Returns the reason that entries of this place get; `None` if the place is not selected.
    pub fn reason(&self, place: &Place) -> Option<String> {
        if let Some(code) = &place.country
            && self.countries.iter().any(|it| it.to_string() == *code)
        {
            return Some(format!("country {code}"));
        }
        let asn = place.asn.filter(|asn| self.asns.contains(asn))?;
        Some(match &place.organization {
            Some(name) => format!("AS{asn} {name}"),
            None => format!("AS{asn}"),
        })
    }
}
