//! The file format of scenarios. Times within a run are in TTLs, so that a scenario keeps its meaning if the TTL changes.

use std::{collections::BTreeMap, time::Duration};

use fairway_model::{ClientLocation, ClusterName, Coordinates, Monitor, Permille, Pool, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::{
    pool_wire::PoolContext,
    scenario::{Event, Figure, FloodSpec, Goal, Reports, Scenario, SimulatedCluster, Start},
};

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    version: u32,
    title: String,
    /// Seconds.
    ttl: f64,
    /// TTLs.
    length: f64,
    offered: f64,
    seeds: Vec<u64>,
    clusters: Vec<ClusterWire>,
    /// As in a configuration: `pool_wire` reads it.
    pool: Option<Value>,
    /// RFC 3339.
    #[serde(default = "begins")]
    begins: String,
    latencies: Option<LatenciesWire>,
    clients: Clients,
    start: Option<String>,
    #[serde(default = "servers")]
    servers: Vec<f64>,
    #[serde(default)]
    shared_store: bool,
    #[serde(default)]
    informed: bool,
    reports: ReportsWire,
    #[serde(default)]
    probes: ProbesWire,
    #[serde(default)]
    events: Vec<EventWire>,
    #[serde(default)]
    goals: Vec<GoalWire>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterWire {
    name: String,
    capacity: u64,
    /// Part of the demand that is nearest to it.
    near: f64,
    #[serde(default = "soft")]
    soft: u16,
    location: Option<LocationWire>,
    /// As a network of a map in a configuration, without the key `network`.
    clients: Option<Value>,
}

/// Position in degrees.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LocationWire {
    latitude: f64,
    longitude: f64,
    region: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LatenciesWire {
    detour: f64,
}

/// The client networks, each behind a resolver with one or more caches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Clients {
    /// Number of networks.
    pub networks: u32,
    /// Exponent of Zipf's law: demand of the n-th largest network is proportional to n^-zipf.
    pub zipf: f64,
    /// Part of the demand that is nearest to each cluster, in the order of the clusters; the sum is 1.
    #[serde(skip)]
    pub near: Vec<f64>,
    /// Part of the networks with several caches, in proportion to their demand (as resolvers of a carrier). Others have one.
    #[serde(default)]
    pub many_caches: f64,
    /// Part of the networks that keep answers longer than the TTL allows.
    #[serde(default)]
    pub abusers: f64,
    /// Number of TTLs for which those keep answers.
    #[serde(default = "abuse")]
    pub abuse: f64,
    /// Part of the networks that query again before the TTL is over.
    #[serde(default)]
    pub prefetchers: f64,
    /// Part of the networks that others take the place of, per TTL. The twentieth with the largest demand stays.
    #[serde(default)]
    pub arrivals: f64,
    /// Largest relative change of the demand nearest to a cluster, in the course of an hour. The largest demand of all together is
    /// `offered`.
    #[serde(default)]
    pub swing: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportsWire {
    /// Seconds.
    every: f64,
    /// Seconds.
    late: f64,
    #[serde(default)]
    noise: f64,
    #[serde(default)]
    loss: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProbesWire {
    /// Seconds.
    period: f64,
    fall: u8,
    rise: u8,
}

impl Default for ProbesWire {
    fn default() -> Self {
        Self { period: 5.0, fall: 3, rise: 3 }
    }
}

/// A time, and one event at that time.
#[derive(Debug, Deserialize)]
struct EventWire {
    at: f64,
    #[serde(flatten)]
    what: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct GoalWire {
    figure: String,
    cluster: Option<String>,
    from: f64,
    to: f64,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

/// Maximum number of client networks in a run: each has a subnet of its own.
const NETWORKS_MAX: u32 = 200_000;

/// Maximum number of servers in a run: each has the tables of load control.
const SERVERS_MAX: usize = 16;

/// Maximum number of queries per second of a flood, and of its sources: a run takes about a microsecond for each query.
const FLOOD_MAX: u32 = 100_000;

/// Period in which the demand swings. With a swing of 40 %, a demand changes by up to 2 % in a TTL of 30 s, and 8 % in one of 120 s.
const HOUR: Duration = Duration::from_secs(3_600);

const fn soft() -> u16 {
    800
}

const fn abuse() -> f64 {
    2.5
}

fn servers() -> Vec<f64> {
    vec![1.0]
}

fn begins() -> String {
    "2030-01-01T00:00:00Z".to_owned()
}

/// Reads a scenario from the tree of its file. The error is a text for people.
pub(super) fn read(tree: Value) -> Result<Scenario, String> {
    let file: File = serde_json::from_value(tree).map_err(|error| error.to_string())?;
    if file.version != 1 {
        return Err(format!("version {} is not supported; use version 1", file.version));
    }
    let positive = |what: &str, value: f64| {
        if value.is_finite() && value > 0.0 { Ok(value) } else { Err(format!("{what}: {value} is not greater than 0")) }
    };
    let ttl = positive("ttl", file.ttl)?;
    let length = bounded("length", file.length, 1.0..=10_000.0)?;
    let near = check_clusters(&file.clusters)?;
    let mut clusters = clusters(&file.clusters)?;
    let detour = file.latencies.map(|wire| bounded("latencies.detour", wire.detour, 0.0..=100.0)).transpose()?;
    let client_entries: Vec<_> = file.clusters.into_iter().map(|wire| wire.clients).collect();
    let context = PoolContext::new(&clusters, &client_entries, detour.is_some());
    let (pool, desired) = context.read(file.pool.as_ref())?;
    for (cluster, location) in clusters.iter_mut().zip(context.locations(&desired)) {
        cluster.clients = location;
    }
    let mut pools = vec![pool];
    let at = |ttls: f64| Duration::from_secs_f64(ttls.clamp(0.0, length) * ttl);
    let mut event = |wire: EventWire| Ok((at(wire.at), event(&wire.what, &clusters, &context, &mut pools)?));
    let events = file.events.into_iter().map(&mut event).collect::<Result<Vec<_>, String>>()?;
    if detour.is_none() && events.iter().any(|(_, event)| matches!(event, Event::Measured(_))) {
        return Err("events: measured: there is no latency table; add `latencies`".to_owned());
    }
    check_clients(&file.clients, length)?;
    let goals = file.goals.iter().map(|wire| goal(wire, &clusters, &at)).collect::<Result<Vec<_>, _>>()?;
    Ok(Scenario {
        title: file.title,
        ttl: Duration::from_secs_f64(ttl),
        length: at(length),
        offered: positive("offered", file.offered)?,
        clusters,
        configured: desired.clusters,
        pools,
        begins: file.begins.parse::<Timestamp>().map_err(|error| format!("begins: {error}"))?,
        detour,
        clients: Clients { near, ..file.clients },
        swing_period: HOUR,
        start: file.start.as_deref().map(start).transpose()?.unwrap_or_default(),
        servers: check_servers(file.servers)?,
        shared_store: file.shared_store,
        is_informed: file.informed,
        reports: reports(&file.reports)?,
        probes: Monitor {
            period: Duration::from_secs_f64(positive("probes.period", file.probes.period)?),
            fall: file.probes.fall,
            rise: file.probes.rise,
            ..Monitor::default()
        },
        events,
        goals,
        seeds: file.seeds,
    })
}

fn bounded(what: &str, value: f64, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(format!("{what}: {value} is not from {} to {}", range.start(), range.end()))
}

fn clusters(wires: &[ClusterWire]) -> Result<Vec<SimulatedCluster>, String> {
    let clusters = wires.iter().enumerate().map(|(number, wire)| cluster(wire, default_location(number, wires.len())));
    let clusters: Vec<SimulatedCluster> = clusters.collect::<Result<_, _>>()?;
    for (number, cluster) in clusters.iter().enumerate() {
        if let Some(other) = clusters[..number].iter().find(|other| other.at == cluster.at) {
            return Err(format!(
                "clusters: {} and {} have the same location, so neither is nearer",
                other.name, cluster.name
            ));
        }
    }
    Ok(clusters)
}

fn cluster(wire: &ClusterWire, default_location: LocationWire) -> Result<SimulatedCluster, String> {
    let name = ClusterName::new(&wire.name).map_err(|error| format!("clusters: {error}"))?;
    let soft = Permille::new(wire.soft).map_err(|error| format!("clusters: soft: {error}"))?;
    if wire.capacity == 0 {
        return Err(format!("clusters: {name}: capacity 0; give at least 1"));
    }
    let LocationWire { latitude, longitude, region } = wire.location.clone().unwrap_or(default_location);
    let at = Coordinates::from_degrees(latitude, longitude);
    let at = at.ok_or_else(|| format!("clusters: {name}: {latitude}, {longitude} is not a position on earth"))?;
    let clients = ClientLocation::default();
    Ok(SimulatedCluster { name, capacity: wire.capacity, soft, at, region, clients })
}

/// Returns a location for a cluster without one. They are spread evenly over the earth between the polar circles, on a spiral by the
/// golden angle (137.508 degrees).
fn default_location(number: usize, count: usize) -> LocationWire {
    let height = 1.0 - (2 * number + 1) as f64 / count as f64;
    let east = (number as f64 * 137.508) % 360.0;
    LocationWire { latitude: (0.9 * height).asin().to_degrees(), longitude: east - 180.0, region: None }
}

fn check_clients(clients: &Clients, length: f64) -> Result<(), String> {
    if !(1..=NETWORKS_MAX).contains(&clients.networks) {
        return Err(format!("clients.networks: {} is not from 1 to {NETWORKS_MAX}", clients.networks));
    }
    bounded("clients.arrivals", clients.arrivals, 0.0..=1.0)?;
    let networks = f64::from(clients.networks) * (1.0 + clients.arrivals * length);
    if networks > f64::from(NETWORKS_MAX) {
        return Err(format!(
            "clients.arrivals: {networks:.0} networks in the whole run; at most {NETWORKS_MAX} are possible"
        ));
    }
    bounded("clients.swing", clients.swing, 0.0..=0.9)?;
    bounded("clients.zipf", clients.zipf, 0.0..=2.0)?;
    bounded("clients.manyCaches", clients.many_caches, 0.0..=1.0)?;
    bounded("clients.abusers", clients.abusers, 0.0..=1.0)?;
    bounded("clients.abuse", clients.abuse, 1.0..=100.0)?;
    bounded("clients.prefetchers", clients.prefetchers, 0.0..=1.0)?;
    Ok(())
}

fn start(name: &str) -> Result<Start, String> {
    name.parse().map_err(|_| format!("start: {name:?} is not cold, one or mirror"))
}

/// Returns the part of the demand that is near to each cluster.
fn check_clusters(clusters: &[ClusterWire]) -> Result<Vec<f64>, String> {
    if clusters.is_empty() || clusters.len() > 64 {
        return Err(format!("clusters: {} are given; give 1 to 64", clusters.len()));
    }
    let near: Vec<f64> = clusters.iter().map(|cluster| cluster.near).collect();
    if (near.iter().sum::<f64>() - 1.0).abs() > 0.01 || near.iter().any(|near| *near < 0.0) {
        return Err("clusters: the sum of all `near` is not 1".to_owned());
    }
    Ok(near)
}

fn check_servers(parts: Vec<f64>) -> Result<Vec<f64>, String> {
    if parts.is_empty() || parts.len() > SERVERS_MAX {
        return Err(format!("servers: {} are given; give 1 to {SERVERS_MAX}", parts.len()));
    }
    let wrong = parts.iter().find(|part| !part.is_finite() || **part <= 0.0);
    wrong.map_or(Ok(()), |part| Err(format!("servers: {part} is not greater than 0")))?;
    Ok(parts)
}

fn reports(wire: &ReportsWire) -> Result<Reports, String> {
    Ok(Reports {
        every: Duration::from_secs_f64(bounded("reports.every", wire.every, 0.1..=3600.0)?),
        late: Duration::from_secs_f64(bounded("reports.late", wire.late, 0.0..=3600.0)?),
        noise: bounded("reports.noise", wire.noise, 0.0..=1.0)?,
        loss: bounded("reports.loss", wire.loss, 0.0..=1.0)?,
    })
}

fn event(
    what: &BTreeMap<String, Value>,
    clusters: &[SimulatedCluster],
    context: &PoolContext,
    pools: &mut Vec<Pool>,
) -> Result<Event, String> {
    let Some((kind, value)) = what.first_key_value().filter(|_| what.len() == 1) else {
        return Err("events: each needs `at` and one event".to_owned());
    };
    let cluster = |value: &Value| {
        let found = clusters.iter().position(|c| value.as_str() == Some(c.name.as_str()));
        found.ok_or_else(|| format!("events: {kind}: {value} is not a declared cluster"))
    };
    Ok(match (kind.as_str(), value.as_str()) {
        ("dies", _) => Event::Dies(cluster(value)?),
        ("returns", _) => Event::Returns(cluster(value)?),
        ("lies", _) => Event::Lies(cluster(value)?),
        ("honest", _) => Event::Honest(cluster(value)?),
        ("freeze", _) => Event::Freeze(cluster(value)?),
        ("thaw", _) => Event::Thaw(cluster(value)?),
        ("elsewhere", _) => {
            let part = value.get("part").and_then(Value::as_f64);
            let part = part.ok_or("events: elsewhere: give `cluster` and `part`")?;
            let part = bounded("events: elsewhere: part", part, 0.0..=10.0)?;
            Event::Elsewhere(cluster(value.get("cluster").unwrap_or(&Value::Null))?, part)
        }
        ("flood", _) => {
            let number = |key: &str, most: u32| {
                let given = value.get(key).map_or(Some(0), Value::as_u64).and_then(|given| u32::try_from(given).ok());
                let given = given.filter(|given| *given <= most);
                given.ok_or_else(|| format!("events: flood: {key}: give a number from 0 to {most}"))
            };
            let near = cluster(value.get("near").unwrap_or(&Value::Null))?;
            let (per_second, sources) = (number("perSecond", FLOOD_MAX)?, number("sources", FLOOD_MAX)?);
            Event::Flood(FloodSpec { near, per_second, sources })
        }
        ("drain", _) => Event::Drain(cluster(value)?),
        ("undrain", _) => Event::Undrain(cluster(value)?),
        ("partition", _) => Event::Partition(cluster(value)?),
        ("heal", _) => Event::Heal(cluster(value)?),
        ("reports", Some("lost")) => Event::ReportsLost,
        ("reports", Some("back")) => Event::ReportsBack,
        ("restart", Some("kept")) => Event::Restart,
        ("restart", Some("blank")) => Event::RestartBlank,
        ("demand", _) => {
            let offered = value.get("offered").and_then(Value::as_f64).filter(|o| *o > 0.0);
            let offered = offered.ok_or("events: demand: give `near` and `offered`")?;
            Event::Demand(cluster(value.get("near").unwrap_or(&Value::Null))?, offered)
        }
        ("pool", _) => {
            pools.push(context.read(Some(value)).map_err(|error| format!("events: {error}"))?.0);
            Event::Pool(pools.len() - 1)
        }
        ("measured", _) => {
            let error = value.as_f64().ok_or("events: measured: give the largest relative error of a latency")?;
            Event::Measured(bounded("events: measured", error, 0.0..=1.0)?)
        }
        _ => return Err(format!("events: {kind}: {value} is not an event; docs/reference/scenario.md lists them")),
    })
}

fn goal(wire: &GoalWire, clusters: &[SimulatedCluster], at: &impl Fn(f64) -> Duration) -> Result<Goal, String> {
    let index = |name: &String| {
        let found = clusters.iter().position(|cluster| cluster.name.as_str() == name);
        found.ok_or_else(|| format!("goals: {name:?} is not a declared cluster"))
    };
    let cluster = wire.cluster.as_ref().map(index).transpose()?;
    let figure = match (wire.figure.parse().ok(), cluster) {
        (Some(Figure::Load(_)), Some(cluster)) => Some(Figure::Load(cluster)),
        (Some(Figure::Load(_)), None) | (_, Some(_)) => None,
        (figure, None) => figure,
    };
    let figure = figure
        .ok_or_else(|| format!("goals: {:?} is not a figure; docs/reference/scenario.md lists them", wire.figure))?;
    if wire.at_least.is_none() && wire.at_most.is_none() {
        return Err(format!("goals: {}: give `atLeast`, `atMost` or both", wire.figure));
    }
    let within = wire.at_least.unwrap_or(f64::NEG_INFINITY)..=wire.at_most.unwrap_or(f64::INFINITY);
    Ok(Goal { figure, from: at(wire.from), to: at(wire.to), within })
}
