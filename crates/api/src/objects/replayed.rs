//! Answers of writes with a key: one batch with what is needed to give the same answer again, and that answer.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use fairway_model::Timestamp;

use super::{
    super::{
        problem::{Refusal, problem},
        routes::Site,
    },
    write::{batch, written},
};
use crate::once::{Done, FASTER, Once, Same};
use fairway_api_types::objects_wire::ApplyReport;
use fairway_control::objects::Objects;
use fairway_store::objects::{Author, Change, Committed, Expect, Key, Object, StoreError};

/// Makes a change and leaves its receipt, both or none. What is there is looked at first, so that the receipt says what will come of it.
pub(super) async fn commit_once(
    site: &Site,
    objects: &Objects,
    change: Change,
    by: &Author,
    once: &Once,
) -> Result<Committed, Refusal> {
    let store = objects.store();
    site.under_way.clear_away(&*store).await;
    for _ in 0..TRIES_MAX {
        let before = store.read(&change.key).await?;
        let found = before.as_ref().map(|object| object.revision);
        if !change.expect.is_met_by(found) {
            // It may be this very request that another server has carried out meanwhile.
            let key = match store.read(once.key()).await? {
                Some(_) => once.key().clone(),
                None => change.key,
            };
            return Err(refused(Some(once), StoreError::Conflict { key, expect: change.expect, found }));
        }
        let pinned = Change { expect: found.map_or(Expect::Absent, Expect::Revision), ..change.clone() };
        let receipt = once.receipt(done(change.value.as_deref(), before.as_ref()))?;
        match objects.commit(batch(vec![pinned, receipt], by.clone())).await {
            // Somebody was faster: what they wrote is looked at anew.
            Err(StoreError::Conflict { key, .. }) if key != *once.key() => {}
            committed => return committed.map_err(|error| refused(Some(once), error)),
        }
    }
    let what = format!("other writes changed the object {TRIES_MAX} times at the same time; try again");
    Err(problem(StatusCode::CONFLICT, what).into())
}

/// Why the store did not take a batch with a receipt.
pub(super) fn refused(once: Option<&Once>, error: StoreError) -> Refusal {
    match (once, &error) {
        (Some(once), StoreError::Conflict { key, .. }) if key == once.key() => {
            problem(StatusCode::CONFLICT, FASTER).into()
        }
        _ => error.into(),
    }
}

/// What will have been done by a change to what is there.
fn done(value: Option<&[u8]>, before: Option<&Object>) -> Done {
    let Some(value) = value else { return Done::Deleted };
    let same = before.filter(|object| *object.value == *value);
    Done::Declared {
        is_new: before.is_none(),
        generation: before.map_or(1, |object| object.generation + u64::from(same.is_none())),
        created: before.map(|object| exact(object.created)),
        same: same.map(|Object { revision, changed, by, .. }| Same {
            revision: *revision,
            changed: exact(*changed),
            who: by.who.clone(),
            why: by.why.clone(),
            applied: by.applied,
        }),
    }
}

/// The answer once more. What an object says is in the request, which is the same; its conditions are those of now.
pub(super) fn again(site: &Site, (done, receipt): (Done, Object), wanted: Option<(Key, Vec<u8>)>) -> Response {
    match (done, wanted) {
        (Done::Declared { is_new, generation, created, same }, Some((key, value))) => {
            let time = |text: Option<String>| text.and_then(|text| text.parse().ok()).unwrap_or(receipt.changed);
            let (revision, changed, by) = match same {
                Some(Same { revision, changed, who, why, applied }) => {
                    (revision, time(Some(changed)), Author { who, why, applied })
                }
                None => (receipt.revision, receipt.changed, receipt.by.clone()),
            };
            let (value, created) = (value.into(), time(created));
            written(site, Some(Object { key, value, revision, generation, created, changed, by }), is_new)
        }
        (Done::Applied(report), _) => {
            let is_written = !(report.created.is_empty() && report.changed.is_empty() && report.deleted.is_empty());
            let revision = if is_written { receipt.revision } else { 0 };
            let served = is_written && *site.control.shared().served.borrow() >= revision;
            Json(ApplyReport { revision, served, ..report }).into_response()
        }
        (Done::Deleted | Done::Declared { .. } | Done::Kept { .. }, _) => written(site, None, false),
    }
}

/// A moment to the nanosecond, as the store keeps it.
fn exact(at: Timestamp) -> String {
    format!("{at:.9}")
}

/// Most tries of a change that others come before.
const TRIES_MAX: usize = 8;
