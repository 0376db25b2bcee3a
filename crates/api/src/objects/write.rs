//! Writes: tried beside what is there, so that what does not fit is refused with its faults; then kept; then served.
//!
//! A write is acknowledged when it is durable and, if that takes no longer than [`SERVED_MAX`], when it is in the answers. Between
//! the trial and the write another one may come: what does not fit any more then is left out of the answers, and says so itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use fairway_model::Timestamp;

use super::{
    super::{
        problem::{Flaw, Refusal, flawed, problem},
        routes::Site,
    },
    KINDS,
    differ::differences,
    path,
    replayed::{again, commit_once, refused},
    request::{Asked, key},
    shown::{answer, standing, unknown},
};
use crate::once::{Begun, Done, Once};
use fairway_api_types::objects_wire::ApplyReport;
use fairway_config::ObjectError;
use fairway_control::{
    Control,
    declared::{Declared, LeftOut, section},
    objects::Objects,
    trial::{Attempt, Trial, Tried},
};
use fairway_intents::INTENT_KINDS;
use fairway_store::objects::{Author, BATCH_MAX, Batch, Change, Expect, Key, Kind, Object, StoreError};

/// Declares an object that is not there.
pub(super) async fn create(kind: Kind, State(site): State<Site>, asked: Asked) -> Result<Response, Refusal> {
    let once = match begin(&site, &asked).await? {
        Begun::Before(before) => return Ok(again(&site, *before, Some(asked.object(kind, None)?))),
        Begun::Now(once) => once,
    };
    let (key, value) = asked.object(kind, None)?;
    if site.control.objects()?.declared().get(&key).is_some() {
        let place = format!("{}/{}", path(kind), key.name());
        let what = format!("{} exists already; change it with PUT {place}", shown_key(&key));
        return Err(problem(StatusCode::CONFLICT, what).into());
    }
    write(&site, Change { key, expect: Expect::Absent, value: Some(value) }, asked, once).await
}

/// Declares an object, or declares it anew.
pub(super) async fn put(
    kind: Kind,
    State(site): State<Site>,
    Path(name): Path<String>,
    asked: Asked,
) -> Result<Response, Refusal> {
    let (key, value) = asked.object(kind, Some(&name))?;
    let once = match begin(&site, &asked).await? {
        Begun::Before(before) => return Ok(again(&site, *before, Some((key, value)))),
        Begun::Now(once) => once,
    };
    let expect = asked.expect.unwrap_or(Expect::Anything);
    write(&site, Change { key, expect, value: Some(value) }, asked, once).await
}

/// Takes an object away.
pub(super) async fn delete(
    kind: Kind,
    State(site): State<Site>,
    Path(name): Path<String>,
    asked: Asked,
) -> Result<Response, Refusal> {
    let once = match begin(&site, &asked).await? {
        Begun::Before(before) => return Ok(again(&site, *before, None)),
        Begun::Now(once) => once,
    };
    let declared = site.control.objects()?.declared();
    let key = key(kind, &name).filter(|key| declared.get(key).is_some()).ok_or_else(|| unknown(kind, &name))?;
    write(&site, Change { key, expect: asked.expect.unwrap_or(Expect::Present), value: None }, asked, once).await
}

/// Tries one change, makes it, and waits until it is served.
async fn write(site: &Site, change: Change, asked: Asked, once: Option<Once>) -> Result<Response, Refusal> {
    let objects = site.control.objects()?;
    // What was compiled for the trial is served, where nothing comes between: it is held until then.
    let (report, left_out, _trial) = tried(site, objects, std::slice::from_ref(&change), asked.dry_run).await?;
    if asked.dry_run {
        let differences = differences(&objects.declared(), std::slice::from_ref(&change));
        let rejected = told(flaws(&left_out, false));
        return Ok(Json(ApplyReport { dry_run: true, differences, rejected, ..report }).into_response());
    }
    let committed = match &once {
        Some(once) => commit_once(site, objects, change, &asked.by, once).await?,
        None => objects.commit(batch(vec![change], asked.by)).await?,
    };
    site.control.served(committed.revision, SERVED_MAX).await;
    Ok(written(site, committed.objects.into_iter().next().flatten(), !report.created.is_empty()))
}

/// The answer to a write that has left this object.
pub(super) fn written(site: &Site, object: Option<Object>, is_new: bool) -> Response {
    match (object, is_new) {
        (None, _) => StatusCode::NO_CONTENT.into_response(),
        (Some(object), false) => answer(StatusCode::OK, &object, site),
        (Some(object), true) => {
            let place = format!("{}/{}", path(object.key.kind()), object.key.name());
            let place = HeaderValue::from_str(&place).expect("keys are printable ASCII");
            let mut created = answer(StatusCode::CREATED, &object, site);
            created.headers_mut().insert(header::LOCATION, place);
            created
        }
    }
}

/// Begins what was asked for, which may have been done before. What only tells what would come of it can be asked any time.
async fn begin(site: &Site, asked: &Asked) -> Result<Begun, Refusal> {
    let given = asked.given.as_ref().filter(|_| !asked.dry_run);
    Ok(site.under_way.begin(given, &*site.control.objects()?.store()).await?)
}

/// Takes many objects, or none.
pub(super) async fn apply(State(site): State<Site>, asked: Asked) -> Result<Response, Refusal> {
    let objects = site.control.objects()?;
    let once = match begin(&site, &asked).await? {
        Begun::Before(before) => return Ok(again(&site, *before, None)),
        Begun::Now(once) => once,
    };
    let by = Author { applied: true, ..asked.by.clone() };
    let (mut changes, unchanged) = {
        let declared = objects.declared();
        changes(&declared, asked.objects(&declared)?, asked.prune.then_some(&by))
    };
    // A receipt takes a place.
    let most = BATCH_MAX - usize::from(once.is_some());
    if changes.len() > most {
        let what = format!("{} changes are more than {most}; apply them in parts", changes.len());
        return Err(problem(StatusCode::PAYLOAD_TOO_LARGE, what).into());
    }
    let (tried, left_out, _trial) = tried(&site, objects, &changes, true).await?;
    let rejected = told(flaws(&left_out, false));
    let mut report = ApplyReport { unchanged, dry_run: asked.dry_run, rejected, ..tried };
    if asked.dry_run {
        report.differences = differences(&objects.declared(), &changes);
        return Ok(Json(report).into_response());
    }
    let is_written = !changes.is_empty();
    if let Some(once) = &once {
        site.under_way.clear_away(&*objects.store()).await;
        changes.push(once.receipt(Done::Applied(report.clone()))?);
    }
    if !changes.is_empty() {
        let committed = objects.commit(batch(changes, by)).await;
        let revision = committed.map_err(|error| refused(once.as_ref(), error))?.revision;
        let is_served = site.control.served(revision, SERVED_MAX).await;
        (report.revision, report.served) = if is_written { (revision, is_served) } else { (0, false) };
    }
    Ok(Json(report).into_response())
}

/// What must change for these objects to be there (and, where somebody prunes, no other that is theirs), and how many say the same
/// already.
fn changes(declared: &Declared, wanted: BTreeMap<Key, Vec<u8>>, pruner: Option<&Author>) -> (Vec<Change>, u64) {
    let all = pruner.into_iter().flat_map(|by| prunable(declared, by));
    let gone = all.filter(|object| !wanted.contains_key(&object.key));
    let gone = gone.map(|object| (object.key.clone(), Expect::Revision(object.revision)));
    let mut changes: Vec<Change> = gone.map(|(key, expect)| Change { key, expect, value: None }).collect();
    let mut unchanged = 0;
    for (key, value) in wanted {
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

/// What goes where somebody applies all there is and does not name it: elements of a configuration, whoever declared them, and the
/// intents whose last change the same one applied. Others come from orchestrators, the page or other folders, and are theirs.
fn prunable<'a>(declared: &'a Declared, by: &'a Author) -> impl Iterator<Item = &'a Object> {
    let of = move |kind| declared.of(kind);
    let intents = INTENT_KINDS.into_iter().flat_map(of);
    KINDS.into_iter().flat_map(of).chain(intents.filter(move |intent| intent.by.applied && intent.by.who == by.who))
}

/// What changes would do, without doing them, and what would be left out then; refused where an object that is wanted, or one that is
/// there, would not be heeded any more. It costs what changes: many may be left out. The effect is told where that is asked for.
async fn tried(
    site: &Site,
    objects: &Objects,
    changes: &[Change],
    tells_effect: bool,
) -> Result<(ApplyReport, LeftOut, Option<Arc<Trial>>), Refusal> {
    let mut declared = Declared::clone(&objects.declared());
    let report = suppose(&mut declared, changes)?;
    let needed = needed(&declared, changes);
    if !needed.is_empty() {
        return Err(flawed(StatusCode::CONFLICT, "other objects refer to what would be deleted", needed).into());
    }
    let alone = changes.first().filter(|_| changes.len() == 1 && !tells_effect).map(|change| &change.key);
    let written = alone.filter(|key| declared.is_local_at(key) && objects.declared().is_local_at(key)).cloned();
    let Tried { left_out, changes: effect, faults, trial } =
        site.control.try_objects(Attempt { declared, written }).await?;
    if !faults.is_empty() {
        return Err(problem(StatusCode::CONFLICT, faults.join("; ")).into());
    }
    let wanted = changes.iter().filter(|change| change.value.is_some());
    let own = flaws(wanted.filter_map(|change| left_out.get_key_value(&change.key)), changes.len() == 1);
    if !own.is_empty() {
        // What leans on these does not fit either, and is not what is to be mended.
        return Err(flawed(
            StatusCode::UNPROCESSABLE_ENTITY,
            "the object conflicts with the current configuration",
            own,
        )
        .into());
    }
    let before = standing(site).0;
    let others = flaws(new_in(&left_out, &before.left_out), false);
    if !others.is_empty() {
        return Err(flawed(StatusCode::CONFLICT, "other objects would become invalid", others).into());
    }
    Ok((ApplyReport { effect, ..report }, left_out, trial))
}

/// What is left out and was not before. Parts that both share are not looked at.
fn new_in<'a>(left_out: &'a LeftOut, before: &'a LeftOut) -> impl Iterator<Item = (&'a Key, &'a Vec<ObjectError>)> {
    let differences = left_out.differences(before, |_, _| true).into_iter();
    differences.filter_map(|(key, now, _)| Some((key, now?)))
}

/// Intents that changes have taken away, and that others hold on to which are there still.
fn needed(declared: &Declared, changes: &[Change]) -> Vec<Flaw> {
    let is_gone = |change: &&Change| change.value.is_none() && INTENT_KINDS.contains(&change.key.kind());
    let gone: BTreeSet<&Key> = changes.iter().filter(is_gone).map(|change| &change.key).collect();
    if gone.is_empty() {
        return Vec::new();
    }
    let needs =
        declared.all_intents().flat_map(|of| fairway_intents::needs(of).into_iter().map(move |key| (key, &of.key)));
    let told = |(key, by): (Key, &Key)| Flaw {
        pointer: String::new(),
        detail: format!("{key} is in use by {by}: keep it among the intents, or delete or change that first"),
    };
    needs.filter(|(key, _)| gone.contains(key)).map(told).collect()
}

/// What one change would do, also where it would come to nothing: then it says why.
pub(crate) async fn supposed(control: &Control, change: &Change) -> Result<ApplyReport, Refusal> {
    let mut declared = Declared::clone(&control.objects()?.declared());
    let differences = differences(&declared, std::slice::from_ref(change));
    let expect = Expect::Anything;
    let report = suppose(&mut declared, &[Change { expect, ..change.clone() }])?;
    let Tried { left_out, changes: effect, faults, .. } =
        control.try_objects(Attempt { declared, written: None }).await?;
    let before = Arc::clone(&control.shared().serving.published().configured);
    let others = new_in(&left_out, &before.left_out).filter(|(key, _)| **key != change.key);
    let rejected = told(flaws(left_out.get_key_value(&change.key).into_iter().chain(others), false));
    let rejected = faults.into_iter().chain(rejected).collect();
    Ok(ApplyReport { dry_run: true, differences, effect, rejected, ..report })
}

/// What is wrong with objects. Pointers lead into the body, so they are given only where it `is_one` object.
fn flaws<'a>(left_out: impl IntoIterator<Item = (&'a Key, &'a Vec<ObjectError>)>, is_one: bool) -> Vec<Flaw> {
    let told = |(key, faults): (&Key, &'a Vec<ObjectError>)| {
        let name = shown_key(key);
        faults.iter().map(move |fault| match is_one {
            true => Flaw { pointer: fault.pointer.clone(), detail: format!("{name}: {}", fault.what) },
            false => Flaw { pointer: String::new(), detail: format!("{name}: {fault}") },
        })
    };
    left_out.into_iter().flat_map(told).collect()
}

/// What is wrong, in words alone.
fn told(flaws: Vec<Flaw>) -> Vec<String> {
    flaws.into_iter().map(|flaw| flaw.detail).collect()
}

/// Makes changes to a copy of what is declared; what they are, by the names of the objects.
fn suppose(declared: &mut Declared, changes: &[Change]) -> Result<ApplyReport, StoreError> {
    let mut report = ApplyReport::default();
    for Change { key, expect, value } in changes {
        let found = declared.get(key).map(|object| object.revision);
        if !expect.is_met_by(found) {
            return Err(StoreError::Conflict { key: key.clone(), expect: *expect, found });
        }
        let to = match (value, found) {
            (None, _) => &mut report.deleted,
            (_, None) => &mut report.created,
            _ => &mut report.changed,
        };
        to.push(shown_key(key));
        declared.suppose(key, value.as_ref().map(|value| as_kept(key, value)));
    }
    Ok(report)
}

/// An object as it would be kept.
fn as_kept(key: &Key, value: &[u8]) -> Object {
    let now = Timestamp::from(SystemTime::now());
    let by = Author::default();
    Object { key: key.clone(), value: value.into(), revision: 0, generation: 1, created: now, changed: now, by }
}

pub(super) fn batch(changes: Vec<Change>, by: Author) -> Batch {
    Batch { changes, by, at: SystemTime::now().into() }
}

/// An object by its section and name: `pools/shop`; an intent by its key.
pub(super) fn shown_key(key: &Key) -> String {
    match section(key.kind()) {
        Some(section) => format!("{section}/{}", key.name()),
        None => key.to_string(),
    }
}

/// Longest time that an acknowledgement waits for the answers to follow.
pub(crate) const SERVED_MAX: Duration = Duration::from_secs(5);
