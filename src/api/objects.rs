//! `/v1/clusters`, `/v1/monitors`, `/v1/names`, `/v1/pools`: objects as a configuration writes them, declared over the API.
//!
//! A write is tried beside what is there first, so that what does not fit is refused with its faults. It is acknowledged when it is
//! durable, and, if that takes no longer than [`SERVED_MAX`], when it is in the answers. What files declare is not among the objects.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{
        DefaultBodyLimit, Path, Query, State,
        rejection::{BytesRejection, QueryRejection},
    },
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use fairway_model::{Name, Timestamp};
use serde_json::Value;

use super::{
    objects_wire::{
        ApplyBody, ApplyReport, Condition, HistoryEntry, ListParameters, Metadata, ObjectBody, ObjectList,
        ObjectStatus, WriteParameters,
    },
    problem::{Flaw, flawed, problem, refusal},
    routes::Site,
};
use crate::{
    config,
    control::{
        ControlError,
        declared::{Declared, LeftOut, key_name, section},
        objects::Objects,
    },
    store::objects::{Author, BATCH_MAX, Batch, Change, Expect, Key, Kind, Object, StoreError, VALUE_MAX},
};

/// The kinds that are elements of a configuration's lists, in an order in which none refers to a later one.
const KINDS: [Kind; 4] = [Kind::Monitor, Kind::Cluster, Kind::Pool, Kind::Name];

/// The reads.
pub(super) fn reads() -> Router<Site> {
    KINDS.into_iter().fold(Router::new(), |router, kind| {
        let all = path(kind);
        router
            .route(&all, get(move |site, parameters| list(kind, site, parameters)))
            .route(&format!("{all}/{{name}}"), get(move |site, name| read(kind, site, name)))
            .route(&format!("{all}/{{name}}/history"), get(move |site, name| history(kind, site, name)))
    })
}

/// The reads and the writes.
pub(super) fn all() -> Router<Site> {
    let writes = KINDS.into_iter().fold(Router::new(), |router, kind| {
        let all = path(kind);
        router.route(&all, post(move |site, parameters, body| create(kind, site, parameters, body))).route(
            &format!("{all}/{{name}}"),
            axum::routing::put(move |site, name, headers, parameters, body| {
                put(kind, site, name, headers, (parameters, body))
            })
            .delete(move |site, name, headers, parameters| delete(kind, site, name, headers, parameters)),
        )
    });
    reads().merge(writes.route("/v1/apply", post(apply))).layer(DefaultBodyLimit::max(BODY_MAX))
}

fn path(kind: Kind) -> String {
    format!("/v1/{}", section(kind).unwrap_or_default())
}

type Parameters<T> = Result<Query<T>, QueryRejection>;
type Body = Result<Bytes, BytesRejection>;

async fn list(kind: Kind, State(site): State<Site>, parameters: Parameters<ListParameters>) -> Response {
    let (objects, ListParameters { after, limit, contains }) = match (site.control.objects(), parameters) {
        (Ok(objects), Ok(Query(parameters))) => (objects, parameters),
        (Err(error), _) => return refusal(&error),
        (_, Err(error)) => return problem(StatusCode::BAD_REQUEST, error.body_text()),
    };
    let (declared, limit) = (objects.declared(), limit.unwrap_or(LIST_USUAL));
    if !(1..=LIST_MAX).contains(&limit) {
        return problem(StatusCode::BAD_REQUEST, format!("limit: {limit} is not 1 to {LIST_MAX}"));
    }
    let left_out = left_out(&site);
    let wanted = |object: &&Object| object.key.name() > after.as_str() && object.key.name().contains(&contains);
    let mut found = declared.of(kind).filter(wanted);
    let items: Vec<_> = found.by_ref().take(limit).map(|object| shown(object, &site, &left_out)).collect();
    let next = found.next().and_then(|_| declared.of(kind).filter(wanted).nth(limit - 1));
    let next = next.map(|object| object.key.name().to_owned());
    Json(ObjectList { items, revision: declared.revision, next }).into_response()
}

async fn read(kind: Kind, State(site): State<Site>, Path(name): Path<String>) -> Response {
    let found = site.control.objects().map(|objects| objects.declared());
    match found.map(|declared| key(kind, &name).and_then(|key| declared.get(&key).cloned())) {
        Ok(Some(object)) => answer(StatusCode::OK, &object, &site),
        Ok(None) => unknown(kind, &name),
        Err(error) => refusal(&error),
    }
}

async fn history(kind: Kind, State(site): State<Site>, Path(name): Path<String>) -> Response {
    let (objects, key) = match (site.control.objects(), key(kind, &name)) {
        (Ok(objects), Some(key)) => (objects, key),
        (Ok(_), None) => return unknown(kind, &name),
        (Err(error), _) => return refusal(&error),
    };
    match objects.history(&key, HISTORY_SHOWN).await {
        Ok(entries) if entries.is_empty() => unknown(kind, &name),
        Ok(entries) => {
            let entry = |entry: crate::store::objects::Entry| HistoryEntry {
                revision: entry.revision,
                at: format!("{:.3}", entry.at),
                by: entry.by.who,
                reason: entry.by.why,
                object: entry.value.and_then(|value| serde_json::from_slice(&value).ok()),
            };
            Json(entries.into_iter().map(entry).collect::<Vec<_>>()).into_response()
        }
        Err(error) => unkept(&error),
    }
}

async fn create(kind: Kind, State(site): State<Site>, parameters: Parameters<WriteParameters>, body: Body) -> Response {
    let (body, parameters) = match read_body(body, parameters) {
        Ok(both) => both,
        Err(response) => return response,
    };
    match wanted(kind, None, body) {
        Ok((key, value)) => write(&site, change(key, Expect::Absent, Some(value)), &parameters).await,
        Err(response) => response,
    }
}

async fn put(
    kind: Kind,
    State(site): State<Site>,
    Path(name): Path<String>,
    headers: HeaderMap,
    (parameters, body): (Parameters<WriteParameters>, Body),
) -> Response {
    let (body, parameters) = match read_body(body, parameters) {
        Ok(both) => both,
        Err(response) => return response,
    };
    match (wanted(kind, Some(&name), body), expected(&headers)) {
        (Ok((key, value)), Ok(expect)) => write(&site, change(key, expect, Some(value)), &parameters).await,
        (Err(response), _) | (_, Err(response)) => response,
    }
}

async fn delete(
    kind: Kind,
    State(site): State<Site>,
    Path(name): Path<String>,
    headers: HeaderMap,
    parameters: Parameters<WriteParameters>,
) -> Response {
    let Some(key) = key(kind, &name) else { return unknown(kind, &name) };
    match (parameters, expected(&headers)) {
        (Ok(Query(parameters)), Ok(expect)) => {
            let expect = if expect == Expect::Anything { Expect::Present } else { expect };
            write(&site, change(key, expect, None), &parameters).await
        }
        (Err(error), _) => problem(StatusCode::BAD_REQUEST, error.body_text()),
        (_, Err(response)) => response,
    }
}

/// Tries one change, makes it, and waits until it is served.
async fn write(site: &Site, change: Change, parameters: &WriteParameters) -> Response {
    let objects = match site.control.objects() {
        Ok(objects) => objects,
        Err(error) => return refusal(&error),
    };
    let (key, before) = (change.key.clone(), objects.declared().get(&change.key).cloned());
    let report = match tried(site, objects, std::slice::from_ref(&change)).await {
        Ok(report) => report,
        Err(response) => return response,
    };
    if parameters.dry_run {
        return Json(report).into_response();
    }
    let (written, is_gone) = (batch(vec![change], parameters), before.is_some());
    let committed = match objects.commit(written).await {
        Ok(committed) => committed,
        Err(error) => return unkept(&error),
    };
    site.control.served(committed.revision, SERVED_MAX).await;
    match committed.objects.into_iter().next().flatten() {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(object) => answer(if is_gone { StatusCode::OK } else { StatusCode::CREATED }, &object, site),
    }
    .into_response_at(&key)
}

/// Says where what was made is.
trait Located {
    fn into_response_at(self, key: &Key) -> Response;
}

impl Located for Response {
    fn into_response_at(mut self, key: &Key) -> Response {
        let place = format!("{}/{}", path(key.kind()), key.name());
        if let (StatusCode::CREATED, Ok(place)) = (self.status(), HeaderValue::from_str(&place)) {
            self.headers_mut().insert(header::LOCATION, place);
        }
        self
    }
}

/// Takes many objects, or none.
async fn apply(State(site): State<Site>, parameters: Parameters<WriteParameters>, body: Body) -> Response {
    let (body, parameters) = match read_body(body, parameters) {
        Ok(both) => both,
        Err(response) => return response,
    };
    let applied: ApplyBody = match serde_json::from_slice(&body) {
        Ok(applied) => applied,
        Err(error) => return problem(StatusCode::UNPROCESSABLE_ENTITY, format!("{error}; give objects by section")),
    };
    let objects = match site.control.objects() {
        Ok(objects) => objects,
        Err(error) => return refusal(&error),
    };
    let (wanted, flaws) = all_wanted(applied);
    if !flaws.is_empty() {
        return flawed(StatusCode::UNPROCESSABLE_ENTITY, "no object was taken", flaws);
    }
    let declared = objects.declared();
    let mut changes: Vec<Change> = Vec::new();
    let mut unchanged = 0;
    for (key, value) in &wanted {
        match declared.get(key) {
            Some(object) if *object.value == **value => unchanged += 1,
            Some(object) => changes.push(change(key.clone(), Expect::Revision(object.revision), Some(value.clone()))),
            None => changes.push(change(key.clone(), Expect::Absent, Some(value.clone()))),
        }
    }
    if parameters.prune {
        let all = KINDS.into_iter().flat_map(|kind| declared.of(kind));
        let gone = all.filter(|object| !wanted.contains_key(&object.key));
        changes.extend(gone.map(|object| change(object.key.clone(), Expect::Revision(object.revision), None)));
    }
    if changes.len() > BATCH_MAX {
        let what = format!("{} changes are more than {BATCH_MAX}; apply them in parts", changes.len());
        return problem(StatusCode::PAYLOAD_TOO_LARGE, what);
    }
    let mut report = match tried(&site, objects, &changes).await {
        Ok(report) => ApplyReport { unchanged, dry_run: parameters.dry_run, ..report },
        Err(response) => return response,
    };
    if !parameters.dry_run && !changes.is_empty() {
        match objects.commit(batch(changes, &parameters)).await {
            Ok(committed) => report.revision = committed.revision,
            Err(error) => return unkept(&error),
        }
        report.served = site.control.served(report.revision, SERVED_MAX).await;
    }
    Json(report).into_response()
}

/// Every object of a body by its key, and every flaw.
fn all_wanted(applied: ApplyBody) -> (BTreeMap<Key, Vec<u8>>, Vec<Flaw>) {
    let (mut wanted, mut flaws) = (BTreeMap::new(), Vec::new());
    let ApplyBody { clusters, monitors, names, pools, .. } = applied;
    for (kind, bodies) in
        [(Kind::Cluster, clusters), (Kind::Monitor, monitors), (Kind::Name, names), (Kind::Pool, pools)]
    {
        for (index, body) in bodies.into_iter().enumerate() {
            let at = format!("/{}/{index}", section(kind).unwrap_or_default());
            match sound(kind, &body) {
                Ok((key, value)) => {
                    let name = key.to_string();
                    if wanted.insert(key, value).is_some() {
                        flaws.push(Flaw { pointer: at, detail: format!("{name} is here twice; keep one") });
                    }
                }
                Err(own) => flaws.extend(own.into_iter().map(|f| Flaw { pointer: format!("{at}{}", f.pointer), ..f })),
            }
        }
    }
    (wanted, flaws)
}

/// What changes would do, without doing them; refused where an object that is wanted, or one that is there, would not be heeded.
async fn tried(site: &Site, objects: &Objects, changes: &[Change]) -> Result<ApplyReport, Response> {
    let mut declared = Declared::clone(&objects.declared());
    let mut report = ApplyReport::default();
    for Change { key, expect, value } in changes {
        let found = declared.get(key).map(|object| object.revision);
        if !is_met(*expect, found) {
            return Err(unkept(&StoreError::Conflict { key: key.clone(), expect: *expect, found }));
        }
        let to = match (value, found) {
            (None, _) => &mut report.deleted,
            (_, None) => &mut report.created,
            _ => &mut report.changed,
        };
        to.push(format!("{}/{}", section(key.kind()).unwrap_or_default(), key.name()));
        declared.suppose(key, value.as_ref().map(|value| supposed(key, value)));
    }
    let tried = site.control.try_objects(declared).await.map_err(|error| refusal(&error))?;
    if !tried.faults.is_empty() {
        return Err(problem(StatusCode::CONFLICT, tried.faults.join("; ")));
    }
    let before = left_out(site);
    let worse =
        tried.left_out.iter().filter(|(key, _)| !before.contains_key(*key) || changes.iter().any(|c| c.key == **key));
    let flaws: Vec<Flaw> = worse.flat_map(|(key, faults)| faults.iter().map(|fault| about(key, fault))).collect();
    let own = |key: &Key| changes.iter().any(|change| change.key == *key && change.value.is_some());
    match (flaws.is_empty(), tried.left_out.keys().any(own)) {
        (true, _) => Ok(ApplyReport { effect: tried.changes, not_accepted: told(&tried.left_out), ..report }),
        (_, true) => Err(flawed(StatusCode::UNPROCESSABLE_ENTITY, "it does not fit what is there", flaws)),
        _ => Err(flawed(StatusCode::CONFLICT, "other objects would not fit any more", flaws)),
    }
}

fn is_met(expect: Expect, found: Option<u64>) -> bool {
    match expect {
        Expect::Absent => found.is_none(),
        Expect::Anything => true,
        Expect::Present => found.is_some(),
        Expect::Revision(revision) => found == Some(revision),
    }
}

/// An object as it would be kept.
fn supposed(key: &Key, value: &[u8]) -> Object {
    let now = Timestamp::from(SystemTime::now());
    let by = Author::default();
    Object { key: key.clone(), value: value.into(), revision: 0, generation: 1, created: now, changed: now, by }
}

fn about(key: &Key, fault: &str) -> Flaw {
    let place = format!("{}/{}", section(key.kind()).unwrap_or_default(), key.name());
    Flaw { pointer: String::new(), detail: format!("{place}: {fault}") }
}

fn told(left_out: &LeftOut) -> Vec<String> {
    left_out.iter().flat_map(|(key, faults)| faults.iter().map(|fault| about(key, fault).detail)).collect()
}

fn left_out(site: &Site) -> LeftOut {
    site.control.shared().published.load().configured.left_out.clone()
}

const fn change(key: Key, expect: Expect, value: Option<Vec<u8>>) -> Change {
    Change { key, expect, value }
}

fn batch(changes: Vec<Change>, parameters: &WriteParameters) -> Batch {
    let by = Author { who: "local".to_owned(), why: parameters.reason.clone() };
    Batch { changes, by, at: SystemTime::now().into() }
}

/// The body and parameters of a write.
fn read_body(body: Body, parameters: Parameters<WriteParameters>) -> Result<(Bytes, WriteParameters), Response> {
    let body = body.map_err(|error| problem(error.status(), format!("{}; 16 MiB are the most", error.body_text())))?;
    let Query(parameters) = parameters.map_err(|error| problem(StatusCode::BAD_REQUEST, error.body_text()))?;
    if parameters.reason.len() > REASON_MAX || parameters.reason.chars().any(char::is_control) {
        return Err(problem(StatusCode::BAD_REQUEST, format!("reason: give one line of at most {REASON_MAX} octets")));
    }
    match body.is_empty() {
        true => Err(problem(StatusCode::BAD_REQUEST, "the body is empty; give the object as JSON")),
        false => Ok((body, parameters)),
    }
}

/// What a body declares, where it stands under its own name.
fn wanted(kind: Kind, name: Option<&str>, body: Bytes) -> Result<(Key, Vec<u8>), Response> {
    let body: ObjectBody = serde_json::from_slice(&body).map_err(|error| {
        let status = if error.is_data() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::BAD_REQUEST };
        problem(status, format!("the body is no JSON object: {error}"))
    })?;
    let (key, value) = sound(kind, &body)
        .map_err(|flaws| flawed(StatusCode::UNPROCESSABLE_ENTITY, "the object is at fault", flaws))?;
    match name.and_then(|name| self::key(kind, name)) {
        Some(asked) if asked != key => {
            let what = format!("the body is called {}, the path {}; make both the same", key.name(), asked.name());
            Err(problem(StatusCode::BAD_REQUEST, what))
        }
        None if name.is_some() => Err(unknown(kind, name.unwrap_or_default())),
        _ => Ok((key, value)),
    }
}

/// The key of an object and its canonical octets, or everything that is wrong with it.
fn sound(kind: Kind, body: &ObjectBody) -> Result<(Key, Vec<u8>), Vec<Flaw>> {
    let text = Value::Object(body.spec.clone()).to_string();
    let flaw = |pointer: &str, detail: String| vec![Flaw { pointer: pointer.to_owned(), detail }];
    if text.len() > VALUE_MAX {
        return Err(flaw("", format!("it has {} octets; {VALUE_MAX} are the most", text.len())));
    }
    config::object(section(kind).unwrap_or_default(), &text).map_err(|faults| {
        faults.into_iter().map(|fault| Flaw { pointer: fault.pointer, detail: fault.what }).collect::<Vec<_>>()
    })?;
    let name = body.spec.get("name").and_then(Value::as_str).unwrap_or_default();
    let key = key(kind, name).ok_or_else(|| flaw("/name", format!("{name} cannot be the name of an object")))?;
    Ok((key, text.into_bytes()))
}

/// The key of an object by its name as people write it.
fn key(kind: Kind, name: &str) -> Option<Key> {
    let name = match kind {
        Kind::Name => key_name(&name.parse::<Name>().ok()?),
        _ => name.to_owned(),
    };
    Key::new(kind, &[&name]).ok()
}

/// What `If-Match` and `If-None-Match` expect (RFC 9110 section 13.1).
fn expected(headers: &HeaderMap) -> Result<Expect, Response> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default().trim());
    let tag = |text: &str| text.strip_prefix('"')?.strip_suffix('"')?.parse().ok();
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => Ok(Expect::Anything),
        (Some("*"), None) => Ok(Expect::Present),
        (None, Some("*")) => Ok(Expect::Absent),
        (Some(text), None) if tag(text).is_some() => Ok(Expect::Revision(tag(text).unwrap_or_default())),
        _ => Err(problem(StatusCode::BAD_REQUEST, "give If-Match with one ETag or *, or If-None-Match with *")),
    }
}

fn answer(status: StatusCode, object: &Object, site: &Site) -> Response {
    let tag = HeaderValue::from_str(&format!("\"{}\"", object.revision)).expect("digits in quotes");
    (status, [(header::ETAG, tag)], Json(shown(object, site, &left_out(site)))).into_response()
}

/// An object as it is shown.
fn shown(object: &Object, site: &Site, left_out: &LeftOut) -> ObjectBody {
    let served = *site.control.shared().served.borrow() >= object.revision;
    let condition = |kind: &str, holds: bool, words: [&str; 2], message: String| Condition {
        kind: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: words[usize::from(!holds)].to_owned(),
        message,
    };
    let faults = left_out.get(&object.key).map(|faults| faults.join("; "));
    let conditions = vec![
        condition("Accepted", faults.is_none(), ["Fits", "AtFault"], faults.clone().unwrap_or_default()),
        condition("Served", served && faults.is_none(), ["InTheAnswers", "NotInTheAnswers"], String::new()),
    ];
    ObjectBody {
        spec: serde_json::from_slice(&object.value).unwrap_or_default(),
        metadata: Some(Metadata {
            revision: object.revision,
            generation: object.generation,
            created: format!("{:.3}", object.created),
            changed: format!("{:.3}", object.changed),
            changed_by: object.by.who.clone(),
            reason: object.by.why.clone(),
        }),
        status: Some(ObjectStatus { observed_generation: object.generation, conditions }),
    }
}

fn unknown(kind: Kind, name: &str) -> Response {
    let section = section(kind).unwrap_or_default();
    problem(
        StatusCode::NOT_FOUND,
        format!("{section}: nothing is called {name} here; what files declare is in /v1/state"),
    )
}

/// Why a store did not do it.
fn unkept(error: &StoreError) -> Response {
    let status = match error {
        StoreError::Conflict { expect: Expect::Absent, .. } => StatusCode::CONFLICT,
        StoreError::Conflict { expect: Expect::Present, .. } => StatusCode::NOT_FOUND,
        StoreError::Conflict { .. } => StatusCode::PRECONDITION_FAILED,
        StoreError::Refused(_) => StatusCode::PAYLOAD_TOO_LARGE,
        StoreError::Compacted { .. }
        | StoreError::Damaged(_)
        | StoreError::Newer { .. }
        | StoreError::Unavailable(_) => {
            return refusal(&ControlError::NoStore(error.to_string()));
        }
    };
    problem(status, error.to_string())
}

/// Longest time that an acknowledgement waits for the answers to follow.
const SERVED_MAX: Duration = Duration::from_secs(5);
/// Objects of one page: usually, and at most.
const LIST_USUAL: usize = 1_000;
const LIST_MAX: usize = 10_000;
/// Entries of a history that are shown.
const HISTORY_SHOWN: usize = 100;
/// Most octets of a body: 10,000 objects of a kB.
const BODY_MAX: usize = 16 << 20;
/// Most octets of a reason.
const REASON_MAX: usize = 1_024;
