//! Applies units in batches. A rejected unit is found by halving and left out, and so is one whose sets are no longer as they were read.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use fairway_model::{Changes, Name, ProviderRecordSet, RecordSetKey};

use super::{
    provider::{Limits, Provider, ProviderError},
    registry::Unit,
};

/// Result of applying units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Number of changed sets, including registry records.
    pub sets: usize,
    /// Names whose units the provider rejected on their own, with its reason.
    pub refused: BTreeMap<Name, String>,
    /// Error that ended it early; the next sync does the rest, or a repetition of the step of a handover.
    pub broken: Option<ProviderError>,
    /// Number of calls.
    pub calls: usize,
}

/// Applies units. A rejected batch is halved until the rejected units are alone; any other error ends it.
///
/// `gap` is the pause before each call, which limits the rate.
pub async fn apply(provider: &dyn Provider, units: &[Unit], gap: Duration) -> Applied {
    let limits = provider.limits();
    let mut applied = Applied::default();
    // A stack with the first batch on top.
    let mut left: Vec<&[Unit]> = batches(units, limits.batch_max);
    left.reverse();
    while let Some(batch) = left.pop() {
        let mut changes = Changes::default();
        batch.iter().for_each(|unit| changes.extend(unit.changes.clone()));
        tokio::time::sleep(gap).await;
        applied.calls += 1;
        match call(provider, limits, &changes).await {
            Ok(()) => applied.sets += changes.len(),
            Err(ProviderError::Refused(why)) if batch.len() == 1 => {
                applied.refused.insert(batch[0].name.clone(), ProviderError::Refused(why).to_string());
                if applied.refused.len() >= REFUSED_MAX {
                    let what = format!("the provider rejected {REFUSED_MAX} names; the next sync tries the rest");
                    applied.broken = Some(ProviderError::Unavailable(what));
                    break;
                }
            }
            Err(ProviderError::Refused(_)) => {
                let (first, second) = batch.split_at(batch.len() / 2);
                left.extend([second, first]);
            }
            Err(error) => {
                applied.broken = Some(error);
                break;
            }
        }
    }
    applied
}

async fn call(provider: &dyn Provider, limits: Limits, changes: &Changes) -> Result<(), ProviderError> {
    let late = |_| ProviderError::Late(limits.timeout);
    if !limits.is_conditional {
        let read = tokio::time::timeout(limits.timeout, provider.read()).await.map_err(late)??;
        if let Some(key) = outdated(changes, &read) {
            return Err(ProviderError::Refused(format!("another client changed {key} since it was read")));
        }
    }
    tokio::time::timeout(limits.timeout, provider.apply(changes)).await.map_err(late)?
}

/// Returns the first set that is neither as the changes were planned on, nor as they leave it.
fn outdated(changes: &Changes, read: &[ProviderRecordSet]) -> Option<RecordSetKey> {
    let current: HashMap<RecordSetKey, &ProviderRecordSet> = read.iter().map(|set| (set.key(), set)).collect();
    let creates = changes.create.iter().map(|to| (None, Some(to)));
    let updates = changes.update.iter().map(|update| (Some(&update.from), Some(&update.to)));
    let deletes = changes.delete.iter().map(|from| (Some(from), None));
    let mut all = creates.chain(updates).chain(deletes);
    all.find_map(|(from, to): (Option<&ProviderRecordSet>, Option<&ProviderRecordSet>)| {
        let key = from.or(to)?.key();
        let is_expected = match current.get(&key) {
            None => from.is_none() || to.is_none(),
            Some(current) => [from, to].into_iter().flatten().any(|expected| is_same(expected, current)),
        };
        (!is_expected).then_some(key)
    })
}

/// Returns true if two sets have the same records. The order, the TTL and further fields may differ from one read to the next.
fn is_same(one: &ProviderRecordSet, other: &ProviderRecordSet) -> bool {
    let records = |set: &ProviderRecordSet| set.set.rdatas.iter().cloned().collect::<BTreeSet<_>>();
    records(one) == records(other)
}

/// Splits units into batches of at most `most` sets, and at least one unit.
fn batches(units: &[Unit], most: usize) -> Vec<&[Unit]> {
    let mut batches = Vec::new();
    let (mut start, mut sets) = (0, 0);
    for (place, unit) in units.iter().enumerate() {
        if place > start && sets + unit.changes.len() > most {
            batches.push(&units[start..place]);
            (start, sets) = (place, 0);
        }
        sets += unit.changes.len();
    }
    if start < units.len() {
        batches.push(&units[start..]);
    }
    batches
}

/// Maximum number of rejected names per sync. Finding one among 1,000 sets costs about 10 calls.
const REFUSED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use fairway_model::{RecordSet, Rtype, Ttl};

    use super::*;
    use crate::publish::memory::{Failure, Memory};

    fn units(count: u8) -> Vec<Unit> {
        let set = |last: u8| {
            let name: Name = format!("n{last}.x.").parse().unwrap();
            let rdata: Box<[u8]> = [192, 0, 2, last].into();
            ProviderRecordSet::plain(RecordSet::new(name, Rtype::A, Ttl::STEERED, [rdata]))
        };
        let unit = |set: ProviderRecordSet| Unit {
            name: set.set.name.clone(),
            changes: Changes { create: vec![set], ..Changes::default() },
        };
        (0..count).map(|last| unit(set(last))).collect()
    }

    #[tokio::test]
    async fn rejected_names_do_not_block_others() {
        let memory = Memory::default();
        memory.refuse(["n3.x.", "n77.x."].map(|name| name.parse().unwrap()));
        let applied = apply(&memory, &units(100), Duration::ZERO).await;
        let refused: Vec<_> = applied.refused.keys().map(ToString::to_string).collect();
        assert_eq!((refused, applied.sets), (vec!["n3.x.".to_owned(), "n77.x.".to_owned()], 98));
        assert_eq!(memory.sets().len(), 98);
        assert!(applied.calls < 40, "{}", applied.calls);
    }

    #[tokio::test]
    async fn provider_that_rejects_everything_is_called_a_bounded_number_of_times() {
        let memory = Memory::default();
        memory.refuse(units(200).into_iter().map(|unit| unit.name));
        let applied = apply(&memory, &units(200), Duration::ZERO).await;
        assert_eq!(applied.refused.len(), REFUSED_MAX);
        assert!(applied.broken.is_some() && applied.calls < 4 * REFUSED_MAX);
    }

    #[tokio::test]
    async fn other_error_ends_the_sync() {
        let memory = Memory::with_batches_of(10);
        memory.fail_after(2, Failure::Unavailable);
        let applied = apply(&memory, &units(100), Duration::ZERO).await;
        assert_eq!((applied.sets, applied.calls), (20, 3));
        assert!(matches!(applied.broken, Some(ProviderError::Unavailable(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn call_ends_after_its_timeout() {
        let memory = Memory::default();
        memory.fail_after(0, Failure::Hang);
        let applied = apply(&memory, &units(1), Duration::ZERO).await;
        assert_eq!(applied.broken, Some(ProviderError::Late(Duration::from_secs(10))));
    }

    #[test]
    fn batch_has_at_most_the_limit_and_whole_units() {
        let all = units(25);
        assert_eq!(batches(&all, 10).iter().map(|batch| batch.len()).collect::<Vec<_>>(), [10, 10, 5]);
        assert_eq!(batches(&all, 0).len(), 25);
        assert!(batches(&[], 10).is_empty());
    }
}
