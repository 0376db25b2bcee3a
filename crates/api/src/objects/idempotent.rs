//! Writes of objects with an idempotency key: the change and the record of its outcome are one batch.

use std::time::SystemTime;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use fairway_model::Timestamp;

use super::response::written;
use crate::{
    idempotency,
    outcome_wire::{LastChange, WriteOutcome},
    problem::{ApiError, problem},
    state::AppState,
};
use fairway_api_types::objects_wire::ApplyReport;
use fairway_control::object_store::Objects;
use fairway_store::objects::{
    Author, Batch, Change, Committed, Expect, Key, Object, StoreError, idempotency::RequestInProgress,
};

/// Makes a change and records its outcome, both or none. The object is read first, so that the record has the right generation.
pub(super) async fn commit(
    state: &AppState,
    objects: &Objects,
    change: Change,
    by: &Author,
    request: &RequestInProgress,
) -> Result<Committed, ApiError> {
    let store = objects.store();
    state.requests.remove_expired(&*store).await;
    for _ in 0..ATTEMPTS_MAX {
        let before = store.read(&change.key).await?;
        let found = before.as_ref().map(|object| object.revision);
        if let Err(error) = change.expect.check(&change.key, found) {
            // Another server may have handled this very request in the meantime.
            return Err(match store.read(request.record_key()).await? {
                Some(Object { key, revision, .. }) => {
                    StoreError::Conflict { key, expect: Expect::Absent, found: Some(revision) }.into()
                }
                None => error.into(),
            });
        }
        let expect = found.map_or(Expect::Absent, Expect::Revision);
        let record = idempotency::record(request, &outcome(change.value.as_deref(), before.as_ref()))?;
        let changes = vec![Change { expect, ..change.clone() }, record];
        match objects.commit(Batch { changes, by: by.clone(), at: SystemTime::now().into() }).await {
            // Another write changed the object after it was read: read it again.
            Err(StoreError::Conflict { key, .. }) if key != *request.record_key() => {}
            committed => return Ok(committed?),
        }
    }
    let detail = format!("other writes changed the object {ATTEMPTS_MAX} times at the same time; try again");
    Err(problem(StatusCode::CONFLICT, detail))
}

/// Returns the outcome of replacing an object by a value.
fn outcome(value: Option<&[u8]>, before: Option<&Object>) -> WriteOutcome {
    let Some(value) = value else { return WriteOutcome::Deleted };
    let unchanged = before.filter(|object| *object.value == *value);
    WriteOutcome::Declared {
        is_new: before.is_none(),
        generation: before.map_or(1, |object| object.generation + u64::from(unchanged.is_none())),
        created: before.map(|object| nanoseconds(object.created)),
        unchanged: unchanged.map(|Object { revision, changed, by, .. }| LastChange {
            revision: *revision,
            changed: nanoseconds(*changed),
            who: by.identity.clone(),
            why: by.reason.clone(),
            applied: by.applied,
        }),
    }
}

/// Returns the response to a write that was handled before. The content is that of the repeated request; the conditions are the current
/// ones.
pub(super) fn repeat(
    state: &AppState,
    outcome: WriteOutcome,
    record: Object,
    declared: Option<(Key, Vec<u8>)>,
) -> Response {
    match (outcome, declared) {
        (WriteOutcome::Declared { is_new, generation, created, unchanged }, Some((key, value))) => {
            let time = |text: Option<String>| text.and_then(|text| text.parse().ok()).unwrap_or(record.changed);
            let (revision, changed, by) = match unchanged {
                Some(LastChange { revision, changed, who, why, applied }) => {
                    (revision, time(Some(changed)), Author { identity: who, reason: why, applied })
                }
                None => (record.revision, record.changed, record.by.clone()),
            };
            let (value, created) = (value.into(), time(created));
            written(state, Some(Object { key, value, revision, generation, created, changed, by }), is_new)
        }
        (WriteOutcome::Applied(report), _) => {
            let is_written = !(report.created.is_empty() && report.changed.is_empty() && report.deleted.is_empty());
            let revision = if is_written { record.revision } else { 0 };
            let served = is_written && *state.control.shared().declarations.served.borrow() >= revision;
            Json(ApplyReport { revision, served, ..report }).into_response()
        }
        (WriteOutcome::Deleted | WriteOutcome::Declared { .. } | WriteOutcome::IntentDeclared { .. }, _) => {
            written(state, None, false)
        }
    }
}

/// Returns a time as precisely as the store keeps it.
fn nanoseconds(at: Timestamp) -> String {
    format!("{at:.9}")
}

/// Maximum number of attempts of a change if other writes come first.
const ATTEMPTS_MAX: usize = 8;
