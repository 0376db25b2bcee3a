//! Validation of writes: compiles the configuration with the changes, and reports what they would do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::SystemTime,
};

use axum::http::StatusCode;
use fairway_model::{DesiredState, Timestamp, intent::IntentSpec};

use super::{differences::differences, kinds::display_name, response::serving};
use crate::{
    problem::{ApiError, FieldError, invalid, problem},
    state::AppState,
};
use fairway_api_types::objects_wire::ApplyReport;
use fairway_config::ObjectError;
use fairway_control::{
    Control,
    configured::CompiledDryRun,
    declared::{Declared, ObjectErrors},
    dry_run::{DryRunRequest, DryRunResult},
    object_store::Objects,
};
use fairway_intents::INTENT_KINDS;
use fairway_store::objects::{Author, Change, Key, Object, StoreError};

/// Changes that are valid.
pub(super) struct Validated {
    /// Effects of the changes. `effect` and `rejected` are empty in [`Mode::Fast`].
    pub(super) report: ApplyReport,
    /// All objects with the changes.
    pub(super) declared: Declared,
    /// The desired state that would be served.
    pub(super) desired: Arc<DesiredState>,
    /// The compiled configuration. The reload after the write uses it, as long as it is held and no other write comes first.
    pub(super) _compiled: Option<Arc<CompiledDryRun>>,
}

/// Depth of a validation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Only finds errors, incrementally if possible.
    Fast,
    /// Also compares the answers with those before.
    WithEffect,
}

/// Validates changes without making them. `pointers` lead to the objects in the body; without one, the object is the whole body.
///
/// # Errors
/// An object of them would be rejected, an existing object would be rejected because of them, or objects refer to a deleted one.
pub(super) async fn validate(
    state: &AppState,
    objects: &Objects,
    changes: &[Change],
    pointers: &BTreeMap<Key, String>,
    mode: Mode,
) -> Result<Validated, ApiError> {
    let mut declared = Declared::clone(&objects.declared());
    let report = change_declared(&mut declared, changes)?;
    let in_use = in_use(&declared, changes);
    if !in_use.is_empty() {
        return Err(invalid(StatusCode::CONFLICT, "other objects refer to what would be deleted", in_use));
    }
    let single = changes.first().filter(|_| changes.len() == 1 && mode == Mode::Fast).map(|change| &change.key);
    let written = single.filter(|key| declared.is_local_at(key) && objects.declared().is_local_at(key)).cloned();
    let DryRunResult { not_served, changes: effect, errors, desired, compiled } =
        state.control.dry_run(DryRunRequest { declared: declared.clone(), written }).await?;
    let Some(desired) = desired.filter(|_| errors.is_empty()) else {
        return Err(problem(StatusCode::CONFLICT, errors.join("; ")));
    };
    let own = changes.iter().filter(|change| change.value.is_some() && !is_for_mesh(&declared, &change.key));
    let own = own.filter_map(|change| not_served.get_key_value(&change.key));
    let own: Vec<FieldError> = own.flat_map(|rejected| errors_with_pointers(rejected, pointers)).collect();
    if !own.is_empty() {
        // Objects that depend on these are rejected as well; reporting them would hide the cause.
        let summary = "the object conflicts with the current configuration";
        return Err(invalid(StatusCode::UNPROCESSABLE_ENTITY, summary, own));
    }
    let published = serving(state).0;
    let others = newly_rejected(&not_served, &published.configured.not_served);
    let others = errors_of(others.filter(|(key, _)| !is_for_mesh(&declared, key)));
    if !others.is_empty() {
        return Err(invalid(StatusCode::CONFLICT, &conflict(changes), others));
    }
    // Of the body only: a server may have thousands of others. A single write does without.
    let of_body = (&not_served).into_iter().filter(|(key, _)| pointers.contains_key(key));
    let rejected = if mode == Mode::WithEffect { details(errors_of(of_body)) } else { vec![] };
    Ok(Validated { report: ApplyReport { effect, rejected, ..report }, declared, desired, _compiled: compiled })
}

/// Returns what one change would do; if it would be rejected, the reasons.
pub(crate) async fn dry_run(control: &Control, change: &Change) -> Result<ApplyReport, ApiError> {
    let mut declared = Declared::clone(&control.objects()?.declared());
    let differences = differences(&declared, std::slice::from_ref(change));
    let expect = fairway_store::objects::Expect::Anything;
    let report = change_declared(&mut declared, &[Change { expect, ..change.clone() }])?;
    let DryRunResult { not_served, changes: effect, errors, .. } =
        control.dry_run(DryRunRequest { declared, written: None }).await?;
    let before = Arc::clone(&control.shared().serving.published().configured);
    let others = newly_rejected(&not_served, &before.not_served).filter(|(key, _)| **key != change.key);
    let own = not_served.get_key_value(&change.key);
    let rejected = errors.into_iter().chain(details(errors_of(own.into_iter().chain(others)))).collect();
    Ok(ApplyReport { dry_run: true, differences, effect, rejected, ..report })
}

/// Makes changes to a copy of the declared objects. Returns the names of the created, changed and deleted ones.
fn change_declared(declared: &mut Declared, changes: &[Change]) -> Result<ApplyReport, StoreError> {
    let mut report = ApplyReport::default();
    for Change { key, expect, value } in changes {
        let found = declared.get(key).map(|object| object.revision);
        expect.check(key, found)?;
        let names = match (value, found) {
            (None, _) => &mut report.deleted,
            (_, None) => &mut report.created,
            _ => &mut report.changed,
        };
        names.push(display_name(key));
        declared.put(key, value.as_ref().map(|value| unsaved(key, value)));
    }
    Ok(report)
}

/// True if an object is an intent of a service that only the mesh reaches: no name is to be answered.
fn is_for_mesh(declared: &Declared, key: &Key) -> bool {
    let spec = declared.intent(key).map(|intent| &intent.spec);
    matches!(spec, Some(IntentSpec::Inbound(inbound)) if !inbound.external_support)
}

/// Returns an object as if it had been stored now.
fn unsaved(key: &Key, value: &[u8]) -> Object {
    let now = Timestamp::from(SystemTime::now());
    let by = Author::default();
    Object { key: key.clone(), value: value.into(), revision: 0, generation: 1, created: now, changed: now, by }
}

/// Returns an error for each deleted intent that an existing one refers to.
fn in_use(declared: &Declared, changes: &[Change]) -> Vec<FieldError> {
    let is_deletion = |change: &&Change| change.value.is_none() && INTENT_KINDS.contains(&change.key.kind());
    let deleted: BTreeSet<&Key> = changes.iter().filter(is_deletion).map(|change| &change.key).collect();
    if deleted.is_empty() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    for intent in declared.all_intents() {
        for key in fairway_intents::required_objects(intent).into_iter().filter(|key| deleted.contains(key)) {
            let by = &intent.key;
            let detail = format!("{key} is in use by {by}: keep it among the intents, or delete or change that first");
            errors.push(FieldError { pointer: String::new(), detail });
        }
    }
    errors
}

/// Returns the rejected objects that were not rejected before, or for other reasons. Parts that both maps share are skipped.
fn newly_rejected<'a>(
    rejected: &'a ObjectErrors,
    before: &'a ObjectErrors,
) -> impl Iterator<Item = (&'a Key, &'a Vec<ObjectError>)> {
    let differences = rejected.differences(before, |_, _| true).into_iter();
    differences.filter_map(|(key, now, _)| Some((key, now?)))
}

/// Returns the errors of an object with pointers into the body.
fn errors_with_pointers((key, errors): (&Key, &Vec<ObjectError>), pointers: &BTreeMap<Key, String>) -> Vec<FieldError> {
    let (name, at) = (display_name(key), pointers.get(key).map(String::as_str).unwrap_or_default());
    let pointer = |of: &str| format!("{at}{of}");
    let error = |error: &ObjectError| FieldError {
        pointer: pointer(&error.pointer),
        detail: format!("{name}: {}", error.what),
    };
    errors.iter().map(error).collect()
}

/// Returns why changes make other objects invalid.
fn conflict(changes: &[Change]) -> String {
    let deleted: Vec<String> =
        changes.iter().filter(|change| change.value.is_none()).map(|change| display_name(&change.key)).collect();
    match deleted.as_slice() {
        [] => "other objects would become invalid".to_owned(),
        [one] => format!("{one} is still used; delete or change what uses it first, or together with it"),
        [first, ..] => format!(
            "{first} or others to be deleted are still used; delete or change what uses them together with them"
        ),
    }
}

/// Returns the errors of several objects.
fn errors_of<'a>(rejected: impl IntoIterator<Item = (&'a Key, &'a Vec<ObjectError>)>) -> Vec<FieldError> {
    let errors = |(key, errors): (&Key, &'a Vec<ObjectError>)| {
        let name = display_name(key);
        errors.iter().map(move |error| FieldError { pointer: String::new(), detail: format!("{name}: {error}") })
    };
    rejected.into_iter().flat_map(errors).collect()
}

fn details(errors: Vec<FieldError>) -> Vec<String> {
    errors.into_iter().map(|error| error.detail).collect()
}
