//! Names that one tenant gave up and another one claims: caches keep the old answers until their TTL is over, so the name changes hands
//! only then. Otherwise some clients would reach one tenant and others the other one, under the same name.
//!
//! The batch that takes a claim from a tenant also stores the release, so that restarts and all servers on the store know of it.

use std::collections::BTreeMap;

use fairway_access::{NameGrants, Tenant};
use fairway_contributions::{Meaning, ReadRow, part_key, scope_of, tenant_of};
use fairway_model::{
    Name, SharedMap, Timestamp, Ttl,
    intent::{Intent, IntentSpec},
};
use fairway_providers::plain_name;
use fairway_store::objects::{Batch, Change, Key, Kind, Object};

use super::{Declared, object::DeclaredObject, removed_wire::RemovedName};

/// The last release of a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Release {
    /// The tenant that gave it up.
    by: Tenant,
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
    /// Returns the names that a batch takes from tenants.
    pub(super) fn releases_in(&self, batch: &Batch) -> Vec<RemovedName> {
        let now = batch.at.secs();
        let mut released = Vec::new();
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
        let is_free = self.releases.len() + released.len() <= RELEASES_MAX;
        let waiting = || self.releases.iter().filter(|(_, release)| release.until > now).count();
        released.truncate(if is_free { RELEASES_MAX } else { RELEASES_MAX.saturating_sub(waiting()) });
        released
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

    /// Returns when a claim of a tenant is served if it takes over a name that another one, which is granted it, has just given up.
    pub(crate) fn take_over(
        &self,
        names: &NameGrants,
        (tenant, name, since): (&Tenant, &Name, u64),
        now: Timestamp,
    ) -> Option<Timestamp> {
        if !names.is_enforced || self.releases.is_empty() {
            return None;
        }
        let release = self.releases.get(name)?;
        let is_delayed = release.delays(tenant, since, now.secs()) && names.check_steered(&release.by, name).is_ok();
        is_delayed.then(|| Timestamp::from_secs(release.until))
    }

    /// Returns the names that wait for the TTL of a tenant that gave them up.
    pub(crate) fn take_overs(&self, names: &NameGrants, now: Timestamp) -> TakeOvers {
        let mut waiting = TakeOvers::new();
        if !names.is_enforced {
            return waiting;
        }
        for name in self.releases.iter().filter(|(_, release)| release.until > now.secs()).map(|(name, _)| name) {
            let of_intents =
                self.claimants(name).filter_map(|key| Some((tenant_at(key)?, self.get(key)?.created.secs())));
            let text = plain_name(&name.to_string());
            let of_rows = self.scopes().into_iter().flat_map(|scope| {
                let rows = self.rows_at(&part_key(&scope, &text)).filter(|row| *row.text == *text);
                rows.map(|row| (tenant_of(&scope), row.row.since)).collect::<Vec<_>>()
            });
            let mut claims = of_intents.chain(of_rows);
            let until = claims.find_map(|(tenant, since)| self.take_over(names, (&tenant, name, since), now));
            waiting.extend(until.map(|until| (name.clone(), until)));
        }
        waiting
    }
}

impl Release {
    /// Returns true if a claim waits: that of another tenant which is as young as the release.
    fn delays(&self, tenant: &Tenant, since: u64, now: u64) -> bool {
        self.by != *tenant && since >= self.at && now < self.until
    }
}

/// Returns the reason why a claim waits, for people.
pub(crate) fn waiting(name: &Name, until: Timestamp) -> String {
    format!(
        "{name} was in use by another tenant; it is served from {until} on, when the TTL of the old answers is over"
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
        Meaning::Addresses(_, spec) => Some(spec.ttl.unwrap_or(Ttl::STEERED)),
        Meaning::Nothing => None,
        Meaning::Records(set) => Some(set.ttl),
    }
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
            Some((of.name.parse().ok()?, Release { by: of.by.tenant()?, at: removed.at, until: of.until }))
        })
    })
}

/// Maximum number of releases. Above it, further names change hands at once.
const RELEASES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use fairway_access::{NameGrant, RecordTypes};
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
        declared.take_over(&grants(), (&tenant, &name, since), Timestamp::from_secs(now)).map(Timestamp::secs)
    }

    /// Commits the creation of a project's intent, or its deletion.
    fn commit(declared: &mut Declared, project: &str, is_created: bool, at: u64) {
        let own = event(project, is_created.then_some(at));
        let value = own.object.as_ref().map(|object| object.value.to_vec());
        let changes = vec![Change { key: own.key.clone(), expect: Expect::Anything, value }];
        let batch = Batch { changes, by: Author::default(), at: Timestamp::from_secs(at) };
        let added = declared.with_removed_names(batch, true).changes.split_off(1).into_iter();
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
        let at = Timestamp::from_secs;
        commit(&mut declared, "bank", true, START - 500);
        assert_eq!(declared.take_overs(&grants(), at(START)), TakeOvers::new());
        commit(&mut declared, "bank", false, START);
        commit(&mut declared, "evil", true, START + 1);
        assert_eq!(waits(&declared, "evil", START + 1, START + 2), Some(START + 60));
        let other_server = restarted(&declared);
        assert_eq!(waits(&other_server, "evil", START + 1, START + 2), Some(START + 60), "after a restart");
        assert_eq!(waits(&declared, "evil", START + 1, START + 60), None, "the TTL is over");
        assert_eq!(waits(&declared, "bank", START + 1, START + 2), None, "its own name");
        assert_eq!(waits(&declared, "evil", START - 1, START + 2), None, "it shared the name before");
        let waiting = declared.take_overs(&grants(), at(START + 2));
        assert_eq!(waiting.into_values().map(Timestamp::secs).collect::<Vec<_>>(), [START + 60]);
        // What waited was never answered, so its end delays nobody.
        commit(&mut declared, "evil", false, START + 3);
        assert_eq!(waits(&declared, "bank", START + 4, START + 5), None);
        // A tenant without a grant had no answers, either.
        let name = "shop.gslb.example".parse().unwrap();
        let mut only_evil = grants();
        only_evil.grants[0].to = ["project:evil".parse().unwrap()].into();
        let evil = Tenant::Project("evil".to_owned());
        assert_eq!(declared.take_over(&only_evil, (&evil, &name, START + 4), at(START + 5)), None);
        assert_eq!(declared.take_over(&NameGrants::default(), (&evil, &name, START + 4), at(START + 5)), None);
    }

    #[test]
    fn name_changes_hands_at_once_while_there_are_too_many_releases() {
        let mut declared = Declared::default();
        commit(&mut declared, "bank", true, START);
        for (until, recorded) in [(START + 100, 0), (START, 1)] {
            let release = Release { by: Tenant::Owner("shop".to_owned()), at: START, until };
            let name = |number| format!("n{number}.gslb.example").parse().unwrap();
            declared.releases = (0..RELEASES_MAX).map(|number| (name(number), release.clone())).collect();
            let mut after = declared.clone();
            commit(&mut after, "bank", false, START + 1);
            assert_eq!(after.of(Kind::RemovedNames).count(), recorded, "releases until {until}");
        }
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
