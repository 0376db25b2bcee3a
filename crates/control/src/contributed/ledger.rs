//! Keeps webhook contributions in the object store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use fairway_contributions::{ForeignWrites, LeaseWeights, RowChanges, lease_weight, seen_key, tenant_of, write_seen};
use fairway_model::{Name, Permille, Timestamp};
use fairway_providers::{
    Changes, Endpoint,
    webhook_server::{EndpointStore, Scope, WebhookError},
};
use tokio::sync::Notify;

use super::{holds::ReleaseCounts, parts};
use crate::{
    Control, ControlError, Readiness,
    configured::Configured,
    declared::Declared,
    object_store::Objects,
    reloads::{ReloadScope, Trigger},
};
use fairway_store::objects::{Author, Batch, Change, Committed, Expect, StoreError};

/// Keeps what webhook clients contribute. Until the server has its store, requests are refused as busy.
#[derive(Default)]
pub struct ContributionLedger {
    control: OnceLock<Control>,
    /// Held during a change of rows.
    writing: tokio::sync::Mutex<()>,
    /// Last revision that this server committed. Later reads are at least as new.
    committed: AtomicU64,
    /// Time of each client's last call to this server, in seconds since 1970.
    seen: Mutex<BTreeMap<Scope, u64>>,
    /// Time when this server began to listen, in seconds since 1970.
    opened: AtomicU64,
    /// Notified by a call of a client whose lease has expired.
    returned: Notify,
    /// Releases of held withdrawals.
    pub releases: ReleaseCounts,
    /// Refused writes to rows of other owners.
    pub foreign: ForeignWrites,
}

impl ContributionLedger {
    /// Keeps contributions in this server from now on.
    pub fn open(&self, control: &Control) {
        self.opened.store(now(), Relaxed);
        // Called once, when the server has its store.
        let _ = self.control.set(control.clone());
    }

    /// Updates lease weights as long as the server runs.
    pub async fn follow(self: Arc<Self>) {
        loop {
            // A client that returns is not kept waiting.
            let _ = tokio::time::timeout(LEASE_PERIOD, self.returned.notified()).await;
            self.update_leases(now()).await;
            self.release_holds(now()).await;
        }
    }

    /// Computes the lease weights for the next reload, and commits times of last calls for the other servers.
    pub async fn update_leases(&self, now: u64) {
        let Ok((control, objects)) = self.control().and_then(|control| Ok((control, self.objects()?))) else { return };
        let declared = objects.declared();
        let mut weights = LeaseWeights::new();
        if let Some(lease) = lease_of(control) {
            for scope in declared.scopes() {
                let seen = self.last_seen(&scope, &declared).unwrap_or_default().max(self.opened.load(Relaxed));
                let weight = lease_weight(now.saturating_sub(seen), lease);
                if weight < Permille::WHOLE {
                    weights.insert(scope.clone(), weight);
                }
                self.commit_seen(objects, &declared, &scope, lease).await;
            }
        }
        if weights != *declared.lease_weights {
            let silent: Vec<_> =
                weights.iter().map(|(scope, weight)| format!("{scope}={}", weight.thousandths())).collect();
            tracing::warn!(permille_left = silent.join(" "), "webhook lease weights changed");
            objects.set_lease_weights(weights);
            control.request_reload(ReloadScope::Objects, Trigger::Webhook).await;
        }
    }

    /// Commits the time of a client's last call four times a lease, for other servers and for later processes.
    async fn commit_seen(&self, objects: &Objects, declared: &Declared, scope: &Scope, lease: u64) {
        let here = self.seen_here(scope).unwrap_or_default();
        if here < declared.seen(scope).unwrap_or_default() + lease.div_ceil(4) {
            return;
        }
        let (key, value) = (seen_key(scope), Some(write_seen(here)));
        let by = Author::new(format!("external-dns {scope}"), "last call");
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

    /// Returns the time of a client's last call to any server, in seconds since 1970.
    pub fn last_seen(&self, scope: &Scope, declared: &Declared) -> Option<u64> {
        self.seen_here(scope).max(declared.seen(scope))
    }

    fn note_call(&self, scope: &Scope, declared: &Declared) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Clients that contribute nothing are unlimited, so they are not counted.
        if seen.contains_key(scope) || declared.rows_of(scope).next().is_some() {
            seen.insert(scope.clone(), now());
        }
        if declared.lease_weight(scope) < Permille::WHOLE {
            self.returned.notify_one();
        }
    }

    /// Returns the control handle, unless the server starts or stops.
    pub(super) fn control(&self) -> Result<&Control, WebhookError> {
        let control = self.control.get().ok_or_else(|| WebhookError::Busy("the server is starting".to_owned()))?;
        match control.readiness() {
            Readiness::Draining => Err(WebhookError::Busy("the server is stopping".to_owned())),
            Readiness::Starting | Readiness::Ready => Ok(control),
        }
    }

    pub(super) fn objects(&self) -> Result<&Objects, WebhookError> {
        self.control()?.objects().map_err(|error| WebhookError::Busy(error.to_string()))
    }

    /// Returns the configuration in force, once there is one.
    pub fn configured(&self) -> Option<Arc<Configured>> {
        Some(Arc::clone(&self.control.get()?.shared().serving.published().configured))
    }

    /// Returns the declared objects, including all changes that this server committed.
    async fn declared(&self, objects: &Objects) -> Result<Arc<Declared>, WebhookError> {
        if !objects.received(self.committed.load(Relaxed), EVENT_WAIT_MAX).await {
            return Err(WebhookError::Busy("the last change was not returned by the store yet".to_owned()));
        }
        Ok(objects.declared())
    }
}

#[async_trait]
impl EndpointStore for ContributionLedger {
    fn domains(&self, scope: &Scope) -> Result<Vec<String>, WebhookError> {
        let published = self.control()?.shared().serving.published();
        let zones: Vec<&Name> = published.configured.merged.desired.zones.keys().collect();
        let granted = published.configured.settings.access.names.domains_of(&tenant_of(scope));
        let within_zones = |domain: &Name| zones.iter().any(|zone| domain.is_within(zone));
        let mut domains = match granted {
            None => zones.clone(),
            Some(granted) => {
                let zones = zones.iter().filter(|zone| granted.iter().any(|domain| zone.is_within(domain)));
                zones.copied().chain(granted.iter().copied().filter(|domain| within_zones(domain))).collect()
            }
        };
        domains.sort();
        domains.dedup();
        let domains: Vec<_> = domains.iter().map(|name| name.to_string().trim_end_matches('.').to_owned()).collect();
        // An empty list takes every name; without a zone there is none to take (RFC 6761 section 6.4).
        Ok(if domains.is_empty() { vec!["invalid".to_owned()] } else { domains })
    }

    async fn endpoints(&self, scope: &Scope) -> Result<Vec<Endpoint>, WebhookError> {
        let declared = self.declared(self.objects()?).await?;
        self.note_call(scope, &declared);
        // Its writer withdrew what is held, and must not see it again.
        let rows = declared.rows_of(scope).filter(|row| row.row.held.is_none());
        Ok(rows.map(|row| row.endpoint()).collect())
    }

    async fn apply(&self, scope: &Scope, changes: Changes) -> Result<(), WebhookError> {
        let by = Author::new(format!("external-dns {scope}"), "");
        self.withdraw(scope, &changes, by).await?;
        self.note_call(scope, &self.objects()?.declared());
        Ok(())
    }
}

impl ContributionLedger {
    /// Commits all changes that `prepare` makes of the current state, or none. Returns them once they are durable and, if that takes less
    /// than two seconds, in the answers.
    pub(super) async fn commit(
        &self,
        scope: &Scope,
        by: Author,
        prepare: impl Fn(&Declared, u64) -> RowChanges,
    ) -> Result<RowChanges, WebhookError> {
        let objects = self.objects()?;
        let guard = self.writing.lock().await;
        for _ in 0..TRIES {
            let declared = self.declared(objects).await?;
            let at = Timestamp::from(SystemTime::now());
            let prepared = prepare(&declared, at.secs());
            let changes = parts::of_parts(&prepared, &declared, scope, at.secs())?;
            if changes.is_empty() {
                return Ok(prepared);
            }
            match objects.commit(Batch { changes, by: by.clone(), at }).await {
                Ok(Committed { revision, .. }) => {
                    self.committed.fetch_max(revision, Relaxed);
                    // Calls of other clients commit meanwhile: one reload serves them all.
                    drop(guard);
                    // The change is durable. The wait for the answers is limited by the time that the caller has.
                    self.control()?.served(revision, SERVED_MAX).await;
                    return Ok(prepared);
                }
                // Another server was faster: its change is received first.
                Err(StoreError::Conflict { found, .. }) => {
                    _ = objects.received(found.unwrap_or_default(), EVENT_WAIT_MAX).await
                }
                Err(StoreError::Full(over)) => return Err(WebhookError::Full(over.to_string())),
                Err(StoreError::Refused(what)) => return Err(WebhookError::Large(what)),
                Err(error) => return Err(WebhookError::Busy(error.to_string())),
            }
        }
        Err(WebhookError::Busy("other servers change the same endpoints".to_owned()))
    }
}

/// Returns a refusal as an error of the API.
pub(super) fn no_store(refused: WebhookError) -> ControlError {
    match refused {
        WebhookError::Busy(what) | WebhookError::Full(what) | WebhookError::Large(what) => ControlError::NoStore(what),
    }
}

/// Returns the lease of webhook clients in seconds; `None` if contributions never expire.
fn lease_of(control: &Control) -> Option<u64> {
    let webhook = control.shared().serving.published().configured.settings.webhook.clone();
    webhook.and_then(|webhook| webhook.lease).map(|lease| lease.as_secs())
}

/// Returns the time in seconds since 1970.
fn now() -> u64 {
    Timestamp::from(SystemTime::now()).secs()
}

/// Period of updates of lease weights.
const LEASE_PERIOD: Duration = Duration::from_secs(1);
/// Longest wait for the event of a committed change.
const EVENT_WAIT_MAX: Duration = Duration::from_secs(1);
/// Longest wait for the answers to follow a change. ExternalDNS gives up after 5 s.
const SERVED_MAX: Duration = Duration::from_secs(2);
/// Attempts to commit a change while other servers change the same endpoints.
const TRIES: usize = 5;
