//! The state of services of Kubernetes clusters.

use std::sync::Arc;

use fairway_api_types::kubernetes_wire::{ServiceLoadState, ServiceState};
use fairway_health::load::ClusterLoad;
use fairway_model::{MemberService, Name, ServiceReport};
use fairway_sources::FoundCluster;

use super::percent;

/// Returns the services of these names in a cluster, with their statistics at the gateways.
pub(super) fn service_states<'a>(
    found: &FoundCluster,
    load: Option<&ClusterLoad>,
    names: impl Iterator<Item = &'a Name>,
) -> Vec<ServiceState> {
    let mut states: Vec<ServiceState> = Vec::new();
    let rows = names.filter_map(|name| found.names.get(name.to_plain().as_str())).flat_map(|name| &name.rows);
    for row in rows.take(ROWS_MAX) {
        for service in &*row.services {
            let is_new = !states.iter().any(|state| *state.service == **service);
            if is_new && states.len() < SERVICES_MAX {
                states.push(state(service, load));
            }
        }
    }
    states
}

fn state(service: &Arc<str>, load: Option<&ClusterLoad>) -> ServiceState {
    let report = load.and_then(|load| load.services.as_ref());
    let counts = report.and_then(|report| report.counts.get(service)).copied();
    let age = report.filter(|_| counts.is_some()).map(|report| report.at.elapsed());
    let counts = counts.unwrap_or_default();
    ServiceState {
        service: service.to_string(),
        healthy: counts.healthy,
        endpoints: counts.total,
        active: counts.active,
        age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// Returns the load of the services of a member together. `share` is the part of the demand that load control sends to them.
pub(super) fn service_load(
    service: &MemberService,
    report: Option<&ServiceReport>,
    share: Option<f64>,
) -> ServiceLoadState {
    let load = report.and_then(|report| service.load(report));
    let load = load.map(|load| percent(f64::from(load.0) / 1000.0));
    ServiceLoadState { capacity: service.capacity, load, share }
}

/// Returns the reason why there are no statistics of services; `None` if there are, or none are needed.
pub(super) fn missing_statistics(found: &FoundCluster, load: &ClusterLoad) -> Option<String> {
    if found.services.is_empty() || load.services.is_some() {
        return None;
    }
    let is_answering = load.sources.iter().any(|source| source.gateways.is_some_and(|(answering, _)| answering > 0));
    match () {
        () if load.is_reduced => Some(
            "a gateway has over 16 MiB of metrics, so those of services are not read; export fewer of them".to_owned(),
        ),
        () if is_answering => Some(format!("{NO_STATISTICS}{ANNOTATION}")),
        () => None,
    }
}

const NO_STATISTICS: &str = "the gateways export no statistics of services, so the EndpointSlices decide which are available, and the load \
                             of the cluster which share it gets; add to the annotation proxy.istio.io/config of the gateway's pods: ";
/// Setting of Istio's gateways by which they export the statistics that are read.
const ANNOTATION: &str = "proxyStatsMatcher: {inclusionRegexps: \
     ['cluster\\.outbound.*\\.(upstream_rq_active|membership_healthy|membership_total)']}";
/// Maximum number of services that are shown of one member.
const SERVICES_MAX: usize = 16;
/// Maximum number of rows that are looked at for them.
const ROWS_MAX: usize = 256;
