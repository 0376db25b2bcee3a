//! The part of the configuration file, version 1, that speaks of places: maps, tables of latencies, preferences of pools.
//!
//! As in `v1`, the comments of fields are the operator's documentation.

use fairway_model::{ClientMap, Continent, Country, LatencyTableName, MapName, Network, Subdivision};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{Float, Int, List, Text},
    values_place::{Distance, Milliseconds},
    values_wire::As,
};

/// A map from addresses to places: what a client's address says of where the client is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Map {
    /// Its name.
    pub(super) name: As<MapName>,
    /// Files in MaxMind's format (MMDB): city, country, ASN. Of two that know where a client is, the first counts; so for the
    /// number of its autonomous system. Relative paths begin at this file's folder.
    pub(super) databases: Option<List<Text<1>, 1, { ClientMap::DATABASES_MAX }>>,
    /// Networks whose places are declared here, over what databases say; the most specific one counts.
    pub(super) networks: Option<List<MapNetwork, 1, { ClientMap::NETWORKS_MAX }>>,
}

/// A network and where its clients are. Whoever gives one of region, country, continent, subdivision and coordinates gives all of
/// them: what is left out is not taken from databases.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MapNetwork {
    /// The network.
    pub(super) network: As<Network>,
    /// Free name of the region, as clusters have in their location.
    pub(super) region: Option<Text<1, 64>>,
    /// The country: two letters (ISO 3166-1). Default: that of the subdivision.
    pub(super) country: Option<As<Country>>,
    /// The continent. Default: that of the country.
    pub(super) continent: Option<As<Continent>>,
    /// The largest subdivision of the country (ISO 3166-2).
    pub(super) subdivision: Option<As<Subdivision>>,
    /// Degrees north; together with `longitude`.
    pub(super) latitude: Option<Float<-90, 90>>,
    /// Degrees east.
    pub(super) longitude: Option<Float<-180, 180>>,
    /// Number of the autonomous system.
    pub(super) asn: Option<Int<u32, 1, 4_294_967_295>>,
}

/// A table of measured latencies from networks of clients to clusters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Latencies {
    /// Its name.
    pub(super) name: As<LatencyTableName>,
    /// CSV file: the first line is `network` and names of clusters, each further one a network and milliseconds. Relative paths
    /// begin at this file's folder. Default: what `PUT /v1/latency/NAME` gave last, kept in the data folder; nothing before.
    pub(super) file: Option<Text<1>>,
}

/// Which regions clients of which places prefer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Geo {
    /// Preferences of clients' places; for a client the most specific one counts: a region or autonomous system before a
    /// subdivision, that before a country, that before a continent.
    pub(super) prefer: Option<List<Preference, 1, 10_000>>,
    /// Regions for all other clients, the preferred first. Default: all members alike.
    pub(super) default: Option<List<Text<1, 64>, 1, 255>>,
}

/// The regions that clients of a place prefer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Preference {
    /// Whom it holds for: everything that is said must hold.
    #[serde(rename = "where")]
    pub(super) clients: PlaceMatch,
    /// Regions of clusters, the preferred first. Members of other regions come after all of them.
    pub(super) regions: List<Text<1, 64>, 1, 255>,
    /// Whether members of other regions are never answered to these clients, whatever is down.
    #[schemars(extend("default" = false))]
    pub(super) only: Option<bool>,
}

/// What must be known of a client's place.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PlaceMatch {
    /// The region that the map gives.
    pub(super) region: Option<Text<1, 64>>,
    /// Number of the autonomous system.
    pub(super) asn: Option<Int<u32, 1, 4_294_967_295>>,
    /// The subdivision of a country.
    pub(super) subdivision: Option<As<Subdivision>>,
    /// The country.
    pub(super) country: Option<As<Country>>,
    /// The continent.
    pub(super) continent: Option<As<Continent>>,
}

/// How the ranking `nearest` measures.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Nearest {
    /// Members at most this much farther than the nearest of them rank equal.
    #[schemars(extend("default" = "0km"))]
    pub(super) tolerance: Option<As<Distance>>,
}

/// How the ranking `latency` measures.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Latency {
    /// The table. Default: the only one there is.
    pub(super) table: Option<As<LatencyTableName>>,
    /// Members at most this much slower than the best of them rank equal; at most 1m.
    #[schemars(extend("default" = "10ms"))]
    pub(super) tolerance: Option<As<Milliseconds>>,
}
