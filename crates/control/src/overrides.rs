//! The overrides in force: those of the configuration, and those that operators added by command.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{Name, Override, OverrideAction, PinnedPool, PoolName, Timestamp};
use fairway_store::SavedOverride;

use super::{
    configured::Configured,
    error::ControlError,
    uses::{ClusterAddress, TargetUses},
};

/// Maximum number of overrides that are added by command: enough for every cluster of a large fleet, few enough to match quickly.
pub(crate) const OVERRIDES_MAX: usize = 256;

/// An override in force, with the addresses or pools that it applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveOverride {
    /// Id of an override that was added by command; `None` for those of the configuration.
    pub id: Option<String>,
    /// Kind, reason and expiry.
    pub spec: Override,
    /// True if it is in force on all servers that share the store.
    pub is_shared: bool,
    /// Addresses that it applies to now, as `CLUSTER/ADDRESS`, in order.
    pub addresses: Vec<String>,
    /// Pools that it pins now, in order.
    pub pools: Vec<PoolName>,
    /// Addresses at which another override has a different action.
    pub overlaps: Vec<OverrideOverlap>,
}

/// An address that two overrides with different actions match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideOverlap {
    /// The address, as `CLUSTER/ADDRESS`.
    pub address: String,
    /// Id of the other override, or its place in the configuration. Of several, the one that takes precedence.
    pub other: String,
    /// Action of the other override.
    pub action: OverrideAction,
    /// True if the other override takes precedence.
    pub is_shadowed: bool,
}

/// An override to add.
#[derive(Clone, Debug)]
pub struct OverrideRequest {
    /// The override.
    pub spec: Override,
    /// Id of the form `KEY-REQUEST` for a request with an idempotency key: if an override of this key is in force, nothing is added.
    /// `None` for a random one.
    pub id: Option<String>,
    /// True if it may leave names without a healthy member.
    pub is_confirmed: bool,
    /// True to return the effect and add nothing.
    pub is_dry_run: bool,
    /// True to add it to this server alone, if several servers share a store.
    pub is_local: bool,
}

/// The effect of an override on the answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverrideEffect {
    /// Number of names that it leaves without a healthy member, for IPv4 or IPv6.
    pub names: usize,
    /// The first of them, at most 8.
    pub first: Vec<Name>,
}

/// A rule that an override would break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenRule {
    /// The pool.
    pub pool: PoolName,
    /// Number of its clusters that overrides would not take out.
    pub left: usize,
    /// Number of its clusters.
    pub clusters: usize,
    /// Number of clusters that the rule keeps.
    pub min_clusters: u8,
}

/// An override that was added, or that a dry run would add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedOverride {
    /// The override. It has no id after a dry run.
    pub active: ActiveOverride,
    /// Its effect.
    pub effect: OverrideEffect,
}

impl ActiveOverride {
    /// Returns all overrides of a table with the addresses and pools that they match. Those of the configuration come first.
    pub fn all(table: &OverrideTable, configured: &Configured) -> Vec<Self> {
        let (desired, pinned) = (&configured.merged.desired, &configured.merged.pinned);
        let active = |(id, spec): (Option<&str>, &Override)| {
            let pools = desired.pools_pinned_by(spec, pinned);
            let (id, spec) = (id.map(str::to_owned), spec.clone());
            Self { id, spec, is_shared: false, addresses: vec![], pools, overlaps: vec![] }
        };
        let mut all: Vec<Self> = table.all().map(active).collect();
        if all.is_empty() {
            return all;
        }
        all.iter_mut().rev().take(table.shared.len()).for_each(|shared| shared.is_shared = true);
        let uses = &configured.uses;
        let addresses: BTreeSet<&ClusterAddress> =
            uses.targets_all().flat_map(|target| uses.addresses(target)).collect();
        for address in addresses {
            let matching = (0..all.len()).filter_map(|at| Some((at, all[at].spec.action_at(&address.0, address.1)?)));
            let mut matching: Vec<(usize, OverrideAction)> = matching.collect();
            // The first takes precedence over the others.
            matching.sort_by_key(|(_, action)| action.rank());
            let text = format!("{}/{}", address.0, address.1);
            for (place, (at, own)) in matching.iter().enumerate() {
                let other = matching.get(usize::from(place == 0)).filter(|(_, action)| action != own);
                let overlap = other.map(|(other, action)| OverrideOverlap {
                    address: text.clone(),
                    other: all[*other].id.clone().unwrap_or_else(|| all[*other].spec.origin.from.clone()),
                    action: *action,
                    is_shadowed: place > 0,
                });
                all[*at].overlaps.extend(overlap);
                all[*at].addresses.push(text.clone());
            }
        }
        all
    }

    /// Returns the override of a table with this id.
    pub fn of(id: &str, table: &OverrideTable, configured: &Configured) -> Result<Self, ControlError> {
        let mut all = Self::all(table, configured).into_iter();
        all.find(|active| active.id.as_deref() == Some(id)).ok_or_else(|| ControlError::NoSuchOverride(id.to_owned()))
    }
}

/// All overrides that have not expired.
#[derive(Clone, Debug, Default)]
pub struct OverrideTable {
    /// Those of the configuration.
    pub declared: Vec<Override>,
    /// Those added to this server by command.
    pub kept: Vec<SavedOverride>,
    /// Those added to all servers on the store by command.
    pub shared: Vec<SavedOverride>,
}

impl OverrideTable {
    /// Returns all overrides with their ids. Those of the configuration come first and have no id.
    pub fn all(&self) -> impl Iterator<Item = (Option<&str>, &Override)> {
        let declared = self.declared.iter().map(|spec| (None, spec));
        declared.chain(self.added().map(|added| (Some(added.id.as_str()), &added.value)))
    }

    /// Returns those that pin pools.
    pub fn load_off(&self) -> impl Iterator<Item = &Override> {
        self.all().map(|(_, spec)| spec).filter(|spec| spec.kind.pools().is_some())
    }

    /// Returns those added by command.
    pub fn added(&self) -> impl Iterator<Item = &SavedOverride> {
        self.kept.iter().chain(&self.shared)
    }

    /// Returns the table after a change that adds an override, or `None` if it is full.
    pub fn with(&self, add: impl FnOnce(&mut Self)) -> Option<Self> {
        (self.added().count() < OVERRIDES_MAX).then(|| {
            let mut next = self.clone();
            add(&mut next);
            next
        })
    }

    /// Returns the table without an override of this server, or `None` if none has this id.
    pub fn without(&self, id: &str) -> Option<Self> {
        let at = self.kept.iter().position(|kept| kept.id == id)?;
        let mut next = self.clone();
        next.kept.remove(at);
        Some(next)
    }

    /// Removes and returns expired overrides, with their ids.
    pub fn expire(&mut self, now: Timestamp) -> Vec<(Option<String>, Override)> {
        let declared = self.declared.extract_if(.., |spec| !spec.is_active(now)).map(|spec| (None, spec));
        let mut expired: Vec<_> = declared.collect();
        for added in [&mut self.kept, &mut self.shared] {
            let ended = added.extract_if(.., |added| !added.value.is_active(now));
            expired.extend(ended.map(|added| (Some(added.id), added.value)));
        }
        expired
    }

    /// Returns the time of the next expiry.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.all().map(|(_, spec)| spec.expires).min()
    }

    /// Returns the action for each target, by its index.
    ///
    /// If several overrides match, the most restrictive wins: down, then drain, then up. A target that stands for several addresses is
    /// overridden as soon as one of them is, since they share one health status.
    pub fn actions(&self, uses: &TargetUses) -> Vec<Option<OverrideAction>> {
        if self.all().next().is_none() {
            return vec![None; uses.len()];
        }
        let mut known: BTreeMap<&ClusterAddress, Option<OverrideAction>> = BTreeMap::new();
        let mut action = |address| *known.entry(address).or_insert_with(|| Some(self.matching(address)?.1));
        let of_target = |target| uses.addresses(target).filter_map(&mut action).min_by_key(|action| action.rank());
        uses.targets_all().map(of_target).collect()
    }

    /// Returns the override that is in force for an address, and its action.
    pub fn matching(&self, (cluster, address): &ClusterAddress) -> Option<(&Override, OverrideAction)> {
        let matching = self.all().filter_map(|(_, spec)| Some((spec, spec.action_at(cluster, *address)?)));
        matching.min_by_key(|(_, action)| action.rank())
    }

    /// Returns the override that pins a pool of this configuration.
    pub fn pinned<'a>(&'a self, pool: &PoolName, configured: &'a Configured) -> Option<PinnedPool<'a>> {
        let policy = configured.merged.pinned.get(pool)?;
        let matching = self.all().filter(|(_, spec)| spec.pins(pool));
        matching.max_by_key(|(_, spec)| spec.expires).map(|(id, spec)| PinnedPool { policy, id, spec })
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::{ClusterName, OverrideKind};

    use super::*;

    fn spec(scope: &str, action: OverrideAction, expires: u64) -> Override {
        let expires = Timestamp::from_secs(expires);
        let kind = OverrideKind::Health { scope: scope.parse().unwrap(), action };
        Override::new(kind, "work", expires, Timestamp::from_secs(0)).unwrap()
    }

    fn kept(id: &str, value: Override) -> SavedOverride {
        SavedOverride { id: id.to_owned(), value }
    }

    fn address(cluster: &str) -> ClusterAddress {
        (ClusterName::new(cluster).unwrap(), "192.0.2.1".parse().unwrap())
    }

    #[test]
    fn most_restrictive_of_several_overrides_wins() {
        let table = OverrideTable {
            declared: vec![spec("eu*", OverrideAction::Up, 9)],
            kept: vec![
                kept("a", spec("eu1", OverrideAction::Drain, 9)),
                kept("b", spec("*2", OverrideAction::Down, 9)),
            ],
            shared: vec![],
        };
        let actions =
            ["eu1", "eu2", "eu3", "us1"].map(|cluster| table.matching(&address(cluster)).map(|(_, action)| action));
        let expected = [Some(OverrideAction::Drain), Some(OverrideAction::Down), Some(OverrideAction::Up), None];
        assert_eq!(actions, expected);
    }

    #[test]
    fn expired_overrides_are_removed_and_returned() {
        let mut table = OverrideTable {
            declared: vec![spec("eu1", OverrideAction::Up, 5)],
            kept: vec![],
            shared: vec![kept("a", spec("eu2", OverrideAction::Down, 7))],
        };
        assert_eq!(table.next_expiry(), Some(Timestamp::from_secs(5)));
        assert_eq!(table.expire(Timestamp::from_secs(5)), [(None, spec("eu1", OverrideAction::Up, 5))]);
        assert_eq!(table.expire(Timestamp::from_secs(6)), []);
        assert_eq!(table.expire(Timestamp::from_secs(7)).len(), 1);
        assert_eq!(table.next_expiry(), None);
    }

    #[test]
    fn full_table_takes_no_more_and_unknown_id_removes_nothing() {
        let mut table = OverrideTable::default();
        for number in 0..OVERRIDES_MAX {
            let one = kept(&number.to_string(), spec("eu1", OverrideAction::Down, 9));
            let add =
                |table: &mut OverrideTable| if number % 2 == 0 { table.kept.push(one) } else { table.shared.push(one) };
            table = table.with(add).unwrap();
        }
        assert!(table.with(|_| unreachable!("it is full")).is_none());
        assert!(table.without("more").is_none());
        let fewer = table.without("6").unwrap();
        assert_eq!((fewer.kept.len(), fewer.without("6").is_none()), (OVERRIDES_MAX / 2 - 1, true));
    }
}
