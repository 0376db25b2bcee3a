//! Taking record sets over from another owner, in two steps that never leave a name without records: only registry records are written.
//!
//! ```text
//!  of A ──announce──► of us, from A ──finish──► of us: the next sync makes it what is wanted
//!                          │
//!                          └──abort──► of A, as before
//! ```
//! While it is announced, A leaves the set alone, since its registry record names another owner, and we leave it alone, since it says that
//! it is on its way. Whoever read it before may still write once more: so a set is finished only some time after it was announced.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fairway_model::{Changes, Name, ProviderRecordSet, RecordSet, RecordSetKey, Rtype, Timestamp, Update};

use super::{
    mark::Mark,
    plan::Wanted,
    registry::{Current, Owner, Ownership, Unit, text_ttl},
};

/// A step of a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Says in the registry who takes over from whom.
    Announce,
    /// Makes what was announced ours.
    Finish,
    /// Gives back what was announced.
    Abort,
}

/// Sets that are taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Whose they are.
    pub from: String,
    /// Their names; empty: all that are wanted here.
    pub names: BTreeSet<Name>,
    /// What is done.
    pub step: Step,
    /// How long ago a set must have been announced to be finished: longer than the other owner takes from reading to writing.
    pub after: Duration,
    /// Now.
    pub now: Timestamp,
}

/// Why nothing can be taken over at a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    /// There are no registry records to say it in.
    #[error(
        "its registry is not of the type txt: no record there says whose a set is, so there is nobody to take it from"
    )]
    NoRegistry,
    /// From ourselves.
    #[error("{0:?} is who we are there already")]
    Ourselves(String),
}

/// What a step does, before it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handed {
    /// What is written.
    pub units: Vec<Unit>,
    /// The sets that it is about.
    pub sets: Vec<RecordSetKey>,
    /// Sets of that owner that are left alone, and why.
    pub left: Vec<(RecordSetKey, &'static str)>,
}

impl Ownership {
    /// What a step has to write. Only sets at names that are wanted here are announced: others would be deleted once they are ours.
    pub fn hand_over(&self, handover: &Handover, current: &Current, wanted: &Wanted) -> Result<Handed, HandoverError> {
        let Self::Txt { owner: us, .. } = self else { return Err(HandoverError::NoRegistry) };
        if *us == handover.from {
            return Err(HandoverError::Ourselves(us.clone()));
        }
        let names: BTreeSet<_> = wanted.sets.iter().map(|set| &set.set.name).chain(&wanted.held).collect();
        let mut handed = Handed::default();
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
                handed
                    .left
                    .push((key.clone(), "nothing is wanted at this name here: once it were ours, it would be deleted"));
                continue;
            }
            match self.turned(key, handover, us, current) {
                Ok(changes) => {
                    units.entry(key.name.clone()).or_default().extend(changes);
                    handed.sets.push(key.clone());
                }
                Err(why) => handed.left.push((key.clone(), why)),
            }
        }
        handed.units = units.into_iter().map(|(name, changes)| Unit { name, changes }).collect();
        Ok(handed)
    }

    /// What is to be written beside one set.
    fn turned(
        &self,
        key: &RecordSetKey,
        handover: &Handover,
        us: &str,
        current: &Current,
    ) -> Result<Changes, &'static str> {
        let Self::Txt { affix, key: seal, .. } = self else { return Err("there is no registry") };
        let place = self.companion_key(key).ok_or("its registry record would have no name")?;
        let Handover { from, step, after, now, .. } = handover;
        let rdata = |mark: &Mark| mark.rdata(seal.as_ref(), &place.name);
        let mut changes = Changes::default();
        let Some(there) = current.texts.get(&place) else {
            // It is claimed by a record without a type, as up to ExternalDNS 0.17: one with a type is heeded before it.
            let mark = Mark { from: Some((from.clone(), *now)), ..Mark::of(us) };
            let set = RecordSet::new(place.name.clone(), Rtype::TXT, text_ttl(), [rdata(&mark)]);
            let set_identifier = place.set_identifier.clone();
            changes.create.push(ProviderRecordSet { set, set_identifier, properties: BTreeMap::new() });
            return Ok(changes);
        };
        let mut rdatas = there.set.rdatas.clone();
        for (slot, mut mark) in rdatas.iter_mut().filter_map(|slot| self.mark(slot).map(|mark| (slot, mark))) {
            match (step, &mark.from) {
                (Step::Announce, _) if mark.owner == *from => {
                    (mark.owner, mark.from) = (us.to_owned(), Some((from.clone(), *now)));
                }
                (Step::Finish, Some((_, at))) if mark.owner == us && now.since(*at) < *after => {
                    return Err(
                        "it was announced too short a time ago: the other owner may still write what it read before",
                    );
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
        } else if rdatas != there.set.rdatas {
            let set = RecordSet::new(place.name, Rtype::TXT, there.set.ttl, rdatas);
            changes.update.push(Update { from: there.clone(), to: ProviderRecordSet { set, ..there.clone() } });
        }
        Ok(changes)
    }
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
