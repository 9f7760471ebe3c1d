//! Prefixes that packets of a class go to, as their octets tell.

use std::{collections::BTreeSet, net::IpAddr};

use super::Class;
use crate::{ip_family::IpFamily, prefix::Prefix};

/// Prefixes of one family that differ at one octet at most, so that each octet can be matched
/// independently.
struct Group {
    prefixes: Vec<Prefix>,
    place: Option<usize>,
}

/// Splits the prefixes into few parts that can be matched by the octets at each position: an
/// address whose octets all occur in a part belongs to it.
pub fn parts(prefixes: &BTreeSet<Prefix>) -> Vec<Vec<Prefix>> {
    let [mut ipv4, ipv6] = IpFamily::ALL.map(|family| {
        let own = prefixes.iter().copied();
        groups(own.filter(move |prefix| IpFamily::of(prefix.address()) == family))
    });
    // Octets of the two families have separate entries, so they do not interfere.
    let both = ipv4.len().max(ipv6.len());
    ipv4.resize_with(both, Vec::new);
    for (part, others) in ipv4.iter_mut().zip(ipv6) {
        part.extend(others);
    }
    ipv4
}

fn groups(prefixes: impl Iterator<Item = Prefix>) -> Vec<Vec<Prefix>> {
    let mut groups: Vec<Group> = vec![];
    for prefix in prefixes {
        let joined = groups.iter_mut().any(|group| group.joins(prefix));
        if !joined {
            let (prefixes, place) = (vec![prefix], None);
            groups.push(Group { prefixes, place });
        }
    }
    groups.into_iter().map(|group| group.prefixes).collect()
}

impl Group {
    fn joins(&mut self, prefix: Prefix) -> bool {
        let Some(first) = self.prefixes.first() else {
            return false;
        };
        let pairs = octets(*first).into_iter().zip(octets(prefix));
        let mut places = pairs.enumerate().filter(|(_, (one, other))| one != other);
        let place = match (places.next(), places.next()) {
            (Some((place, _)), None) => Some(place),
            _ => return false,
        };
        let joins = self.place.is_none() || self.place == place;
        if joins {
            self.place = place;
            self.prefixes.push(prefix);
        }
        joins
    }
}

/// Returns the constrained bits of each octet, and their values.
fn octets(prefix: Prefix) -> Vec<(u8, u8)> {
    let octets = match prefix.address() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let mut left = prefix.len();
    let octets = octets.into_iter().map(|octet| {
        let said = left.min(8);
        left -= said;
        let mask = u8::MAX.checked_shr(said.into()).map_or(u8::MAX, |it| !it);
        (mask, octet)
    });
    octets.collect()
}

/// Whether an address of the prefix and a family has an octet at its place: a value of a
/// [property of destinations](ratelimit_common::class::Property::is_of_destination).
pub fn has(prefix: Prefix, family: IpFamily, value: u32) -> bool {
    let [_, _, place, octet] = value.to_be_bytes();
    let of_place = octets(prefix).get(usize::from(place)).copied();
    IpFamily::of(prefix.address()) == family
        && of_place.is_some_and(|(mask, own)| (octet ^ own) & mask == 0)
}

/// Returns whether the destinations of `narrow` are within those of `wide`.
pub fn is_within(narrow: &Class, wide: &Class) -> bool {
    let Some(around) = &wide.parts().destination else {
        return true;
    };
    let own = narrow.parts().destination.as_ref();
    own.is_some_and(|own| {
        let mut own = own.iter();
        own.all(|prefix| around.iter().any(|wide| wide.covers(*prefix)))
    })
}

/// The prefix that packets of both classes go to, where one of them says which.
pub enum Common {
    /// Neither says one.
    Any,
    /// A prefix in both.
    Prefix(Prefix),
    /// There is none.
    None,
}

/// A prefix that packets of both classes go to.
pub fn in_both(one: &Class, other: &Class) -> Common {
    let (one, other) = match (&one.parts().destination, &other.parts().destination) {
        (None, None) => return Common::Any,
        (Some(own), None) | (None, Some(own)) => (own, own),
        (Some(one), Some(other)) => (one, other),
    };
    let mut pairs = one
        .iter()
        .flat_map(|one| other.iter().map(move |other| (*one, *other)));
    let common = pairs.find_map(
        |(one, other)| match (one.covers(other), other.covers(one)) {
            (true, _) => Some(other),
            (_, true) => Some(one),
            (false, false) => None,
        },
    );
    common.map_or(Common::None, Common::Prefix)
}
