//! Reads databases in MaxMind's format (MMDB, version 2): the parts of a record about the location of a client.
//!
//! A database is traversed once and not kept in memory: its networks become a partition, its records locations.
//! Networks share records, and each record is decoded once.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use fairway_model::{
    ClientLocation, ClientMap, Continent, Coordinates, Country, MapLayer, MapSource, Network, PartitionBuilder,
    Subdivision,
};
use indexmap::IndexSet;
use maxminddb::{MaxMindDbError, Reader, WithinOptions};
use serde::Deserialize;

/// A record of a database. All parts are optional, and other parts are ignored.
#[derive(Debug, Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    continent: Option<ContinentRecord<'a>>,
    country: Option<CountryRecord<'a>>,
    registered_country: Option<CountryRecord<'a>>,
    #[serde(default)]
    subdivisions: Vec<CountryRecord<'a>>,
    location: Option<LocationRecord>,
    autonomous_system_number: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct ContinentRecord<'a> {
    code: Option<&'a str>,
}

#[derive(Debug, Deserialize)]
struct CountryRecord<'a> {
    iso_code: Option<&'a str>,
}

#[derive(Debug, Deserialize)]
struct LocationRecord {
    latitude: Option<f64>,
    longitude: Option<f64>,
}

impl From<Record<'_>> for ClientLocation {
    fn from(record: Record<'_>) -> Self {
        let code = |record: &Option<CountryRecord<'_>>| Country::new(record.as_ref()?.iso_code?);
        // If the country of a network is unknown, that of its holder is the best guess.
        let country = code(&record.country).or_else(|| code(&record.registered_country));
        let subdivision = || Subdivision::new(country?, record.subdivisions.first()?.iso_code?);
        let coordinates = || {
            let location = record.location.as_ref()?;
            Coordinates::from_degrees(location.latitude?, location.longitude?)
        };
        Self {
            region: None,
            continent: record.continent.as_ref().and_then(|c| c.code?.parse::<Continent>().ok()),
            subdivision: subdivision(),
            coordinates: coordinates(),
            asn: record.autonomous_system_number,
            country,
        }
    }
}

/// Reason why a database cannot be used; follows its path in messages.
#[derive(Debug)]
pub(super) struct Unusable(pub(super) String);

impl From<MaxMindDbError> for Unusable {
    fn from(error: MaxMindDbError) -> Self {
        Self(format!("is not an MMDB database, or is damaged: {error}"))
    }
}

/// Reads a database; `file` is its name in messages.
pub(super) fn read(bytes: &[u8], file: &str, records_max: usize) -> Result<MapLayer, Unusable> {
    let reader = Reader::from_source(bytes)?;
    // Locations by their numbers; the unknown location is 0.
    let mut places = IndexSet::from([ClientLocation::default()]);
    let mut by_offset: HashMap<usize, u32> = HashMap::new();
    let mut partition = PartitionBuilder::new(0);
    for (count, found) in reader.networks(WithinOptions::default())?.enumerate() {
        if count >= records_max {
            return Err(Unusable(format!("has more than {records_max} networks")));
        }
        let found = found?;
        let Some(offset) = found.offset() else { continue };
        let number = match by_offset.entry(offset) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let place = found.decode::<Record<'_>>()?.map(ClientLocation::from).unwrap_or_default();
                let (number, _) = places.insert_full(place);
                *new.insert(number as u32)
            }
        };
        let network = found.network()?;
        partition.add(Network::of(network.ip(), network.prefix()), number);
    }
    places.shift_remove_index(0);
    if places.is_empty() {
        let kind = &reader.metadata().database_type;
        return Err(Unusable(format!("is a database of type {kind:?} without any location or AS number")));
    }
    let source = MapSource::Database(Arc::from(file));
    Ok(MapLayer { partition: partition.finish(), locations: places.into_iter().collect(), sources: vec![source] })
}

// The numbers of locations have 32 bits.
const _: () = assert!(ClientMap::RECORDS_MAX <= u32::MAX as usize);
