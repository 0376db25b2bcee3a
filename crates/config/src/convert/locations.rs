//! Maps, latency tables, and the location rules of pools.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Arguments,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fairway_model::{
    ClientLocation, ClientMap, Coordinates, DesiredState, Geo, LatencyTable, LocationMatch, LocationRules, Network,
    Preference, Subject,
};

use super::Converter;
use crate::{
    bounds_wire::{As, Plain, Text},
    maps::{DeclaredMap, DeclaredTable, FileError, MapCache, pushed_file},
    v1, v1_location,
    values_location::Distance,
};

/// Reads the maps. Unchanged ones are taken from the previous load.
pub(super) fn maps(
    converter: &mut Converter<'_, '_>,
    list: Vec<v1_location::Map>,
    cache: &mut MapCache,
    desired: &mut DesiredState,
) {
    let previous = converter.context.previous.map(|previous| previous.maps);
    for (index, wire) in list.into_iter().enumerate() {
        let pointer = format!("/maps/{index}");
        let declared = declared_map(converter, &pointer, wire);
        let (name, databases) = (declared.name.clone(), declared.databases.clone());
        if !converter.declare(Subject::Map(name.clone()), index) {
            continue;
        }
        let map = cache.map(declared, previous, converter.files()).unwrap_or_else(|diagnostics| {
            converter.report_files(diagnostics, |number| {
                (format!("{pointer}/databases/{number}"), databases.get(number).cloned().unwrap_or_default())
            });
            // It counts as declared, so that pools that refer to it have no error.
            Arc::new(ClientMap::new(name.clone(), []))
        });
        desired.maps.insert(name, map);
    }
}

/// Reads the latency tables. Unchanged ones are taken from the previous load.
///
/// Tables without a file are read from the data folder, where the API keeps pushed tables.
pub(super) fn latencies(
    converter: &mut Converter<'_, '_>,
    list: Vec<v1_location::Latencies>,
    data_dir: Option<&Path>,
    cache: &mut MapCache,
    desired: &mut DesiredState,
) {
    let previous = converter.context.previous.map(|previous| previous.maps);
    for (index, wire) in list.into_iter().enumerate() {
        let (As(name), pointer) = (wire.name, format!("/latencies/{index}/file"));
        let declared_file = wire.file.map(|As(file)| converter.path(&pointer, &file));
        let kept_file = || data_dir.map(|folder| folder.join(pushed_file(&name)));
        let (pushed, file) = (declared_file.is_none(), declared_file.or_else(kept_file).unwrap_or_default());
        if !converter.declare(Subject::Latencies(name.clone()), index) {
            continue;
        }
        let declared = DeclaredTable { name: name.clone(), file: file.clone(), pushed };
        let table = cache.latencies(declared, previous, converter.files()).unwrap_or_else(|diagnostics| {
            converter.report_files(diagnostics, |_| (pointer.clone(), file.clone()));
            Arc::new(LatencyTable::new(name.clone(), Vec::new(), Vec::new()))
        });
        desired.latencies.insert(name, table);
    }
}

fn declared_map(converter: &mut Converter<'_, '_>, pointer: &str, wire: v1_location::Map) -> DeclaredMap {
    if wire.databases.is_none() && wire.networks.is_none() {
        let what = format!("map {} has no databases and no networks", wire.name.0);
        converter.error(pointer, what, "add databases or networks");
    }
    let numbered = wire.databases.iter().flat_map(|As(list)| list).enumerate();
    let path =
        |(number, As(path)): (usize, &Text<1>)| converter.path(format_args!("{pointer}/databases/{number}"), path);
    let databases = numbered.map(path).collect();
    let mut declared: BTreeMap<Network, ClientLocation> = BTreeMap::new();
    for (number, wire) in wire.networks.plain().unwrap_or_default().into_iter().enumerate() {
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
        region: wire.region.plain().map(Into::into),
        country: wire.country.plain(),
        continent: wire.continent.plain(),
        subdivision: wire.subdivision.plain(),
        coordinates: wire.latitude.zip(wire.longitude).and_then(|(As(n), As(e))| Coordinates::from_degrees(n, e)),
        asn: wire.asn.plain(),
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

/// Converts the keys of a pool about locations.
pub(super) fn rules(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: &mut v1::Pool) -> LocationRules {
    let tolerance = wire.nearest.as_ref().and_then(|wire| wire.tolerance);
    LocationRules {
        map: wire.map.take().plain(),
        geo: wire.geo.take().map(|wire| geo(converter, pointer, wire)).unwrap_or_default(),
        tolerance_metres: tolerance.map_or(0, |As(Distance(metres))| metres),
        latencies: wire.latency.take().and_then(|wire| wire.table).plain(),
    }
}

fn geo(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: v1_location::Geo) -> Geo {
    let regions = |list: Vec<Text<1, 64>>| list.plain().into_iter().map(Into::into).collect();
    let (mut prefer, mut seen) = (Vec::new(), HashSet::new());
    for (number, wire) in wire.prefer.plain().unwrap_or_default().into_iter().enumerate() {
        let clients = LocationMatch {
            region: wire.clients.region.plain().map(Into::into),
            asn: wire.clients.asn.plain(),
            subdivision: wire.clients.subdivision.plain(),
            country: wire.clients.country.plain(),
            continent: wire.clients.continent.plain(),
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
    Geo { prefer, default: wire.default.plain().map(regions).unwrap_or_default() }
}

/// Returns the largest difference in latency at which members rank equal.
pub(super) fn latency_tolerance(
    converter: &mut Converter<'_, '_>,
    pointer: Arguments<'_>,
    wire: Option<&v1_location::Latency>,
) -> Duration {
    // Smaller differences are noise in most measurements.
    let default = Duration::from_millis(10);
    let given = wire.and_then(|wire| wire.tolerance);
    let bounds = Duration::ZERO..=Duration::from_secs(60);
    converter.bounded(format_args!("{pointer}/latency/tolerance"), given, bounds, default)
}

impl Converter<'_, '_> {
    /// Reports the errors of files. `named` returns the pointer and path of a file by its index.
    fn report_files(&mut self, diagnostics: Vec<FileError>, named: impl Fn(usize) -> (String, PathBuf)) {
        for diagnostic in diagnostics {
            match diagnostic {
                FileError::Line(diagnostic) => self.context.report(diagnostic),
                FileError::Whole(number, why) => {
                    let (pointer, path) = named(number);
                    self.reject(pointer, why.about(&path));
                }
            }
        }
    }
}
