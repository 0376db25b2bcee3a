//! The ledger of the webhook over the object store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use fairway_model::Timestamp;
use fairway_providers::{
    Changes, Endpoint,
    webhook_server::{Edits, Ledger, Refused, Scope, edits},
};

use super::{part_key, rows_wire};
use crate::{
    control::{Control, Readiness, declared::Declared, objects::Objects},
    store::objects::{Author, Batch, Change, Committed, Expect, Key, StoreError},
};

/// Keeps what clients contribute, once there is a daemon to keep it in; until then it is busy.
#[derive(Debug, Default)]
pub(crate) struct ContributionLedger {
    control: OnceLock<Control>,
    /// Held by who changes rows.
    turn: tokio::sync::Mutex<()>,
    /// The last revision that was made here: what is read is at least as new.
    made: AtomicU64,
}

impl ContributionLedger {
    /// Keeps in this daemon from now on.
    pub(crate) fn open(&self, control: &Control) {
        // Set once, when the daemon has its store.
        let _ = self.control.set(control.clone());
    }

    /// The daemon, unless it is on its way up or down.
    fn control(&self) -> Result<&Control, Refused> {
        let control = self.control.get().ok_or_else(|| Refused::Busy("the server is starting".to_owned()))?;
        match *control.shared().readiness.borrow() {
            Readiness::Draining => Err(Refused::Busy("the server is stopping".to_owned())),
            Readiness::Starting | Readiness::Ready => Ok(control),
        }
    }

    fn objects(&self) -> Result<&Objects, Refused> {
        self.control()?.objects().map_err(|error| Refused::Busy(error.to_string()))
    }

    /// What is declared, with all that was changed here.
    async fn declared(&self, objects: &Objects) -> Result<Arc<Declared>, Refused> {
        if !objects.heard(self.made.load(Relaxed), HEARD_MAX).await {
            return Err(Refused::Busy("the store has not told of the last change yet".to_owned()));
        }
        Ok(objects.declared())
    }
}

#[async_trait]
impl Ledger for ContributionLedger {
    fn domains(&self) -> Result<Vec<String>, Refused> {
        let published = self.control()?.shared().published.load();
        let zones = published.configured.desired.zones.keys().map(|zone| zone.to_string());
        let domains: Vec<_> = zones.map(|zone| zone.trim_end_matches('.').to_owned()).collect();
        // An empty list takes every name; without a zone there is none to take (RFC 6761 section 6.4).
        Ok(if domains.is_empty() { vec!["invalid".to_owned()] } else { domains })
    }

    async fn endpoints(&self, scope: &Scope) -> Result<Vec<Endpoint>, Refused> {
        let declared = self.declared(self.objects()?).await?;
        Ok(declared.rows_of(scope).map(|row| row.row.endpoint.clone()).collect())
    }

    async fn apply(&self, scope: &Scope, changes: Changes) -> Result<(), Refused> {
        let edits = edits(changes);
        if edits.is_empty() {
            return self.objects().map(|_| ());
        }
        let objects = self.objects()?;
        let _turn = self.turn.lock().await;
        let by = Author { who: format!("external-dns {scope}"), why: String::new() };
        for _ in 0..TRIES {
            let declared = self.declared(objects).await?;
            let now = Timestamp::from(SystemTime::now());
            let changes = changed_parts(&declared, scope, &edits, now.secs())?;
            if changes.is_empty() {
                return Ok(());
            }
            match objects.commit(Batch { changes, by: by.clone(), at: now }).await {
                Ok(Committed { revision, .. }) => {
                    self.made.fetch_max(revision, Relaxed);
                    // It is durable; that the answers follow is waited for as long as a caller has time.
                    self.control()?.served(revision, SERVED_MAX).await;
                    return Ok(());
                }
                // Another server was faster: what it made is heard of first.
                Err(StoreError::Conflict { found, .. }) => {
                    _ = objects.heard(found.unwrap_or_default(), HEARD_MAX).await
                }
                Err(StoreError::Refused(what)) => return Err(Refused::Large(what)),
                Err(error) => return Err(Refused::Busy(error.to_string())),
            }
        }
        Err(Refused::Busy("other servers change the same endpoints".to_owned()))
    }
}

/// The objects that edits change, as they are from now on.
fn changed_parts(declared: &Declared, scope: &Scope, edits: &Edits, now: u64) -> Result<Vec<Change>, Refused> {
    let mut parts: BTreeMap<Key, Vec<_>> = BTreeMap::new();
    for edit in edits {
        parts.entry(part_key(scope, &edit.0.0)).or_default().push(edit);
    }
    let mut changes = Vec::with_capacity(parts.len());
    for (key, edits) in parts {
        let rows = declared.rows_at(&key).iter().map(|row| (row.row.endpoint.key(), row.row.clone()));
        let mut rows: BTreeMap<_, _> = rows.collect();
        let before = rows.clone();
        for (at, endpoint) in edits {
            match endpoint {
                Some(endpoint) => {
                    let since = rows.get(at).map_or(now, |row| row.since);
                    rows.insert(at.clone(), rows_wire::Row { since, endpoint: endpoint.clone() });
                }
                None => _ = rows.remove(at),
            }
        }
        if rows == before {
            continue;
        }
        let expect = declared.get(&key).map_or(Expect::Absent, |object| Expect::Revision(object.revision));
        let value = (!rows.is_empty()).then(|| rows_wire::write(rows.into_values().collect()));
        changes.push(Change { key, expect, value });
    }
    let grown =
        declared.octets_of(scope) + changes.iter().flat_map(|change| &change.value).map(Vec::len).sum::<usize>();
    if grown > OCTETS_MAX {
        let what = format!("{scope} would have {grown} octets of endpoints; {OCTETS_MAX} are the most");
        return Err(Refused::Large(what));
    }
    Ok(changes)
}

/// Longest wait for the store to tell of a change that it took.
const HEARD_MAX: Duration = Duration::from_secs(1);
/// Longest wait for the answers to follow a change.
const SERVED_MAX: Duration = Duration::from_secs(2);
/// How often a change is made anew because another server changed the same.
const TRIES: usize = 5;
/// Most octets of one client's endpoints as they are kept, those of a change counted beside those it takes the place of: twice what the client can
/// read.
const OCTETS_MAX: usize = 64 << 20;
