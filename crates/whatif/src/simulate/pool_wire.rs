//! The parts of a scenario that are written as in a configuration: the pool and the locations of clients. The reader of configurations
//! reads them, so that every key of a pool can be simulated.

use std::net::IpAddr;

use fairway_model::{ClientLocation, DesiredState, Diagnostic, MapName, Pool, Spread};
use serde_json::{Value, json};

use super::{scenario::SimulatedCluster, steering};

/// The rest of the configuration that a pool is read in.
pub(super) struct PoolContext {
    clusters: Vec<Value>,
    networks: Vec<Value>,
    latencies: Vec<Value>,
}

/// Name of the map of clients.
const MAP: &str = "clients";
/// Name of the latency table.
pub(super) const TABLE: &str = "rtt";

impl PoolContext {
    /// Returns the context of clusters. `clients` has the map entry of the clients nearest to each cluster.
    pub(super) fn new(clusters: &[SimulatedCluster], clients: &[Option<Value>], has_latencies: bool) -> Self {
        let numbered = || clusters.iter().enumerate();
        Self {
            clusters: numbered().map(|(number, declared)| cluster(number, declared)).collect(),
            networks: numbered()
                .map(|(number, declared)| network(number, declared, clients[number].as_ref()))
                .collect(),
            latencies: if has_latencies { vec![json!({ "name": TABLE })] } else { Vec::new() },
        }
    }

    /// Reads a pool, by default that of [`Scenario::default_policy`](super::scenario::Scenario::default_policy). Also returns the rest of
    /// the configuration.
    pub(super) fn read(&self, pool: Option<&Value>) -> Result<(Pool, DesiredState), String> {
        let mut pool = pool.cloned().unwrap_or_else(|| json!({ "policy": ["nearest", "load", "weighted"] }));
        let Some(keys) = pool.as_object_mut() else {
            return Err("pool: write it as in a configuration, with its policy".to_owned());
        };
        let unsupported = ["name", "ttl", "ttlMin", "ttlMax", "mode", "map", "monitor"];
        if let Some(key) = unsupported.into_iter().find(|key| keys.contains_key(*key)) {
            return Err(format!("pool: {key} is not simulated; remove it"));
        }
        keys.insert("name".to_owned(), json!("shop"));
        let all: Vec<_> = self.clusters.iter().map(|cluster| json!({ "cluster": cluster["name"] })).collect();
        keys.entry("members").or_insert_with(|| all.into());
        let maps = json!([{ "name": MAP, "networks": self.networks }]);
        let tree = json!({
            "version": 1, "clusters": self.clusters, "maps": maps, "latencies": self.latencies, "pools": [pool],
        });
        let desired = fairway_config::desired(&tree).map_err(|errors| messages(&errors))?;
        let pool = desired.pools.values().next().cloned().ok_or("pool: there is none")?;
        if pool.members.iter().any(|member| member.probe.is_some()) {
            return Err("pool: probe is not simulated; remove it".to_owned());
        }
        if pool.policy.load && pool.spread == Spread::Query {
            return Err("pool: load with spread: query is not simulated; remove one of them".to_owned());
        }
        Ok((pool, desired))
    }

    /// Returns the map entries of the clients nearest to each cluster, without coordinates: each network has its own.
    pub(super) fn locations(&self, desired: &DesiredState) -> Vec<ClientLocation> {
        let map = MapName::new(MAP).ok().and_then(|name| desired.maps.get(&name));
        let location = |number: usize| {
            let known = map.map(|map| map.entry(address(number)).location.clone()).unwrap_or_default();
            ClientLocation { coordinates: None, ..known }
        };
        (0..self.clusters.len()).map(location).collect()
    }
}

/// Returns the map key of the clients nearest to a cluster (TEST-NET-3, RFC 5737).
fn address(cluster: usize) -> IpAddr {
    [203, 0, 113, cluster as u8].into()
}

fn cluster(number: usize, declared: &SimulatedCluster) -> Value {
    let degrees = |micro: i32| f64::from(micro) / 1e6;
    let mut location =
        json!({ "latitude": degrees(declared.at.latitude()), "longitude": degrees(declared.at.longitude()) });
    if let Some(region) = &declared.region {
        location["region"] = json!(region);
    }
    json!({
        "name": declared.name.as_str(), "addresses": [steering::ip(number)], "capacity": declared.capacity,
        "location": location,
    })
}

/// Returns the map entry of the clients nearest to a cluster. By default it has coordinates only.
fn network(number: usize, declared: &SimulatedCluster, entry: Option<&Value>) -> Value {
    let coordinates = || json!({ "latitude": 0, "longitude": f64::from(declared.at.longitude()) / 1e6 });
    let mut network = entry.cloned().unwrap_or_else(coordinates);
    if let Some(keys) = network.as_object_mut() {
        keys.insert("network".to_owned(), json!(format!("{}/32", address(number))));
    }
    network
}

/// Joins the errors, with the keys of the scenario instead of those of the configuration.
fn messages(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
    let message = |error: &Diagnostic| match error.hint.as_str() {
        "" => error.fact.clone(),
        hint => format!("{}; {hint}", error.fact),
    };
    let messages: Vec<_> = errors.map(message).collect();
    messages.join("\n").replace("pools[0]", "pool").replace("maps[0].networks", "clients of clusters")
}
