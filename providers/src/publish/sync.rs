//! One sync: read, compare, hold back, note, carry out.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fairway_model::{Changes, Name, ProviderRecordSet, RecordSetKey};

use super::{
    apply::apply,
    bounds::{Bounds, RefusedDeletions},
    plan::{Obstacle, Plan, Scope, Wanted, plan},
    policy::Policy,
    provider::{Provider, ProviderError},
    registry::{Claims, Current, Owner, Ownership, Unit},
};

/// How a provider is published to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Zones that may be written to.
    pub zones: Vec<Name>,
    /// What may be done.
    pub policy: Policy,
    /// How it is known whose a set is.
    pub ownership: Ownership,
    /// How much may be deleted at once.
    pub bounds: Bounds,
}

/// What a sync would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// The changes of wanted sets, as policy and bounds leave them.
    pub changes: Changes,
    /// All that is carried out, the registry's records among it.
    pub units: Vec<Unit>,
    /// Sets of ours that stay.
    pub kept: Vec<RecordSetKey>,
    /// Wanted sets that cannot be published.
    pub refused: Vec<(RecordSetKey, Obstacle)>,
    /// Deletions that were held back.
    pub deletions: Option<RefusedDeletions>,
    /// How many sets of the zones are ours, and how many are of others.
    pub owned: usize,
    /// Sets of others, never touched.
    pub foreign: usize,
}

/// What became of a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What was to be done.
    pub draft: Draft,
    /// Sets that were changed, the registry's counted.
    pub changed: usize,
    /// Names that the provider refused, and why.
    pub refused: BTreeMap<Name, String>,
    /// Why it ended early.
    pub broken: Option<ProviderError>,
}

impl Rules {
    /// Reads and compares; changes nothing. Up to `granted` deletions are let through whatever the bounds say.
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

    /// What stands there, and whose it is.
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
        let deletions = self.bounds.hold(&mut changes, owned, granted);
        let units = self.ownership.units(changes.clone(), &kept, current);
        let foreign = current.sets.values().filter(|there| there.owner != Owner::Us).count();
        Draft { changes, units, kept, refused, deletions, owned, foreign }
    }
}

/// What is wanted as the provider will keep it, and what it leaves out; that is held: what stands there of it stays.
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
    // What it adds by itself is not ours to write.
    sets.retain(|set| dropped.remove(&set.key()));
    // A TTL that it takes out is its own to choose.
    for set in sets.iter_mut().filter(|set| set.set.ttl.secs() == 0 && !without_ttl.contains(&set.key())) {
        set.set.ttl = current.sets.get(&set.key()).map_or(set.set.ttl, |there| there.set.set.ttl);
    }
    sets.extend(holding);
    let mut held = wanted.held.clone();
    held.extend(dropped.iter().map(|key| key.name.clone()));
    Ok((Wanted { sets, held }, dropped))
}

/// Carries a draft out, with this gap before each call.
pub(super) async fn carry_out(provider: &dyn Provider, draft: Draft, gap: Duration) -> Outcome {
    let applied = apply(provider, &draft.units, gap).await;
    let refused = applied.refused.into_iter().map(|(name, error)| (name, error.to_string())).collect();
    Outcome { draft, changed: applied.sets, refused, broken: applied.broken }
}

/// The notes once a draft is under way: with all that it creates.
pub(super) fn claimed(claims: &Claims, draft: &Draft) -> Claims {
    let mut claims = claims.clone();
    let puts = draft.changes.create.iter().chain(draft.changes.update.iter().map(|update| &update.to));
    claims.extend(puts.map(|set| (set.key(), set.set.rdatas.clone())));
    claims
}

/// The notes after a draft was carried out whole: without what it deleted, and, where TXT records speak, without what they speak of.
pub(super) fn settled(claims: &Claims, outcome: &Outcome, ownership: &Ownership) -> Claims {
    if outcome.broken.is_some() || !outcome.refused.is_empty() {
        return claims.clone();
    }
    if matches!(ownership, Ownership::Txt { .. }) {
        // Seen with their TXT records by this sync's reading; what it wrote itself is seen by the next one.
        let written = &outcome.draft.changes;
        let fresh: BTreeSet<_> = written.create.iter().map(ProviderRecordSet::key).collect();
        return claims.iter().filter(|(key, _)| fresh.contains(key)).map(|(k, r)| (k.clone(), r.clone())).collect();
    }
    let mut claims = claims.clone();
    outcome.draft.changes.delete.iter().for_each(|set| drop(claims.remove(&set.key())));
    claims
}
