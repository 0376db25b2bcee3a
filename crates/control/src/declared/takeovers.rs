//! Names that a tenant or the operator gave up and another tenant claims: caches keep the old answers until their TTL is over, so the name
//! changes hands only then. Otherwise some clients would reach one of the two and others the other one, under the same name.
//!
//! The batch that removes the objects also stores the release, so that restarts and all servers on the store know of it. Names that the
//! files give up are only in memory: each server has files of its own, and a restart cannot know what they declared before.

use std::{collections::BTreeMap, sync::Arc};

use fairway_access::Tenant;
use fairway_contributions::{Meaning, ReadRow, part_key, scope_of, tenant_of};
use fairway_intents::object_name;
use fairway_model::{
    DesiredState, Name, SharedMap, Subject, Timestamp, Ttl,
    intent::{Intent, IntentSpec},
};
use fairway_store::objects::{Batch, Change, Key, Kind, Object};

use super::{
    ClaimRules, Declared, ObjectErrors, key_of,
    object::DeclaredObject,
    records_key,
    removed_wire::{RemovedName, Remover, SharedWith},
};
use crate::configured::{Files, MergedState, Previous};

/// The last release of a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Release {
    /// The tenant that gave it up, or the operator.
    by: Remover,
    /// Time of the release, in seconds since 1970.
    at: u64,
    /// Time when the largest TTL of its answers is over.
    until: u64,
}

/// Releases by name, at most [`RELEASES_MAX`].
pub(crate) type Releases = SharedMap<Name, Release>;

/// Released names that other tenants claim, with the times when they are served.
pub type TakeOvers = BTreeMap<Name, Timestamp>;

impl Declared {
    /// Returns the names that a batch takes from tenants or from the operator. `served` is the state in force.
    pub(super) fn releases_in(&self, batch: &Batch, served: &MergedState) -> Vec<RemovedName> {
        let now = batch.at.secs();
        let mut released = self.releases_of_operator(batch, served);
        for Change { key, value, .. } in &batch.changes {
            let (Some(tenant), Some(before)) = (tenant_at(key), self.objects.get(key)) else { continue };
            let after = value.as_ref().map(|value| {
                let object = Object { value: value.as_slice().into(), ..before.object.clone() };
                claims(&DeclaredObject::new(object, Some(before)))
            });
            let kept = after.unwrap_or_default();
            for (name, claim) in claims(before).into_iter().filter(|(name, _)| !kept.contains_key(name)) {
                // A claim that still waited was not answered, so no cache has answers of it.
                let waited = self.releases.get(&name).is_some_and(|release| release.delays(&tenant, claim.since, now));
                if !waited {
                    let until = now + u64::from(claim.ttl.secs());
                    released.push(RemovedName { name: name.to_string(), by: tenant.clone().into(), until });
                }
            }
        }
        if self.releases.len() + released.len() > RELEASES_OF_TENANT {
            self.limit_releases(&mut released, now);
        }
        released
    }

    /// Drops releases of a batch above [`RELEASES_MAX`], and those of a tenant above [`RELEASES_OF_TENANT`]: one tenant that gives up many
    /// names must not end the protection of the names of others.
    fn limit_releases(&self, released: &mut Vec<RemovedName>, now: u64) {
        let (mut waiting, mut by_tenant) = (0, BTreeMap::new());
        for release in self.releases.values().filter(|release| release.until > now) {
            waiting += 1;
            if let Some(tenant) = release.by.tenant() {
                *by_tenant.entry(tenant).or_insert(0) += 1;
            }
        }
        released.retain(|of| {
            let of_tenant = of.by.tenant().map(|tenant| by_tenant.entry(tenant).or_insert(0));
            let has_room =
                waiting < RELEASES_MAX && of_tenant.as_ref().is_none_or(|count| **count < RELEASES_OF_TENANT);
            waiting += usize::from(has_room);
            of_tenant.into_iter().for_each(|count| *count += usize::from(has_room));
            has_room
        });
    }

    /// Returns the names that a batch takes from the operator: no object of `/v1/names` or `/v1/records` declares them any more, nor do the
    /// files steer them.
    fn releases_of_operator(&self, batch: &Batch, served: &MergedState) -> Vec<RemovedName> {
        let mut after = BTreeMap::new();
        for Change { key, value, .. } in &batch.changes {
            if matches!(key.kind(), Kind::Name | Kind::Records) {
                let object = |value: &Vec<u8>| {
                    let object = Object { value: value.as_slice().into(), ..self.get(key)?.clone() };
                    Some(DeclaredObject::new(object, None))
                };
                after.insert(key, value.as_ref().and_then(object));
            }
        }
        let is_declared = |name: &Name, key: &Key| match after.get(key) {
            Some(object) => object.as_ref().and_then(DeclaredObject::element).is_some_and(|of| declares(of, name)),
            None => self.element(key).is_some_and(|element| declares(element, name)),
        };
        let mut released = BTreeMap::new();
        for name in after.keys().flat_map(|key| self.names_at(key)) {
            let keys = [key_of(&Subject::Name(name.clone())), records_key(&name)];
            let is_kept = keys.iter().flatten().any(|key| is_declared(&name, key));
            let is_of_files = served.declared.names.contains_key(&name) && !served.not_in_files.contains_key(&name);
            if !is_kept
                && !is_of_files
                && let Some(ttl) = ttl_at(served, &name)
            {
                let by = Remover::Operator(self.shared_with(served, &name));
                released.insert(name, (by, batch.at.secs() + u64::from(ttl.secs())));
            }
        }
        let removed = |(name, (by, until)): (Name, _)| RemovedName { name: name.to_string(), by, until };
        released.into_iter().map(removed).collect()
    }

    /// Returns the names that the files gave up and whose TTL is not over: by these files compared with the last ones, or before.
    ///
    /// Names that an object of the operator declares are not given up.
    pub(crate) fn released_by_files(&self, previous: Option<&Previous>, files: &Files, now: Timestamp) -> Releases {
        let mut releases = Releases::default();
        let Some(Previous { configured, .. }) = previous.filter(|_| files.settings.access.names.is_enforced) else {
            return releases;
        };
        let (was, is, served) = (&configured.files.desired, &files.desired, &configured.merged);
        let none = ObjectErrors::new();
        let is_given_up = |name: &Name| !declares(is, name) && !self.is_operators(name, &none);
        let before = served.released_by_files.iter();
        let before = before.filter(|(name, release)| release.until > now.secs() && is_given_up(name));
        releases.extend(before.map(|(name, release)| (name.clone(), release.clone())));
        if Arc::ptr_eq(was, is) {
            return releases;
        }
        let steered = is.names.differences(&was.names, |_, _| true).into_iter().map(|(name, ..)| name);
        let records = is.records.differences(&was.records, |_, _| true).into_iter().map(|((name, _), ..)| name);
        let given_up = steered.chain(records).filter(|name| declares(was, name) && is_given_up(name));
        let release = |name: &Name| {
            let by = Remover::Operator(self.shared_with(served, name));
            let until = now.secs() + u64::from(ttl_at(served, name)?.secs());
            Some((name.clone(), Release { by, at: now.secs(), until }))
        };
        let free = RELEASES_MAX.saturating_sub(releases.len());
        releases.extend(given_up.filter_map(release).take(free));
        releases
    }

    /// Returns the kinds of tenants whose claims are in the answers of a name of the operator.
    fn shared_with(&self, served: &MergedState, name: &Name) -> SharedWith {
        let contributed = &served.contributed;
        let steered = served.desired.names.get(name);
        SharedWith {
            owners: contributed.merged_names.of_name(name).is_some_and(|of| of.pool.is_some())
                || contributed.has_records_at(name),
            projects: steered
                .is_some_and(|steered| self.claimants(name).any(|key| object_name(key) == steered.pool.as_str())),
        }
    }

    /// Returns all releases among the objects. The last one of a name counts.
    pub(super) fn all_releases(&self) -> Releases {
        self.under(Kind::RemovedNames, &[]).flat_map(releases).collect()
    }

    pub(super) fn add_releases(&mut self, object: &DeclaredObject) {
        self.releases.extend(releases(object));
    }

    pub(super) fn remove_releases(&mut self, object: &DeclaredObject) {
        for (name, release) in releases(object) {
            if self.releases.get(&name) == Some(&release) {
                self.releases.remove(&name);
            }
        }
    }

    /// Returns when a claim of a tenant is served if it takes over a name that the operator, or another tenant which is granted it, has just
    /// given up.
    pub(crate) fn take_over(
        &self,
        rules: &ClaimRules<'_>,
        (tenant, name, since): (&Tenant, &Name, u64),
    ) -> Option<Timestamp> {
        let ClaimRules { names, released_by_files, now } = rules;
        if !names.is_enforced || (self.releases.is_empty() && released_by_files.is_empty()) {
            return None;
        }
        let releases = [&self.releases, released_by_files].map(|releases| releases.get(name)).into_iter().flatten();
        let was_answered = |release: &Release| match release.by.tenant() {
            Some(tenant) => names.check_steered(&tenant, name).is_ok(),
            None => true,
        };
        let delaying = releases.filter(|release| release.delays(tenant, since, now.secs()) && was_answered(release));
        delaying.map(|release| release.until).max().map(Timestamp::from_secs)
    }

    /// Returns the names that wait for the TTL of a tenant that gave them up, or of the operator.
    pub(crate) fn take_overs(&self, rules: &ClaimRules<'_>) -> TakeOvers {
        let mut waiting = TakeOvers::new();
        let ClaimRules { names, released_by_files, now } = rules;
        if !names.is_enforced {
            return waiting;
        }
        let releases = self.releases.iter().chain(released_by_files.iter());
        for name in releases.filter(|(_, release)| release.until > now.secs()).map(|(name, _)| name) {
            let of_intents =
                self.claimants(name).filter_map(|key| Some((tenant_at(key)?, self.get(key)?.created.secs())));
            let text = name.to_plain();
            let of_rows = self.scopes().into_iter().flat_map(|scope| {
                let rows = self.rows_at(&part_key(&scope, &text)).filter(|row| *row.text == *text);
                rows.map(|row| (tenant_of(&scope), row.row.since)).collect::<Vec<_>>()
            });
            let mut claims = of_intents.chain(of_rows);
            let until = claims.find_map(|(tenant, since)| self.take_over(rules, (&tenant, name, since)));
            waiting.extend(until.map(|until| (name.clone(), until)));
        }
        waiting
    }
}

impl Release {
    /// Returns true if a claim waits: that of another tenant which is as young as the release. An older one waits if the name was the
    /// operator's and it was not in the answers, since such names are closed to tenants.
    fn delays(&self, tenant: &Tenant, since: u64, now: u64) -> bool {
        let was_answered = match (&self.by, tenant) {
            (Remover::Operator(shared), Tenant::Project(_)) => shared.projects,
            (Remover::Operator(shared), _) => shared.owners,
            _ => true,
        };
        let is_own = self.by.tenant().is_some_and(|by| by == *tenant);
        !is_own && (since >= self.at || !was_answered) && now < self.until
    }
}

/// Returns the reason why a claim waits, for people.
pub(crate) fn waiting(name: &Name, until: Timestamp) -> String {
    format!(
        "{name} was in use by another tenant or the operator; it is served from {until} on, when the TTL of the old answers is over"
    )
}

/// A claim of an object to a name.
struct Claim {
    since: u64,
    ttl: Ttl,
}

fn claims(object: &DeclaredObject) -> BTreeMap<Name, Claim> {
    if let Some(claim) = object.claim() {
        let ttl = object.intent().and_then(|stored| ttl_of(&stored.intent)).unwrap_or(Ttl::STEERED);
        return [(claim.name, Claim { since: claim.since.secs(), ttl })].into();
    }
    let mut claims = BTreeMap::<Name, Claim>::new();
    for row in object.rows().iter().filter(|row| row.companion_of().is_none()) {
        let (Some(name), Some(ttl)) = (&row.name, ttl_of_row(row)) else { continue };
        let new = || Claim { since: row.row.since, ttl };
        let claim = claims.entry(name.clone()).or_insert_with(new);
        *claim = Claim { since: claim.since.min(row.row.since), ttl: claim.ttl.max(ttl) };
    }
    claims
}

fn ttl_of(intent: &Intent) -> Option<Ttl> {
    match &intent.spec {
        IntentSpec::Compound(compound) => compound.gslb.ttl,
        IntentSpec::Inbound(inbound) => inbound.gslb.ttl,
        _ => None,
    }
}

fn ttl_of_row(row: &ReadRow) -> Option<Ttl> {
    match &row.meaning {
        Meaning::Addresses(_, spec) | Meaning::Host(_, spec) => Some(spec.ttl.unwrap_or(Ttl::STEERED)),
        Meaning::Nothing => None,
        Meaning::Records(set) => Some(set.ttl),
    }
}

/// Returns true if a state steers a name or has records of it.
fn declares(desired: &DesiredState, name: &Name) -> bool {
    desired.names.contains_key(name) || desired.records_at(name).next().is_some()
}

/// Returns the largest TTL of a declared name's answers; `None` if it is not answered.
fn ttl_at(served: &MergedState, name: &Name) -> Option<Ttl> {
    let steered = served.declared.names.get(name).and_then(|steered| served.desired.ttl_max(steered));
    served.desired.records_at(name).map(|set| set.ttl).chain(steered).max()
}

/// Returns the tenant whose object is at a key.
fn tenant_at(key: &Key) -> Option<Tenant> {
    match key.kind() {
        Kind::Contribution => scope_of(key).map(|scope| tenant_of(&scope)),
        _ => super::exposed(key).and_then(|key| Some(Tenant::Project(key.names().next()?.to_owned()))),
    }
}

/// Returns the releases that an object holds.
fn releases(object: &DeclaredObject) -> impl Iterator<Item = (Name, Release)> {
    object.removed().into_iter().flat_map(|removed| {
        removed.names.iter().filter_map(|of| {
            let is_released = !matches!(of.by, Remover::Pruner(_));
            let release = || Release { by: of.by.clone(), at: removed.at, until: of.until };
            is_released.then(|| Some((of.name.parse().ok()?, release())))?
        })
    })
}

/// Maximum number of releases. Above it, further names change hands at once.
const RELEASES_MAX: usize = 65_536;

/// Maximum number of releases by one tenant. Eight tenants have to act together to use up all.
const RELEASES_OF_TENANT: usize = RELEASES_MAX / 8;

#[cfg(test)]
mod tests {
    use fairway_access::{NameGrant, NameGrants, RecordTypes};
    use fairway_store::objects::{Author, Event, Expect};

    use super::*;

    const START: u64 = 1_000;

    fn grants() -> NameGrants {
        let to = ["project:bank", "project:evil"].map(|tenant| tenant.parse().unwrap());
        let domains = vec!["gslb.example".parse().unwrap()];
        let grants = vec![NameGrant { to: to.into(), domains, types: RecordTypes::default() }];
        NameGrants { is_enforced: true, grants }
    }

    fn event(project: &str, created: Option<u64>) -> Event {
        let key = Key::new(Kind::Inbound, &[project, "a", "v1", "default", "default", "shop"]).unwrap();
        let text = r#"{"metadata":{"name":"shop"},"spec":{"app":"a","serviceName":"s","externalSupport":true,
            "externalName":"shop.gslb.example","gslb":{"ttl":"60s"}}}"#;
        let object = created.map(|at| object(&key, text.as_bytes(), at));
        Event { revision: 1, key, object }
    }

    fn object(key: &Key, value: &[u8], at: u64) -> Object {
        let (created, changed) = (Timestamp::from_secs(at), Timestamp::from_secs(at));
        let (revision, generation, by) = (1, 1, Author::default());
        Object { key: key.clone(), value: value.into(), revision, generation, created, changed, by }
    }

    fn waits(declared: &Declared, project: &str, since: u64, now: u64) -> Option<u64> {
        let name = "shop.gslb.example".parse().unwrap();
        let tenant = Tenant::Project(project.to_owned());
        take_over(declared, &grants(), (&tenant, &name, since), now).map(Timestamp::secs)
    }

    fn take_over(declared: &Declared, names: &NameGrants, claim: (&Tenant, &Name, u64), now: u64) -> Option<Timestamp> {
        let now = Timestamp::from_secs(now);
        declared.take_over(&ClaimRules { names, released_by_files: &Releases::default(), now }, claim)
    }

    fn take_overs(declared: &Declared, now: u64) -> TakeOvers {
        let (names, now) = (&grants(), Timestamp::from_secs(now));
        declared.take_overs(&ClaimRules { names, released_by_files: &Releases::default(), now })
    }

    /// Commits the creation of a project's intent, or its deletion.
    fn commit(declared: &mut Declared, project: &str, is_created: bool, at: u64) {
        let own = event(project, is_created.then_some(at));
        let value = own.object.as_ref().map(|object| object.value.to_vec());
        let changes = vec![Change { key: own.key.clone(), expect: Expect::Anything, value }];
        let batch = Batch { changes, by: Author::default(), at: Timestamp::from_secs(at) };
        let added = declared.with_removed_names(batch, Some(&MergedState::default())).changes.split_off(1).into_iter();
        let added = added.map(|change| {
            let value = change.value.as_deref().map(|value| object(&change.key, value, at));
            Event { revision: 1, key: change.key, object: value }
        });
        let events: Vec<Event> = added.chain([own]).collect();
        declared.apply(&events);
    }

    /// Returns the objects as a server has them after a restart.
    fn restarted(declared: &Declared) -> Declared {
        Declared::new(1, declared.all().map(std::borrow::Cow::into_owned))
    }

    #[test]
    fn name_changes_hands_after_the_ttl() {
        let mut declared = Declared::default();
        commit(&mut declared, "bank", true, START - 500);
        assert_eq!(take_overs(&declared, START), TakeOvers::new());
        commit(&mut declared, "bank", false, START);
        commit(&mut declared, "evil", true, START + 1);
        assert_eq!(waits(&declared, "evil", START + 1, START + 2), Some(START + 60));
        let other_server = restarted(&declared);
        assert_eq!(waits(&other_server, "evil", START + 1, START + 2), Some(START + 60), "after a restart");
        assert_eq!(waits(&declared, "evil", START + 1, START + 60), None, "the TTL is over");
        assert_eq!(waits(&declared, "bank", START + 1, START + 2), None, "its own name");
        assert_eq!(waits(&declared, "evil", START - 1, START + 2), None, "it shared the name before");
        let waiting = take_overs(&declared, START + 2);
        assert_eq!(waiting.into_values().map(Timestamp::secs).collect::<Vec<_>>(), [START + 60]);
        // What waited was never answered, so its end delays nobody.
        commit(&mut declared, "evil", false, START + 3);
        assert_eq!(waits(&declared, "bank", START + 4, START + 5), None);
        // A tenant without a grant had no answers, either.
        let name = "shop.gslb.example".parse().unwrap();
        let mut only_evil = grants();
        only_evil.grants[0].to = ["project:evil".parse().unwrap()].into();
        let evil = Tenant::Project("evil".to_owned());
        assert_eq!(take_over(&declared, &only_evil, (&evil, &name, START + 4), START + 5), None);
        assert_eq!(take_over(&declared, &NameGrants::default(), (&evil, &name, START + 4), START + 5), None);
    }

    #[test]
    fn name_changes_hands_at_once_while_there_are_too_many_releases() {
        let mut declared = Declared::default();
        commit(&mut declared, "bank", true, START);
        let bank = || Remover::from(Tenant::Project("bank".to_owned()));
        let shop = || Remover::Owner("shop".to_owned());
        for (by, count, until, recorded) in [
            (shop(), RELEASES_MAX, START + 100, 0),
            (shop(), RELEASES_MAX, START, 1),
            (shop(), RELEASES_MAX - 1, START + 100, 1),
            (bank(), RELEASES_OF_TENANT, START + 100, 0),
            (bank(), RELEASES_OF_TENANT, START, 1),
            (bank(), RELEASES_OF_TENANT - 1, START + 100, 1),
        ] {
            let release = Release { by, at: START, until };
            let name = |number| format!("n{number}.gslb.example").parse().unwrap();
            declared.releases = (0..count).map(|number| (name(number), release.clone())).collect();
            let mut after = declared.clone();
            commit(&mut after, "bank", false, START + 1);
            let message = format!("{count} releases by {:?} until {until}", release.by);
            assert_eq!(after.of(Kind::RemovedNames).count(), recorded, "{message}");
        }
    }

    #[test]
    fn one_batch_of_a_tenant_cannot_use_up_all_releases() {
        let release = |number| RemovedName {
            name: format!("n{number}.gslb.example"),
            by: Remover::Owner("shop".to_owned()),
            until: START + 100,
        };
        let mut released = (0..RELEASES_MAX).map(release).collect();
        Declared::default().limit_releases(&mut released, START);
        assert_eq!(released.len(), RELEASES_OF_TENANT);
    }

    #[test]
    fn releases_that_expired_are_deleted_by_the_next_one() {
        let mut declared = Declared::default();
        for round in 0..1_000 {
            commit(&mut declared, "bank", true, START + round * 100);
            commit(&mut declared, "bank", false, START + round * 100 + 1);
            assert!(declared.of(Kind::RemovedNames).count() <= 1, "in round {round}");
            assert!(declared.releases.len() <= 1);
        }
    }
}
