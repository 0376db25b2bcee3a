//! The ledger of the webhook over the object store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use fairway_model::{Permille, Timestamp};
use fairway_providers::{
    Changes, Endpoint,
    webhook_server::{Edits, Ledger, Refused, Scope, edits},
};
use tokio::sync::Notify;

use super::{
    leases::{Strengths, lease_weight},
    part_key, rows_wire, seen_key,
};
use crate::{
    Control, Readiness,
    command::Trigger,
    configured::{Configured, What},
    declared::Declared,
    objects::Objects,
};
use fairway_store::objects::{Author, Batch, Change, Committed, Expect, Key, StoreError};

/// Keeps what clients contribute, once there is a daemon to keep it in; until then it is busy.
#[derive(Debug, Default)]
pub struct ContributionLedger {
    control: OnceLock<Control>,
    /// Held by who changes rows.
    turn: tokio::sync::Mutex<()>,
    /// The last revision that was made here: what is read is at least as new.
    made: AtomicU64,
    /// When each client was last heard of here, in seconds since 1970.
    seen: Mutex<BTreeMap<Scope, u64>>,
    /// When this server began to listen to them.
    opened: AtomicU64,
    /// A client that was silent for long is heard of again.
    returned: Notify,
}

impl ContributionLedger {
    /// Keeps in this daemon from now on.
    pub fn open(&self, control: &Control) {
        self.opened.store(now(), Relaxed);
        // Set once, when the daemon has its store.
        let _ = self.control.set(control.clone());
    }

    /// Sees to leases as long as the daemon runs.
    pub async fn follow(self: Arc<Self>) {
        loop {
            // At once for who returns.
            let _ = tokio::time::timeout(LOOK_PERIOD, self.returned.notified()).await;
            self.look(now()).await;
        }
    }

    /// What has faded by now, and who was heard of: both are put where the next reading, and other servers, find them.
    pub async fn look(&self, now: u64) {
        let Ok((control, objects)) = self.control().and_then(|control| Ok((control, self.objects()?))) else { return };
        let declared = objects.declared();
        let mut strengths = Strengths::new();
        if let Some(lease) = lease_of(control) {
            for scope in declared.scopes() {
                let seen = self.last_seen(&scope, &declared).unwrap_or_default().max(self.opened.load(Relaxed));
                let left = lease_weight(now.saturating_sub(seen), lease);
                if left < Permille::WHOLE {
                    strengths.insert(scope.clone(), left);
                }
                self.keep_seen(objects, &declared, &scope, lease).await;
            }
        }
        if strengths != *declared.strengths() {
            let silent: Vec<_> =
                strengths.iter().map(|(scope, left)| format!("{scope}={}", left.thousandths())).collect();
            tracing::warn!(permille_left = silent.join(" "), "webhook lease weights changed");
            objects.set_strengths(strengths);
            control.ask_reload(What::Objects, Trigger::Webhook).await;
        }
    }

    /// Keeps when a client was last heard of, four times a lease: for other servers, and for after a restart.
    async fn keep_seen(&self, objects: &Objects, declared: &Declared, scope: &Scope, lease: u64) {
        let here = self.seen_here(scope).unwrap_or_default();
        if here < declared.seen(scope).unwrap_or_default() + lease.div_ceil(4) {
            return;
        }
        let (key, value) = (seen_key(scope), Some(rows_wire::write_seen(here)));
        let by = Author::new(format!("external-dns {scope}"), "it was heard of");
        let batch = Batch {
            changes: vec![Change { key, expect: Expect::Anything, value }],
            by,
            at: Timestamp::from_secs(here),
        };
        if let Err(error) = objects.commit(batch).await {
            tracing::debug!(%error, %scope, "time of the last webhook call not saved");
        }
    }

    fn seen_here(&self, scope: &Scope) -> Option<u64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(scope).copied()
    }

    /// When a client was last heard of, here or at another server.
    pub fn last_seen(&self, scope: &Scope, declared: &Declared) -> Option<u64> {
        self.seen_here(scope).max(declared.seen(scope))
    }

    fn hear(&self, scope: &Scope, declared: &Declared) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Of clients that bring nothing there may be any number.
        if seen.contains_key(scope) || declared.rows_of(scope).next().is_some() {
            seen.insert(scope.clone(), now());
        }
        if declared.lease_weight(scope) < Permille::WHOLE {
            self.returned.notify_one();
        }
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

    /// The configuration in force, once there is a daemon.
    pub fn configured(&self) -> Option<Arc<Configured>> {
        Some(Arc::clone(&self.control.get()?.shared().serving.published().configured))
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
        let published = self.control()?.shared().serving.published();
        let zones = published.configured.merged.desired.zones.keys().map(|zone| zone.to_string());
        let domains: Vec<_> = zones.map(|zone| zone.trim_end_matches('.').to_owned()).collect();
        // An empty list takes every name; without a zone there is none to take (RFC 6761 section 6.4).
        Ok(if domains.is_empty() { vec!["invalid".to_owned()] } else { domains })
    }

    async fn endpoints(&self, scope: &Scope) -> Result<Vec<Endpoint>, Refused> {
        let declared = self.declared(self.objects()?).await?;
        self.hear(scope, &declared);
        Ok(declared.rows_of(scope).map(|row| row.row.endpoint.clone()).collect())
    }

    async fn apply(&self, scope: &Scope, changes: Changes) -> Result<(), Refused> {
        let by = Author::new(format!("external-dns {scope}"), "");
        self.commit(scope, edits(changes), by).await?;
        self.hear(scope, &self.objects()?.declared());
        Ok(())
    }
}

impl ContributionLedger {
    /// Makes all edits, or none; returns once they are durable and, as far as there is time, in the answers.
    pub async fn commit(&self, scope: &Scope, edits: Edits, by: Author) -> Result<(), Refused> {
        let objects = self.objects()?;
        if edits.is_empty() {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let declared = self.declared(objects).await?;
            let at = Timestamp::from(SystemTime::now());
            let changes = changed_parts(&declared, scope, &edits, at.secs())?;
            if changes.is_empty() {
                return Ok(());
            }
            match objects.commit(Batch { changes, by: by.clone(), at }).await {
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

/// How long an owner may not be heard of, in seconds; none: for ever.
fn lease_of(control: &Control) -> Option<u64> {
    let webhook = control.shared().serving.published().configured.settings.webhook.clone();
    webhook.and_then(|webhook| webhook.lease).map(|lease| lease.as_secs())
}

/// Seconds since 1970.
fn now() -> u64 {
    Timestamp::from(SystemTime::now()).secs()
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

/// How often leases are looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Longest wait for the store to tell of a change that it took.
const HEARD_MAX: Duration = Duration::from_secs(1);
/// Longest wait for the answers to follow a change.
const SERVED_MAX: Duration = Duration::from_secs(2);
/// How often a change is made anew because another server changed the same.
const TRIES: usize = 5;
/// Most octets of one client's endpoints as they are kept, those of a change counted beside those it takes the place of: twice what the client can
/// read.
const OCTETS_MAX: usize = 64 << 20;
