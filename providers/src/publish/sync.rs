//! One sync: read, plan, apply policy and bounds, note, apply.

use std::{collections::BTreeSet, fmt, str::FromStr};

use fairway_model::{Changes, Name, ProviderRecordSet, RecordSetKey, stable_hash};

use super::{
    apply::Applied,
    bounds::{Bounds, RefusedDeletions},
    plan::{Obstacle, Plan, Scope, Wanted, plan},
    policy::Policy,
    provider::{Provider, ProviderError},
    registry::{Claim, Claims, Current, Owner, Ownership, Unit},
};

/// Rules of publishing to a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Zones that may be written to.
    pub zones: Vec<Name>,
    /// Allowed kinds of changes.
    pub policy: Policy,
    /// Registry that holds the owner of each set.
    pub ownership: Ownership,
    /// Maximum number of deletions of one sync.
    pub bounds: Bounds,
}

/// The plan of a sync, and what it is based on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// Changes of wanted sets that policy and bounds allow.
    pub changes: Changes,
    /// All changes, including registry records.
    pub units: Vec<Unit>,
    /// Owned sets that do not change.
    pub kept: Vec<RecordSetKey>,
    /// Wanted sets that cannot be published, with the reason.
    pub refused: Vec<(RecordSetKey, Obstacle)>,
    /// Deletions that exceed the bounds and are not applied.
    pub deletions: Option<RefusedDeletions>,
    /// Number of owned sets in the zones.
    pub owned: usize,
    /// Number of sets of other owners, which are never changed.
    pub foreign: usize,
}

/// Result of a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The plan.
    pub draft: Draft,
    /// The changes that were applied, and the reasons why others were not.
    pub applied: Applied,
}

impl Draft {
    /// Returns the id of the plan: drafts with equal ids make the same changes to the same records. Registry records are counted only, since
    /// encrypted ones differ each time.
    pub fn id(&self) -> PlanId {
        let Self { changes, units, deletions, .. } = self;
        let sets: usize = units.iter().map(|unit| unit.changes.len()).sum();
        PlanId(stable_hash(&format!("{changes:?} {sets} {deletions:?}")))
    }
}

/// Id of a plan: 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanId(u64);

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for PlanId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_id = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u64::from_str_radix(text, 16).ok().filter(|_| is_id).map(Self);
        id.ok_or_else(|| {
            format!("{text:.40} is not the id of a plan; give the 16 digits that `fairway publish plan` prints")
        })
    }
}

impl Rules {
    /// Reads and plans; changes nothing. `granted` deletions are allowed beyond the bounds.
    pub async fn draft(
        &self,
        provider: &dyn Provider,
        wanted: &Wanted,
        claims: &Claims,
        granted: usize,
    ) -> Result<Draft, ProviderError> {
        let limits = provider.limits();
        let mut current = self.read(provider, wanted, claims).await?;
        let late = |_| ProviderError::Late(limits.timeout);
        let adjusting = tokio::time::timeout(limits.timeout, adjusted(provider, wanted, &current));
        let (adjusted, dropped) = adjusting.await.map_err(late)??;
        if self.policy != Policy::Sync {
            current.keep_orphans();
        }
        let scope = Scope { zones: &self.zones, types: limits.types, set_identifiers: limits.weights.is_some() };
        let mut plan = plan(&adjusted, &current, scope, &self.ownership);
        plan.refused.extend(dropped.into_iter().map(|key| (key, Obstacle::Dropped)));
        Ok(self.drafted(plan, &current, granted))
    }

    /// Reads the sets of the provider and their owners.
    pub(super) async fn read(
        &self,
        provider: &dyn Provider,
        wanted: &Wanted,
        claims: &Claims,
    ) -> Result<Current, ProviderError> {
        let limits = provider.limits();
        let late = |_| Err(ProviderError::Late(limits.timeout));
        let read = tokio::time::timeout(limits.timeout, provider.read()).await.unwrap_or_else(late)?;
        let keys: BTreeSet<_> = wanted.sets.iter().map(ProviderRecordSet::key).collect();
        Ok(self.ownership.sort(read, claims, &keys))
    }

    fn drafted(&self, plan: Plan, current: &Current, granted: usize) -> Draft {
        let Plan { mut changes, kept, refused } = plan;
        self.policy.filter(&mut changes);
        let owned = current.owned();
        let deletions = self.bounds.limit_deletions(&mut changes, owned, granted);
        let units = self.ownership.units(changes.clone(), &kept, current);
        let foreign = current.sets.values().filter(|there| there.owner != Owner::Us).count();
        Draft { changes, units, kept, refused, deletions, owned, foreign }
    }
}

/// Returns the wanted sets as the provider keeps them, and those that it omits. The names of omitted sets are held, so existing sets stay.
async fn adjusted(
    provider: &dyn Provider,
    wanted: &Wanted,
    current: &Current,
) -> Result<(Wanted, BTreeSet<RecordSetKey>), ProviderError> {
    // A set without records holds its name.
    let (sets, holding): (Vec<_>, Vec<_>) = wanted.sets.iter().cloned().partition(|set| !set.set.rdatas.is_empty());
    let mut dropped: BTreeSet<_> = sets.iter().map(ProviderRecordSet::key).collect();
    let without_ttl: BTreeSet<_> =
        sets.iter().filter(|set| set.set.ttl.secs() == 0).map(ProviderRecordSet::key).collect();
    let mut sets = provider.adjust(sets).await?;
    // Sets that the provider adds are not published.
    sets.retain(|set| dropped.remove(&set.key()));
    // A provider that removes the TTL chooses it: the current one counts as unchanged.
    for set in sets.iter_mut().filter(|set| set.set.ttl.secs() == 0 && !without_ttl.contains(&set.key())) {
        set.set.ttl = current.sets.get(&set.key()).map_or(set.set.ttl, |there| there.set.set.ttl);
    }
    sets.extend(holding);
    let mut held = wanted.held.clone();
    held.extend(dropped.iter().map(|key| key.name.clone()));
    Ok((Wanted { sets, held }, dropped))
}

/// Returns the notes before a draft is applied: they include all sets that it writes. New ones are pending, so that they are not ours if the
/// draft is never applied and another client creates them. Owned sets that do not change are no longer pending.
pub(super) fn claimed(claims: &Claims, draft: &Draft) -> Claims {
    let mut claims = claims.clone();
    let note =
        |set: &ProviderRecordSet, is_pending| (set.key(), Claim { records: set.set.rdatas.to_vec(), is_pending });
    claims.extend(draft.changes.create.iter().map(|set| note(set, true)));
    claims.extend(draft.changes.update.iter().map(|update| note(&update.to, false)));
    for key in &draft.kept {
        if let Some(claim) = claims.get_mut(key) {
            claim.is_pending = false;
        }
    }
    claims
}

/// Returns the notes after a draft: without deleted sets, and without sets whose TXT records were read.
pub(super) fn settled(claims: &Claims, outcome: &Outcome, ownership: &Ownership) -> Claims {
    if outcome.applied.broken.is_some() || !outcome.applied.refused.is_empty() {
        let mut claims = claims.clone();
        // A set that was not there and was not written is not ours, if another client creates it now.
        let is_refused = |set: &&ProviderRecordSet| outcome.applied.refused.contains_key(&set.set.name);
        for set in outcome.draft.changes.create.iter().filter(is_refused) {
            claims.remove(&set.key());
        }
        return claims;
    }
    if matches!(ownership, Ownership::Txt { .. }) {
        // This sync has read the TXT records of older sets; those that it wrote are read by the next sync.
        let written = &outcome.draft.changes;
        let fresh: BTreeSet<_> = written.create.iter().map(ProviderRecordSet::key).collect();
        return claims.iter().filter(|(key, _)| fresh.contains(key)).map(|(k, r)| (k.clone(), r.clone())).collect();
    }
    let mut claims = claims.clone();
    for set in &outcome.draft.changes.create {
        if let Some(claim) = claims.get_mut(&set.key()) {
            claim.is_pending = false;
        }
    }
    for set in &outcome.draft.changes.delete {
        claims.remove(&set.key());
    }
    claims
}
