//! Takes record sets over from another owner in two steps. Only registry records are written, so no name is ever without records.
//!
//! ```text
//!  owner A ──announce──► owner us, from A ──finish──► owner us: the next sync writes the wanted records
//!                          │
//!                          └──abort──► owner A, as before
//! ```
//! After the announcement neither side changes the set: A because the registry record names another owner, Fairway because the record says
//! that a handover is in progress. A may still write once if it read before, so a set is finished only some time after its announcement.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fairway_model::{Changes, Name, ProviderRecordSet, RecordSet, RecordSetKey, Rtype, Timestamp, Update};

use super::{
    mark::Mark,
    plan::Wanted,
    provider::ProviderError,
    registry::{Current, Owner, Ownership, Unit, text_ttl},
};

/// A step of a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes the handover to the registry.
    Announce,
    /// Completes announced handovers.
    Finish,
    /// Reverts announced handovers.
    Abort,
}

/// A handover of sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Previous owner.
    pub from: String,
    /// Names of the sets; empty for all that are wanted here.
    pub names: BTreeSet<Name>,
    /// The step.
    pub step: Step,
    /// Shortest time from announcement to completion; must exceed the time that the other owner takes from reading to writing.
    pub after: Duration,
    /// Current time.
    pub now: Timestamp,
}

/// The reason why a step of a handover failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    /// The registry is not of type txt.
    #[error("a handover needs a registry of type txt: with others the provider has no record of owners")]
    NoRegistry,
    /// The other owner has our own id.
    #[error("{0:?} is already this server's owner id")]
    Ourselves(String),
    /// The provider failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// The plan of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandoverPlan {
    /// Changes of registry records.
    pub units: Vec<Unit>,
    /// Sets that are taken over.
    pub sets: Vec<RecordSetKey>,
    /// Sets of that owner that are skipped, with the reason.
    pub skipped: Vec<(RecordSetKey, &'static str)>,
}

impl Ownership {
    /// Plans a step. Only sets at names that are wanted here are announced: others would be deleted once they are owned.
    pub fn hand_over(
        &self,
        handover: &Handover,
        current: &Current,
        wanted: &Wanted,
    ) -> Result<HandoverPlan, HandoverError> {
        let Self::Txt { owner: us, .. } = self else { return Err(HandoverError::NoRegistry) };
        if *us == handover.from {
            return Err(HandoverError::Ourselves(us.clone()));
        }
        let names: BTreeSet<_> = wanted.sets.iter().map(|set| &set.set.name).chain(&wanted.held).collect();
        let mut plan = HandoverPlan::default();
        let mut units: BTreeMap<Name, Changes> = BTreeMap::new();
        for (key, there) in &current.sets {
            let is_meant = match (&there.owner, handover.step) {
                (Owner::Other(owner), Step::Announce) => *owner == handover.from,
                (Owner::Coming(from), Step::Finish | Step::Abort) => *from == handover.from,
                _ => false,
            };
            if !is_meant || !handover.names.is_empty() && !handover.names.contains(&key.name) {
                continue;
            }
            if handover.step == Step::Announce && !names.contains(&key.name) {
                plan.skipped.push((
                    key.clone(),
                    "no record set is wanted at this name: after the handover it would be deleted",
                ));
                continue;
            }
            match self.registry_changes(key, handover, us, current) {
                Ok(changes) => {
                    units.entry(key.name.clone()).or_default().extend(changes);
                    plan.sets.push(key.clone());
                }
                Err(why) => plan.skipped.push((key.clone(), why)),
            }
        }
        plan.units = units.into_iter().map(|(name, changes)| Unit { name, changes }).collect();
        Ok(plan)
    }

    /// Returns the changes of the registry record of one set.
    fn registry_changes(
        &self,
        key: &RecordSetKey,
        handover: &Handover,
        us: &str,
        current: &Current,
    ) -> Result<Changes, &'static str> {
        let Self::Txt { affix, key: seal, .. } = self else { return Err("the registry is not of type txt") };
        let place = self.companion_key(key).ok_or("its registry record has no valid name")?;
        let Handover { from, step, after, now, .. } = handover;
        let rdata = |mark: &Mark| mark.rdata(seal.as_ref(), &place.name);
        let mut changes = Changes::default();
        let Some(there) = current.texts.get(&place) else {
            // The claim is a record without a type, as up to ExternalDNS 0.17. A record with a type takes precedence.
            let mark = Mark { from: Some((from.clone(), *now)), ..Mark::of(us) };
            let set = RecordSet::new(place.name.clone(), Rtype::TXT, text_ttl(), [rdata(&mark)]);
            let set_identifier = place.set_identifier.clone();
            changes.create.push(ProviderRecordSet { set, set_identifier, properties: BTreeMap::new() });
            return Ok(changes);
        };
        let mut rdatas = there.set.rdatas.to_vec();
        for (slot, mut mark) in rdatas.iter_mut().filter_map(|slot| self.mark(slot).map(|mark| (slot, mark))) {
            match (step, &mark.from) {
                (Step::Announce, _) if mark.owner == *from => {
                    (mark.owner, mark.from) = (us.to_owned(), Some((from.clone(), *now)));
                }
                (Step::Finish, Some((_, at))) if mark.owner == us && now.since(*at) < *after => {
                    return Err("it was announced too recently: the other owner may still write what it read before");
                }
                (Step::Finish, Some(_)) if mark.owner == us => mark.from = None,
                (Step::Abort, Some(_)) if mark.owner == us => (mark.owner, mark.from) = (from.clone(), None),
                _ => continue,
            }
            *slot = rdata(&mark);
        }
        let untyped =
            affix.companion_without_type(&key.name).ok().filter(|name| *name != place.name && key.rtype != Rtype::AAAA);
        let untyped =
            untyped.map(|name| RecordSetKey { name, ..place.clone() }).and_then(|key| current.texts.get(&key));
        let is_of_them = |text: &ProviderRecordSet| {
            text.set.rdatas.iter().filter_map(|rdata| self.mark(rdata)).any(|mark| mark.owner == *from)
        };
        if *step == Step::Abort && rdatas.len() == 1 && untyped.is_some_and(is_of_them) {
            changes.delete.push(there.clone());
        } else if rdatas[..] != there.set.rdatas[..] {
            let set = RecordSet::new(place.name, Rtype::TXT, there.set.ttl, rdatas);
            changes.update.push(Update { from: there.clone(), to: ProviderRecordSet { set, ..there.clone() } });
        }
        Ok(changes)
    }
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
