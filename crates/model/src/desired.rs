//! Everything that is wished for, with the rules that must hold across it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

use crate::{
    AnswerMode, ClientMap, Cluster, ClusterLoadSource, ClusterName, Diagnostic, DownAnswer, FileLocation, LatencyTable,
    LatencyTableName, LoadBounds, LoadSource, LoadSourceName, LoadUnit, MapName, Member, Monitor, MonitorName, Name,
    Permille, Pool, PoolName, RecordSet, Rtype, Selection, Severity, SharedMap, Ttl, closest,
};

mod places;

use places::check_places;

/// Everything one source, or all of them together, wish for. Zone data stands beside it: records are many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredState {
    /// Zones to be authoritative for.
    pub zones: BTreeMap<Name, ZoneSpec>,
    /// Clusters by name.
    pub clusters: BTreeMap<ClusterName, Cluster>,
    /// Monitors by name.
    pub monitors: SharedMap<MonitorName, Arc<Monitor>>,
    /// Maps from addresses to places, by name.
    pub maps: BTreeMap<MapName, Arc<ClientMap>>,
    /// Tables of latencies by name.
    pub latencies: BTreeMap<LatencyTableName, Arc<LatencyTable>>,
    /// Pools by name.
    pub pools: SharedMap<PoolName, Pool>,
    /// Steered names.
    pub names: SharedMap<Name, SteeredName>,
    /// Records that are served as they are, beside those of the zones' text.
    pub records: SharedMap<(Name, Rtype), RecordSet>,
    /// Sources of load by name.
    pub load_sources: BTreeMap<LoadSourceName, Arc<LoadSource>>,
    /// From where the load of clusters is read; of others it is unknown, unless it is pushed.
    pub cluster_load_sources: BTreeMap<ClusterName, ClusterLoadSource>,
    /// How far clusters are loaded on purpose; others by [`LoadBounds::DEFAULT`].
    pub load_bounds: BTreeMap<ClusterName, LoadBounds>,
}

/// A zone as declared, apart from its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSpec {
    /// The apex.
    pub name: Name,
    /// Monitor of members whose pool names none.
    pub monitor: Option<MonitorName>,
    /// Who is meant to see it.
    pub visibility: Visibility,
}

impl ZoneSpec {
    /// A zone with every default.
    pub fn new(name: Name) -> Self {
        Self { name, monitor: None, visibility: Visibility::default() }
    }
}

/// Who is meant to see a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Everybody: members that are internal are never answered in it.
    #[default]
    Public,
    /// Clients inside: members that are internal are answered like others.
    Private,
}

/// A name whose addresses a pool chooses. It may be a wildcard or a zone apex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteeredName {
    /// The name.
    pub name: Name,
    /// The pool that answers.
    pub pool: PoolName,
    /// TTL in place of the pool's.
    pub ttl: Option<Ttl>,
}

/// What a [`Violation`] is about. A reader of files turns it into a line and column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A cluster.
    Cluster(ClusterName),
    /// A source of load.
    LoadSource(LoadSourceName),
    /// A monitor.
    Monitor(MonitorName),
    /// A map from addresses to places.
    Map(MapName),
    /// A table of latencies.
    Latencies(LatencyTableName),
    /// A pool as a whole.
    Pool(PoolName),
    /// A member of a pool, by its place from 0.
    Member(PoolName, usize),
    /// A steered name.
    Name(Name),
    /// Declared records of a name and type.
    Records(Name, Rtype),
    /// A zone.
    Zone(Name),
}

/// A rule across objects that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// What it is about.
    pub subject: Subject,
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong and why.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

impl Violation {
    /// As a fault of an input, in its place.
    pub fn at(self, place: FileLocation) -> Diagnostic {
        Diagnostic { severity: self.severity, ..Diagnostic::error(place, self.what, self.hint) }.about(self.subject)
    }
}

impl DesiredState {
    /// The closest declared zone that holds `name`.
    pub fn zone_of(&self, name: &Name) -> Option<&ZoneSpec> {
        // A few zones are looked through faster than their names are made.
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

    /// The declared record sets of a name, by type.
    pub fn records_at<'a>(&'a self, name: &Name) -> impl Iterator<Item = &'a RecordSet> + Clone + use<'a> {
        // Type 0 is never declared.
        let sets = self.records.after(&(name.clone(), Rtype(0))).map(|(_, set)| set);
        let name = name.clone();
        sets.take_while(move |set| set.name == name)
    }

    /// The largest TTL that a steered name is answered with: its own, else its pool's.
    pub fn ttl_max(&self, name: &SteeredName) -> Option<Ttl> {
        name.ttl.or_else(|| self.pools.get(&name.pool).map(Pool::ttl_max))
    }

    /// The map of a pool: the one it names, else the only one there is.
    pub fn map_of(&self, pool: &Pool) -> Option<&Arc<ClientMap>> {
        named_or_only(&self.maps, pool.place.map.as_ref())
    }

    /// The table of latencies of a pool: the one it names, else the only one there is.
    pub fn latencies_of(&self, pool: &Pool) -> Option<&Arc<LatencyTable>> {
        named_or_only(&self.latencies, pool.place.latencies.as_ref())
    }

    /// The monitor of a pool's members that name none: the pool's, else the zone's of the name it serves, else TCP 443.
    pub fn monitor_of_pool(&self, pool: &Pool, zone: Option<&ZoneSpec>) -> (&MonitorName, &Arc<Monitor>) {
        self.monitor(pool.monitor.as_ref().or_else(|| zone.and_then(|zone| zone.monitor.as_ref())))
    }

    /// The monitor of a member: its own, else that of its pool, which many members share and is looked up once for all of them.
    pub fn monitor_of<'a>(
        &'a self,
        member: &Member,
        of_pool: (&'a MonitorName, &'a Arc<Monitor>),
    ) -> (&'a MonitorName, &'a Arc<Monitor>) {
        if member.monitor.is_none() { of_pool } else { self.monitor(member.monitor.as_ref()) }
    }

    fn monitor(&self, named: Option<&MonitorName>) -> (&MonitorName, &Arc<Monitor>) {
        static DEFAULT: LazyLock<(MonitorName, Arc<Monitor>)> =
            LazyLock::new(|| (MonitorName::new("tcp-443").expect("a valid literal"), Arc::default()));
        named.and_then(|name| self.monitors.get_key_value(name)).unwrap_or((&DEFAULT.0, &DEFAULT.1))
    }

    /// Every rule across objects that does not hold, errors and warnings, in a stable order.
    pub fn problems(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        for zone in self.zones.values() {
            self.check_monitor(zone.monitor.as_ref(), || Subject::Zone(zone.name.clone()), &mut found);
        }
        for cluster in self.clusters.values() {
            check_cluster(cluster, &mut found);
        }
        for (cluster, feed) in &self.cluster_load_sources {
            self.check_feed(cluster, feed, &mut found);
        }
        for cluster in
            self.load_bounds.keys().filter_map(|name| self.clusters.get(name)).filter(|c| c.capacity.is_none())
        {
            let what =
                format!("cluster {} has a target or limit of its load, and no capacity it is a part of", cluster.name);
            found.push(warning(Subject::Cluster(cluster.name.clone()), what, "give its capacity"));
        }
        for (name, source) in &self.load_sources {
            check_load_times(name, source, &mut found);
        }
        for (name, monitor) in &self.monitors {
            check_monitor_times(name, monitor, &mut found);
        }
        for pool in self.pools.values() {
            self.check_pool(pool, &mut found);
        }
        // Names find their pools many times as fast here as in an ordered map.
        let pools: HashMap<_, _> = self.pools.iter().collect();
        for name in self.names.values() {
            self.check_name(name, pools.get(&name.pool).copied(), &mut found);
        }
        for set in self.records.values() {
            self.check_records(set, &mut found);
        }
        found.sort();
        found
    }

    /// The same for these monitors, pools, steered names and declared records alone, as far as there are such. What is wrong with names because of
    /// their pool is found at the names.
    pub fn problems_of<'a>(
        &self,
        monitors: impl IntoIterator<Item = &'a MonitorName>,
        pools: impl IntoIterator<Item = &'a PoolName>,
        names: impl IntoIterator<Item = &'a Name>,
        records: impl IntoIterator<Item = &'a Name>,
    ) -> Vec<Violation> {
        let mut found = Vec::new();
        for (name, monitor) in monitors.into_iter().filter_map(|name| self.monitors.get_key_value(name)) {
            check_monitor_times(name, monitor, &mut found);
        }
        for pool in pools.into_iter().filter_map(|name| self.pools.get(name)) {
            self.check_pool(pool, &mut found);
        }
        for name in names.into_iter().filter_map(|name| self.names.get(name)) {
            self.check_name(name, self.pools.get(&name.pool), &mut found);
        }
        for set in records.into_iter().flat_map(|name| self.records_at(name)) {
            self.check_records(set, &mut found);
        }
        found.sort();
        found
    }

    fn check_monitor(&self, monitor: Option<&MonitorName>, subject: impl Fn() -> Subject, found: &mut Vec<Violation>) {
        if let Some(name) = monitor.filter(|name| !self.monitors.contains_key(*name)) {
            let known = nearest(name.as_str(), self.monitors.keys().map(MonitorName::as_str));
            found.push(error(subject(), format!("monitor {name} is not declared"), known));
        }
    }

    fn check_feed(&self, cluster: &ClusterName, feed: &ClusterLoadSource, found: &mut Vec<Violation>) {
        let subject = || Subject::Cluster(cluster.clone());
        let Some(source) = self.load_sources.get(&feed.source) else {
            let known = nearest(feed.source.as_str(), self.load_sources.keys().map(LoadSourceName::as_str));
            found.push(error(subject(), format!("source of load {} is not declared", feed.source), known));
            return;
        };
        let capacity = self.clusters.get(cluster).and_then(|cluster| cluster.capacity);
        if source.unit == LoadUnit::Capacity && capacity.is_none() {
            let what = format!("cluster {cluster} has load {} and no capacity that it could be a part of", feed.source);
            found.push(error(
                subject(),
                what,
                "give its capacity, in the unit of the load, or the source unit permille",
            ));
        }
        if !feed.gateways.is_empty() && !source.asks_gateways() {
            let what = format!("cluster {cluster} names gateways to scrape, and load {} asks a URL", feed.source);
            found.push(error(subject(), what, "take scrape out"));
        }
    }

    fn check_pool(&self, pool: &Pool, found: &mut Vec<Violation>) {
        // Made for what is at fault alone: pools are many.
        let subject = || Subject::Pool(pool.name.clone());
        self.check_monitor(pool.monitor.as_ref(), subject, found);
        if pool.members.is_empty() {
            found.push(error(subject(), format!("pool {} has no member", pool.name), "give at least one cluster"));
        }
        if pool.members.len() > Pool::MEMBERS_MAX {
            let what =
                format!("pool {} has {} members; {} is the most", pool.name, pool.members.len(), Pool::MEMBERS_MAX);
            found.push(error(subject(), what, "split it"));
        }
        if let DownAnswer::FallbackAddresses(addresses) = &pool.down
            && addresses.len() > Pool::FALLBACK_MAX
        {
            let (count, most) = (addresses.len(), Pool::FALLBACK_MAX);
            let what = format!("pool {} has {count} fallback addresses; {most} is the most", pool.name);
            found.push(error(subject(), what, "give fewer"));
        }
        check_policy(pool, found);
        check_places(self, pool, found);
        let networks: usize = pool.members.iter().map(|member| member.networks.len()).sum();
        if networks > Pool::NETWORKS_MAX {
            let what =
                format!("members of pool {} name {networks} networks; {} is the most", pool.name, Pool::NETWORKS_MAX);
            found.push(error(subject(), what, "give larger networks, or split the pool"));
        }
        if !pool.members.is_empty() && pool.members.iter().all(|m| m.weight.0 == 0) {
            let what = format!("every weight of pool {} is 0, so all members share equally", pool.name);
            found.push(warning(subject(), what, "give weights of 1 or more; to take a member out, drain it"));
        }
        if !pool.members.is_empty() && pool.members.iter().all(|m| m.tier.number() != 1) {
            let what = format!("pool {}: no member is in tier 1", pool.name);
            found.push(error(subject(), what, "give at least one member tier 1"));
        }
        for (index, member) in pool.members.iter().enumerate() {
            let subject = || Subject::Member(pool.name.clone(), index);
            self.check_monitor(member.monitor.as_ref(), subject, found);
            if pool.members[..index].iter().any(|before| before.cluster == member.cluster) {
                let what = format!("cluster {} is a member twice", member.cluster);
                found.push(error(subject(), what, "keep one, with the weight of both"));
            }
            let Some(cluster) = self.clusters.get(&member.cluster) else {
                let known = nearest(member.cluster.as_str(), self.clusters.keys().map(ClusterName::as_str));
                found.push(error(subject(), format!("cluster {} is not declared", member.cluster), known));
                continue;
            };
            if pool.policy.load && cluster.capacity.is_none() {
                let what = format!("pool {} heeds load, but cluster {} has no capacity", pool.name, cluster.name);
                found.push(warning(subject(), what, "give its capacity; until then it takes whatever falls to it"));
            }
            if pool.mode == AnswerMode::Cname && cluster.dns_name.is_none() {
                let what =
                    format!("pool {} answers with CNAMEs, but cluster {} has no dnsName", pool.name, cluster.name);
                found.push(error(subject(), what, "give the cluster a dnsName, or the pool mode address"));
            }
        }
    }

    fn check_records(&self, set: &RecordSet, found: &mut Vec<Violation>) {
        if self.zone_of(&set.name).is_none() {
            let subject = Subject::Records(set.name.clone(), set.rtype);
            let what = format!("{} {} lies in none of the zones", set.name, set.rtype);
            found.push(error(subject, what, "declare its zone, or mend the name"));
        }
    }

    fn check_name(&self, name: &SteeredName, pool: Option<&Pool>, found: &mut Vec<Violation>) {
        let subject = || Subject::Name(name.name.clone());
        if self.zone_of(&name.name).is_none() {
            let what = format!("{} lies in none of the zones", name.name);
            found.push(error(subject(), what, "declare its zone, or mend the name"));
        }
        let Some(pool) = pool else {
            let known = nearest(name.pool.as_str(), self.pools.keys().map(PoolName::as_str));
            found.push(error(subject(), format!("pool {} is not declared", name.pool), known));
            return;
        };
        let is_public = self.zone_of(&name.name).is_some_and(|zone| zone.visibility == Visibility::Public);
        if is_public && !pool.members.is_empty() && pool.members.iter().all(|member| member.internal) {
            let what =
                format!("every member of pool {} is internal, and the zone of {} is public", pool.name, name.name);
            let hint = "give the zone visibility private, or a member that may be answered in it";
            found.push(warning(subject(), what, hint));
        }
        let apex = self.zones.contains_key(&name.name);
        if apex && pool.mode == AnswerMode::Cname {
            let what = format!("{} is a zone apex, where no CNAME can stand (RFC 1912 section 2.4)", name.name);
            found.push(error(subject(), what, "give the pool mode address"));
        } else if apex && matches!(pool.down, DownAnswer::FallbackCname(_)) {
            let what = format!("{} is a zone apex, where no fallback {} can stand", name.name, Rtype::CNAME);
            found.push(error(subject(), what, "give fallback addresses"));
        }
    }
}

fn named_or_only<'a, K: Ord, V>(all: &'a BTreeMap<K, V>, name: Option<&K>) -> Option<&'a V> {
    match name {
        Some(name) => all.get(name),
        None => all.values().next().filter(|_| all.len() == 1),
    }
}

fn check_policy(pool: &Pool, found: &mut Vec<Violation>) {
    if !pool.policy.load {
        return;
    }
    let subject = || Subject::Pool(pool.name.clone());
    if pool.min_healthy != Permille::default() {
        let what = format!("pool {} has minHealthy, but its policy heeds load, which says when others help", pool.name);
        found.push(error(subject(), what, "take one of both out"));
    }
    if pool.policy.choose == Selection::First && pool.answers > 1 {
        let what = format!("pool {} answers {}, but failover with load names one cluster", pool.name, pool.answers);
        found.push(error(subject(), what, "take answers out, or choose weighted"));
    }
}

fn check_cluster(cluster: &Cluster, found: &mut Vec<Violation>) {
    let subject = || Subject::Cluster(cluster.name.clone());
    if cluster.addresses.is_empty() {
        let what = format!("cluster {} has no address", cluster.name);
        found.push(error(subject(), what, "give at least one ingress address"));
    }
    for v4 in [true, false] {
        let count = cluster.addresses.iter().filter(|a| a.is_ipv4() == v4).count();
        if count > Cluster::ADDRESSES_MAX {
            let family = if v4 { "IPv4" } else { "IPv6" };
            let what = format!(
                "cluster {} has {count} {family} addresses; 8 is the most, they all go into one answer",
                cluster.name
            );
            found.push(error(subject(), what, "make two clusters of it"));
        }
    }
    let mut seen = BTreeSet::new();
    for address in cluster.addresses.iter().filter(|a| !seen.insert(**a)) {
        found.push(error(subject(), format!("cluster {} has address {address} twice", cluster.name), "keep one"));
    }
}

fn check_monitor_times(name: &MonitorName, monitor: &Monitor, found: &mut Vec<Violation>) {
    let mut fault = |what: String, hint: &str| found.push(error(Subject::Monitor(name.clone()), what, hint));
    if monitor.period < Monitor::PERIOD_MIN {
        fault(
            format!("monitor {name}: period {:?} is under {:?}", monitor.period, Monitor::PERIOD_MIN),
            "probe less often",
        );
    }
    if monitor.timeout.is_zero() || monitor.timeout > monitor.period {
        let what = format!(
            "monitor {name}: timeout {:?} is not between 0 and the period {:?}",
            monitor.timeout, monitor.period
        );
        fault(what, "give a timeout of at most the period");
    }
    if monitor.rise == 0 || monitor.fall == 0 {
        fault(format!("monitor {name}: rise and fall count from 1"), "give 1 to turn at the first probe");
    }
}

fn check_load_times(name: &LoadSourceName, source: &LoadSource, found: &mut Vec<Violation>) {
    let mut fault = |what: String, hint: &str| found.push(error(Subject::LoadSource(name.clone()), what, hint));
    if source.period < LoadSource::PERIOD_MIN {
        fault(
            format!("load {name}: period {:?} is under {:?}", source.period, LoadSource::PERIOD_MIN),
            "read less often",
        );
    }
    if source.timeout.is_zero() || source.timeout > source.period {
        let what =
            format!("load {name}: timeout {:?} is not between 0 and the period {:?}", source.timeout, source.period);
        fault(what, "give a timeout of at most the period");
    }
}

fn error(subject: Subject, what: impl Into<String>, hint: impl Into<String>) -> Violation {
    Violation { subject, severity: Severity::Error, what: what.into(), hint: hint.into() }
}

fn warning(subject: Subject, what: impl Into<String>, hint: impl Into<String>) -> Violation {
    Violation { subject, severity: Severity::Warning, what: what.into(), hint: hint.into() }
}

/// "did you mean X?" where a known name is close, else what there is to choose from.
fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<_> = known.collect();
    match closest(wanted, known.iter().copied()) {
        _ if known.is_empty() => "declare it; none is declared yet".to_owned(),
        Some(best) => format!("did you mean {best}?"),
        None => format!("declare it, or take one of: {}", known[..known.len().min(8)].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{LoadEndpoint, LoadQuery, Policy};

    fn desired() -> DesiredState {
        let cluster = Cluster {
            name: ClusterName::new("eu1").unwrap(),
            addresses: vec!["192.0.2.1".parse().unwrap()],
            dns_name: None,
            location: None,
            capacity: None,
            services: vec![],
        };
        let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
        pool.members = vec![Member::new(cluster.name.clone())];
        let zone: Name = "gslb.example".parse().unwrap();
        let name: Name = "shop.gslb.example".parse().unwrap();
        DesiredState {
            zones: [(zone.clone(), ZoneSpec::new(zone))].into(),
            clusters: [(cluster.name.clone(), cluster)].into(),
            names: [(name.clone(), SteeredName { name, pool: pool.name.clone(), ttl: None })].into(),
            pools: [(pool.name.clone(), pool)].into(),
            ..DesiredState::default()
        }
    }

    fn whats(desired: &DesiredState) -> Vec<String> {
        desired.problems().into_iter().map(|p| format!("{}; {}", p.what, p.hint)).collect()
    }

    #[test]
    fn a_sound_wish_has_no_problem() {
        assert_eq!(whats(&desired()), Vec::<String>::new());
    }

    #[test]
    fn a_missing_cluster_is_named_with_the_nearest_known_one() {
        let mut wish = desired();
        let pool = wish.pools.values_mut().next().unwrap();
        pool.members[0].cluster = ClusterName::new("eu2").unwrap();
        assert_eq!(whats(&wish), ["cluster eu2 is not declared; did you mean eu1?"]);
    }

    #[test]
    fn all_faults_come_at_once() {
        let mut wish = desired();
        let pool = wish.pools.values_mut().next().unwrap();
        pool.members[0].tier = crate::Tier::new(2).unwrap();
        pool.members[0].weight = crate::Weight(0);
        pool.monitor = Some(MonitorName::new("gw").unwrap());
        pool.down = DownAnswer::FallbackAddresses(vec![[192, 0, 2, 1].into(); Pool::FALLBACK_MAX + 1]);
        wish.zones.clear();
        assert_eq!(wish.problems().len(), 5);
    }

    #[test]
    fn load_needs_its_source_and_a_capacity_it_is_a_part_of() {
        let mut wish = desired();
        let (eu1, gw) = (ClusterName::new("eu1").unwrap(), LoadSourceName::new("gw").unwrap());
        wish.cluster_load_sources.insert(eu1.clone(), ClusterLoadSource { source: gw.clone(), gateways: vec![] });
        assert_eq!(whats(&wish), ["source of load gw is not declared; declare it; none is declared yet"]);
        let at = LoadEndpoint::Gateways { port: 15090, path: "/stats/prometheus".into() };
        let source = LoadSource::new(LoadQuery::Prometheus { at, signal: None, metric: None, overload_at: 95 });
        wish.load_sources.insert(gw.clone(), Arc::new(source.clone()));
        assert!(whats(&wish)[0].contains("no capacity"), "{:?}", whats(&wish));
        wish.clusters.get_mut(&eu1).unwrap().capacity = Some(800);
        assert_eq!(whats(&wish), Vec::<String>::new());
        wish.load_sources.insert(gw, Arc::new(LoadSource { timeout: Duration::from_secs(11), ..source }));
        assert!(whats(&wish)[0].contains("timeout 11s"), "{:?}", whats(&wish));
    }

    #[test]
    fn cname_mode_is_refused_at_an_apex() {
        let mut wish = desired();
        let apex: Name = "gslb.example".parse().unwrap();
        let pool = wish.pools.values_mut().next().unwrap();
        pool.mode = AnswerMode::Cname;
        wish.clusters.values_mut().next().unwrap().dns_name = Some("eu1.gslb.example".parse().unwrap());
        wish.names = [(apex.clone(), SteeredName { name: apex, pool: pool.name.clone(), ttl: None })].into();
        assert!(whats(&wish)[0].contains("zone apex"));
    }

    #[test]
    fn the_closest_of_nested_zones_holds_a_name() {
        let mut wish = desired();
        let inner: Name = "eu.gslb.example".parse().unwrap();
        wish.zones.insert(inner.clone(), ZoneSpec::new(inner.clone()));
        assert_eq!(wish.zone_of(&"a.eu.gslb.example".parse().unwrap()).unwrap().name, inner);
    }
}
