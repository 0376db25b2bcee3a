//! Health of the targets of contributed names, as the answers use it.

use fairway_contributions::{Evidence, Meaning, ReadRow};
use fairway_model::{ClusterName, Eligibility, Member, Name, Pool, PoolName};
use fairway_sources::TargetHealth;

use crate::served::{CurrentState, Served};

/// Health in the state that is served.
pub(crate) struct ServedHealth<'a>(pub(crate) &'a CurrentState);

impl Evidence for ServedHealth<'_> {
    fn eligibility(&self, row: &ReadRow) -> Option<Eligibility> {
        let (pool, own, _) = self.members(row)?;
        own.into_iter().filter_map(|member| self.of_member(&pool.name, &member.cluster)).min()
    }

    fn is_declared_healthy(&self, name: &Name) -> Option<bool> {
        let declared = &self.0.published.configured.merged.declared;
        let pool = declared.pools.get(&declared.names.get(name)?.pool)?;
        let mut states = pool.members.iter().map(|member| self.of_member(&pool.name, &member.cluster));
        Some(states.any(|state| state.is_some_and(|state| state < Eligibility::Pending)))
    }
}

impl ServedHealth<'_> {
    /// Returns the pool of a row's name, with the members that the row declares, and the others; `None` if the row declares none.
    fn members(&self, row: &ReadRow) -> Option<(&Pool, Vec<&Member>, Vec<&Member>)> {
        let (addresses, host, spec) = match &row.meaning {
            Meaning::Addresses(addresses, spec) => (&addresses[..], None, spec),
            Meaning::Host(host, spec) => (&[][..], Some(host), spec),
            Meaning::Nothing | Meaning::Records(_) => return None,
        };
        let desired = &self.0.published.configured.merged.desired;
        let pool = desired.pools.get(&desired.names.get(row.name.as_ref()?)?.pool)?;
        let (own, others) = pool.members.iter().partition(|member| {
            let cluster = desired.clusters.get(&member.cluster);
            let has_address = cluster.is_some_and(|cluster| cluster.addresses.iter().any(|it| addresses.contains(it)));
            let has_host = cluster.is_some_and(|cluster| cluster.hosts.iter().any(|it| Some(&it.name) == host));
            has_address || has_host || spec.cluster.as_ref() == Some(&member.cluster)
        });
        Some((pool, own, others))
    }

    /// Returns the best eligibility of the addresses of a member.
    pub(crate) fn of_member(&self, pool: &PoolName, cluster: &ClusterName) -> Option<Eligibility> {
        let configured = &self.0.published.configured;
        let cluster = configured.merged.desired.clusters.get(cluster)?;
        let targets = cluster.addresses.iter().flat_map(|address| {
            let address = (cluster.name.clone(), *address);
            configured.uses.targets(pool, &address).collect::<Vec<_>>()
        });
        targets.map(|target| self.0.runtime.health(target).eligibility()).min()
    }
}

/// Health of the targets of found names.
#[derive(Debug)]
pub(crate) struct FoundHealth(pub(crate) Served);

impl TargetHealth for FoundHealth {
    fn eligibility(&self, row: &ReadRow) -> Option<Eligibility> {
        ServedHealth(&self.0.load()).eligibility(row)
    }

    fn is_other_healthy(&self, row: &ReadRow) -> Option<bool> {
        let state = self.0.load();
        let health = ServedHealth(&state);
        let (pool, _, others) = health.members(row).filter(|(_, _, others)| !others.is_empty())?;
        let mut states = others.into_iter().map(|member| health.of_member(&pool.name, &member.cluster));
        Some(states.any(|state| state.is_some_and(|state| state < Eligibility::Pending)))
    }
}
