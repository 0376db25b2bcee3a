//! What a scenario says in the words of a configuration: its pool, and where its clients are. The configuration's own
//! reader reads it, so that whatever a pool can say can be played.

use std::net::IpAddr;

use fairway_model::{ClientLocation, DesiredState, Diagnostic, MapName, Pool, Spread};
use serde_json::{Value, json};

use super::{scenario::SimulatedCluster, steering};

/// What stands around the pool in its configuration.
pub(super) struct Surroundings {
    clusters: Vec<Value>,
    networks: Vec<Value>,
    latencies: Vec<Value>,
}

/// The one map, and the one table of latencies.
const MAP: &str = "clients";
pub(super) const TABLE: &str = "rtt";

impl Surroundings {
    /// Of these clusters; what is said of the clients that are nearest to each; whether there is a table of latencies.
    pub(super) fn new(clusters: &[SimulatedCluster], clients: &[Option<Value>], has_latencies: bool) -> Self {
        let numbered = || clusters.iter().enumerate();
        Self {
            clusters: numbered().map(|(place, declared)| cluster(place, declared)).collect(),
            networks: numbered().map(|(place, declared)| network(place, declared, clients[place].as_ref())).collect(),
            latencies: if has_latencies { vec![json!({ "name": TABLE })] } else { Vec::new() },
        }
    }

    /// Reads a pool, the default one where nothing is said, and where the clients nearest to each cluster are.
    pub(super) fn read(&self, said: Option<&Value>) -> Result<(Pool, Vec<ClientLocation>), String> {
        let mut pool = said.cloned().unwrap_or_else(|| json!({ "policy": ["nearest", "load", "weighted"] }));
        let Some(keys) = pool.as_object_mut() else {
            return Err("pool: write it as in a configuration, with its policy".to_owned());
        };
        let own = ["name", "ttl", "ttlMin", "ttlMax", "mode", "map", "monitor"];
        if let Some(key) = own.into_iter().find(|key| keys.contains_key(*key)) {
            return Err(format!("pool: {key} is not played; take it out"));
        }
        keys.insert("name".to_owned(), json!("shop"));
        let all: Vec<_> = self.clusters.iter().map(|cluster| json!({ "cluster": cluster["name"] })).collect();
        keys.entry("members").or_insert_with(|| all.into());
        let maps = json!([{ "name": MAP, "networks": self.networks }]);
        let tree = json!({
            "version": 1, "clusters": self.clusters, "maps": maps, "latencies": self.latencies, "pools": [pool],
        });
        let desired = fairway_config::desired(&tree).map_err(|faults| words(&faults))?;
        let places = self.places(&desired);
        let (_, pool) = desired.pools.into_iter().next().ok_or("pool: there is none")?;
        if pool.members.iter().any(|member| member.probe.is_some()) {
            return Err("pool: probe is not played; take it out".to_owned());
        }
        if pool.policy.load && pool.spread == Spread::Query {
            return Err("pool: load with spread: query is not played; take one of both out".to_owned());
        }
        Ok((pool, places))
    }

    /// What the map says of the clients nearest to each cluster, without the point on earth: each network has its own.
    fn places(&self, desired: &DesiredState) -> Vec<ClientLocation> {
        let map = MapName::new(MAP).ok().and_then(|name| desired.maps.get(&name));
        let place = |number: usize| {
            let known = map.map(|map| map.entry(address(number)).location.clone()).unwrap_or_default();
            ClientLocation { coordinates: None, ..known }
        };
        (0..self.clusters.len()).map(place).collect()
    }
}

/// A network that stands for the clients that are nearest to a cluster.
fn address(place: usize) -> IpAddr {
    [203, 0, 113, place as u8].into()
}

fn cluster(place: usize, declared: &SimulatedCluster) -> Value {
    let degrees = |micro: i32| f64::from(micro) / 1e6;
    let mut location =
        json!({ "latitude": degrees(declared.at.latitude()), "longitude": degrees(declared.at.longitude()) });
    if let Some(region) = &declared.region {
        location["region"] = json!(region);
    }
    json!({
        "name": declared.name.as_str(), "addresses": [steering::ip(place)], "capacity": declared.capacity,
        "location": location,
    })
}

/// Of clients of whom nothing is said no more is known than a point.
fn network(place: usize, declared: &SimulatedCluster, said: Option<&Value>) -> Value {
    let point = || json!({ "latitude": 0, "longitude": f64::from(declared.at.longitude()) / 1e6 });
    let mut network = said.cloned().unwrap_or_else(point);
    if let Some(keys) = network.as_object_mut() {
        keys.insert("network".to_owned(), json!(format!("{}/32", address(place))));
    }
    network
}

/// What is wrong, by the keys of the scenario.
fn words(faults: &[Diagnostic]) -> String {
    let errors = faults.iter().filter(|fault| fault.is_error());
    let word = |fault: &Diagnostic| match fault.hint.as_str() {
        "" => fault.fact.clone(),
        hint => format!("{}; {hint}", fault.fact),
    };
    let words: Vec<_> = errors.map(word).collect();
    words.join("\n").replace("pools[0]", "pool").replace("maps[0].networks", "clients of clusters")
}
