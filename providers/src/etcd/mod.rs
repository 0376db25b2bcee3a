//! Records in an etcd, as the etcd plug-in of CoreDNS (and SkyDNS before it) reads them.
//!
//! ```text
//! /skydns/com/example/shop/fairway-a-0f3c…  {"host":"203.0.113.10","ttl":30,"targetstrip":1,"group":"shop.example.com",…}
//!         └─ name, reversed ─┘ └─ type, and a hash of the record: a key a record
//! ```
//! Keys whose last part is of this form are ours; every other key is read and never written. What others have beside ours at one name
//! is a set of its own (set identifier [`BESIDE`]), so that neither hides the other. A change is one transaction: it reads what stands at
//! the keys, compares that with what the change was planned on, and writes only if nothing was created or changed there meanwhile.
//!
//! etcd is asked over its HTTP gateway (`/v3/kv/…`), not over gRPC as the object store does (`src/store/objects/etcd`, a cargo feature):
//! two calls without a stream are all that is needed, and so the default build has this provider without `tonic`.
//!
//! Sources: `plugin/etcd` and `plugin/backend_lookup.go` of CoreDNS 1.15, `provider/coredns` of ExternalDNS 0.21. ExternalDNS puts `owner`
//! into values with `--coredns-strictly-owned` and then looks at nothing else; we leave that field out, so that it takes nothing of ours for
//! its own. Otherwise it goes by TXT records, and so does [`Ownership::Txt`](crate::publish::Ownership).
//!
//! Left out: what CoreDNS cannot serve out of etcd (wildcards, NS, DS), what it makes aliases of where addresses are asked for (MX), and
//! the zone's own name, whose addresses it looks for below `apex.dns`.

mod gateway_wire;
mod key;
mod service_wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use async_trait::async_trait;
use fairway_model::{Changes, Name, ProviderRecordSet, RecordSet, RecordSetKey, Rtype, Secret};

use self::{
    gateway_wire::{Kv, Session, Transaction},
    key::Key,
    service_wire::Record,
};
use crate::{
    http::Api,
    publish::{Limits, Provider, ProviderError},
};

/// An etcd that CoreDNS reads.
#[derive(Clone, Debug)]
pub struct Etcd {
    /// Its servers; where one fails, the next is asked.
    pub endpoints: Vec<Api>,
    /// What keys begin with, with a slash at both ends: the plug-in's `path`.
    pub prefix: String,
    /// User and password, where etcd wants them.
    pub user: Option<(String, Secret)>,
    /// The zones that are published to.
    pub zones: Vec<Name>,
    /// Longest time of a call.
    pub timeout: Duration,
}

/// One set, before and after.
struct Edit<'a> {
    name: &'a Name,
    rtype: Rtype,
    from: Option<&'a RecordSet>,
    to: Option<&'a ProviderRecordSet>,
}

#[async_trait]
impl Provider for Etcd {
    fn limits(&self) -> Limits {
        Limits { batch_max: BATCH_MAX, types: Some(TYPES), weights: None, timeout: self.timeout }
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let session = self.session().await?;
        let mut found: BTreeMap<String, Kv> = BTreeMap::new();
        for zone in &self.zones {
            let below = key::below(&self.prefix, zone).ok_or_else(|| unfit(zone))?;
            session.all_below(&below).await?.into_iter().for_each(|kv| drop(found.insert(kv.key.clone(), kv)));
        }
        Ok(self.sets(found.into_values()))
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        let edits = edits(changes);
        let prefixes: Vec<_> = edits.iter().map(|edit| self.prefix_of(edit)).collect::<Result<_, _>>()?;
        let session = self.session().await?;
        let (revision, there) = session.ranges(&prefixes).await?;
        let mut transaction = Transaction::default();
        for ((edit, prefix), there) in edits.iter().zip(&prefixes).zip(there) {
            let have: BTreeMap<_, _> = there.into_iter().map(|kv| (kv.key, kv.value)).collect();
            let want = self.records_of(edit)?;
            if have == want {
                continue;
            }
            if !self.is_as_read(edit, &have) {
                let what = format!("{} {}: its keys are not as they were read", edit.name, edit.rtype);
                return Err(ProviderError::Refused(what));
            }
            transaction.unchanged_since(prefix, revision);
            have.keys().filter(|key| !want.contains_key(*key)).for_each(|key| transaction.delete(key));
            want.iter().filter(|(key, value)| have.get(*key) != Some(value)).for_each(|(k, v)| transaction.put(k, v));
        }
        if transaction.is_empty() {
            return Ok(());
        }
        if transaction.len() > OPERATIONS_MAX {
            let names: BTreeSet<_> = edits.iter().map(|edit| edit.name.to_string()).collect();
            let names = names.into_iter().take(3).collect::<Vec<_>>().join(", ");
            let what =
                format!("{names}: more than {OPERATIONS_MAX} keys change, which is more than etcd takes at once");
            return Err(ProviderError::Refused(what));
        }
        match session.commit(transaction).await? {
            true => Ok(()),
            false => Err(ProviderError::Refused("somebody else changed its keys meanwhile".to_owned())),
        }
    }
}

impl Etcd {
    /// The first server that answers, with the right to ask.
    async fn session(&self) -> Result<Session<'_>, ProviderError> {
        let share = self.timeout / u32::try_from(self.endpoints.len()).unwrap_or(1).max(1);
        let mut last = ProviderError::Unavailable("it has no server".to_owned());
        for api in &self.endpoints {
            let begun = tokio::time::timeout(share, Session::begin(api, self.user.as_ref())).await;
            match begun.unwrap_or(Err(ProviderError::Late(share))) {
                Ok(session) => return Ok(session),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// What was found, as sets.
    fn sets(&self, found: impl Iterator<Item = Kv>) -> Vec<ProviderRecordSet> {
        let mut sets: BTreeMap<(bool, RecordSetKey), Vec<Record>> = BTreeMap::new();
        for kv in found {
            let Some(key) = Key::read(&self.prefix, &kv.key) else { continue };
            let is_ours = matches!(key, Key::Ours { .. });
            for (name, rtype, record) in service_wire::read(&key, &kv.value) {
                let key = RecordSetKey { name, rtype, set_identifier: String::new() };
                sets.entry((is_ours, key)).or_default().extend(record);
            }
        }
        let ours: BTreeSet<_> = sets.keys().filter(|(is_ours, _)| *is_ours).map(|(_, key)| key.clone()).collect();
        let set = |((is_ours, key), records): ((bool, RecordSetKey), Vec<Record>)| {
            let beside = if !is_ours && ours.contains(&key) { BESIDE } else { "" };
            ProviderRecordSet { set_identifier: beside.to_owned(), ..service_wire::joined(key, records) }
        };
        sets.into_iter().map(set).collect()
    }

    /// What the keys of a set of ours begin with.
    fn prefix_of(&self, edit: &Edit<'_>) -> Result<String, ProviderError> {
        if self.zones.contains(edit.name) {
            let what = format!(
                "{}: CoreDNS looks for what the zone's own name has below apex.dns: publish that name",
                edit.name
            );
            return Err(ProviderError::Refused(what));
        }
        if edit.rtype == Rtype::SRV && !edit.name.labels().next().is_some_and(|label| label.starts_with(b"_")) {
            let what =
                format!("{}: CoreDNS makes an alias of an SRV whose name does not begin with an underscore", edit.name);
            return Err(ProviderError::Refused(what));
        }
        key::of_set(&self.prefix, edit.name, edit.rtype).ok_or_else(|| unfit(edit.name))
    }

    /// The keys and values that a set is to have.
    fn records_of(&self, edit: &Edit<'_>) -> Result<BTreeMap<String, String>, ProviderError> {
        let Some(to) = edit.to else { return Ok(BTreeMap::new()) };
        let prefix = self.prefix_of(edit)?;
        let record = |rdata: &[u8]| {
            let value = service_wire::write(to, rdata)
                .map_err(|what| ProviderError::Refused(format!("{} {}: {what}", edit.name, edit.rtype)))?;
            Ok((key::of_record(&prefix, rdata), value))
        };
        to.set.rdatas.iter().map(|rdata| record(rdata)).collect()
    }

    /// Whether what stands there is what the change was planned on.
    fn is_as_read(&self, edit: &Edit<'_>, have: &BTreeMap<String, String>) -> bool {
        let kvs = have.iter().map(|(key, value)| Kv { key: key.clone(), value: value.clone() });
        let there = self.sets(kvs);
        match (edit.from, &there[..]) {
            (None, []) => true,
            (Some(from), [there]) => {
                let [was, is] = [from, &there.set].map(|set| set.rdatas.iter().collect::<BTreeSet<_>>());
                was == is && from.ttl == there.set.ttl
            }
            // Somebody took them away: there is nothing to be overwritten.
            (Some(_), []) => true,
            _ => false,
        }
    }
}

fn edits(changes: &Changes) -> Vec<Edit<'_>> {
    let creates = changes.create.iter().map(|to| (None, Some(to)));
    let updates = changes.update.iter().map(|update| (Some(&update.from), Some(&update.to)));
    let deletes = changes.delete.iter().map(|from| (Some(from), None));
    let all = creates.chain(updates).chain(deletes);
    // What stands beside ours is not ours to write.
    all.filter_map(|(from, to): (Option<&ProviderRecordSet>, Option<&ProviderRecordSet>)| {
        let set = to.or(from).filter(|set| set.set_identifier.is_empty())?;
        Some(Edit { name: &set.set.name, rtype: set.set.rtype, from: from.map(|set| &set.set), to })
    })
    .collect()
}

fn unfit(name: &Name) -> ProviderError {
    let what = "a key of etcd that CoreDNS finds has labels of letters, digits, '-' and '_' alone, and no wildcard";
    ProviderError::Refused(format!("{name}: {what}"))
}

/// The set identifier of what others have at the name and type of a set of ours.
pub const BESIDE: &str = "beside";
/// Types that CoreDNS serves out of etcd as they are.
const TYPES: &[Rtype] = &[Rtype::A, Rtype::AAAA, Rtype::CNAME, Rtype::SRV, Rtype::TXT];
/// Sets of a transaction.
const BATCH_MAX: usize = 32;
/// Most operations of a transaction: etcd's own default (`--max-txn-ops`).
const OPERATIONS_MAX: usize = 128;

#[cfg(test)]
mod tests;
