//! A database in the `MaxMind` DB format.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

use maxminddb::{LookupResult, MaxMindDbError, Reader, WithinOptions};
use ratelimit_common::layout::LISTED_MAX;

use super::{Place, Selection, record::Record};
use crate::{
    lists::{Entry, NoList, ReasonId, Reasons},
    prefix::Prefix,
};

/// An open database.
pub struct Database<'a> {
    name: &'a str,
    reader: Reader<&'a [u8]>,
}

impl<'a> Database<'a> {
    /// Opens the database in `bytes`. `name` is the name of its file, for errors.
    ///
    /// # Errors
    ///
    /// Returns an error if this is not a database, or its end is missing.
    pub fn open(name: &'a str, bytes: &'a [u8]) -> Result<Self, NoList> {
        let reader = Reader::from_source(bytes).map_err(|error| NoList {
            error: format!("{name}: is not a complete MaxMind database (mmdb): {error}"),
            hint: "check whether the download was complete, and decompress .gz and .tar.gz files",
        })?;
        Ok(Self { name, reader })
    }

    /// Returns the country and network of an address, as far as the database knows them.
    pub fn place(&self, address: IpAddr) -> Option<Place> {
        let found = self.reader.lookup(address.to_canonical()).ok()?;
        let record: Record = found.decode().ok()??;
        Some(record.into())
    }

    /// Returns the prefixes of the selected countries and networks, with the reasons of entries.
    ///
    /// # Errors
    ///
    /// Returns an error if the database is damaged or has another type than the selection needs,
    /// and, unless `allow_empty`, if a selected country or network has no prefix.
    pub fn select(
        &self,
        selection: &Selection,
        allow_empty: bool,
    ) -> Result<(Vec<Entry>, Reasons), NoList> {
        let mut found = Found::default();
        let networks = self.reader.networks(WithinOptions::default());
        for network in networks.map_err(|error| self.damaged(&error))? {
            let taken = network.and_then(|network| found.take(&network, selection));
            taken.map_err(|error| self.damaged(&error))?;
            if found.entries.len() > LISTED_MAX as usize {
                let error = format!("selects more than {LISTED_MAX} prefixes, the maximum");
                return Err(self.no_list(&error, "select fewer countries or networks"));
            }
        }
        self.require_fields(selection, &found)?;
        let missing = found.missing(selection).filter(|_| !allow_empty);
        if let Some(missing) = missing {
            let error = format!("has no prefix of {missing}");
            let hint = "remove it, or set allow_empty = true";
            return Err(self.no_list(&error, hint));
        }
        Ok((found.entries, found.reasons))
    }

    /// Refuses a database that has no country, or no AS number, although one is selected.
    fn require_fields(&self, selection: &Selection, found: &Found) -> Result<(), NoList> {
        let kind = &self.reader.metadata().database_type;
        let lacks = |what: &str, hint| {
            let error = format!("has no {what}: its type is `{kind}`");
            Err(self.no_list(&error, hint))
        };
        if !selection.countries.is_empty() && !found.has_countries {
            return lacks(
                "countries, which `country` needs",
                "use a country or city database",
            );
        }
        if !selection.asns.is_empty() && !found.has_asns {
            return lacks("AS numbers, which `asn` needs", "use an ASN database");
        }
        Ok(())
    }

    fn damaged(&self, error: &MaxMindDbError) -> NoList {
        self.no_list(
            &format!("is damaged: {error}"),
            "download the database again",
        )
    }

    fn no_list(&self, error: &str, hint: &'static str) -> NoList {
        let error = format!("{}: {error}", self.name);
        NoList { error, hint }
    }
}

/// The prefixes that were found so far.
#[derive(Default)]
struct Found {
    entries: Vec<Entry>,
    reasons: Reasons,
    countries: BTreeSet<String>,
    asns: BTreeSet<u32>,
    has_countries: bool,
    has_asns: bool,
    /// The reasons of records by their offset. Many prefixes share a record.
    of_records: HashMap<usize, Option<ReasonId>>,
}

impl Found {
    fn take(
        &mut self,
        network: &LookupResult<'_, &[u8]>,
        selection: &Selection,
    ) -> Result<(), MaxMindDbError> {
        let known = network.offset().and_then(|at| self.of_records.get(&at));
        let reason = match known {
            Some(reason) => *reason,
            None => self.decode(network, selection)?,
        };
        let Some(reason) = reason else {
            return Ok(());
        };
        let network = network.network()?;
        let prefix = Prefix::around(network.ip(), network.prefix());
        self.entries.extend(prefix.map(|prefix| Entry {
            prefix,
            until: None,
            reason,
            facts: 0,
        }));
        Ok(())
    }

    fn decode(
        &mut self,
        network: &LookupResult<'_, &[u8]>,
        selection: &Selection,
    ) -> Result<Option<ReasonId>, MaxMindDbError> {
        let record: Option<Record> = network.decode()?;
        let place = record.map(Place::from).unwrap_or_default();
        self.has_countries |= place.country.is_some();
        self.has_asns |= place.asn.is_some();
        let reason = selection.reason(&place);
        let reason = reason.map(|reason| {
            self.countries.extend(place.country);
            self.asns.extend(place.asn);
            self.reasons.add(&reason)
        });
        if let Some(at) = network.offset() {
            self.of_records.insert(at, reason);
        }
        Ok(reason)
    }

    /// Returns the first selected country or network without a prefix.
    fn missing(&self, selection: &Selection) -> Option<String> {
        let mut countries = selection.countries.iter().map(ToString::to_string);
        let mut asns = selection.asns.iter();
        let country = countries.find(|it| !self.countries.contains(it));
        let asn = asns.find(|it| !self.asns.contains(it));
        let country = country.map(|code| format!("country {code}"));
        country.or_else(|| asn.map(|asn| format!("AS{asn}")))
    }
}
