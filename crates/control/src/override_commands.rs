//! Adds, removes and expires overrides.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use fairway_model::{Override, OverrideOrigin, listed};
use fairway_store::{DataFolder, SavedOverride};
use fairway_telemetry::logs::Trace;

use super::{
    actor::Actor,
    error::ControlError,
    override_effect::ActionChange,
    overrides::{ActiveOverride, AddedOverride, OverrideRequest, OverrideTable},
    reloads::{ReloadScope, Trigger},
    served::CurrentState,
};

impl Actor {
    pub(crate) async fn add_override(&mut self, request: OverrideRequest) -> Result<AddedOverride, ControlError> {
        let state = self.shared.serving.load();
        let add = |table: &mut OverrideTable, new| table.kept.push(new);
        let Checked { added, next } = check(&state, &state.published.overrides, request, add)?;
        let Some(next) = next else { return Ok(added) };
        let trace = Trace::new();
        self.replace_table(next, trace).await?;
        let ActiveOverride { id, spec, addresses, pools, .. } = &added.active;
        let Override { kind, reason, expires, origin: OverrideOrigin { by, from, .. } } = spec;
        let (id, by) = (id.as_deref().unwrap_or_default(), by.as_deref().unwrap_or_default());
        let (scope, action, addresses, pools) = (kind.scope(), kind.action(), addresses.join(","), listed(pools, ","));
        trace.of(|| tracing::warn!(event = "override", id, scope, action, reason, %expires, by, from, addresses, pools, "override added"));
        Ok(added)
    }

    pub(crate) async fn remove_override(&mut self, id: &str) -> Result<ActiveOverride, ControlError> {
        let table = self.shared.serving.published().overrides.clone();
        let next = table.without(id).ok_or_else(|| ControlError::NoSuchOverride(id.to_owned()))?;
        let active = ActiveOverride::of(id, &table, &self.shared.serving.published().configured)?;
        let trace = Trace::new();
        self.replace_table(next, trace).await?;
        let kind = &active.spec.kind;
        trace.of(|| {
            tracing::warn!(event = "override", id, scope = kind.scope(), action = kind.action(), "override removed")
        });
        Ok(active)
    }

    /// Removes expired overrides. A failed write does not matter: they are also dropped when the file is read.
    pub(crate) async fn expire_overrides(&mut self) {
        let now = (self.clock)();
        let mut table = self.shared.serving.published().overrides.clone();
        if table.next_expiry().is_none_or(|expiry| expiry > now) {
            return;
        }
        let trace = Trace::new();
        for (id, spec) in table.expire(now) {
            let id = id.unwrap_or_default();
            let Override { kind, reason, .. } = spec;
            trace.of(|| {
                tracing::warn!(
                    event = "override",
                    id,
                    scope = kind.scope(),
                    action = kind.action(),
                    reason,
                    "override expired"
                )
            });
        }
        self.set_table(table.clone());
        // A failure is logged where it happens.
        let _ = self.write_overrides(&table, trace).await;
    }

    /// Takes the data folder of the previous process, with the overrides that were added there until its end.
    pub(crate) fn adopt(&mut self, folder: Arc<DataFolder>) {
        let declared = self.shared.serving.published().configured.overrides.clone();
        let shared = self.shared.serving.published().overrides.shared.clone();
        let mut table = OverrideTable { declared, kept: folder.read_overrides(), shared };
        // The previous process has logged the expired ones.
        table.expire((self.clock)());
        self.set_table(table);
        self.writer.adopt(folder);
    }

    /// Writes a table to the disk, then puts it in force.
    async fn replace_table(&mut self, table: OverrideTable, trace: Trace) -> Result<(), ControlError> {
        self.write_overrides(&table, trace).await?;
        self.set_table(table);
        Ok(())
    }

    /// Puts a table in force. Pools that it pins, or no longer pins, are compiled by a reload.
    fn set_table(&mut self, table: OverrideTable) {
        self.reloads.reader.kept.store(Arc::new(table.kept.clone()));
        let before = self.shared.serving.published();
        // A reload that runs has the pools of the table before.
        let is_same =
            table.load_off().eq(before.overrides.load_off()) && table.load_off().eq(&before.configured.load_off);
        self.publish(|published| published.overrides = table);
        self.apply_overrides();
        if !is_same {
            self.request_reload(ReloadScope::Objects, Trigger::Override, false, None);
        }
    }

    async fn write_overrides(&mut self, table: &OverrideTable, trace: Trace) -> Result<(), ControlError> {
        let writing = self.writer.write_overrides(table.kept.to_vec());
        let result = self.during(writing).await;
        let shared = Arc::clone(&self.shared);
        trace.of(|| self.writer.note(&shared, &result));
        result.map_err(|error| ControlError::NotKept(error.to_string()))
    }
}

/// An override that may be added.
pub(crate) struct Checked {
    /// The override and its effect.
    pub(crate) added: AddedOverride,
    /// The table with it; `None` if nothing is to be changed: after a dry run, or if the same request has added it before.
    pub(crate) next: Option<OverrideTable>,
}

/// Checks an override against the health, the configuration and the other overrides. `add` adds it to a table.
pub(crate) fn check(
    state: &CurrentState,
    table: &OverrideTable,
    request: OverrideRequest,
    add: impl FnOnce(&mut OverrideTable, SavedOverride),
) -> Result<Checked, ControlError> {
    let OverrideRequest { spec, id, is_confirmed, is_dry_run, .. } = request;
    let configured = &state.published.configured;
    if let Some(id) = &id
        && let Some(before) = table.added().find(|added| key_of(&added.id) == key_of(id))
    {
        if before.id != *id {
            return Err(ControlError::KeyOfAnother);
        }
        let mut without = table.clone();
        without.kept.retain(|added| added.id != *id);
        without.shared.retain(|added| added.id != *id);
        let added = added(state, id, table, &ActionChange::new(state, &without, table))?;
        return Ok(Checked { added, next: None });
    }
    if let Some((fact, hint)) = spec.kind.unmatched(&configured.merged.desired, &configured.merged.pinned) {
        return Err(ControlError::NothingMatches { fact, hint });
    }
    let new = SavedOverride { id: id.unwrap_or_else(|| new_id(table)), value: spec };
    let id = new.id.clone();
    let next = table.with(|table| add(table, new)).ok_or(ControlError::TooManyOverrides)?;
    let change = ActionChange::new(state, table, &next);
    if let Some(broken) = change.broken_rule(&configured.settings.override_rules) {
        return Err(ControlError::RuleBroken(broken));
    }
    let mut added = added(state, &id, &next, &change)?;
    if is_dry_run {
        added.active.id = None;
        return Ok(Checked { added, next: None });
    }
    if added.effect.names > 0 && !is_confirmed {
        return Err(ControlError::NotConfirmed(added.effect));
    }
    Ok(Checked { added, next: Some(next) })
}

/// Returns the override of a table with this id, and the effect of a change.
fn added(
    state: &CurrentState,
    id: &str,
    table: &OverrideTable,
    change: &ActionChange<'_>,
) -> Result<AddedOverride, ControlError> {
    let active = ActiveOverride::of(id, table, &state.published.configured)?;
    Ok(AddedOverride { active, effect: change.effect() })
}

/// Returns the part of an id that follows from the idempotency key, or all of a random id.
fn key_of(id: &str) -> &str {
    id.split_once('-').map_or(id, |(key, _)| key)
}

/// Returns a random id that is unused, and short enough to type.
fn new_id(table: &OverrideTable) -> String {
    loop {
        let id = format!("{:06x}", RandomState::new().hash_one(table.added().count()) & 0xff_ffff);
        if table.added().all(|added| added.id != id) {
            return id;
        }
    }
}
