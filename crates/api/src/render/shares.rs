//! Declared, answered and arrived shares of members.
//!
//! *Declared* shares are weights. *Answered* ones are answers of the last minute; in load-balanced pools each client counts with its
//! demand, since a resolver asks once a TTL whatever the number of clients behind it. *Arrived* ones are the loads that the clusters
//! report, in the unit of their capacity. A lasting difference has a cause outside of the answers: caches that ignore the TTL, traffic on
//! another path, or a wrong capacity.

use std::collections::HashMap;

use fairway_api_types::state_wire::ShareState;
use fairway_control::answers::Answered;
use fairway_health::load::{ClusterLoad, LoadStatus};
use fairway_model::{ClusterName, DesiredState, Pool, PoolName};
use fairway_zones::Slot;

/// Returns the shares of a pool's members, in declared order.
pub(crate) fn shares(pool: &Pool, answered: &Answered, arrived: &HashMap<ClusterName, f64>) -> Vec<ShareState> {
    let weights: Vec<f64> = pool.members.iter().map(|member| f64::from(member.weight.0)).collect();
    let answers: Vec<f64> = pool
        .members
        .iter()
        .map(|member| answered.get(&slot(&pool.name, &member.cluster)).copied().unwrap_or_default())
        .collect();
    // Without the load of one cluster, the parts of the others are not parts of the whole.
    let loads: Option<Vec<f64>> = pool.members.iter().map(|member| arrived.get(&member.cluster).copied()).collect();
    let loads = loads.and_then(|loads| parts(&loads));
    let (weights, answers) = (parts(&weights), parts(&answers));
    let percent = |parts: &Option<Vec<f64>>, at: usize| parts.as_ref().map(|parts| super::percent(parts[at]));
    let share = |at| ShareState {
        declared: percent(&weights, at),
        answered: percent(&answers, at),
        arrived: percent(&loads, at),
    };
    (0..pool.members.len()).map(share).collect()
}

/// Returns the load of each cluster in the unit of its capacity. Clusters of unknown load are absent.
pub(crate) fn arrived(desired: &DesiredState, loads: &[ClusterLoad]) -> HashMap<ClusterName, f64> {
    let of_cluster = |load: &ClusterLoad| {
        let report = load.sources.iter().find(|source| source.status == LoadStatus::Used)?;
        let (permille, _) = report.load?;
        let capacity = desired.clusters.get(&load.cluster)?.capacity?;
        Some((load.cluster.clone(), f64::from(permille.0) / 1000.0 * capacity as f64))
    };
    loads.iter().filter_map(of_cluster).collect()
}

/// Returns the counter of a cluster in a pool.
pub(crate) fn slot(pool: &PoolName, cluster: &ClusterName) -> Slot {
    Slot { pool: pool.clone(), cluster: cluster.clone() }
}

/// Returns each amount as a part of their sum, or `None` if the sum is 0.
fn parts(amounts: &[f64]) -> Option<Vec<f64>> {
    let sum: f64 = amounts.iter().sum();
    (sum > 0.0).then(|| amounts.iter().map(|amount| amount / sum).collect())
}

#[cfg(test)]
mod tests {
    use fairway_model::{Member, Policy};

    use super::*;

    fn cluster(name: &str) -> ClusterName {
        ClusterName::new(name).unwrap()
    }

    fn pool() -> Pool {
        let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
        pool.members = ["eu1", "us1"].map(|name| Member::new(cluster(name))).into();
        pool.members[0].weight.0 = 60;
        pool.members[1].weight.0 = 40;
        pool
    }

    fn answered(counts: [(&str, f64); 2]) -> Answered {
        counts.map(|(name, count)| (slot(&pool().name, &cluster(name)), count)).into()
    }

    #[test]
    fn shares_are_parts_of_weights_answers_and_loads() {
        let arrived = [(cluster("eu1"), 71.0), (cluster("us1"), 29.0), (cluster("other"), 400.0)].into();
        let shares = shares(&pool(), &answered([("eu1", 580.0), ("us1", 420.0)]), &arrived);
        let share = |declared, answered, arrived| ShareState {
            declared: Some(declared),
            answered: Some(answered),
            arrived: Some(arrived),
        };
        assert_eq!(shares, [share(60.0, 58.0, 71.0), share(40.0, 42.0, 29.0)]);
    }

    #[test]
    fn shares_without_answers_or_with_an_unknown_load_are_absent() {
        let arrived = [(cluster("eu1"), 71.0)].into();
        let shares = shares(&pool(), &Answered::new(), &arrived);
        assert!(shares.iter().all(|share| share.answered.is_none() && share.arrived.is_none()), "{shares:?}");
    }
}
