//! The state of Kubernetes APIs.

use fairway_api_types::kubernetes_wire::{KindState, KubernetesState, ObjectProblem};
use fairway_health::load::ClusterLoad;
use fairway_model::ContributionProblem;
use fairway_sources::{FoundCluster, KindStatus, SourceProblem, SourceStatus, WatchState};

use super::services::missing_statistics;

/// Returns the body for the Kubernetes API of a cluster. `warnings` are those about what its objects declare.
pub(super) fn kubernetes_state<'a>(
    status: &SourceStatus,
    (found, load): (Option<&FoundCluster>, Option<&ClusterLoad>),
    warnings: impl Iterator<Item = &'a ContributionProblem>,
) -> KubernetesState {
    let problem = |SourceProblem { object, message }: &SourceProblem| ObjectProblem {
        object: object.clone(),
        message: message.clone(),
    };
    KubernetesState {
        failure: status.failure.as_deref().map(ToOwned::to_owned),
        failing_since: status.failing_since.map(|at| at.to_string()),
        read_at: status.read_at.map(|at| at.to_string()),
        gateway: status.gateway.as_ref().map(ToString::to_string),
        gateways: status.gateways.clone(),
        gateway_pods: found.map_or(0, |found| found.pods.len()),
        pods_unreachable: load.is_some_and(|load| load.is_instead),
        no_service_statistics: found.zip(load).and_then(|(found, load)| missing_statistics(found, load)),
        names: status.names,
        names_outside: status.names_outside,
        kinds: status.kinds.iter().map(kind_state).collect(),
        problems: status.problems.iter().map(problem).chain(warnings.map(refused)).take(PROBLEMS_MAX).collect(),
    }
}

fn refused(ContributionProblem { name, owner, message, .. }: &ContributionProblem) -> ObjectProblem {
    let namespace = owner.split_once('/').map_or("", |(_, namespace)| namespace);
    ObjectProblem { object: format!("{name} of namespace {namespace}"), message: message.clone() }
}

/// Maximum number of problems of one cluster.
const PROBLEMS_MAX: usize = 100;

fn kind_state(KindStatus { kind, state, objects }: &KindStatus) -> KindState {
    let (word, why) = match state {
        WatchState::Listing => ("listing", None),
        WatchState::Watching => ("watching", None),
        WatchState::NotInstalled => ("notInstalled", None),
        WatchState::Denied(why) => ("denied", Some(why)),
        WatchState::Failing(why) => ("failing", Some(why)),
    };
    let why = why.map(|why| why.to_string());
    KindState { kind: kind.to_string(), state: word.to_owned(), why, objects: *objects }
}
