//! Writes of objects: validated, then stored, then served.
//!
//! A write is acknowledged once it is durable and, if that takes no longer than [`SERVED_MAX`], once it is in the answers. If another
//! write comes between validation and commit, an object may be stored and rejected; its status conditions then say so.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};

use super::{
    differences::differences,
    idempotent,
    kinds::{KINDS, display_name, key, path},
    request::{BodyObjects, WriteRequest},
    response::{not_declared, written},
    validate::{Mode, Validated, validate},
};
use crate::{
    idempotency::{self, Begun},
    outcome_wire::WriteOutcome,
    problem::{ApiError, problem},
    state::{AppState, DryRun},
};
use fairway_api_types::objects_wire::ApplyReport;
use fairway_control::{Prune, declared::Declared};
use fairway_intents::INTENT_KINDS;
use fairway_model::Timestamp;
use fairway_store::objects::{Author, Batch, Change, Expect, Key, Kind, Object, REQUEST_MAX};

/// Creates an object.
pub(super) async fn create(
    kind: Kind,
    State(state): State<AppState>,
    request: WriteRequest,
) -> Result<Response, ApiError> {
    let (key, value) = request.object(kind, None)?;
    let change = Change { key, expect: Expect::Absent, value: Some(value) };
    write(&state, change, request, |declared, key| match declared.get(key) {
        None => Ok(()),
        Some(_) => {
            let (name, path) = (display_name(key), path(kind));
            let detail = format!("{name} exists already; change it with PUT {path}/{}", key.name());
            Err(problem(StatusCode::CONFLICT, detail))
        }
    })
    .await
}

/// Creates or replaces an object.
pub(super) async fn replace(
    kind: Kind,
    State(state): State<AppState>,
    Path(name): Path<String>,
    request: WriteRequest,
) -> Result<Response, ApiError> {
    let (key, value) = request.object(kind, Some(&name))?;
    let expect = request.expect.unwrap_or(Expect::Anything);
    write(&state, Change { key, expect, value: Some(value) }, request, |_, _| Ok(())).await
}

/// Deletes an object.
pub(super) async fn delete(
    kind: Kind,
    State(state): State<AppState>,
    Path(name): Path<String>,
    request: WriteRequest,
) -> Result<Response, ApiError> {
    let not_declared = || not_declared(kind, &name);
    let key = key(kind, &name).ok_or_else(not_declared)?;
    let expect = request.expect.unwrap_or(Expect::Present);
    let exists = |declared: &Declared, key: &Key| declared.get(key).map(|_| ()).ok_or_else(not_declared);
    write(&state, Change { key, expect, value: None }, request, exists).await
}

/// Checks and validates one change, makes it, and waits until it is served. If it was made before, returns its original response.
async fn write(
    state: &AppState,
    change: Change,
    request: WriteRequest,
    check: impl Fn(&Declared, &Key) -> Result<(), ApiError>,
) -> Result<Response, ApiError> {
    let objects = state.control.objects()?;
    let in_progress = match begin(state, &request).await? {
        Begun::Done(outcome, record) => {
            let declared = change.value.map(|value| (change.key, value));
            return Ok(idempotent::repeat(state, outcome, *record, declared));
        }
        Begun::New(in_progress) => in_progress,
    };
    check(&objects.declared(), &change.key)?;
    let mode = if request.dry_run { Mode::WithEffect } else { Mode::Fast };
    // The compiled configuration is held until the change is served, so that the reload can use it.
    let Validated { report, _compiled, .. } =
        validate(state, objects, std::slice::from_ref(&change), &BTreeMap::new(), mode).await?;
    if request.dry_run {
        let differences = differences(&objects.declared(), std::slice::from_ref(&change));
        return Ok((Extension(DryRun), Json(ApplyReport { dry_run: true, differences, ..report })).into_response());
    }
    let before = state.control.shared().serving.published();
    let key = change.key.clone();
    let committed = match &in_progress {
        Some(in_progress) => idempotent::commit(state, objects, change, &request.by, in_progress).await?,
        None => {
            let batch = Batch { changes: vec![change], by: request.by, at: SystemTime::now().into() };
            objects.commit(batch).await?
        }
    };
    state.control.served(committed.revision, SERVED_MAX).await;
    state.control.first_results(&key, &before, FIRST_RESULTS_MAX).await;
    Ok(written(state, committed.objects.into_iter().next().flatten(), !report.created.is_empty()))
}

/// Begins to handle a request. A dry run changes nothing, so its idempotency key is ignored.
async fn begin(state: &AppState, request: &WriteRequest) -> Result<Begun, ApiError> {
    let idempotent = request.idempotent.as_ref().filter(|_| !request.dry_run);
    idempotency::begin(&state.requests, idempotent, &*state.control.objects()?.store()).await
}

/// Creates and replaces many objects, all or none.
pub(super) async fn apply(State(state): State<AppState>, request: WriteRequest) -> Result<Response, ApiError> {
    let objects = state.control.objects()?;
    let in_progress = match begin(&state, &request).await? {
        Begun::Done(outcome, record) => return Ok(idempotent::repeat(&state, outcome, *record, None)),
        Begun::New(in_progress) => in_progress,
    };
    let by = Author { applied: true, ..request.by.clone() };
    let (mut changes, unchanged, pointers) = {
        let declared = objects.declared();
        let BodyObjects { values, pointers } = request.objects(&declared)?;
        let (changes, unchanged) = changes(&declared, values, request.prune.then_some(&by));
        (changes, unchanged, pointers)
    };
    if changes.len() > REQUEST_MAX {
        let detail = format!("{} changes are more than {REQUEST_MAX}; apply them in parts", changes.len());
        return Err(problem(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    let validated = validate(&state, objects, &changes, &pointers, Mode::WithEffect).await?;
    let at = SystemTime::now().into();
    let removed = match request.allow_removals {
        true => vec![],
        false => weigh_deletions(&state, &objects.declared(), &changes, &validated, &by, at)?,
    };
    let Validated { report, _compiled, .. } = validated;
    let mut report = ApplyReport { unchanged, dry_run: request.dry_run, ..report };
    if request.dry_run {
        report.differences = differences(&objects.declared(), &changes);
        return Ok((Extension(DryRun), Json(report)).into_response());
    }
    let is_written = !changes.is_empty();
    changes.extend(removed);
    if let Some(in_progress) = &in_progress {
        state.requests.remove_expired(&*objects.store()).await;
        changes.push(idempotency::record(in_progress, &WriteOutcome::Applied(report.clone()))?);
    }
    if !changes.is_empty() {
        let revision = objects.commit(Batch { changes, by, at }).await?.revision;
        let is_served = state.control.served(revision, SERVED_MAX).await;
        (report.revision, report.served) = if is_written { (revision, is_served) } else { (0, false) };
    }
    Ok(Json(report).into_response())
}

/// Checks that the deletions of a prune do not look like a mistake. Returns the changes to commit with them.
fn weigh_deletions(
    state: &AppState,
    before: &Declared,
    changes: &[Change],
    validated: &Validated,
    by: &Author,
    at: Timestamp,
) -> Result<Vec<Change>, ApiError> {
    let deleted: Vec<&Key> = changes.iter().filter(|change| change.value.is_none()).map(|change| &change.key).collect();
    if deleted.is_empty() {
        return Ok(vec![]);
    }
    let after = &validated.declared;
    let written = changes.iter().map(|change| &change.key);
    let kept = prunable(before, by).map(|object| &object.key).chain(written);
    let kept = kept.filter(|key| after.get(key).is_some()).collect();
    let prune = Prune { by: &by.identity, at, before, deleted, after, kept, desired: &validated.desired };
    state.control.weigh_prune(&prune).map_err(|why| {
        let detail = format!(
            "nothing was changed: the deletions look like a mistake: {why}; if they are meant, run `fairway apply --prune \
             --allow-removals` (allowRemovals=true)"
        );
        problem(StatusCode::CONFLICT, detail)
    })
}

/// Returns the changes that lead to these objects, and the number of objects that are equal already. With a pruner, its other objects are
/// deleted.
fn changes(declared: &Declared, objects: BTreeMap<Key, Vec<u8>>, pruner: Option<&Author>) -> (Vec<Change>, u64) {
    let pruned = pruner.into_iter().flat_map(|by| prunable(declared, by));
    let pruned = pruned.filter(|object| !objects.contains_key(&object.key));
    let deletion =
        |object: &Object| Change { key: object.key.clone(), expect: Expect::Revision(object.revision), value: None };
    let mut changes: Vec<Change> = pruned.map(deletion).collect();
    let mut unchanged = 0;
    for (key, value) in objects {
        let expect = match declared.get(&key) {
            Some(object) if *object.value == *value => {
                unchanged += 1;
                continue;
            }
            Some(object) => Expect::Revision(object.revision),
            None => Expect::Absent,
        };
        changes.push(Change { key, expect, value: Some(value) });
    }
    (changes, unchanged)
}

/// Returns the objects that `prune` may delete: all elements of the configuration's lists, and the intents whose last change the same
/// caller applied. Other intents come from orchestrators, the page or other folders of files.
fn prunable<'a>(declared: &'a Declared, by: &'a Author) -> impl Iterator<Item = &'a Object> {
    let of = move |kind| declared.of(kind);
    let intents = INTENT_KINDS.into_iter().flat_map(of);
    KINDS
        .into_iter()
        .flat_map(of)
        .chain(intents.filter(move |intent| intent.by.applied && intent.by.identity == by.identity))
}

/// Longest time that a write waits for the answers.
pub(crate) const SERVED_MAX: Duration = Duration::from_secs(5);
/// Longest time that a write of one object waits for the first results of its own targets, after it is in the answers. A probe of a healthy
/// gateway on another continent takes three round trips with TLS, so about 600 ms.
pub(crate) const FIRST_RESULTS_MAX: Duration = Duration::from_secs(1);
