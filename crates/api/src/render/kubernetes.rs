//! The state of Kubernetes APIs.

use fairway_api_types::kubernetes_wire::{KindState, KubernetesState, ObjectProblem, WeightFactors};
use fairway_control::configured::Configured;
use fairway_health::load::ClusterLoad;
use fairway_model::{ClusterName, ContributionProblem, Member, Pool, WeightOrigin};
use fairway_sources::{FoundCluster, KindStatus, SourceProblem, SourceStatus, WatchState};

use super::services::missing_statistics;

/// Returns the body for the Kubernetes API of a cluster. `warnings` are the problems of what its objects declare together with others.
pub(super) fn kubernetes_state(
    status: &SourceStatus,
    (found, load): (Option<&FoundCluster>, Option<&ClusterLoad>),
    warnings: impl Iterator<Item = ObjectProblem>,
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
        objects_bytes: status.objects_bytes,
        problems: status.problems.iter().map(problem).chain(warnings).take(PROBLEMS_MAX).collect(),
    }
}

/// Returns the problem of a contribution, with the object that declares it.
pub(super) fn refused(found: Option<&FoundCluster>, problem: &ContributionProblem) -> ObjectProblem {
    let object = found.and_then(|found| found.objects_of(problem).next()).map(ToString::to_string);
    // Without one, the object has changed since.
    let object = object.unwrap_or_else(|| problem.owner.to_string());
    ObjectProblem { object, message: format!("{}: {}", problem.name, problem.message) }
}

/// Returns the problems of splits in objects of a cluster.
pub(super) fn split_problems<'a>(
    configured: &'a Configured,
    cluster: &'a ClusterName,
) -> impl Iterator<Item = ObjectProblem> + 'a {
    let all = configured.merged.weighed.values().flat_map(|weights| &weights.problems);
    let own = all.filter(move |problem| problem.cluster == *cluster);
    own.map(|problem| ObjectProblem { object: problem.object.to_string(), message: problem.message.clone() })
}

/// Returns the factors of the weight of a member. `origin` is the contribution that has it.
pub(crate) fn weight_factors(
    configured: &Configured,
    pool: &Pool,
    member: &Member,
    origin: Option<&WeightOrigin>,
) -> WeightFactors {
    let weights = configured.merged.weighed.get(&pool.name);
    let factors = weights.and_then(|weights| weights.members.get(&member.cluster)).copied().unwrap_or_default();
    let declared = configured.merged.declared.pools.get(&pool.name);
    let declared = declared.and_then(|pool| pool.members.iter().find(|of| of.cluster == member.cluster));
    let own = declared.map(|of| of.weight).or_else(|| origin?.weight);
    let from = match (declared, own) {
        (Some(_), _) if INTENT_POOLS.iter().any(|start| pool.name.as_str().starts_with(start)) => "intent",
        (Some(_), _) => "pool",
        (None, Some(_)) => "webhook",
        (None, None) if factors.split.is_some() => "split",
        (None, None) => "default",
    };
    let split = weights.and_then(|weights| weights.split.as_ref()).filter(|_| from == "split");
    WeightFactors {
        base: own.map(|weight| weight.0.into()).or(factors.split).unwrap_or(1),
        from: from.to_owned(),
        object: split.map(|(cluster, object)| format!("{cluster}: {object}")),
        pods: factors.pods,
    }
}

/// Beginnings of the names of the pools of intents.
const INTENT_POOLS: [&str; 2] = ["compound+", "inbound+"];
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
