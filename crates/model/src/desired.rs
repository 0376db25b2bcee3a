//! The desired state: everything that is declared, and look-ups that involve several objects.
//!
//! The rules that must hold across objects are in `validate`.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Serialize};

use crate::{
    Check, ClientMap, Cluster, ClusterLoadSource, ClusterName, Diagnostic, FileLocation, HostAddresses, LatencyTable,
    LatencyTableName, LoadBounds, LoadSource, LoadSourceName, MapName, Member, Monitor, MonitorName, MonitorSource,
    Name, Pool, PoolName, RecordSet, Rtype, Severity, SharedMap, Target, Ttl, records_at,
};

mod alias_loops;
mod answer_size;
mod hidden;
mod locations;
mod pools;
mod validate;

pub use self::alias_loops::{alias_loop, describe_alias_loop};

/// The desired state: everything that one source, or all of them together, declare. Zone data is kept apart, because
/// records are many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredState {
    /// Zones to be authoritative for.
    pub zones: BTreeMap<Name, ZoneSpec>,
    /// Clusters by name.
    pub clusters: SharedMap<ClusterName, Cluster>,
    /// Monitors by name.
    pub monitors: SharedMap<MonitorName, Arc<Monitor>>,
    /// Maps from client addresses to locations, by name.
    pub maps: BTreeMap<MapName, Arc<ClientMap>>,
    /// Latency tables by name.
    pub latencies: BTreeMap<LatencyTableName, Arc<LatencyTable>>,
    /// Pools by name.
    pub pools: SharedMap<PoolName, Pool>,
    /// Steered names.
    pub names: SharedMap<Name, SteeredName>,
    /// Records that are served as they are, in addition to those of zone files.
    pub records: SharedMap<(Name, Rtype), RecordSet>,
    /// Load sources by name.
    pub load_sources: BTreeMap<LoadSourceName, Arc<LoadSource>>,
    /// The load source of each cluster. The load of a cluster without one is unknown, unless it is pushed.
    pub cluster_load_sources: BTreeMap<ClusterName, ClusterLoadSource>,
    /// Target and limit of the load of each cluster; default [`LoadBounds::DEFAULT`].
    pub load_bounds: BTreeMap<ClusterName, LoadBounds>,
}

/// A zone as declared, apart from its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneSpec {
    /// The apex.
    pub name: Name,
    /// Monitor of members that name none and whose pool names none.
    pub monitor: Option<MonitorName>,
    /// The clients that the zone is for; default public.
    pub visibility: Visibility,
}

impl ZoneSpec {
    /// Returns a zone with every default.
    pub fn new(name: Name) -> Self {
        Self { name, monitor: None, visibility: Visibility::default() }
    }
}

/// The clients that a zone is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Visibility {
    /// All clients: internal members are never answered in the zone.
    #[default]
    Public,
    /// Clients of the internal network: internal members are answered like others.
    Private,
}

/// A name whose addresses a pool chooses. It may be a wildcard or a zone apex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteeredName {
    /// The name.
    pub name: Name,
    /// The pool that answers.
    pub pool: PoolName,
    /// TTL that replaces the pool's; it is never adapted.
    pub ttl: Option<Ttl>,
}

/// The object that a [`Violation`] is about. The reader of a file finds its line and column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A cluster.
    Cluster(ClusterName),
    /// A load source.
    LoadSource(LoadSourceName),
    /// A monitor.
    Monitor(MonitorName),
    /// A map from client addresses to locations.
    Map(MapName),
    /// A latency table.
    Latencies(LatencyTableName),
    /// A pool as a whole.
    Pool(PoolName),
    /// A member of a pool, by its index from 0.
    Member(PoolName, usize),
    /// A steered name.
    Name(Name),
    /// Declared records of a name and type.
    Records(Name, Rtype),
    /// A zone.
    Zone(Name),
}

/// A violated rule that involves several objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The object it is about.
    pub subject: Subject,
    /// Error or warning.
    pub severity: Severity,
    /// The fact: what is wrong and why.
    pub fact: String,
    /// The hint: what to do about it.
    pub hint: String,
    /// JSON pointer to the field of the object that is wrong; empty for the whole object.
    pub field: &'static str,
}

impl Violation {
    /// Returns the violation as that of a field.
    pub(crate) fn of(self, field: &'static str) -> Self {
        Self { field, ..self }
    }

    /// Returns the violation as a diagnostic of the input at `location`.
    pub fn at(self, location: FileLocation) -> Diagnostic {
        let Self { subject, field, severity, fact, hint } = self;
        Diagnostic { severity, field, ..Diagnostic::error(location, fact, hint) }.about(subject)
    }
}

impl DesiredState {
    /// Returns the closest declared zone that contains `name`.
    pub fn zone_of(&self, name: &Name) -> Option<&ZoneSpec> {
        // Comparing with a few zones is faster than making the name of each parent.
        if self.zones.len() <= 8 {
            let above = self.zones.values().filter(|zone| name.is_within(&zone.name));
            return above.max_by_key(|zone| zone.name.as_wire().len());
        }
        let mut at = Some(name.clone());
        while let Some(candidate) = at {
            if let Some(zone) = self.zones.get(&candidate) {
                return Some(zone);
            }
            at = candidate.parent();
        }
        None
    }

    /// Gives these clusters the addresses of their host names.
    pub fn resolve_hosts(&mut self, clusters: impl IntoIterator<Item = ClusterName>, resolved: &HostAddresses) {
        for name in clusters {
            if self.clusters.get(&name).is_some_and(|cluster| !cluster.hosts.is_empty())
                && let Some(cluster) = self.clusters.get_mut(&name)
            {
                cluster.resolve(resolved);
            }
        }
    }

    /// Returns the declared record sets of a name, in the order of their types.
    pub fn records_at<'a>(&'a self, name: &Name) -> impl Iterator<Item = &'a RecordSet> + Clone + use<'a> {
        records_at(&self.records, name)
    }

    /// Returns the largest TTL that a steered name is answered with: its own, else its pool's.
    pub fn ttl_max(&self, name: &SteeredName) -> Option<Ttl> {
        name.ttl.or_else(|| self.pools.get(&name.pool).map(Pool::ttl_max))
    }

    /// Returns the map of a pool: the one it names, else the only declared one.
    pub fn map_of(&self, pool: &Pool) -> Option<&Arc<ClientMap>> {
        named_or_only(&self.maps, pool.location.map.as_ref())
    }

    /// Returns the latency table of a pool: the one it names, else the only declared one.
    pub fn latencies_of(&self, pool: &Pool) -> Option<&Arc<LatencyTable>> {
        named_or_only(&self.latencies, pool.location.latencies.as_ref())
    }

    /// Returns the monitor of a member at its cluster: the first that is named by the member, its pool, its cluster, the zone of the name
    /// that it serves; else what is known of the gateway of the cluster, or of the service; else TCP port 443.
    pub fn monitor_of(
        &self,
        member: &Member,
        pool: &Pool,
        cluster: &Cluster,
        zone: Option<&ZoneSpec>,
    ) -> (&MonitorName, &Arc<Monitor>) {
        let named = member.monitor.as_ref().or(pool.monitor.as_ref()).or(cluster.monitor.as_ref());
        let named = named.or_else(|| zone.and_then(|zone| zone.monitor.as_ref()));
        self.monitor(named.or(cluster.fallback_monitor.as_ref()).or(pool.fallback_monitor.as_ref()))
    }

    /// Returns the name of the monitor of one of a member's targets, and the declaration that it comes from. Zones may have monitors of
    /// their own, so that a member has several.
    pub fn monitor_source<'a>(
        &'a self,
        member: &'a Member,
        pool: &'a Pool,
        cluster: Option<&'a Cluster>,
        target: &'a Target,
    ) -> (&'a MonitorName, MonitorSource) {
        let of_member = member.monitor.as_ref().map(|name| (name, MonitorSource::Member));
        let of_pool = pool.monitor.as_ref().map(|name| (name, MonitorSource::Pool));
        let of_cluster = cluster.and_then(|cluster| Some((cluster.monitor.as_ref()?, MonitorSource::Cluster)));
        match of_member.or(of_pool).or(of_cluster) {
            Some((name, _)) if target.monitor.check == Check::Never => return (name, MonitorSource::NoEndpoint),
            Some(named) => return named,
            None => {}
        }
        let status_port = cluster.and_then(|cluster| cluster.fallback_monitor.as_ref());
        let (name, source) = match (status_port, &pool.fallback_monitor) {
            (Some(name), _) => (Some(name), MonitorSource::StatusPort),
            (None, Some(name)) => (Some(name), MonitorSource::IntentPort),
            (None, None) => (None, MonitorSource::Default),
        };
        let (name, monitor) = self.monitor(name);
        if *monitor == target.monitor { (name, source) } else { (&target.label, MonitorSource::Zone) }
    }

    fn monitor(&self, named: Option<&MonitorName>) -> (&MonitorName, &Arc<Monitor>) {
        static DEFAULT: LazyLock<(MonitorName, Arc<Monitor>)> =
            LazyLock::new(|| (MonitorName::new("tcp-443").expect("a valid literal"), Arc::default()));
        named.and_then(|name| self.monitors.get_key_value(name)).unwrap_or((&DEFAULT.0, &DEFAULT.1))
    }
}

fn named_or_only<'a, K: Ord, V>(all: &'a BTreeMap<K, V>, name: Option<&K>) -> Option<&'a V> {
    match name {
        Some(name) => all.get(name),
        None => all.values().next().filter(|_| all.len() == 1),
    }
}

#[cfg(test)]
mod tests;
