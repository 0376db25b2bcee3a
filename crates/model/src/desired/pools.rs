//! The rules of a pool: size, weights and tiers, and that the objects its members and policy name are declared.

use super::{
    DesiredState, Subject, Violation,
    locations::check_locations,
    validate::{error, nearest, warning},
};
use crate::{AnswerMode, ClusterName, DownAnswer, Member, Permille, Pool, Tier};

impl DesiredState {
    pub(super) fn check_pool(&self, pool: &Pool, found: &mut Vec<Violation>) {
        // The subject is made only for a violation, because pools are many and mostly without one.
        self.check_monitor(pool.monitor.as_ref(), || Subject::Pool(pool.name.clone()), found);
        check_sizes(pool, found);
        check_policy(pool, found);
        check_locations(self, pool, found);
        check_weights_and_tiers(pool, found);
        self.check_hidden(pool, found);
        self.check_answer_size(pool, found);
        for index in 0..pool.members.len() {
            self.check_member(pool, index, found);
        }
    }

    fn check_member(&self, pool: &Pool, index: usize, found: &mut Vec<Violation>) {
        let Member { cluster: name, monitor, .. } = &pool.members[index];
        let subject = || Subject::Member(pool.name.clone(), index);
        self.check_monitor(monitor.as_ref(), subject, found);
        if pool.members[..index].iter().any(|before| before.cluster == *name) {
            let what = format!("pool {} lists cluster {name} twice", pool.name);
            found.push(error(subject(), what, "keep one member, with the sum of both weights").of("/cluster"));
        }
        let Some(cluster) = self.clusters.get(name) else {
            let hint = nearest(name.as_str(), self.clusters.keys().map(ClusterName::as_str));
            found.push(error(subject(), format!("cluster {name} is not declared"), hint).of("/cluster"));
            return;
        };
        if pool.policy.load && !cluster.has_capacity() {
            let what = format!("pool {} balances by load, but cluster {name} has no capacity", pool.name);
            found.push(warning(subject(), what, "set its capacity; until then the cluster takes its full share"));
        }
        if pool.mode == AnswerMode::Cname && cluster.dns_name.is_none() {
            let what = format!("pool {} has mode cname, but cluster {name} has no dnsName", pool.name);
            let hint = "set dnsName of the cluster, or mode of the pool to address";
            found.push(error(subject(), what, hint).of("/cluster"));
        }
    }
}

fn check_sizes(pool: &Pool, found: &mut Vec<Violation>) {
    let (name, subject) = (&pool.name, || Subject::Pool(pool.name.clone()));
    if pool.members.is_empty() {
        found.push(error(subject(), format!("pool {name} has no member"), "add at least one cluster"));
    }
    let fallback = match &pool.down {
        DownAnswer::FallbackAddresses(addresses) => addresses.len(),
        _ => 0,
    };
    let networks = pool.members.iter().map(|member| member.networks.len()).sum();
    for (count, limit, of, hint) in [
        (pool.members.len(), Pool::MEMBERS_MAX, "members", "split the pool"),
        (fallback, Pool::FALLBACK_MAX, "fallback addresses", "give fewer"),
        (networks, Pool::NETWORKS_MAX, "client networks", "give larger networks, or split the pool"),
    ] {
        if count > limit {
            found.push(error(subject(), format!("pool {name} has {count} {of}, over the limit of {limit}"), hint));
        }
    }
}

fn check_weights_and_tiers(pool: &Pool, found: &mut Vec<Violation>) {
    let (name, subject) = (&pool.name, || Subject::Pool(pool.name.clone()));
    if pool.members.is_empty() {
        return;
    }
    if pool.members.iter().all(|member| member.weight.0 == 0) {
        let what = format!("every member of pool {name} has weight 0, so all have equal shares");
        found.push(warning(subject(), what, "set weights of 1 or more; to remove a member, drain it"));
    }
    if pool.members.iter().all(|member| member.tier != Tier::FIRST) {
        let what = format!("pool {name}: no member is in tier 1");
        found.push(error(subject(), what, "give at least one member tier 1"));
    }
}

fn check_policy(pool: &Pool, found: &mut Vec<Violation>) {
    if !pool.policy.load {
        return;
    }
    let (name, subject) = (&pool.name, || Subject::Pool(pool.name.clone()));
    if pool.min_healthy != Permille::default() {
        let what = format!("pool {name} has minHealthy, but its policy uses load to decide when the next tier helps");
        found.push(error(subject(), what, "remove minHealthy, or load from the policy"));
    }
    if pool.policy.selection.is_in_order() && pool.answers > 1 {
        let what = format!("pool {name} has answers {}, but failover with load answers one cluster", pool.answers);
        found.push(error(subject(), what, "remove answers, or use weighted"));
    }
}
