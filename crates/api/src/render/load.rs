//! Renders reports of load.

use fairway_api_types::{load_wire::LoadState, state_wire::ClusterState};
use fairway_health::load::{ClusterLoad, SourceLoad};

/// Adds the reported loads to clusters, which are in order of their names.
pub(super) fn add_loads(clusters: &mut [ClusterState], loads: &[ClusterLoad]) {
    for load in loads {
        let Ok(at) = clusters.binary_search_by(|cluster| cluster.name.as_str().cmp(load.cluster.as_str())) else {
            continue;
        };
        let cluster = &mut clusters[at];
        cluster.load = load.sources.iter().map(load_state).collect();
        cluster.warnings = load.warnings.iter().map(ToString::to_string).collect();
        cluster.exhausted = load.is_exhausted;
    }
}

/// Renders the report of one source.
pub(crate) fn load_state(report: &SourceLoad) -> LoadState {
    LoadState {
        source: report.source.clone(),
        permille: report.load.map(|(load, _)| load.0),
        signal: report.load.map(|(_, signal)| signal.to_string()),
        age_ms: report.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        status: report.status.as_str().to_owned(),
        failure: report.failure.clone(),
        gateways_answering: report.gateways.map(|(answering, _)| answering),
        gateways: report.gateways.map(|(_, all)| all),
    }
}
