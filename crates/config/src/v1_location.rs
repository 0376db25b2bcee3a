//! The part of the configuration file, version 1, about locations: maps, latency tables, preferences of pools.
//!
//! As in `v1`, the comments of fields are the operator's documentation.

use std::time::Duration;

use fairway_model::{ClientMap, Continent, Country, LatencyTableName, MapName, Network, Subdivision};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, Float, Int, List, Text},
    values_location::Distance,
};

/// A map from client addresses to locations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Map {
    /// Name of the map.
    pub(super) name: As<MapName>,
    /// Files in MaxMind's format (MMDB): city, country, ASN. The first one that has a location of the client is used,
    /// and the first one that has its AS number. Relative paths start at the folder of this file.
    pub(super) databases: Option<List<Text<1>, 1, { ClientMap::DATABASES_MAX }>>,
    /// Networks with a location; they take precedence over databases. The most specific one is used.
    pub(super) networks: Option<List<MapNetwork, 1, { ClientMap::NETWORKS_MAX }>>,
}

/// A network and the location of its clients. If one of region, country, continent, subdivision and coordinates is
/// given, none of the others is taken from databases.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MapNetwork {
    /// The network.
    pub(super) network: As<Network>,
    /// Region, by the name that locations of clusters use.
    pub(super) region: Option<Text<1, 64>>,
    /// Country: two letters (ISO 3166-1). Default: that of the subdivision.
    pub(super) country: Option<As<Country>>,
    /// Continent. Default: that of the country.
    pub(super) continent: Option<As<Continent>>,
    /// Largest subdivision of the country (ISO 3166-2).
    pub(super) subdivision: Option<As<Subdivision>>,
    /// Latitude: degrees north; requires `longitude`.
    pub(super) latitude: Option<Float<-90, 90>>,
    /// Longitude: degrees east; requires `latitude`.
    pub(super) longitude: Option<Float<-180, 180>>,
    /// AS number.
    pub(super) asn: Option<Int<u32, 1, 4_294_967_295>>,
}

/// A table of measured latencies from client networks to clusters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Latencies {
    /// Name of the table.
    pub(super) name: As<LatencyTableName>,
    /// CSV file. The first line has `network` and cluster names; each further line has a network and milliseconds.
    /// Relative paths start at the folder of this file. Default: the table last sent with `PUT /v1/latency/NAME`, which
    /// is kept in the data folder; empty before.
    pub(super) file: Option<Text<1>>,
}

/// Preferred regions by client location.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Geo {
    /// Preferences by client location. The most specific one that matches is used: region or AS number, then
    /// subdivision, then country, then continent.
    pub(super) prefer: Option<List<Preference, 1, 10_000>>,
    /// Regions for all other clients, in order of preference. Default: all members rank equal.
    pub(super) default: Option<List<Text<1, 64>, 1, 255>>,
}

/// Preferred regions of the clients of a location.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Preference {
    /// Clients that it applies to; all given keys must match.
    #[serde(rename = "where")]
    pub(super) clients: LocationMatch,
    /// Regions of clusters, in order of preference. Members of other regions come after all of them.
    pub(super) regions: List<Text<1, 64>, 1, 255>,
    /// True if members of other regions are never answered to these clients, even if all others are down.
    #[schemars(extend("default" = false))]
    pub(super) only: Option<bool>,
}

/// Conditions on the location of a client.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LocationMatch {
    /// Region given by the map.
    pub(super) region: Option<Text<1, 64>>,
    /// AS number.
    pub(super) asn: Option<Int<u32, 1, 4_294_967_295>>,
    /// Subdivision of a country.
    pub(super) subdivision: Option<As<Subdivision>>,
    /// The country.
    pub(super) country: Option<As<Country>>,
    /// The continent.
    pub(super) continent: Option<As<Continent>>,
}

/// Settings of the ranking `nearest`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Nearest {
    /// Largest difference in distance to the nearest member at which members rank equal.
    #[schemars(extend("default" = "0km"))]
    pub(super) tolerance: Option<As<Distance>>,
}

/// Settings of the ranking `latency`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Latency {
    /// Latency table. Default: the only declared one.
    pub(super) table: Option<As<LatencyTableName>>,
    /// Largest difference in latency to the fastest member at which members rank equal; at most 1m.
    #[schemars(extend("default" = "10ms"))]
    pub(super) tolerance: Option<As<Duration>>,
}
