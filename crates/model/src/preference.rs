//! What a pool says of places: the map it goes by, preferences of regions, how far is as near, and its table of latencies.

use std::sync::Arc;

use crate::{ClientLocation, Continent, Country, LatencyTableName, MapName, Subdivision};

/// What a pool says of places, beside the rankings of its policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LocationRules {
    /// The map that tells where clients are; none stands for the only one there is.
    pub map: Option<MapName>,
    /// For the ranking `geo`.
    pub geo: Geo,
    /// For the ranking `nearest`: members at most this many metres farther than the nearest of them rank equal.
    pub tolerance_metres: u32,
    /// The table for the ranking `latency`; none stands for the only one there is.
    pub latencies: Option<LatencyTableName>,
}

/// Which regions clients of which places prefer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Geo {
    /// The preferences; for a client the most specific one counts that holds for its place.
    pub prefer: Vec<Preference>,
    /// The regions for clients of whom none holds, the preferred first; empty: all members rank equal.
    pub default: Vec<Arc<str>>,
}

/// The regions that clients of a place prefer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Preference {
    /// Whom it holds for.
    pub clients: LocationMatch,
    /// Regions of clusters, the preferred first. Members of other regions, or of none, come after all of them.
    pub regions: Vec<Arc<str>>,
    /// Whether members of other regions, or of none, are never answered to these clients. Default no.
    pub only: bool,
}

/// What must be known of a client's place: everything that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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
    /// Whether it holds for a client at this place.
    pub fn holds(&self, place: &ClientLocation) -> bool {
        let region = self.region.is_none() || self.region == place.region;
        let asn = self.asn.is_none() || self.asn == place.asn;
        let subdivision = self.subdivision.is_none() || self.subdivision == place.subdivision;
        let country = self.country.is_none() || self.country == place.country;
        let continent = self.continent.is_none() || self.continent == place.continent;
        region && asn && subdivision && country && continent
    }

    /// How specific it is, the higher the more: a region or an autonomous system before a subdivision, that before a country,
    /// that before a continent. What says more beside its most specific word goes before what says less.
    pub fn specificity(&self) -> u8 {
        let said = [
            (self.region.is_some() || self.asn.is_some(), 16),
            (self.region.is_some() && self.asn.is_some(), 8),
            (self.subdivision.is_some(), 4),
            (self.country.is_some(), 2),
            (self.continent.is_some(), 1),
        ];
        said.iter().filter(|(said, _)| *said).map(|(_, worth)| worth).sum()
    }
}

impl Geo {
    /// Whether a client at this place is answered with members of its preferred regions alone.
    pub fn is_only(&self, place: &ClientLocation) -> bool {
        self.regions(place).0.is_some_and(|number| self.prefer[number].only)
    }

    /// The regions for a client at this place, the preferred first: those of the most specific preference that holds, of
    /// equals the first declared, else the default. With it the number of that preference.
    pub fn regions(&self, place: &ClientLocation) -> (Option<usize>, &[Arc<str>]) {
        let holding = self.prefer.iter().enumerate().filter(|(_, preference)| preference.clients.holds(place));
        // Of equals `max_by_key` gives the last one.
        let best = holding.rev().max_by_key(|(_, preference)| preference.clients.specificity());
        best.map_or((None, &self.default), |(number, preference)| (Some(number), &preference.regions))
    }
}

/// How much farther than it is a cluster may lie and still draw clients, in hundredths from -99 to 99; default 0.
///
/// Above 0 distances to it are shortened by so many hundredths; below 0 they are divided by what is left of 100: 50 halves
/// them and -50 doubles them (as Route 53's geoproximity does).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bias(i8);

impl Bias {
    /// The bias of so many hundredths; none past 99 on either side.
    pub const fn new(hundredths: i8) -> Option<Self> {
        if hundredths.unsigned_abs() <= 99 { Some(Self(hundredths)) } else { None }
    }

    /// The hundredths.
    pub const fn hundredths(self) -> i8 {
        self.0
    }

    /// A distance as it counts with this bias.
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
    fn the_most_specific_preference_counts_whatever_the_order_and_the_default_where_none_holds() {
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
    fn a_bias_shortens_or_lengthens_a_distance() {
        let biased = |hundredths: i8| Bias::new(hundredths).unwrap().of(1_000);
        assert_eq!([0, 50, 99, -50, -99].map(biased), [1_000, 500, 10, 2_000, 100_000]);
        assert_eq!((Bias::new(100), Bias::new(-100), Bias::new(i8::MIN)), (None, None, None));
    }
}
