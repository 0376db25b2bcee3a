//! Settings of a pool's rankings by location: map, preferred regions, distance tolerance, latency table.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{ClientLocation, Continent, Country, LatencyTableName, MapName, Subdivision};

/// Settings of a pool's rankings by location.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LocationRules {
    /// The map of client locations; `None` means the only declared one.
    pub map: Option<MapName>,
    /// Preferred regions, for the ranking `geo`.
    pub geo: Geo,
    /// For the ranking `nearest`: members at most this many metres farther than the nearest one have equal rank; default 0.
    pub tolerance_metres: u32,
    /// The table for the ranking `latency`; `None` means the only declared one.
    pub latencies: Option<LatencyTableName>,
}

/// The regions that clients prefer, by their location.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Geo {
    /// The preferences; of those that match a client's location, the most specific one is used.
    pub prefer: Vec<Preference>,
    /// Regions for clients that no preference matches, preferred first; empty: all members have equal rank.
    pub default: Vec<Arc<str>>,
}

/// The regions that clients at a location prefer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Preference {
    /// The clients it applies to.
    pub clients: LocationMatch,
    /// Regions of clusters, preferred first. Members in other regions, or in none, rank after all of them.
    pub regions: Vec<Arc<str>>,
    /// True if these clients never get members in other regions or in none; default false.
    pub only: bool,
}

/// A condition on a client's location: all given parts must be equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LocationMatch {
    /// The region.
    pub region: Option<Arc<str>>,
    /// The number of the autonomous system.
    pub asn: Option<u32>,
    /// The subdivision of a country.
    pub subdivision: Option<Subdivision>,
    /// The country.
    pub country: Option<Country>,
    /// The continent.
    pub continent: Option<Continent>,
}

impl LocationMatch {
    /// Returns true if this location satisfies it.
    pub fn matches(&self, place: &ClientLocation) -> bool {
        let region = self.region.is_none() || self.region == place.region;
        let asn = self.asn.is_none() || self.asn == place.asn;
        let subdivision = self.subdivision.is_none() || self.subdivision == place.subdivision;
        let country = self.country.is_none() || self.country == place.country;
        let continent = self.continent.is_none() || self.continent == place.continent;
        region && asn && subdivision && country && continent
    }

    /// Returns how specific it is: a region or autonomous system over a subdivision, over a country, over a continent.
    /// Further parts add to it.
    pub fn specificity(&self) -> u8 {
        let parts = [
            (self.region.is_some() || self.asn.is_some(), 16),
            (self.region.is_some() && self.asn.is_some(), 8),
            (self.subdivision.is_some(), 4),
            (self.country.is_some(), 2),
            (self.continent.is_some(), 1),
        ];
        parts.iter().filter(|(is_given, _)| *is_given).map(|(_, weight)| weight).sum()
    }
}

impl Geo {
    /// Returns true if a client at this location gets members of its preferred regions only.
    pub fn is_only(&self, place: &ClientLocation) -> bool {
        self.regions(place).0.is_some_and(|number| self.prefer[number].only)
    }

    /// Returns the regions for a client at this location, preferred first, with the index of their preference: the most
    /// specific one that matches, and of equals the first. Without a match, the default.
    pub fn regions(&self, place: &ClientLocation) -> (Option<usize>, &[Arc<str>]) {
        let holding = self.prefer.iter().enumerate().filter(|(_, preference)| preference.clients.matches(place));
        // `max_by_key` returns the last of equals, so the order is reversed.
        let best = holding.rev().max_by_key(|(_, preference)| preference.clients.specificity());
        best.map_or((None, &self.default), |(number, preference)| (Some(number), &preference.regions))
    }
}

/// A bias of distances to a cluster, from -99 to 99; default 0.
///
/// A positive bias shortens distances by so many per cent: 50 halves them. A negative one lengthens them by division: -50
/// doubles them. (Route 53's geoproximity bias has the same scale.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Bias(i8);

impl Bias {
    /// Returns the bias; `None` outside -99 to 99.
    pub const fn new(hundredths: i8) -> Option<Self> {
        if hundredths.unsigned_abs() <= 99 { Some(Self(hundredths)) } else { None }
    }

    /// Returns the number, -99 to 99.
    pub const fn hundredths(self) -> i8 {
        self.0
    }

    /// Returns the biased distance.
    pub const fn of(self, metres: u64) -> u64 {
        let left = (100 - self.0.unsigned_abs()) as u64;
        if self.0 >= 0 { metres * left / 100 } else { metres * 100 / left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(country: Option<&str>, continent: Option<Continent>, region: Option<&str>) -> LocationMatch {
        LocationMatch {
            country: country.and_then(Country::new),
            continent,
            region: region.map(Into::into),
            ..LocationMatch::default()
        }
    }

    fn place(country: &str, region: Option<&str>) -> ClientLocation {
        let country = Country::new(country);
        let continent = country.and_then(Country::continent);
        ClientLocation { country, continent, region: region.map(Into::into), ..ClientLocation::default() }
    }

    #[test]
    fn most_specific_matching_preference_is_used_else_the_default() {
        let prefer = [
            (clients(None, Some(Continent::Europe), None), "eu"),
            (clients(Some("DE"), None, None), "de"),
            (clients(None, None, Some("dc1")), "dc1"),
            (clients(Some("DE"), Some(Continent::Europe), None), "de-eu"),
            (clients(Some("DE"), Some(Continent::Europe), None), "never"),
        ];
        let prefer = prefer
            .map(|(clients, region)| Preference { clients, regions: vec![region.into()], only: region == "dc1" })
            .to_vec();
        let geo = Geo { prefer, default: vec!["world".into()] };
        let first = |country: &str, region: Option<&str>| geo.regions(&place(country, region)).1[0].to_string();
        assert_eq!(first("FR", None), "eu");
        assert_eq!(first("DE", None), "de-eu");
        assert_eq!(first("DE", Some("dc1")), "dc1");
        assert_eq!(first("US", None), "world");
        assert_eq!(geo.regions(&place("FR", None)).0, Some(0));
        let only = |country: &str, region: Option<&str>| geo.is_only(&place(country, region));
        assert_eq!([only("FR", None), only("DE", Some("dc1")), only("US", None)], [false, true, false]);
    }

    #[test]
    fn bias_shortens_or_lengthens_a_distance() {
        let biased = |hundredths: i8| Bias::new(hundredths).unwrap().of(1_000);
        assert_eq!([0, 50, 99, -50, -99].map(biased), [1_000, 500, 10, 2_000, 100_000]);
        assert_eq!((Bias::new(100), Bias::new(-100), Bias::new(i8::MIN)), (None, None, None));
    }
}
