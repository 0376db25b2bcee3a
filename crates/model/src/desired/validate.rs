//! The rules that must hold across the objects of a desired state.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Display,
    net::IpAddr,
    time::Duration,
};

use super::{DesiredState, Subject, Violation, Visibility};
use crate::{
    AnswerMode, Cluster, ClusterLoadSource, ClusterName, DownAnswer, LoadSource, LoadSourceName, LoadUnit, Monitor,
    MonitorName, Name, Pool, PoolName, RecordSet, Rtype, Severity, SteeredName, closest,
};

impl DesiredState {
    /// Returns every violated rule, errors and warnings, in a stable order.
    pub fn violations(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        for zone in self.zones.values() {
            self.check_monitor(zone.monitor.as_ref(), || Subject::Zone(zone.name.clone()), &mut found);
        }
        for cluster in self.clusters.values() {
            self.check_cluster(cluster, &mut found);
        }
        self.check_shared_addresses(&mut found);
        for (cluster, load) in &self.cluster_load_sources {
            self.check_cluster_load(cluster, load, &mut found);
        }
        for (name, source) in &self.load_sources {
            check_load_source(name, source, &mut found);
        }
        for (name, monitor) in &self.monitors {
            check_monitor_times(name, monitor, &mut found);
        }
        for pool in self.pools.values() {
            self.check_pool(pool, &mut found);
        }
        // A look-up by hash is several times as fast as one in the ordered map, and names are many.
        let pools: HashMap<_, _> = self.pools.iter().collect();
        for name in self.names.values() {
            self.check_name(name, pools.get(&name.pool).copied(), &mut found);
        }
        for set in self.records.values() {
            self.check_records(set, &mut found);
        }
        self.check_all_alias_loops(&mut found);
        found.sort();
        found
    }

    /// Returns the violations of these monitors, pools, steered names and declared records only; names of objects that
    /// do not exist are ignored. A violation that a pool causes at a name is reported at the name.
    pub fn violations_of<'a>(
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
        let changed: Vec<&Name> = names.into_iter().collect();
        for name in changed.iter().filter_map(|name| self.names.get(*name)) {
            self.check_name(name, self.pools.get(&name.pool), &mut found);
        }
        let records: Vec<&Name> = records.into_iter().collect();
        for set in records.iter().flat_map(|name| self.records_at(name)) {
            self.check_records(set, &mut found);
        }
        self.check_alias_loops(changed.into_iter().chain(records), &mut found);
        found.sort();
        found
    }

    pub(super) fn check_monitor(
        &self,
        monitor: Option<&MonitorName>,
        subject: impl Fn() -> Subject,
        found: &mut Vec<Violation>,
    ) {
        if let Some(name) = monitor.filter(|name| !self.monitors.contains_key(*name)) {
            let hint = nearest(name.as_str(), self.monitors.keys().map(MonitorName::as_str));
            found.push(error(subject(), format!("monitor {name} is not declared"), hint).of("/monitor"));
        }
    }

    fn check_cluster(&self, cluster: &Cluster, found: &mut Vec<Violation>) {
        let Cluster { name, addresses, .. } = cluster;
        let subject = || Subject::Cluster(name.clone());
        if addresses.is_empty() && cluster.hosts.is_empty() && cluster.kubernetes.is_none() {
            let hint = "give at least one ingress address, or kubernetes, whose gateway has one";
            found.push(error(subject(), format!("cluster {name} has no address"), hint));
        }
        self.check_monitor(cluster.monitor.as_ref(), subject, found);
        let mut hosts = BTreeSet::new();
        for host in cluster.hosts.iter().filter(|host| !hosts.insert(&host.name)) {
            found.push(error(subject(), format!("cluster {name} lists host name {} twice", host.name), "keep one"));
        }
        for (family, is_v4) in [("IPv4", true), ("IPv6", false)] {
            let count = addresses.iter().filter(|address| address.is_ipv4() == is_v4).count();
            if count > Cluster::ADDRESSES_MAX {
                let limit = Cluster::ADDRESSES_MAX;
                let what =
                    format!("cluster {name} has {count} {family} addresses, over the limit of {limit} in one answer");
                found.push(error(subject(), what, "declare two clusters"));
            }
        }
        let mut seen = BTreeSet::new();
        for address in addresses.iter().filter(|address| !seen.insert(**address)) {
            found.push(error(subject(), format!("cluster {name} lists address {address} twice"), "keep one"));
        }
        if self.load_bounds.contains_key(name) && !cluster.has_capacity() {
            let what = format!("cluster {name} has a load target or limit but no capacity");
            found.push(warning(subject(), what, "set its capacity; until then target and limit have no effect"));
        }
    }

    /// Warns about an address or host name that several clusters have.
    fn check_shared_addresses(&self, found: &mut Vec<Violation>) {
        let mut first: HashMap<String, &ClusterName> = HashMap::new();
        for Cluster { name, addresses, hosts, .. } in self.clusters.values() {
            let addresses = addresses.iter().map(IpAddr::to_string);
            for address in addresses.chain(hosts.iter().map(|host| host.name.to_string())) {
                let other = *first.entry(address.clone()).or_insert(name);
                if other != name {
                    let what = format!(
                        "clusters {other} and {name} both have {address}, so a drain of one does not remove it"
                    );
                    let hint = "keep it in one cluster, which may be a member of many pools";
                    found.push(warning(Subject::Cluster(name.clone()), what, hint).of("/addresses"));
                }
            }
        }
    }

    fn check_cluster_load(&self, cluster: &ClusterName, load: &ClusterLoadSource, found: &mut Vec<Violation>) {
        let subject = || Subject::Cluster(cluster.clone());
        let name = &load.source;
        let Some(source) = self.load_sources.get(name) else {
            let hint = nearest(name.as_str(), self.load_sources.keys().map(LoadSourceName::as_str));
            found.push(error(subject(), format!("load source {name} is not declared"), hint).of("/load"));
            return;
        };
        let has_capacity = self.clusters.get(cluster).is_some_and(Cluster::has_capacity);
        if source.unit == LoadUnit::Capacity && !has_capacity {
            let what = format!("cluster {cluster} uses load source {name} but has no capacity");
            let hint = "set its capacity in the unit of the load, or the unit of the load source to permille";
            found.push(error(subject(), what, hint));
        }
        if !load.gateways.is_empty() && !source.is_per_gateway() {
            let what = format!("cluster {cluster} names gateways to scrape, but load source {name} reads one URL");
            found.push(error(subject(), what, "remove scrape"));
        }
    }

    fn check_records(&self, set: &RecordSet, found: &mut Vec<Violation>) {
        if self.zone_of(&set.name).is_none() {
            let subject = Subject::Records(set.name.clone(), set.rtype);
            let what = format!("{} {} is in no declared zone", set.name, set.rtype);
            found.push(error(subject, what, "declare its zone, or fix the name"));
        }
    }

    fn check_name(&self, name: &SteeredName, pool: Option<&Pool>, found: &mut Vec<Violation>) {
        let subject = || Subject::Name(name.name.clone());
        let zone = self.zone_of(&name.name);
        if zone.is_none() {
            let what = format!("{} is in no declared zone", name.name);
            found.push(error(subject(), what, "declare its zone, or fix the name"));
        }
        let Some(pool) = pool else {
            let hint = nearest(name.pool.as_str(), self.pools.keys().map(PoolName::as_str));
            found.push(error(subject(), format!("pool {} is not declared", name.pool), hint).of("/pool"));
            return;
        };
        let is_public = zone.is_some_and(|zone| zone.visibility == Visibility::Public);
        if is_public && !pool.members.is_empty() && pool.members.iter().all(|member| member.internal) {
            let what =
                format!("every member of pool {} is internal, but the zone of {} is public", pool.name, name.name);
            let hint = "set visibility of the zone to private, or add a member that is not internal";
            found.push(warning(subject(), what, hint));
        }
        let is_apex = self.zones.contains_key(&name.name);
        if is_apex && pool.mode == AnswerMode::Cname {
            let what = format!("{} is a zone apex, which cannot have a CNAME (RFC 1912 section 2.4)", name.name);
            found.push(error(subject(), what, "set mode of the pool to address"));
        } else if is_apex && matches!(pool.down, DownAnswer::FallbackCname(_)) {
            let what = format!("{} is a zone apex, which cannot have a fallback {}", name.name, Rtype::CNAME);
            found.push(error(subject(), what, "give fallback addresses"));
        }
    }
}

fn check_monitor_times(name: &MonitorName, monitor: &Monitor, found: &mut Vec<Violation>) {
    let subject = || Subject::Monitor(name.clone());
    check_times(&format_args!("monitor {name}"), subject, monitor.period, monitor.timeout, found);
    if monitor.rise == 0 || monitor.fall == 0 {
        let what = format!("monitor {name}: rise and fall count from 1");
        found.push(error(subject(), what, "give 1 to change the status at the first probe"));
    }
}

fn check_load_source(name: &LoadSourceName, source: &LoadSource, found: &mut Vec<Violation>) {
    let subject = || Subject::LoadSource(name.clone());
    check_times(&format_args!("load source {name}"), subject, source.period, source.timeout, found);
}

/// Checks the period and the timeout of a monitor or a load source, which have the same limits.
fn check_times(
    of: &dyn Display,
    subject: impl Fn() -> Subject,
    period: Duration,
    timeout: Duration,
    found: &mut Vec<Violation>,
) {
    let limit = Monitor::PERIOD_MIN;
    if period < limit {
        let what = format!("{of}: period {period:?} is under {limit:?}");
        found.push(error(subject(), what, "give a longer period").of("/period"));
    }
    if timeout.is_zero() || timeout > period {
        let what = format!("{of}: timeout {timeout:?} is not between 0 and the period {period:?}");
        found.push(error(subject(), what, "give a timeout of at most the period").of("/timeout"));
    }
}

pub(super) fn error(subject: Subject, what: impl Into<String>, hint: impl Into<String>) -> Violation {
    Violation { subject, field: "", severity: Severity::Error, fact: what.into(), hint: hint.into() }
}

pub(super) fn warning(subject: Subject, what: impl Into<String>, hint: impl Into<String>) -> Violation {
    Violation { subject, field: "", severity: Severity::Warning, fact: what.into(), hint: hint.into() }
}

/// Returns "did you mean X?" if a known name is close to `wanted`, else up to eight names to choose from.
pub(super) fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<_> = known.collect();
    match closest(wanted, known.iter().copied()) {
        _ if known.is_empty() => "declare it; none is declared yet".to_owned(),
        Some(best) => format!("did you mean {best}?"),
        None => format!("declare it, or use one of: {}", known[..known.len().min(8)].join(", ")),
    }
}
