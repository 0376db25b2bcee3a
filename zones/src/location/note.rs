//! Describes a client's location for people. Class and block are described by the pool, whose views may split them
//! further.

use std::{fmt, net::IpAddr};

use super::CompiledRankings;

/// Location of a client, with sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationNote {
    /// Address that was looked up.
    pub address: IpAddr,
    /// Location in the map, such as `country DE, continent EU`. `None` if the pool uses no map.
    pub place: Option<String>,
    /// Block and source of the map's entry, such as `203.0.113.0/24, database GeoLite2-Country.mmdb`.
    pub place_from: Option<String>,
    /// Latencies by cluster, such as `eu1 12 ms`. `None` if the pool uses no latency table.
    pub latencies: Option<String>,
    /// Index of the preference of `geo` that applies.
    pub preference: Option<usize>,
}

impl CompiledRankings {
    /// Describes the location of an address.
    pub(crate) fn describe(&self, address: IpAddr) -> LocationNote {
        let entry = self.inputs.map.as_ref().map(|map| map.entry(address));
        let from = entry.as_ref().and_then(|entry| {
            let (place, asn) = (entry.location_source, entry.asn_source);
            let asn = asn.filter(|asn| Some(*asn) != place);
            let both = [place.map(ToString::to_string), asn.map(|asn| format!("AS from {asn}"))];
            let both: Vec<_> = both.into_iter().flatten().collect();
            (!both.is_empty()).then(|| format!("{}, {}", entry.block, both.join(", ")))
        });
        let prefers = !self.inputs.geo.prefer.is_empty();
        LocationNote {
            address,
            place: entry.as_ref().map(|entry| entry.location.to_string()),
            place_from: from,
            latencies: self.latencies(address),
            preference: entry.as_ref().filter(|_| prefers).and_then(|entry| self.inputs.geo.regions(entry.location).0),
        }
    }

    fn latencies(&self, address: IpAddr) -> Option<String> {
        let table = self.inputs.latencies.as_ref()?;
        let (block, class) = table.entry(address);
        let known = self.inputs.members.iter().filter_map(|member| {
            let column = member.column?;
            Some((table.clusters().get(column)?, (*class.get(column)?)?))
        });
        let known = known.map(|(cluster, latency)| format!("{cluster} {latency}"));
        let known: Vec<_> = known.collect();
        Some(if known.is_empty() { "none known".to_owned() } else { format!("{} ({block})", known.join(", ")) })
    }
}

impl fmt::Display for LocationNote {
    /// `203.0.113.7 -> country DE, continent EU (203.0.113.0/24, database x.mmdb); geo.prefer[0] applies`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if let Some(place) = &self.place {
            write!(f, " -> {place}")?;
        }
        if let Some(from) = &self.place_from {
            write!(f, " ({from})")?;
        }
        if let Some(latencies) = &self.latencies {
            write!(f, "; latencies: {latencies}")?;
        }
        if let Some(preference) = self.preference {
            write!(f, "; geo.prefer[{preference}] applies")?;
        }
        Ok(())
    }
}
