//! Overrides of all servers on one store: one object, changed by compare and set.
//!
//! ```text
//! add, remove ──► check ──► commit, unless another server was faster ──► events ──► a reload on every server ──► answers
//! ```
//! Without a shared store, and with `local`, overrides are kept in the data folder of this server (`override_commands.rs`).

use std::{sync::Arc, time::Duration};

use fairway_model::{Override, OverrideOrigin, Timestamp};
use fairway_store::{
    SavedOverride,
    objects::{Author, Batch, Change, Expect, ObjectStore, StoreError},
};

use super::{
    Control,
    command::Command,
    declared::overrides_key,
    error::ControlError,
    override_commands::check,
    overrides::{ActiveOverride, AddedOverride, OverrideRequest, OverrideTable},
    served::CurrentState,
};

impl Control {
    /// Adds an override, unless it looks like a mistake. Returns once it is in force and durable. A dry run returns its effect.
    pub async fn add_override(&self, request: OverrideRequest) -> Result<AddedOverride, ControlError> {
        let store = self.objects().ok().map(|objects| objects.store());
        let Some(store) = store.filter(|store| store.election().is_some() && !request.is_local) else {
            let added: AddedOverride = self.ask(|reply| Command::AddOverride(Box::new(request), reply)).await??;
            if added.active.id.is_some() {
                self.wait_for_pools(&added.active.spec, true).await;
            }
            return Ok(added);
        };
        let Override { kind, origin: OverrideOrigin { by, .. }, .. } = &request.spec;
        let by = Author::new(by.clone().unwrap_or_default(), kind.to_string());
        self.change_shared(&store, &by, |state, table| {
            let checked = check(state, table, request.clone(), |table, new| table.shared.push(new))?;
            Ok((checked.added, checked.next))
        })
        .await
    }

    /// Removes an override that was added by command. Returns once it is gone, also from the disk or the store.
    pub async fn remove_override(&self, id: &str, by: &str) -> Result<ActiveOverride, ControlError> {
        if self.shared.serving.published().overrides.shared.iter().all(|shared| shared.id != id) {
            let removed: ActiveOverride = self.ask(|reply| Command::RemoveOverride(id.to_owned(), reply)).await??;
            self.wait_for_pools(&removed.spec, false).await;
            return Ok(removed);
        }
        let by = Author::new(by, format!("remove override {id}"));
        self.change_shared(&self.objects()?.store(), &by, |state, table| {
            let removed = ActiveOverride::of(id, table, &state.published.configured)?;
            let mut next = table.clone();
            next.shared.retain(|shared| shared.id != id);
            Ok((removed, Some(next)))
        })
        .await
    }

    /// Waits until the reload after an override that pins pools is in the answers, or after its end (`is_in_force`).
    async fn wait_for_pools(&self, spec: &Override, is_in_force: bool) {
        if spec.kind.pools().is_some() {
            let (shared, mut served) = (&self.shared, self.shared.declarations.served.subscribe());
            let is_served = |_: &u64| shared.serving.published().configured.load_off.contains(spec) == is_in_force;
            // Without it, the override is in the table, and the next reload applies it.
            let _ = tokio::time::timeout(SERVED_MAX, served.wait_for(is_served)).await;
        }
    }

    /// Changes the shared overrides. `change` returns a result and the table to commit, if any; it is called again if another server was
    /// faster.
    async fn change_shared<T>(
        &self,
        store: &Arc<dyn ObjectStore>,
        by: &Author,
        change: impl Fn(&CurrentState, &OverrideTable) -> Result<(T, Option<OverrideTable>), ControlError>,
    ) -> Result<T, ControlError> {
        let not_shared = |error: StoreError| ControlError::NotShared(error.to_string());
        for _ in 0..ATTEMPTS_MAX {
            let (state, now) = (self.shared.serving.load(), Timestamp::from(std::time::SystemTime::now()));
            let found = store.read(&overrides_key()).await.map_err(not_shared)?;
            let expect = found.as_ref().map_or(Expect::Absent, |object| Expect::Revision(object.revision));
            let shared = found.map_or(Ok(vec![]), |object| SavedOverride::decode(&object.value));
            let mut table = state.published.overrides.clone();
            table.shared = shared.map_err(ControlError::NotShared)?;
            // Expired ones are in the object until its next change.
            table.shared.retain(|shared| shared.value.is_active(now));
            let (result, next) = change(&state, &table)?;
            let Some(next) = next else { return Ok(result) };
            let value = Some(SavedOverride::encode(&next.shared, now));
            let changes = vec![Change { key: overrides_key(), expect, value }];
            match store.commit(Batch { changes, by: by.clone(), at: now }).await {
                Ok(committed) => {
                    self.served(committed.revision, SERVED_MAX).await;
                    return Ok(result);
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(not_shared(error)),
            }
        }
        Err(ControlError::NotShared("other servers change overrides at the same time".to_owned()))
    }
}

/// Logs the shared overrides that this or another server added or removed.
pub(crate) fn log_changes(before: &[SavedOverride], after: &[SavedOverride]) {
    let is_new = |one: &&SavedOverride, others: &[SavedOverride]| others.iter().all(|other| other.id != one.id);
    for SavedOverride { id, value } in after.iter().filter(|one| is_new(one, before)) {
        let Override { kind, reason, expires, origin: OverrideOrigin { by, from, .. } } = value;
        let by = by.as_deref().unwrap_or_default();
        tracing::warn!(event = "override", id, scope = kind.scope(), action = kind.action(), reason, %expires, by, from, "override added");
    }
    for SavedOverride { id, value } in before.iter().filter(|one| is_new(one, after)) {
        tracing::warn!(
            event = "override",
            id,
            scope = value.kind.scope(),
            action = value.kind.action(),
            "override removed"
        );
    }
}

/// Number of attempts to commit while other servers change overrides.
const ATTEMPTS_MAX: usize = 8;
/// Longest wait until an override that was committed is in the answers of this server.
const SERVED_MAX: Duration = Duration::from_secs(10);
