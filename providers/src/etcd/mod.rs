//! Records in an etcd, as the etcd plug-in of CoreDNS (and SkyDNS before it) reads them.
//!
//! ```text
//! /skydns/com/example/shop/fairway-a-0f3c…  {"host":"203.0.113.10","ttl":30,"targetstrip":1,"group":"shop.example.com",…}
//!         └─ name, reversed ─┘ └─ type and hash of the record: one key per record
//! ```
//! Keys whose last part has this form are ours; other keys are read and never written. Records of others at the name of an owned set form a
//! set of their own (set identifier [`FOREIGN`]), so that neither hides the other. A change is one transaction: it compares the keys with the
//! state that the change was planned on, and writes only if no key was created or changed in the meantime.
//!
//! Sources: `plugin/etcd` and `plugin/backend_lookup.go` of CoreDNS 1.15, `provider/coredns` of ExternalDNS 0.21. ExternalDNS puts `owner`
//! into values with `--coredns-strictly-owned` and then ignores TXT records; our values lack that field, so that it never takes them for its
//! own. Otherwise it uses TXT records, as [`Ownership::Txt`](crate::publish::Ownership) does.
//!
//! Not supported: types that CoreDNS cannot serve from etcd (wildcards, NS, DS) or answers as aliases (MX), and the zone's own name, whose
//! addresses CoreDNS reads below `apex.dns`.

mod key;
mod service_wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use fairway_etcd::{Client, Error, ErrorKind, KeyValue, RangeRequest, Settings, Txn, TxnOutcome, prefix_end};
use fairway_model::{Changes, Name, ProviderRecordSet, RecordSet, RecordSetKey, Rtype};

use self::{key::Key, service_wire::Record};
use crate::publish::{Limits, Provider, ProviderError};

/// An etcd that CoreDNS reads.
#[derive(Clone, Debug)]
pub struct Etcd {
    client: Arc<Client>,
    prefix: String,
    zones: Vec<Name>,
}

/// Keys with their values. A value that is not UTF-8 is empty here: no JSON is empty, so it counts as unreadable.
type Pairs = BTreeMap<String, String>;

/// The change of one set.
struct Edit<'a> {
    name: &'a Name,
    rtype: Rtype,
    from: Option<&'a RecordSet>,
    to: Option<&'a ProviderRecordSet>,
}

#[async_trait]
impl Provider for Etcd {
    fn limits(&self) -> Limits {
        Limits {
            batch_max: BATCH_MAX,
            is_conditional: true,
            types: Some(TYPES),
            weights: None,
            timeout: self.client.settings().call_timeout,
        }
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let mut found = Pairs::new();
        for zone in &self.zones {
            let below = key::below(&self.prefix, zone).ok_or_else(|| unfit(zone))?;
            found.extend(self.all_below(&below).await?);
        }
        Ok(self.sets(&found))
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        let edits = edits(changes);
        let prefixes: Vec<_> = edits.iter().map(|edit| self.prefix_of(edit)).collect::<Result<_, _>>()?;
        let (revision, there) = self.ranges(&prefixes).await?;
        let mut transaction = Txn::default();
        for ((edit, prefix), have) in edits.iter().zip(&prefixes).zip(there) {
            let want = self.records_of(edit)?;
            if have == want {
                continue;
            }
            if !self.is_as_read(edit, &have) {
                let what = format!("{} {}: its keys have changed since they were read", edit.name, edit.rtype);
                return Err(ProviderError::Refused(what));
            }
            transaction.if_unchanged_since(prefix, revision);
            for key in have.keys().filter(|key| !want.contains_key(*key)) {
                transaction.delete(key.as_str());
            }
            for (key, value) in want.iter().filter(|(key, value)| have.get(*key) != Some(value)) {
                transaction.put(key.as_str(), value.as_str());
            }
        }
        if transaction.operations() == 0 {
            return Ok(());
        }
        if transaction.operations() > OPERATIONS_MAX {
            let names: BTreeSet<_> = edits.iter().map(|edit| edit.name.to_string()).collect();
            let names = names.into_iter().take(3).collect::<Vec<_>>().join(", ");
            let what =
                format!("{names}: more than {OPERATIONS_MAX} keys change, the limit of etcd for one transaction");
            return Err(ProviderError::Refused(what));
        }
        match self.client.txn(transaction).await? {
            TxnOutcome { succeeded: true, .. } => Ok(()),
            // The publisher reads again and finds the result.
            TxnOutcome { is_retry: true, .. } => {
                let what = "etcd did not answer, and a second attempt found the keys changed, perhaps by the first one";
                Err(ProviderError::Unavailable(what.to_owned()))
            }
            TxnOutcome { .. } => Err(ProviderError::Refused("another client changed its keys".to_owned())),
        }
    }
}

impl From<Error> for ProviderError {
    fn from(error: Error) -> Self {
        match error.kind {
            // The error is about the request, so the publisher looks for the rejected set.
            ErrorKind::Refused(_) => Self::Refused(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

impl Etcd {
    /// Creates a provider that publishes to these zones.
    ///
    /// The prefix of all keys has a slash at both ends: it is `path` of the plug-in.
    pub fn new(settings: Settings, prefix: String, zones: Vec<Name>) -> Self {
        Self { client: Arc::new(Client::new(settings)), prefix, zones }
    }

    /// Reads all keys with a prefix, as they were at one revision.
    async fn all_below(&self, prefix: &str) -> Result<Pairs, ProviderError> {
        let mut request =
            RangeRequest { key: prefix.into(), range_end: prefix_end(prefix), limit: PAGE, ..RangeRequest::default() };
        let (mut found, mut bytes) = (Pairs::new(), 0);
        loop {
            let page = self.client.range(request.clone()).await?;
            bytes +=
                page.pairs.iter().map(|pair| size_of::<KeyValue>() + pair.key.len() + pair.value.len()).sum::<usize>();
            if bytes > READ_MAX {
                return Err(ProviderError::Unavailable(format!("the keys below {prefix} are over {READ_MAX} bytes")));
            }
            if request.revision == 0 {
                request.revision = page.revision;
            }
            // The first key after a key is that key with one byte 0 more.
            let last = page.pairs.last().filter(|_| page.more).map(|last| [&last.key[..], &[0]].concat());
            found.extend(pairs(page.pairs));
            match last {
                Some(next) => request.key = next,
                None => return Ok(found),
            }
        }
    }

    /// Reads the keys with each of these prefixes, and the revision that they were read at.
    async fn ranges(&self, prefixes: &[String]) -> Result<(i64, Vec<Pairs>), ProviderError> {
        let mut reading = Txn::default();
        prefixes.iter().for_each(|prefix| reading.read_prefix(prefix));
        let outcome = self.client.txn(reading).await?;
        if outcome.ranges.len() != prefixes.len() {
            let (found, asked) = (outcome.ranges.len(), prefixes.len());
            return Err(ProviderError::Unavailable(format!("etcd answered {found} of {asked} ranges")));
        }
        Ok((outcome.revision, outcome.ranges.into_iter().map(pairs).collect()))
    }

    /// Returns record sets of the keys that were read.
    fn sets(&self, found: &Pairs) -> Vec<ProviderRecordSet> {
        let mut sets: BTreeMap<(bool, RecordSetKey), Vec<Record>> = BTreeMap::new();
        for (key, value) in found {
            let Some(key) = Key::read(&self.prefix, key) else { continue };
            let is_ours = matches!(key, Key::Ours { .. });
            for (name, rtype, record) in service_wire::read(&key, value) {
                let key = RecordSetKey { name, rtype, set_identifier: String::new() };
                sets.entry((is_ours, key)).or_default().extend(record);
            }
        }
        let ours: BTreeSet<_> = sets.keys().filter(|(is_ours, _)| *is_ours).map(|(_, key)| key.clone()).collect();
        let set = |((is_ours, key), records): ((bool, RecordSetKey), Vec<Record>)| {
            let identifier = if !is_ours && ours.contains(&key) { FOREIGN } else { "" };
            ProviderRecordSet { set_identifier: identifier.to_owned(), ..service_wire::joined(key, records) }
        };
        sets.into_iter().map(set).collect()
    }

    /// Returns the prefix of the keys of a set.
    fn prefix_of(&self, edit: &Edit<'_>) -> Result<String, ProviderError> {
        if self.zones.contains(edit.name) {
            let what = format!(
                "{}: CoreDNS reads the records of the zone's own name below apex.dns; publish that name",
                edit.name
            );
            return Err(ProviderError::Refused(what));
        }
        if edit.rtype == Rtype::SRV && !edit.name.labels().next().is_some_and(|label| label.starts_with(b"_")) {
            let what = format!(
                "{}: CoreDNS answers an SRV as an alias if its name does not begin with an underscore",
                edit.name
            );
            return Err(ProviderError::Refused(what));
        }
        key::of_set(&self.prefix, edit.name, edit.rtype).ok_or_else(|| unfit(edit.name))
    }

    /// Returns the wanted keys and values of a set.
    fn records_of(&self, edit: &Edit<'_>) -> Result<Pairs, ProviderError> {
        let Some(to) = edit.to else { return Ok(Pairs::new()) };
        let prefix = self.prefix_of(edit)?;
        let record = |rdata: &[u8]| {
            let value = service_wire::write(to, rdata)
                .map_err(|what| ProviderError::Refused(format!("{} {}: {what}", edit.name, edit.rtype)))?;
            Ok((key::of_record(&prefix, rdata), value))
        };
        to.set.rdatas.iter().map(|rdata| record(rdata)).collect()
    }

    /// Returns true if the keys are in the state that the change was planned on.
    fn is_as_read(&self, edit: &Edit<'_>, have: &Pairs) -> bool {
        let there = self.sets(have);
        match (edit.from, &there[..]) {
            (None, []) => true,
            (Some(from), [there]) => {
                let [was, is] = [from, &there.set].map(|set| set.rdatas.iter().collect::<BTreeSet<_>>());
                was == is && from.ttl == there.set.ttl
            }
            // Another client removed the keys: nothing is overwritten.
            (Some(_), []) => true,
            _ => false,
        }
    }
}

/// Returns the pairs whose key is UTF-8; others hold no name.
fn pairs(found: Vec<KeyValue>) -> Pairs {
    let text =
        |pair: KeyValue| Some((String::from_utf8(pair.key).ok()?, String::from_utf8(pair.value).unwrap_or_default()));
    found.into_iter().filter_map(text).collect()
}

fn edits(changes: &Changes) -> Vec<Edit<'_>> {
    let creates = changes.create.iter().map(|to| (None, Some(to)));
    let updates = changes.update.iter().map(|update| (Some(&update.from), Some(&update.to)));
    let deletes = changes.delete.iter().map(|from| (Some(from), None));
    let all = creates.chain(updates).chain(deletes);
    // Sets of others are never written.
    all.filter_map(|(from, to): (Option<&ProviderRecordSet>, Option<&ProviderRecordSet>)| {
        let set = to.or(from).filter(|set| set.set_identifier.is_empty())?;
        Some(Edit { name: &set.set.name, rtype: set.set.rtype, from: from.map(|set| &set.set), to })
    })
    .collect()
}

fn unfit(name: &Name) -> ProviderError {
    let what = "CoreDNS finds only names with labels of letters, digits, '-' and '_' in etcd, and no wildcards";
    ProviderError::Refused(format!("{name}: {what}"))
}

/// Set identifier of records of others at the name and type of an owned set.
pub const FOREIGN: &str = "foreign";
/// Types that CoreDNS serves from etcd unchanged.
const TYPES: &[Rtype] = &[Rtype::A, Rtype::AAAA, Rtype::CNAME, Rtype::SRV, Rtype::TXT];
/// Maximum number of sets of a transaction: 32 sets of up to four records stay within [`OPERATIONS_MAX`].
const BATCH_MAX: usize = 32;
/// Maximum number of operations of a transaction: etcd's own default (`--max-txn-ops`).
const OPERATIONS_MAX: usize = 128;
/// Keys per page. A value has a few hundred bytes; 8 KiB fit the client's bound on a message.
const PAGE: i64 = 1_000;
/// Maximum number of bytes of all keys of a zone, in memory.
const READ_MAX: usize = 256 << 20;

#[cfg(test)]
mod tests;
