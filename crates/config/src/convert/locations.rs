//! Maps, latency tables, and the location rules of pools.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Arguments,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fairway_model::{
    ClientLocation, ClientMap, Coordinates, Geo, LatencyTable, LatencyTableName, LocationMatch, LocationRules, MapName,
    Network, Preference, Subject,
};

use super::Converter;
use crate::{
    bounds_wire::{Float, Int, List, Text},
    maps::{DeclaredMap, DeclaredTable, FileError, MapCache, pushed_file},
    v1_location,
    values_location::{Distance, Milliseconds},
    values_wire::As,
};

/// Maps and latency tables by name, and their cache for the next load.
pub(super) struct Maps {
    pub(super) maps: BTreeMap<MapName, Arc<ClientMap>>,
    pub(super) latencies: BTreeMap<LatencyTableName, Arc<LatencyTable>>,
    pub(super) cache: MapCache,
}

/// Reads maps and tables. Unchanged ones are taken from the previous load.
///
/// Tables without a file are read from the data folder, where the API keeps pushed tables.
pub(super) fn maps(
    converter: &mut Converter<'_, '_>,
    maps: Vec<v1_location::Map>,
    tables: Vec<v1_location::Latencies>,
    data_dir: Option<&Path>,
) -> Maps {
    let previous = converter.context.previous.map(|previous| previous.maps);
    let mut read = Maps { maps: BTreeMap::new(), latencies: BTreeMap::new(), cache: MapCache::default() };
    for (index, wire) in maps.into_iter().enumerate() {
        let pointer = format!("/maps/{index}");
        let declared = declared_map(converter, &pointer, wire);
        let (name, databases) = (declared.name.clone(), declared.databases.clone());
        if !converter.declare(Subject::Map(name.clone()), index) {
            continue;
        }
        let map = read.cache.map(declared, previous, converter.files()).unwrap_or_else(|diagnostics| {
            converter.report_files(diagnostics, |number| {
                (format!("{pointer}/databases/{number}"), databases.get(number).cloned().unwrap_or_default())
            });
            // It counts as declared, so that pools that refer to it have no error.
            Arc::new(ClientMap::new(name.clone(), []))
        });
        read.maps.insert(name, map);
    }
    for (index, wire) in tables.into_iter().enumerate() {
        let (As(name), pointer) = (wire.name, format!("/latencies/{index}/file"));
        let declared_file = wire.file.map(|Text(file)| converter.path(&pointer, &file));
        let kept_file = || data_dir.map(|folder| folder.join(pushed_file(&name)));
        let (pushed, file) = (declared_file.is_none(), declared_file.or_else(kept_file).unwrap_or_default());
        if !converter.declare(Subject::Latencies(name.clone()), index) {
            continue;
        }
        let declared = DeclaredTable { name: name.clone(), file: file.clone(), pushed };
        let table = read.cache.latencies(declared, previous, converter.files()).unwrap_or_else(|diagnostics| {
            converter.report_files(diagnostics, |_| (pointer.clone(), file.clone()));
            Arc::new(LatencyTable::new(name.clone(), Vec::new(), Vec::new()))
        });
        read.latencies.insert(name, table);
    }
    read
}

fn declared_map(converter: &mut Converter<'_, '_>, pointer: &str, wire: v1_location::Map) -> DeclaredMap {
    let (databases, networks) = (wire.databases.map(|List(list)| list), wire.networks.map(|List(list)| list));
    if databases.is_none() && networks.is_none() {
        let what = format!("map {} has no databases and no networks", wire.name.0);
        converter.error(pointer, what, "add databases or networks");
    }
    let numbered = databases.iter().flatten().enumerate();
    let path = |(number, Text(path)): (usize, &Text<1>)| converter.path(&format!("{pointer}/databases/{number}"), path);
    let databases = numbered.map(path).collect();
    let mut declared: BTreeMap<Network, ClientLocation> = BTreeMap::new();
    for (number, wire) in networks.unwrap_or_default().into_iter().enumerate() {
        let As(network) = wire.network;
        let location = client_location(converter, format_args!("{pointer}/networks/{number}"), wire);
        if declared.insert(network, location).is_some() {
            let what = format!("{network} is repeated in this map");
            converter.error(format_args!("{pointer}/networks/{number}/network"), what, "remove one");
        }
    }
    DeclaredMap { name: wire.name.0, networks: declared.into_iter().collect(), databases }
}

fn client_location(
    converter: &mut Converter<'_, '_>,
    pointer: Arguments<'_>,
    wire: v1_location::MapNetwork,
) -> ClientLocation {
    let As(network) = wire.network;
    let location = ClientLocation {
        region: wire.region.map(|Text(region)| region.into()),
        country: wire.country.map(|As(country)| country),
        continent: wire.continent.map(|As(continent)| continent),
        subdivision: wire.subdivision.map(|As(subdivision)| subdivision),
        coordinates: wire.latitude.zip(wire.longitude).and_then(|(Float(n), Float(e))| Coordinates::from_degrees(n, e)),
        asn: wire.asn.map(|Int(asn)| asn),
    };
    if wire.latitude.is_some() != wire.longitude.is_some() {
        let what = "latitude and longitude must be given together";
        converter.error(pointer, what, "add the missing one, or remove the other one");
    } else if location == ClientLocation::default() {
        let what = format!("{network} has no location");
        converter.error(pointer, what, "give region, country, continent, subdivision, coordinates or asn");
    }
    location
}

/// Keys of a pool about locations, as written in a file.
pub(super) struct LocationKeys {
    pub(super) map: Option<As<MapName>>,
    pub(super) geo: Option<v1_location::Geo>,
    pub(super) nearest: Option<v1_location::Nearest>,
    pub(super) latency: Option<v1_location::Latency>,
}

/// Converts the keys of a pool about locations.
pub(super) fn rules(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: LocationKeys) -> LocationRules {
    LocationRules {
        map: wire.map.map(|As(name)| name),
        geo: wire.geo.map(|wire| geo(converter, pointer, wire)).unwrap_or_default(),
        tolerance_metres: wire.nearest.and_then(|wire| wire.tolerance).map_or(0, |As(Distance(metres))| metres),
        latencies: wire.latency.and_then(|wire| wire.table).map(|As(name)| name),
    }
}

fn geo(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: v1_location::Geo) -> Geo {
    let regions = |list: Vec<Text<1, 64>>| list.into_iter().map(|Text(region)| region.into()).collect();
    let (mut prefer, mut seen) = (Vec::new(), HashSet::new());
    for (number, wire) in wire.prefer.map(|List(list)| list).unwrap_or_default().into_iter().enumerate() {
        let clients = LocationMatch {
            region: wire.clients.region.map(|Text(region)| region.into()),
            asn: wire.clients.asn.map(|Int(asn)| asn),
            subdivision: wire.clients.subdivision.map(|As(subdivision)| subdivision),
            country: wire.clients.country.map(|As(country)| country),
            continent: wire.clients.continent.map(|As(continent)| continent),
        };
        let at = format_args!("{pointer}/geo/prefer/{number}/where").to_string();
        if clients == LocationMatch::default() {
            converter.error(&at, "where has no key", "give a location, or write its regions as default");
        }
        if !seen.insert(clients.clone()) {
            converter.error(&at, "an earlier preference has the same clients", "merge them");
        }
        let only = wire.only.unwrap_or_default();
        prefer.push(Preference { clients, regions: regions(wire.regions.0), only });
    }
    Geo { prefer, default: wire.default.map(|List(list)| regions(list)).unwrap_or_default() }
}

/// Returns the largest difference in latency at which members rank equal.
pub(super) fn latency_tolerance(wire: Option<&v1_location::Latency>) -> Duration {
    let given = wire.and_then(|wire| wire.tolerance.as_ref());
    given.map_or(LATENCY_TOLERANCE, |As(Milliseconds(number))| Duration::from_millis(u64::from(*number)))
}

impl Converter<'_, '_> {
    /// Reports the errors of files. `named` returns the pointer and path of a file by its index.
    fn report_files(&mut self, diagnostics: Vec<FileError>, named: impl Fn(usize) -> (String, PathBuf)) {
        for diagnostic in diagnostics {
            match diagnostic {
                FileError::Line(diagnostic) => self.context.report(diagnostic),
                FileError::Whole(number, why) => {
                    let (pointer, path) = named(number);
                    self.error(pointer, format!("{} {}", path.display(), why.what), why.hint);
                }
            }
        }
    }
}

/// Smaller differences are noise in most measurements.
const LATENCY_TOLERANCE: Duration = Duration::from_millis(10);
