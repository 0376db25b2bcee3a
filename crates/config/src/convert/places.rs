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

use super::Meaning;
use crate::{
    bounds_wire::{Float, Int, List, Text},
    maps::{FileFault, KeptMaps, MapText, TableText, pushed_file},
    v1_place,
    values_place::{Distance, Milliseconds},
    values_wire::As,
};

/// Maps and latency tables by name, and their cache for the next load.
pub(super) struct Maps {
    pub(super) maps: BTreeMap<MapName, Arc<ClientMap>>,
    pub(super) latencies: BTreeMap<LatencyTableName, Arc<LatencyTable>>,
    pub(super) kept: KeptMaps,
}

/// Reads maps and tables. Unchanged ones are taken from the previous load.
///
/// Tables without a file are read from the data folder, where the API keeps pushed tables.
pub(super) fn maps(
    meaning: &mut Meaning<'_, '_>,
    maps: Vec<v1_place::Map>,
    tables: Vec<v1_place::Latencies>,
    data_dir: Option<&Path>,
) -> Maps {
    let before = meaning.reader.before.map(|before| before.maps);
    let mut read = Maps { maps: BTreeMap::new(), latencies: BTreeMap::new(), kept: KeptMaps::default() };
    for (index, wire) in maps.into_iter().enumerate() {
        let pointer = format!("/maps/{index}");
        let said = map_text(meaning, &pointer, wire);
        let (name, databases) = (said.name.clone(), said.databases.clone());
        if !meaning.declare(Subject::Map(name.clone()), index) {
            continue;
        }
        let map = read.kept.map(said, before, meaning.files()).unwrap_or_else(|faults| {
            meaning.file_faults(faults, |number| {
                (format!("{pointer}/databases/{number}"), databases.get(number).cloned().unwrap_or_default())
            });
            // It counts as declared, so that pools that refer to it have no error.
            Arc::new(ClientMap::new(name.clone(), []))
        });
        read.maps.insert(name, map);
    }
    for (index, wire) in tables.into_iter().enumerate() {
        let (As(name), pointer) = (wire.name, format!("/latencies/{index}/file"));
        let said_file = wire.file.map(|Text(file)| meaning.path(&pointer, &file));
        let kept_file = || data_dir.map(|folder| folder.join(pushed_file(&name)));
        let (pushed, file) = (said_file.is_none(), said_file.or_else(kept_file).unwrap_or_default());
        if !meaning.declare(Subject::Latencies(name.clone()), index) {
            continue;
        }
        let said = TableText { name: name.clone(), file: file.clone(), pushed };
        let table = read.kept.latencies(said, before, meaning.files()).unwrap_or_else(|faults| {
            meaning.file_faults(faults, |_| (pointer.clone(), file.clone()));
            Arc::new(LatencyTable::new(name.clone(), Vec::new(), Vec::new()))
        });
        read.latencies.insert(name, table);
    }
    read
}

fn map_text(meaning: &mut Meaning<'_, '_>, pointer: &str, wire: v1_place::Map) -> MapText {
    let (databases, networks) = (wire.databases.map(|List(list)| list), wire.networks.map(|List(list)| list));
    if databases.is_none() && networks.is_none() {
        let what = format!("map {} has no databases and no networks", wire.name.0);
        meaning.error(pointer, what, "add databases or networks");
    }
    let numbered = databases.iter().flatten().enumerate();
    let path = |(number, Text(path)): (usize, &Text<1>)| meaning.path(&format!("{pointer}/databases/{number}"), path);
    let databases = numbered.map(path).collect();
    let mut declared: BTreeMap<Network, ClientLocation> = BTreeMap::new();
    for (number, wire) in networks.unwrap_or_default().into_iter().enumerate() {
        let As(network) = wire.network;
        let place = client_place(meaning, format_args!("{pointer}/networks/{number}"), wire);
        if declared.insert(network, place).is_some() {
            let what = format!("{network} is repeated in this map");
            meaning.error(format_args!("{pointer}/networks/{number}/network"), what, "remove one");
        }
    }
    MapText { name: wire.name.0, networks: declared.into_iter().collect(), databases }
}

fn client_place(meaning: &mut Meaning<'_, '_>, pointer: Arguments<'_>, wire: v1_place::MapNetwork) -> ClientLocation {
    let As(network) = wire.network;
    let place = ClientLocation {
        region: wire.region.map(|Text(region)| region.into()),
        country: wire.country.map(|As(country)| country),
        continent: wire.continent.map(|As(continent)| continent),
        subdivision: wire.subdivision.map(|As(subdivision)| subdivision),
        coordinates: wire.latitude.zip(wire.longitude).and_then(|(Float(n), Float(e))| Coordinates::from_degrees(n, e)),
        asn: wire.asn.map(|Int(asn)| asn),
    };
    if wire.latitude.is_some() != wire.longitude.is_some() {
        let what = "latitude and longitude must be given together";
        meaning.error(pointer, what, "add the missing one, or remove the other one");
    } else if place == ClientLocation::default() {
        let what = format!("{network} has no location");
        meaning.error(pointer, what, "give region, country, continent, subdivision, coordinates or asn");
    }
    place
}

/// Keys of a pool about locations, as written in a file.
pub(super) struct Said {
    pub(super) map: Option<As<MapName>>,
    pub(super) geo: Option<v1_place::Geo>,
    pub(super) nearest: Option<v1_place::Nearest>,
    pub(super) latency: Option<v1_place::Latency>,
}

/// Converts the keys of a pool about locations.
pub(super) fn rules(meaning: &mut Meaning<'_, '_>, pointer: Arguments<'_>, wire: Said) -> LocationRules {
    LocationRules {
        map: wire.map.map(|As(name)| name),
        geo: wire.geo.map(|wire| geo(meaning, pointer, wire)).unwrap_or_default(),
        tolerance_metres: wire.nearest.and_then(|wire| wire.tolerance).map_or(0, |As(Distance(metres))| metres),
        latencies: wire.latency.and_then(|wire| wire.table).map(|As(name)| name),
    }
}

fn geo(meaning: &mut Meaning<'_, '_>, pointer: Arguments<'_>, wire: v1_place::Geo) -> Geo {
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
            meaning.error(&at, "where has no key", "give a location, or write its regions as default");
        }
        if !seen.insert(clients.clone()) {
            meaning.error(&at, "an earlier preference has the same clients", "merge them");
        }
        let only = wire.only.unwrap_or_default();
        prefer.push(Preference { clients, regions: regions(wire.regions.0), only });
    }
    Geo { prefer, default: wire.default.map(|List(list)| regions(list)).unwrap_or_default() }
}

/// Returns the largest difference in latency at which members rank equal.
pub(super) fn latency_tolerance(wire: Option<&v1_place::Latency>) -> Duration {
    let given = wire.and_then(|wire| wire.tolerance.as_ref());
    given.map_or(LATENCY_TOLERANCE, |As(Milliseconds(number))| Duration::from_millis(u64::from(*number)))
}

impl Meaning<'_, '_> {
    /// Reports the errors of files. `named` returns the pointer and path of a file by its index.
    fn file_faults(&mut self, faults: Vec<FileFault>, named: impl Fn(usize) -> (String, PathBuf)) {
        for fault in faults {
            match fault {
                FileFault::Line(fault) => self.reader.fault(fault),
                FileFault::Whole(number, why) => {
                    let (pointer, path) = named(number);
                    self.error(pointer, format!("{} {}", path.display(), why.what), why.hint);
                }
            }
        }
    }
}

/// Smaller differences are noise in most measurements.
const LATENCY_TOLERANCE: Duration = Duration::from_millis(10);
