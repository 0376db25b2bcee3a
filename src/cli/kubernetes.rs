//! The Kubernetes APIs of clusters in `fairway status`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use fairway_api_types::{
    kubernetes_wire::KubernetesState,
    state_wire::{ClusterState, State},
};

use super::output::{Cell, Palette, Tone, ago, table};

/// Returns a row of each API, what fails in it, and the first problems of its objects.
pub(super) fn kubernetes_table(palette: Palette, state: &State) -> String {
    let of_clusters = || state.clusters.iter().filter_map(|cluster| Some((cluster, cluster.kubernetes.as_ref()?)));
    let row = |(cluster, api): (&ClusterState, &KubernetesState)| {
        let read = api.read_at.as_ref().map_or_else(|| "never".to_owned(), |at| ago(at, &state.now));
        let failing = api.failing_since.as_ref().map(|at| format!("since {}", ago(at, &state.now)));
        let tone = if failing.is_some() { Tone::Warn } else { Tone::Plain };
        vec![
            cluster.name.as_str().into(),
            api.gateway.clone().unwrap_or_else(|| "no gateway".to_owned()).into(),
            api.gateway_pods.to_string().into(),
            api.names.to_string().into(),
            objects(api).into(),
            read.into(),
            Cell::new(tone, failing.unwrap_or_default()),
        ]
    };
    let mut text = table(
        palette,
        2,
        &["cluster", "gateway", "pods", "names", "objects", "changed", "failing"],
        of_clusters().map(row),
    );
    for (cluster, api) in of_clusters() {
        let name = &cluster.name;
        if let Some(why) = &api.failure {
            let _ = writeln!(text, "  {name}: {}", palette.paint(Tone::Warn, why));
        }
        if api.pods_unreachable {
            let _ =
                writeln!(text, "  {name}: the pods of the gateway cannot be reached; load is read from the addresses");
        }
        if let Some(why) = &api.no_service_statistics {
            let _ = writeln!(text, "  {name}: {why}");
        }
        for ((state, why), kinds) in unread_kinds(api) {
            let _ = writeln!(text, "  {name}: {} {}: {why}", kinds.join(", "), palette.paint(Tone::Warn, state));
        }
        for service in without_endpoint(state, cluster) {
            let _ =
                writeln!(text, "  {name}: no gateway has a healthy endpoint of {}", palette.paint(Tone::Bad, service));
        }
        for problem in api.problems.iter().take(PROBLEMS_MAX) {
            let _ = writeln!(text, "  {name}: {}: {}", problem.object, problem.message);
        }
        let more = api.problems.len().saturating_sub(PROBLEMS_MAX);
        if more > 0 {
            let _ = writeln!(text, "  {name}: {more} more problems, see /v1/state");
        }
    }
    text
}

/// Returns the kinds that are not read, by state and reason: an API that cannot be reached has one reason for all.
fn unread_kinds(api: &KubernetesState) -> BTreeMap<(&str, &str), Vec<&str>> {
    let mut unread: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for kind in &api.kinds {
        if let Some(why) = &kind.why {
            unread.entry((kind.state.as_str(), why.as_str())).or_default().push(kind.kind.as_str());
        }
    }
    unread
}

/// Returns the number of objects, and the memory of what is kept of them.
fn objects(api: &KubernetesState) -> String {
    let count: usize = api.kinds.iter().map(|kind| kind.objects).sum();
    format!("{count} ({:.1} MiB)", api.objects_bytes as f64 / f64::from(1 << 20))
}

/// Returns the services for which the gateways of a cluster have no healthy endpoint, the first ones.
fn without_endpoint<'a>(state: &'a State, cluster: &ClusterState) -> BTreeSet<&'a str> {
    let members = state.pools.iter().flat_map(|pool| &pool.members).filter(|member| member.cluster == cluster.name);
    let services = members.flat_map(|member| &member.services).filter(|service| service.healthy == Some(0));
    services.map(|service| service.service.as_str()).take(PROBLEMS_MAX).collect()
}

/// Problems of objects that are shown of each cluster.
const PROBLEMS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use fairway_api_types::kubernetes_wire::KindState;

    use super::*;

    #[test]
    fn objects_are_shown_with_their_memory() {
        let unread = |kind: &str, why: &str| KindState {
            kind: kind.into(),
            state: "failing".into(),
            why: Some(why.into()),
            ..KindState::default()
        };
        let mut kinds = [3, 4].map(|objects| KindState { objects, ..KindState::default() }).to_vec();
        kinds.extend([unread("Service", "refused"), unread("Ingress", "no right"), unread("Gateway", "refused")]);
        let api = KubernetesState { kinds, objects_bytes: 3 << 19, ..KubernetesState::default() };
        let kubernetes = Some(api);
        let clusters = vec![ClusterState { name: "eu1".into(), kubernetes, ..ClusterState::default() }];
        let text = kubernetes_table(Palette::PLAIN, &State { clusters, ..State::default() });
        assert!(text.contains("OBJECTS") && text.contains("7 (1.5 MiB)"), "{text}");
        let unread = "  eu1: Ingress failing: no right\n  eu1: Service, Gateway failing: refused\n";
        assert!(text.contains(unread), "{text}");
    }
}
