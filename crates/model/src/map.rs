//! Maps from client addresses to locations.

use std::{collections::HashMap, fmt, net::IpAddr, sync::Arc};

use crate::{ClientLocation, MapName, Network, Partition, PartitionMatch};

/// A map from client addresses to locations: declared networks take precedence over databases; all are merged into one
/// partition of the address space.
///
/// The location (region, country, continent, subdivision, coordinates) comes as a whole from the first source that has any
/// part of it, and the autonomous system number from the first source that has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientMap {
    name: MapName,
    /// Maps addresses to record numbers.
    partition: Partition,
    /// Record 0 is that of an address about which nothing is known.
    records: Vec<MapRecord>,
    sources: Vec<MapSource>,
}

/// The entry of a block of addresses, with its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct MapRecord {
    location: ClientLocation,
    /// Index of the source of the location.
    location_source: Option<u32>,
    /// Index of the source of the autonomous system number.
    asn_source: Option<u32>,
}

/// The source of an entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapSource {
    /// A network that is declared in the map.
    Network(Network),
    /// A database, by its file name.
    Database(Arc<str>),
}

impl fmt::Display for MapSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => write!(f, "network {network} of the map"),
            Self::Database(file) => write!(f, "database {file}"),
        }
    }
}

/// The entry of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapEntry<'m> {
    /// The largest block of addresses with the same entry from the same source.
    pub block: Network,
    /// The location.
    pub location: &'m ClientLocation,
    /// The source of the location; `None` if nothing is known.
    pub location_source: Option<&'m MapSource>,
    /// The source of the autonomous system number.
    pub asn_source: Option<&'m MapSource>,
}

/// The entries of one source.
#[derive(Clone, Debug)]
pub struct MapLayer {
    /// Maps addresses to the numbers of locations, from 1; 0 if the source has no entry.
    pub partition: Partition,
    /// The locations.
    pub locations: Vec<ClientLocation>,
    /// Their sources: one for all locations, or one per location.
    pub sources: Vec<MapSource>,
}

impl MapLayer {
    /// Returns two layers of declared networks: of an address, the most specific network with a location gives the location,
    /// and the most specific one with an autonomous system gives that.
    pub fn of_networks(networks: &[(Network, ClientLocation)]) -> [Self; 2] {
        let layer = |keep: &dyn Fn(&ClientLocation) -> ClientLocation| {
            let kept = networks.iter().map(|(network, location)| (*network, keep(location)));
            let kept: Vec<_> = kept.filter(|(_, location)| *location != ClientLocation::default()).collect();
            let numbered = (1..).zip(&kept).map(|(number, (network, _))| (*network, number));
            Self {
                partition: Partition::of_networks(numbered, 0),
                sources: kept.iter().map(|(network, _)| MapSource::Network(*network)).collect(),
                locations: kept.into_iter().map(|(_, location)| location).collect(),
            }
        };
        [
            layer(&|location| ClientLocation { asn: None, ..location.clone() }),
            layer(&|location| ClientLocation { asn: location.asn, ..ClientLocation::default() }),
        ]
    }
}

impl ClientMap {
    /// Largest number of declared networks.
    pub const NETWORKS_MAX: usize = 100_000;
    /// Largest number of databases.
    pub const DATABASES_MAX: usize = 16;
    /// Largest number of networks of one database: three times that of the largest ones in 2026.
    pub const RECORDS_MAX: usize = 1 << 24;

    /// Returns the map of these layers; earlier layers take precedence.
    pub fn new(name: MapName, layers: impl IntoIterator<Item = MapLayer>) -> Self {
        let mut map =
            Self { name, partition: Partition::uniform(0), records: vec![MapRecord::default()], sources: Vec::new() };
        for layer in layers {
            map.add_below(layer);
        }
        map
    }

    /// Returns the name.
    pub fn name(&self) -> &MapName {
        &self.name
    }

    /// Returns the entry of an address.
    pub fn entry(&self, address: IpAddr) -> MapEntry<'_> {
        let PartitionMatch { value, length } = self.partition.find(address);
        let record = &self.records[value as usize];
        let source = |number: Option<u32>| number.map(|number| &self.sources[number as usize]);
        MapEntry {
            block: Network::of(address, length),
            location: &record.location,
            location_source: source(record.location_source),
            asn_source: source(record.asn_source),
        }
    }

    /// Returns the partition of addresses to indexes of [`ClientMap::locations`].
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Returns all locations; the first one is that of an address about which nothing is known. A location occurs several
    /// times if it has several sources.
    pub fn locations(&self) -> impl ExactSizeIterator<Item = &ClientLocation> {
        self.records.iter().map(|record| &record.location)
    }

    /// Returns its approximate size in bytes.
    pub fn size_in_bytes(&self) -> usize {
        self.partition.size_in_bytes() + self.records.len() * size_of::<MapRecord>()
    }

    fn add_below(&mut self, layer: MapLayer) {
        let first_source = self.sources.len();
        let one_for_all = layer.sources.len() == 1;
        self.sources.extend(layer.sources);
        let mut records = vec![MapRecord::default()];
        let mut by_record = HashMap::from([(MapRecord::default(), 0)]);
        let mut combined = HashMap::from([((0, 0), 0)]);
        self.partition = self.partition.overlay(&layer.partition, |above, below| {
            *combined.entry((above, below)).or_insert_with(|| {
                // Numbers of locations count from 1; 0 means that the layer has none.
                let index = (below as usize).checked_sub(1).filter(|index| *index < layer.locations.len());
                let source = index.map_or(0, |index| first_source + if one_for_all { 0 } else { index });
                let location = index.map(|index| &layer.locations[index]);
                let record = self.records[above as usize].over(location, source as u32);
                let next = records.len() as u32;
                *by_record.entry(record).or_insert_with_key(|record| {
                    records.push(record.clone());
                    next
                })
            })
        });
        self.records = records;
    }
}

impl MapRecord {
    /// Returns the record with what it lacks filled in from a further source.
    fn over(&self, below: Option<&ClientLocation>, source: u32) -> Self {
        let mut record = self.clone();
        let Some(below) = below else { return record };
        if record.location_source.is_none()
            && *below != (ClientLocation { asn: below.asn, ..ClientLocation::default() })
        {
            record.location = ClientLocation { asn: record.location.asn, ..below.clone().completed() };
            record.location_source = Some(source);
        }
        if record.asn_source.is_none() && below.asn.is_some() {
            record.location.asn = below.asn;
            record.asn_source = Some(source);
        }
        record
    }
}

impl ClientLocation {
    /// Returns the location with the country of its subdivision and the continent of its country, if they are missing.
    fn completed(mut self) -> Self {
        self.country = self.country.or_else(|| self.subdivision.map(|subdivision| subdivision.country));
        self.continent = self.continent.or_else(|| self.country?.continent());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Continent, Country};

    fn country(letters: &str) -> ClientLocation {
        ClientLocation { country: Country::new(letters), ..ClientLocation::default() }
    }

    fn region(name: &str) -> ClientLocation {
        ClientLocation { region: Some(name.into()), ..ClientLocation::default() }
    }

    fn asn(number: u32) -> ClientLocation {
        ClientLocation { asn: Some(number), ..ClientLocation::default() }
    }

    fn database(file: &str, networks: &[(&str, ClientLocation)]) -> MapLayer {
        let numbered = (1..).zip(networks).map(|(number, (network, _))| (network.parse().unwrap(), number));
        MapLayer {
            partition: Partition::of_networks(numbered, 0),
            locations: networks.iter().map(|(_, location)| location.clone()).collect(),
            sources: vec![MapSource::Database(file.into())],
        }
    }

    fn map(networks: &[(&str, ClientLocation)], databases: Vec<MapLayer>) -> ClientMap {
        let networks: Vec<_> =
            networks.iter().map(|(network, location)| (network.parse().unwrap(), location.clone())).collect();
        let layers = MapLayer::of_networks(&networks).into_iter().chain(databases);
        ClientMap::new(MapName::new("world").unwrap(), layers)
    }

    fn shown(map: &ClientMap, address: &str) -> String {
        let entry = map.entry(address.parse().unwrap());
        let from = |source: Option<&MapSource>| source.map_or_else(|| "-".to_owned(), ToString::to_string);
        format!("{} {} ({}; {})", entry.block, entry.location, from(entry.location_source), from(entry.asn_source))
    }

    #[test]
    fn declared_network_overrides_databases_and_wider_networks() {
        let networks = [("10.0.0.0/8", region("dc")), ("10.1.0.0/16", region("dc1")), ("10.1.2.0/24", asn(64_500))];
        let map = map(&networks, vec![database("a.mmdb", &[("10.0.0.0/7", country("DE"))])]);
        assert_eq!(shown(&map, "10.9.0.1"), "10.8.0.0/13 region dc (network 10.0.0.0/8 of the map; -)");
        assert_eq!(
            shown(&map, "10.1.2.3"),
            "10.1.2.0/24 region dc1, AS 64500 (network 10.1.0.0/16 of the map; network 10.1.2.0/24 of the map)"
        );
        assert_eq!(shown(&map, "11.0.0.1"), "11.0.0.0/8 country DE, continent EU (database a.mmdb; -)");
        assert_eq!(shown(&map, "192.0.2.1"), "128.0.0.0/1 nowhere (-; -)");
        assert_eq!(shown(&map, "2001:db8::1"), "::/0 nowhere (-; -)");
    }

    #[test]
    fn location_and_asn_each_come_from_the_first_database_with_one() {
        let city = database("city.mmdb", &[("192.0.2.0/25", country("US")), ("2001:db8::/32", country("JP"))]);
        let numbers = database("asn.mmdb", &[("192.0.2.0/24", asn(64_496))]);
        let other = database("other.mmdb", &[("192.0.2.0/24", country("FR"))]);
        let map = map(&[], vec![city, numbers, other]);
        assert_eq!(
            shown(&map, "192.0.2.1"),
            "192.0.2.0/25 country US, continent NA, AS 64496 (database city.mmdb; database asn.mmdb)"
        );
        assert_eq!(
            shown(&map, "192.0.2.200"),
            "192.0.2.128/25 country FR, continent EU, AS 64496 (database other.mmdb; database asn.mmdb)"
        );
        assert_eq!(map.entry("2001:db8::1".parse().unwrap()).location.continent, Some(Continent::Asia));
    }

    #[test]
    fn equal_neighbouring_entries_are_one_block() {
        let halves = [("192.0.2.0/25", country("US")), ("192.0.2.128/25", country("US"))];
        let map = map(&[], vec![database("a.mmdb", &halves)]);
        assert_eq!(map.entry("192.0.2.1".parse().unwrap()).block.to_string(), "192.0.2.0/24");
        assert_eq!(map.locations().len(), 2);
    }
}
