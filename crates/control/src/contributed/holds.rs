//! Withdrawals: by clients, which are weighed, and by operators, which are made at once.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use fairway_config::WithdrawalSettings;
use fairway_contributions::{ReadRow, Release, RowChange, RowChanges, RowOwners, WINDOW, Weighing};
use fairway_providers::{
    Changes, RowKey,
    webhook_server::{Scope, WebhookError},
};
use fairway_store::objects::{Author, Key};

use super::{ContributionLedger, evidence::ServedHealth, ledger::no_store};
use crate::{ControlError, declared::Declared};

/// Endpoints of one owner.
#[derive(Clone, Copy, Debug)]
pub struct EndpointFilter<'a> {
    /// The owner.
    pub owner: &'a str,
    /// Base path; `None` for all.
    pub path: Option<&'a str>,
    /// Set identifier; `None` for all.
    pub set: Option<&'a str>,
}

/// Endpoints of held withdrawals that were released, by cause.
#[derive(Debug, Default)]
pub struct ReleaseCounts {
    counts: Mutex<BTreeMap<Release, u64>>,
    /// Last revision at which nothing was held.
    none_held: AtomicU64,
}

impl ReleaseCounts {
    /// Returns the number of endpoints by cause.
    pub fn by_cause(&self) -> BTreeMap<Release, u64> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, release: Release, endpoints: usize) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(release).or_default() += endpoints as u64;
    }
}

impl ContributionLedger {
    /// Makes a client's changes. Deletions that look like a mistake are held: the client no longer sees the endpoints, the answers do.
    pub(super) async fn withdraw(&self, scope: &Scope, sent: &Changes, by: Author) -> Result<(), WebhookError> {
        let state = self.control()?.shared().serving.load();
        let (evidence, settings) = (ServedHealth(&state), self.withdrawal_settings());
        let prepare = |declared: &Declared, now| {
            Weighing { rows: declared, scope, evidence: &evidence, settings, now }.changes_of(sent)
        };
        let changes = self.commit(scope, by, prepare).await?;
        self.foreign.note(changes.foreign);
        let mut by_owner: BTreeMap<_, Vec<&str>> = BTreeMap::new();
        for (owner, name, rule) in &changes.held {
            by_owner.entry((owner, <&str>::from(rule))).or_default().push(name);
        }
        for ((owner, rule), names) in by_owner {
            tracing::warn!(
                event = "hold", path = %scope, %owner, rule, names = names.len(), first = names[0],
                "withdrawal held; `fairway contributions confirm {owner}` releases it"
            );
        }
        Ok(())
    }

    /// Releases the holds that are due.
    pub async fn release_holds(&self, now: u64) {
        let Ok((control, objects)) = self.control().and_then(|control| Ok((control, self.objects()?))) else { return };
        let declared = objects.declared();
        // Revisions begin at 0, which has no objects.
        if self.releases.none_held.load(Relaxed) == declared.revision {
            return;
        }
        let mut is_any_held = false;
        for scope in declared.scopes() {
            if !is_any_kept(&declared, &scope) {
                continue;
            }
            is_any_held = true;
            let state = control.shared().serving.load();
            let (evidence, settings) = (ServedHealth(&state), self.withdrawal_settings());
            let due = |declared: &Declared| {
                Weighing { rows: declared, scope: &scope, evidence: &evidence, settings, now }.releases()
            };
            let (due_now, outdated) = (due(&declared).due, outdated(&declared, &scope, now));
            if due_now.is_empty() && outdated.is_empty() {
                continue;
            }
            let prepare =
                |declared: &Declared, _| RowChanges { outdated: outdated.clone(), ..RowChanges::from(due(declared)) };
            match self.commit(&scope, Author::new("fairway", "held withdrawals released"), prepare).await {
                Ok(changes) => self.report(&scope, &due_now, &changes),
                Err(error) => tracing::debug!(%error, %scope, "held withdrawals not released yet"),
            }
        }
        if !is_any_held {
            self.releases.none_held.store(declared.revision, Relaxed);
        }
    }

    /// Logs and counts what was released.
    fn report(&self, scope: &Scope, due: &BTreeMap<RowKey, Release>, changes: &RowChanges) {
        let mut by_cause: BTreeMap<Release, Vec<&str>> = BTreeMap::new();
        for ((name, ..), release) in due.iter().filter(|(key, _)| changes.rows.contains_key(*key)) {
            by_cause.entry(*release).or_default().push(name);
        }
        for (release, names) in by_cause {
            let cause = <&str>::from(release);
            tracing::info!(event = "hold", path = %scope, cause, endpoints = names.len(), first = names[0], "held withdrawal released");
            self.releases.add(release, names.len());
        }
    }

    /// Releases what an owner withdrew and is held. Returns the number of endpoints.
    pub async fn confirm(&self, filter: EndpointFilter<'_>, by: Author) -> Result<usize, ControlError> {
        let count = self.remove(filter, by, |row| row.row.held.is_some()).await?;
        self.releases.add(Release::Confirmed, count);
        Ok(count)
    }

    /// Removes endpoints of an owner at once. Returns their number.
    pub async fn evict(&self, filter: EndpointFilter<'_>, by: Author) -> Result<usize, ControlError> {
        self.remove(filter, by, |_| true).await
    }

    async fn remove(
        &self,
        filter: EndpointFilter<'_>,
        by: Author,
        is_meant: impl Fn(&ReadRow) -> bool,
    ) -> Result<usize, ControlError> {
        let scopes = self.objects().map_err(no_store)?.declared().scopes();
        let mut count = 0;
        for scope in scopes.iter().filter(|scope| filter.path.is_none_or(|path| path == scope.to_string())) {
            let prepare = |declared: &Declared, _| {
                let rows: Vec<&ReadRow> = declared.rows_of(scope).collect();
                let owners = RowOwners::of(scope, &rows);
                let has_set = |row: &ReadRow| filter.set.is_none_or(|set| set == row.row.endpoint.set_identifier);
                let is_removed = |row: &&ReadRow| *owners.of_row(row) == *filter.owner && has_set(row) && is_meant(row);
                RowChanges::removing(rows.into_iter().filter(is_removed).map(|row| row.row.endpoint.key()))
            };
            let changes = self.commit(scope, by.clone(), prepare).await.map_err(no_store)?;
            count += changes.rows.values().filter(|change| **change == RowChange::Remove).count();
        }
        Ok(count)
    }

    fn withdrawal_settings(&self) -> WithdrawalSettings {
        self.configured().map(|configured| configured.settings.withdrawals).unwrap_or_default()
    }
}

/// Returns true if a client has held rows, or parts with nothing but lists of withdrawn names.
fn is_any_kept(declared: &Declared, scope: &Scope) -> bool {
    declared
        .keyed_parts(scope)
        .any(|(_, part)| part.rows.is_empty() || part.rows.iter().any(|row| row.row.held.is_some()))
}

/// Returns the parts of a client that only have lists of withdrawn names, all of them too old to count.
fn outdated(declared: &Declared, scope: &Scope, now: u64) -> Vec<Key> {
    let is_old = |at: u64| now.saturating_sub(at) >= WINDOW.as_secs();
    let parts = declared.keyed_parts(scope).filter(|(_, part)| part.rows.is_empty());
    parts.filter(|(_, part)| part.withdrawn.iter().all(|of| is_old(of.at))).map(|(key, _)| key.clone()).collect()
}
