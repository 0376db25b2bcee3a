//! Names that one tenant gave up and another one claims: caches keep the old answers until their TTL is over, so the name changes hands
//! only then. Otherwise some clients would reach one tenant and others the other one, under the same name.
//!
//! Releases are kept in memory: after a restart no name waits.

use std::collections::BTreeMap;

use fairway_access::{NameGrants, Tenant};
use fairway_model::{
    Name, SharedMap, Timestamp, Ttl,
    intent::{Intent, IntentSpec},
};
use fairway_providers::plain_name;
use fairway_store::objects::Key;

use super::{Declared, object::DeclaredObject};
use crate::contributed::{Meaning, ReadRow, part_key, scope_of, tenant_of};

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
    /// Records the names that an object claimed before and does not claim now.
    pub(super) fn note_releases(&mut self, key: &Key, before: &DeclaredObject, now: Timestamp) {
        let now = now.secs();
        let after = self.objects.get(key);
        let (Some(tenant), claims) = (tenant_at(key), claims(before)) else { return };
        let kept = after.map(|after| self::claims(after)).unwrap_or_default();
        for (name, claim) in claims.into_iter().filter(|(name, _)| !kept.contains_key(name)) {
            if self.releases.len() >= RELEASES_MAX {
                self.releases = self.releases.iter().filter(|(_, release)| release.until > now).map(cloned).collect();
            }
            // A claim that still waited was not answered, so no cache has answers of it.
            let waited = self.releases.get(&name).is_some_and(|release| release.delays(&tenant, claim.since, now));
            if !waited && self.releases.len() < RELEASES_MAX {
                let release = Release { by: tenant.clone(), at: now, until: now + u64::from(claim.ttl.secs()) };
                self.releases.insert(name, release);
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
        fairway_store::objects::Kind::Contribution => scope_of(key).map(|scope| tenant_of(&scope)),
        _ => super::exposed(key).and_then(|key| Some(Tenant::Project(key.names().next()?.to_owned()))),
    }
}

fn cloned((name, release): (&Name, &Release)) -> (Name, Release) {
    (name.clone(), release.clone())
}

/// Maximum number of releases. Above it, further names change hands at once.
const RELEASES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use fairway_access::{NameGrant, RecordTypes};
    use fairway_store::objects::{Author, Event, Kind, Object};

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
        let object = created.map(|at| Object {
            key: key.clone(),
            value: text.as_bytes().into(),
            revision: 1,
            generation: 1,
            created: Timestamp::from_secs(at),
            changed: Timestamp::from_secs(at),
            by: Author::default(),
        });
        Event { revision: 1, key, object }
    }

    fn waits(declared: &Declared, project: &str, since: u64, now: u64) -> Option<u64> {
        let name = "shop.gslb.example".parse().unwrap();
        let tenant = Tenant::Project(project.to_owned());
        declared.take_over(&grants(), (&tenant, &name, since), Timestamp::from_secs(now)).map(Timestamp::secs)
    }

    #[test]
    fn name_changes_hands_after_the_ttl() {
        let mut declared = Declared::default();
        let at = Timestamp::from_secs;
        declared.apply(&[event("bank", Some(START - 500))], at(START - 500));
        assert_eq!(declared.take_overs(&grants(), at(START)), TakeOvers::new());
        declared.apply(&[event("bank", None)], at(START));
        declared.apply(&[event("evil", Some(START + 1))], at(START + 1));
        assert_eq!(waits(&declared, "evil", START + 1, START + 2), Some(START + 60));
        assert_eq!(waits(&declared, "evil", START + 1, START + 60), None, "the TTL is over");
        assert_eq!(waits(&declared, "bank", START + 1, START + 2), None, "its own name");
        assert_eq!(waits(&declared, "evil", START - 1, START + 2), None, "it shared the name before");
        let waiting = declared.take_overs(&grants(), at(START + 2));
        assert_eq!(waiting.into_values().map(Timestamp::secs).collect::<Vec<_>>(), [START + 60]);
        // What waited was never answered, so its end delays nobody.
        declared.apply(&[event("evil", None)], at(START + 3));
        assert_eq!(waits(&declared, "bank", START + 4, START + 5), None);
        // A tenant without a grant had no answers, either.
        let name = "shop.gslb.example".parse().unwrap();
        let mut only_evil = grants();
        only_evil.grants[0].to = ["project:evil".parse().unwrap()].into();
        let evil = Tenant::Project("evil".to_owned());
        assert_eq!(declared.take_over(&only_evil, (&evil, &name, START + 4), at(START + 5)), None);
        assert_eq!(declared.take_over(&NameGrants::default(), (&evil, &name, START + 4), at(START + 5)), None);
    }
}
