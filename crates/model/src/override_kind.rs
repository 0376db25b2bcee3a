//! Kinds of overrides: they set the health of clusters, or turn load control off for pools.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use crate::{
    Cluster, ClusterName, DesiredState, Override, OverrideAction, OverrideScope, Policy, Pool, PoolName, PoolPattern,
    Rank, closest,
};

/// The kind of an override, with what it applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverrideKind {
    /// Sets the health of clusters and addresses.
    Health {
        /// The clusters and addresses.
        scope: OverrideScope,
        /// The status it gives them.
        action: OverrideAction,
    },
    /// Pins pools to their declared weights: load control does not decide for them, and does not count their clients.
    LoadOff {
        /// The pools. Only those with the step `load` are pinned.
        pools: PoolPattern,
    },
}

impl OverrideKind {
    /// Word of [`OverrideKind::LoadOff`] among the actions of logs, metrics and lists.
    pub const LOAD_OFF: &'static str = "load-off";

    /// Returns what it applies to as text: `eu*`, or `pools shop*`.
    pub fn scope(&self) -> String {
        match self {
            Self::Health { scope, .. } => scope.to_string(),
            Self::LoadOff { pools } => format!("pools {pools}"),
        }
    }

    /// Returns the word for what it does: `up`, `down`, `drain` or `load-off`.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Health { action: OverrideAction::Up, .. } => "up",
            Self::Health { action: OverrideAction::Down, .. } => "down",
            Self::Health { action: OverrideAction::Drain, .. } => "drain",
            Self::LoadOff { .. } => Self::LOAD_OFF,
        }
    }

    /// Returns scope and action of an override of health.
    pub const fn health(&self) -> Option<(&OverrideScope, OverrideAction)> {
        match self {
            Self::Health { scope, action } => Some((scope, *action)),
            Self::LoadOff { .. } => None,
        }
    }

    /// Returns the pattern of an override that pins pools.
    pub const fn pools(&self) -> Option<&PoolPattern> {
        match self {
            Self::Health { .. } => None,
            Self::LoadOff { pools } => Some(pools),
        }
    }

    /// Returns fact and hint if it matches nothing: no address of any cluster, or no pool that load control decides for. `pinned` has the
    /// pools of the desired state that overrides pin.
    pub fn unmatched(&self, desired: &DesiredState, pinned: &PinnedPools) -> Option<(String, String)> {
        match self {
            Self::Health { scope, .. } => {
                let hint = unmatched_scope(scope, desired)?;
                Some((format!("no address matches {scope}"), hint))
            }
            Self::LoadOff { pools } => {
                let hint = unmatched_pools(pools, desired, pinned)?;
                Some((format!("no pool with the step load matches {pools}"), hint))
            }
        }
    }
}

impl Override {
    /// Returns the action at an address; `None` if it does not apply there.
    pub fn action_at(&self, cluster: &ClusterName, address: IpAddr) -> Option<OverrideAction> {
        let (scope, action) = self.kind.health()?;
        scope.matches(cluster, address).then_some(action)
    }

    /// Returns true if it pins a pool of this name, if that has the step `load`.
    pub fn pins(&self, pool: &PoolName) -> bool {
        self.kind.pools().is_some_and(|pattern| pattern.matches(pool))
    }
}

impl fmt::Display for OverrideKind {
    /// Writes action and scope: `drain eu*`, `load-off pools shop*`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action(), self.scope())
    }
}

/// The pools that overrides pin, with their declared policies.
pub type PinnedPools = BTreeMap<PoolName, Policy>;

/// A pool that an override pins to its declared weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedPool<'a> {
    /// Its declared policy.
    pub policy: &'a Policy,
    /// Id of the override; `None` for one of the configuration.
    pub id: Option<&'a str>,
    /// The override. Of several, the one that expires last.
    pub spec: &'a Override,
}

impl Pool {
    /// Returns the policy of the pool while load control is off for it: its declared weights, for every client.
    ///
    /// What excludes members stays: `schedule`, and `geo` if clients of some location get their regions only.
    fn policy_without_load(&self) -> Policy {
        let is_exclusive = self.location.geo.prefer.iter().any(|preference| preference.only);
        let geo = self.policy.ranks.iter().copied().filter(|rank| *rank == Rank::Geo && is_exclusive);
        Policy { schedule: self.policy.schedule, ranks: geo.collect(), ..Policy::WEIGHTED }
    }
}

impl DesiredState {
    /// Turns load control off for the pools that these overrides match. Returns them with their declared policies.
    pub fn pin_pools(&mut self, overrides: &[Override]) -> PinnedPools {
        let is_pinned = |pool: &&Pool| pool.policy.load && overrides.iter().any(|of| of.pins(&pool.name));
        let pools: Vec<Pool> = self.pools.values().filter(is_pinned).cloned().collect();
        let mut pinned = PinnedPools::new();
        for pool in pools {
            let (name, policy) = (pool.name.clone(), pool.policy_without_load());
            pinned.insert(name.clone(), pool.policy.clone());
            self.pools.insert(name, Pool { policy, ..pool });
        }
        pinned
    }

    /// Returns the pools that an override pins, also those that are pinned already.
    pub fn pools_pinned_by(&self, spec: &Override, pinned: &PinnedPools) -> Vec<PoolName> {
        let is_balanced = |pool: &Pool| pool.policy.load || pinned.contains_key(&pool.name);
        let pools = self.pools.values().filter(|pool| spec.pins(&pool.name) && is_balanced(pool));
        pools.map(|pool| pool.name.clone()).collect()
    }

    /// Returns the names of the pools that one list of overrides pins, and the other does not.
    pub fn pools_pinned_by_one<'a>(
        &'a self,
        before: &'a [Override],
        after: &'a [Override],
    ) -> impl Iterator<Item = &'a PoolName> {
        let is_pinned = |overrides: &[Override], pool: &PoolName| overrides.iter().any(|of| of.pins(pool));
        let pools = if before == after { None } else { Some(self.pools.keys()) };
        pools.into_iter().flatten().filter(move |pool| is_pinned(before, pool) != is_pinned(after, pool))
    }
}

/// Returns a hint if a scope matches no address of any cluster.
fn unmatched_scope(scope: &OverrideScope, desired: &DesiredState) -> Option<String> {
    let clusters = || desired.clusters.values();
    let has_address = |of: &Cluster| of.addresses.iter().any(|address| scope.matches(&of.name, *address));
    // The addresses of a host name may be the ones that match, at another time.
    if clusters()
        .any(|cluster| has_address(cluster) || !cluster.hosts.is_empty() && scope.matches_cluster(&cluster.name))
    {
        return None;
    }
    let matched = clusters().find(|cluster| scope.matches_cluster(&cluster.name));
    Some(match matched {
        Some(cluster) => format!("{} has the addresses {}", cluster.name, listed(&cluster.addresses, ", ")),
        None => similar("cluster", scope.cluster(), clusters().map(|cluster| cluster.name.as_str())),
    })
}

/// Returns a hint if a pattern matches no pool that load control decides for, or did before it was pinned.
fn unmatched_pools(pattern: &PoolPattern, desired: &DesiredState, pinned: &PinnedPools) -> Option<String> {
    let is_balanced = |pool: &&Pool| pool.policy.load || pinned.contains_key(&pool.name);
    let mut matching = desired.pools.values().filter(|pool| pattern.matches(&pool.name)).peekable();
    Some(match matching.peek().copied() {
        Some(_) if matching.any(|pool| is_balanced(&pool)) => return None,
        Some(pool) => format!("pool {} has the policy {}, so load control is off already", pool.name, pool.policy),
        None => {
            let balanced = desired.pools.values().filter(is_balanced);
            similar("pool with load", pattern.as_str(), balanced.map(|pool| pool.name.as_str()))
        }
    })
}

/// Returns a hint with the known name that is similar to a misspelt one, or with the first known ones.
fn similar<'a>(kind: &str, wanted: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match closest(wanted, known.clone()) {
        _ if known.clone().next().is_none() => format!("no {kind} is declared"),
        Some(near) => format!("did you mean {near}?"),
        None => format!("declared: {}", listed(known, ", ")),
    }
}

/// Returns the first few of a list with a separator, and the number of the others.
pub fn listed<T: ToString>(all: impl IntoIterator<Item = T>, separator: &str) -> String {
    let mut all = all.into_iter();
    let first: Vec<String> = all.by_ref().take(LISTED_MAX).map(|one| one.to_string()).collect();
    match all.count() {
        0 => first.join(separator),
        more => format!("{} and {more} more", first.join(separator)),
    }
}

/// Maximum number of names that [`listed`] returns.
pub const LISTED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{LocationMatch, Preference, Timestamp};

    #[test]
    fn eight_of_many_names_are_listed() {
        assert_eq!(listed(["shop", "pay"], ","), "shop,pay");
        assert_eq!(listed(1..=8, ","), "1,2,3,4,5,6,7,8");
        assert_eq!(listed(1..=15_000, ","), "1,2,3,4,5,6,7,8 and 14992 more");
        assert_eq!(listed([""; 0], ","), "");
    }

    fn pool(name: &str, policy: Policy) -> Pool {
        Pool::new(PoolName::new(name).unwrap(), policy)
    }

    fn nearest_and_load() -> Policy {
        Policy { schedule: true, ranks: vec![Rank::Geo, Rank::Nearest], load: true, ..Policy::FAILOVER }
    }

    fn state() -> DesiredState {
        let pools = [pool("shop", nearest_and_load()), pool("mail", nearest_and_load()), pool("www", Policy::FAILOVER)];
        DesiredState {
            pools: pools.map(|pool| (pool.name.clone(), pool)).into_iter().collect(),
            ..DesiredState::default()
        }
    }

    fn load_off(pools: &str) -> Override {
        let kind = OverrideKind::LoadOff { pools: pools.parse().unwrap() };
        Override::new(kind, "load control is the suspect", Timestamp::from_secs(9), Timestamp::from_secs(1)).unwrap()
    }

    fn policy(desired: &DesiredState, pool: &str) -> String {
        desired.pools.get(&PoolName::new(pool).unwrap()).unwrap().policy.to_string()
    }

    #[test]
    fn pinned_pool_has_its_weights_and_schedules_only() {
        let mut desired = state();
        let pinned = desired.pin_pools(&[load_off("s*"), load_off("www")]);
        assert_eq!(pinned, [(PoolName::new("shop").unwrap(), nearest_and_load())].into());
        assert_eq!(policy(&desired, "shop"), "schedule, weighted");
        assert_eq!(
            (policy(&desired, "mail"), policy(&desired, "www")),
            (nearest_and_load().to_string(), "failover".into())
        );
    }

    #[test]
    fn pool_that_keeps_clients_in_their_region_does_so_while_it_is_pinned() {
        let mut desired = state();
        let only = Preference { clients: LocationMatch::default(), regions: vec![Arc::from("eu")], only: true };
        desired.pools.values_mut().for_each(|pool| pool.location.geo.prefer = vec![only.clone()]);
        desired.pin_pools(&[load_off("shop")]);
        assert_eq!(policy(&desired, "shop"), "schedule, geo, weighted");
    }

    #[test]
    fn pattern_without_a_pool_to_pin_gets_a_hint() {
        let mut desired = state();
        let pinned = desired.pin_pools(&[load_off("shop")]);
        let unmatched = |pools: &str| load_off(pools).kind.unmatched(&desired, &pinned).map(|(_, hint)| hint);
        assert_eq!(["shop", "m*", "*"].map(unmatched), [None, None, None], "pinned ones count");
        assert_eq!(unmatched("shpo").as_deref(), Some("did you mean shop?"));
        assert_eq!(unmatched("nothing-like-it").as_deref(), Some("declared: mail, shop"));
        assert_eq!(
            unmatched("www").as_deref(),
            Some("pool www has the policy failover, so load control is off already")
        );
        let (fact, hint) = load_off("*").kind.unmatched(&DesiredState::default(), &PinnedPools::new()).unwrap();
        assert_eq!(fact, "no pool with the step load matches *");
        assert_eq!(hint, "no pool with load is declared");
    }
}
