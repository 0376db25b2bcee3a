//! Reads and writes of one intent, or of one collection, on every path that leads to it: ONAP's, EMCO's, and by key.
//!
//! Writes that depend on other objects (sets, deletions) run alone, the others side by side: a set cannot come to name an intent that
//! is being deleted. Several servers on one store are not kept apart by this.

use std::{sync::Arc, time::SystemTime};

use axum::{
    Json as JsonBody, RequestExt, RequestPartsExt,
    body::Bytes,
    extract::{
        FromRequest, Query, Request,
        rejection::{BytesRejection, QueryRejection},
    },
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse, Response},
};
use fairway_model::intent::Intent;
use tokio::sync::RwLock;

use super::{
    super::{problem::Refusal, routes::Caller},
    answer::{self, not_stored, problem, refused, tag},
    backend::Backend,
    parameters_wire::IntentParameters,
};
use crate::once::{Begun, Done, Given, Once, UnderWay};
use fairway_intents::{
    Family, Fault, IntentStatus, Json, KEY_FORM, PathError, Place, Refused, What, body, lenient, path_of,
    relations::{self, RelationError},
};
use fairway_store::objects::{Author, Batch, Change, Expect, Key, Kind, Object, ObjectStore, StoreError};

/// The intents of one store.
#[derive(Clone, Debug)]
pub(super) struct IntentApi {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) backend: Arc<dyn Backend>,
    /// Read lock: writes that touch one object. Write lock: writes that depend on others. One for all listeners.
    pub(super) order: Arc<RwLock<()>>,
    /// Idempotency keys of requests in progress.
    pub(super) under_way: UnderWay,
}

/// A request, before its path is known to lead to an intent.
pub(crate) struct IntentRequest {
    head: Parts,
    query: Result<Query<IntentParameters>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
}

impl<S: Send + Sync> FromRequest<S> for IntentRequest {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        let (mut head, body) = request.into_parts();
        let query = head.extract().await;
        let body = Request::from_parts(head.clone(), body).extract().await;
        Ok(Self { head, query, body })
    }
}

/// A request whose path and body are known to be about an intent.
struct Asked {
    place: Place,
    path: String,
    query: IntentParameters,
    headers: HeaderMap,
    by: Author,
    /// Its idempotency key, if it has one.
    once: Option<Once>,
}

impl IntentApi {
    /// Answers one request.
    pub(super) async fn handle(&self, request: IntentRequest) -> Result<Response, Refusal> {
        let IntentRequest { head, query, body } = request;
        let (method, uri, headers) = (head.method, head.uri, head.headers);
        let place = Some(uri.path()).filter(|path| *path != OWN).map(place_of).transpose()?;
        let Query(query) = query.map_err(|error| problem(StatusCode::BAD_REQUEST, error.body_text()))?;
        if query.reason.len() > REASON_MAX || query.reason.chars().any(char::is_control) {
            let detail = format!("reason: give one line of at most {REASON_MAX} bytes");
            return Err(problem(StatusCode::BAD_REQUEST, detail));
        }
        let octets = body.map_err(|error| {
            let detail = format!("{}; the limit is {} KiB", error.body_text(), BODY_MAX >> 10);
            problem(error.status(), detail)
        })?;
        let who = head.extensions.get().map(|Caller(who)| who.clone()).unwrap_or_default();
        let by = Author::new(who, query.reason.clone());
        let given = match method.is_safe() || query.dry_run {
            true => None,
            false => Given::read(&headers, &by, &sent(&method, &uri, &headers, &octets))?,
        };
        let (place, octets) = match place {
            Some(place) => (place, octets),
            None => item(&octets, query.lenient)?,
        };
        let once = match self.under_way.begin(given.as_ref(), &*self.store).await? {
            Begun::Before(before) => return self.again(&method, uri.path(), *before).await,
            Begun::Now(once) => once,
        };
        let asked = Asked { place, path: uri.path().to_owned(), query, headers, by, once };
        self.answer(&method, &asked, &octets).await
    }
}

fn place_of(path: &str) -> Result<Place, Refusal> {
    Place::read(path).map_err(|error| {
        let status = match error {
            PathError::Name(_) => StatusCode::BAD_REQUEST,
            PathError::Unknown => StatusCode::NOT_FOUND,
        };
        problem(status, error.to_string())
    })
}

/// All that makes a request the same as another one.
fn sent<'a>(method: &'a Method, uri: &'a Uri, headers: &'a HeaderMap, octets: &'a [u8]) -> [&'a [u8]; 6] {
    let header = |name| headers.get(name).map_or(&b""[..], HeaderValue::as_bytes);
    let (path, query) = (uri.path().as_bytes(), uri.query().unwrap_or_default().as_bytes());
    [method.as_str().as_bytes(), path, query, header(header::IF_MATCH), header(header::IF_NONE_MATCH), octets]
}

/// The place and the body of an intent, of which both stand in one body: `{"key": …, "intent": …}`.
fn item(octets: &[u8], is_lenient: bool) -> Result<(Place, Bytes), Refusal> {
    if octets.iter().all(u8::is_ascii_whitespace) {
        return Err(problem(StatusCode::BAD_REQUEST, "the body is empty; give an intent with its key as JSON"));
    }
    let mended = if is_lenient { Some(lenient::mend(octets)) } else { None };
    let faulty = |fault| refused(Kind::Inbound, &Refused { faults: vec![fault], nameless: false });
    let json = Json::read(mended.as_deref().unwrap_or(octets)).map_err(faulty)?;
    let (Some(Json::Text(key)), Some(intent)) = (json.get("key"), json.get("intent")) else {
        let what = "give {\"key\": \"inbound/…\", \"intent\": {…}}, as GET /v1/intents lists them";
        return Err(faulty(Fault::new("", what)));
    };
    let place = Place::of_key(key);
    let what = format!("{key:?} is no key of an intent; {KEY_FORM}");
    Ok((place.map_err(|_| faulty(Fault::new("/key", what)))?, intent.to_text().into()))
}

fn wrong_method(method: &Method, what: What) -> Refusal {
    let allowed = match what {
        What::Collection => "GET, HEAD, POST",
        What::Object => "GET, HEAD, PUT, DELETE",
        What::Only => "GET, HEAD, POST, PUT, DELETE",
    };
    let detail = format!("{method} is not allowed on this path; allowed are {allowed}");
    let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, detail).into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response.into()
}

impl IntentApi {
    async fn answer(&self, method: &Method, asked: &Asked, octets: &[u8]) -> Result<Response, Refusal> {
        match (method.as_str(), asked.place.what) {
            ("GET" | "HEAD", What::Collection) => self.list(asked).await,
            ("GET" | "HEAD", _) => self.get(asked).await,
            ("POST", What::Collection | What::Only) => self.create(asked, octets).await,
            ("POST", What::Object) if asked.path == OWN => self.create(asked, octets).await,
            ("PUT", What::Object | What::Only) => self.replace(asked, octets).await,
            ("DELETE", What::Object | What::Only) => self.remove(asked).await,
            (_, what) => Err(wrong_method(method, what)),
        }
    }

    async fn list(&self, asked: &Asked) -> Result<Response, Refusal> {
        relations::has_parent(&*self.store, &asked.place).await.map_err(unrelated)?;
        let most = asked.query.limit.unwrap_or(PAGE_MAX);
        if !(1..=PAGE_MAX).contains(&most) {
            return Err(problem(StatusCode::BAD_REQUEST, format!("limit is a number from 1 to {PAGE_MAX}")));
        }
        let after = asked.query.after.as_ref().map(|after| asked.below(after)).transpose()?;
        let under = asked.place.prefix();
        let listing = self.store.list(&under, after.as_ref(), most).await.map_err(|error| not_stored(&error))?;
        let last = listing.objects.last().filter(|_| listing.more);
        let next = last.map(|last| {
            let after = last.key.as_str().strip_prefix(under.as_str()).unwrap_or_default();
            format!("{}?limit={most}&after={after}", asked.path)
        });
        let both = |object: Object| understood(&object).map(|intent| (object, intent));
        let found: Result<Vec<_>, Refusal> = listing.objects.into_iter().map(both).collect();
        let found = found?;
        let statuses = self.backend.statuses(&found).await;
        Ok(answer::listed(&found, &statuses, next))
    }

    async fn get(&self, asked: &Asked) -> Result<Response, Refusal> {
        let object = self.there(&asked.place).await?;
        if asked.headers.get(header::IF_NONE_MATCH).is_some_and(|tags| matches(tags, &object)) {
            return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag(&object))]).into_response());
        }
        let intent = understood(&object)?;
        let status = self.status(&object, &intent).await;
        Ok(answer::found(&intent, &object, &status))
    }

    async fn create(&self, asked: &Asked, octets: &[u8]) -> Result<Response, Refusal> {
        relations::has_parent(&*self.store, &asked.place).await.map_err(unrelated)?;
        let intent = asked.read(octets, None)?;
        let key = match &intent {
            Intent::CompositeApp(app) => asked.below(&format!("{}/{}", app.metadata.name, app.version))?,
            intent => asked.place.key(Some(&intent.metadata().name)),
        };
        let object = self.write(asked, key, None, &intent).await.map_err(|error| match error {
            Unwritten::Answered(refusal) => refusal,
            Unwritten::Store(StoreError::Conflict { key, .. }) if key.kind() != Kind::Receipt => {
                let detail = format!("the {} {:?} exists already; PUT replaces it", key.kind().word(), key.name());
                problem(StatusCode::CONFLICT, detail)
            }
            Unwritten::Store(error) => not_stored(&error),
        })?;
        let status = self.status(&object, &intent).await;
        Ok(created(&asked.path, &intent, &object, &status))
    }

    /// The answer to a write that was carried out before, once more; its status is that of now.
    async fn again(&self, method: &Method, path: &str, (done, receipt): (Done, Object)) -> Result<Response, Refusal> {
        let Done::Kept { key, is_new, revision } = done else { return Ok(StatusCode::NO_CONTENT.into_response()) };
        let forgotten =
            || problem(StatusCode::CONFLICT, format!("{key} was written, and has changed too often since; read it"));
        let (key, revision) = (Key::parse(&key).map_err(|_| forgotten())?, revision.unwrap_or(receipt.revision));
        let history = self.store.history(&key, Some(revision + 1), 1).await.map_err(|error| not_stored(&error))?;
        let entry = history.into_iter().find(|entry| entry.revision == revision);
        let value = entry.and_then(|entry| entry.value).ok_or_else(forgotten)?;
        let status = match self.store.read(&key).await.map_err(|error| not_stored(&error))? {
            Some(now) => self.status(&now, &understood(&now)?).await,
            None => IntentStatus::default(),
        };
        let object = Object { key, value, revision, ..receipt };
        let intent = understood(&object)?;
        Ok(match (method.as_str(), is_new) {
            ("POST", _) => created(path, &intent, &object, &status),
            (_, true) => answer::stored(StatusCode::CREATED, &intent, &object, &status),
            (_, false) => answer::stored(StatusCode::OK, &intent, &object, &status),
        })
    }

    async fn replace(&self, asked: &Asked, octets: &[u8]) -> Result<Response, Refusal> {
        relations::has_parent(&*self.store, &asked.place).await.map_err(unrelated)?;
        let key = asked.place.key(None);
        for _ in 0..TRIES_MAX {
            let before = self.store.read(&key).await.map_err(|error| not_stored(&error))?;
            asked.if_match(before.as_ref())?;
            asked.if_none_match(before.as_ref())?;
            let kept = before.as_ref().map(understood).transpose()?;
            let intent = asked.read(octets, kept.as_ref())?;
            match self.write(asked, key.clone(), before.as_ref(), &intent).await {
                Ok(object) => {
                    let status = if before.is_none() { StatusCode::CREATED } else { StatusCode::OK };
                    return Ok(answer::stored(status, &intent, &object, &self.status(&object, &intent).await));
                }
                // Somebody was faster: what they wrote is looked at anew.
                Err(Unwritten::Store(StoreError::Conflict { key, .. })) if key.kind() != Kind::Receipt => {}
                Err(Unwritten::Store(error)) => return Err(not_stored(&error)),
                Err(Unwritten::Answered(refusal)) => return Err(refusal),
            }
        }
        let detail = format!("other writes changed the object {TRIES_MAX} times at the same time; try again");
        Err(problem(StatusCode::CONFLICT, detail))
    }

    async fn remove(&self, asked: &Asked) -> Result<Response, Refusal> {
        let _alone = self.order.write().await;
        let object = self.there(&asked.place).await?;
        asked.if_match(Some(&object))?;
        relations::is_free(&*self.store, &object.key).await.map_err(unrelated)?;
        let change = Change { key: object.key.clone(), expect: Expect::Revision(object.revision), value: None };
        if asked.query.dry_run {
            return Ok(JsonBody(self.backend.dry_run(change).await?).into_response());
        }
        self.commit(asked, change, Some(&object)).await.map_err(|error| not_stored(&error))?;
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    /// Writes one object in the place of what was there before, once what it depends on was looked at.
    async fn write(
        &self,
        asked: &Asked,
        key: Key,
        before: Option<&Object>,
        intent: &Intent,
    ) -> Result<Object, Unwritten> {
        let expect = before.map_or(Expect::Absent, |before| Expect::Revision(before.revision));
        let change = Change { key, expect, value: Some(body::to_keep(intent)) };
        let committed = if let Intent::TrafficSet(set) = intent {
            let _alone = self.order.write().await;
            if !asked.query.defer {
                relations::refers(&*self.store, &asked.place, set).await.map_err(unwritten)?;
            }
            self.commit_or_try(asked, change, before).await?
        } else {
            let _beside = self.order.read().await;
            // Its parent may have gone since it was first looked for.
            relations::has_parent(&*self.store, &asked.place).await.map_err(unwritten)?;
            self.commit_or_try(asked, change, before).await?
        };
        committed
            .map_err(Unwritten::Store)?
            .ok_or_else(|| Unwritten::Store(StoreError::Damaged("an object that was written is not there".to_owned())))
    }

    /// Makes a change, or tells what would come of it where no more is asked for.
    async fn commit_or_try(
        &self,
        asked: &Asked,
        change: Change,
        before: Option<&Object>,
    ) -> Result<Result<Option<Object>, StoreError>, Unwritten> {
        if !asked.query.dry_run {
            return Ok(self.commit(asked, change, before).await);
        }
        let found = self.store.read(&change.key).await.map_err(Unwritten::Store)?.map(|object| object.revision);
        if !change.expect.is_met_by(found) {
            return Ok(Err(StoreError::Conflict { key: change.key, expect: change.expect, found }));
        }
        let report = self.backend.dry_run(change).await.map_err(Unwritten::Answered)?;
        Err(Unwritten::Answered(JsonBody(report).into_response().into()))
    }

    /// Makes a change, and leaves its receipt where the request has a key; both or none.
    async fn commit(
        &self,
        asked: &Asked,
        change: Change,
        before: Option<&Object>,
    ) -> Result<Option<Object>, StoreError> {
        let mut changes = vec![change];
        if let Some(once) = &asked.once {
            self.under_way.clear_away(&*self.store).await;
            changes.push(once.receipt(done(&changes[0], before)).expect("a key and two numbers are short"));
        }
        let batch = Batch { changes, by: asked.by.clone(), at: SystemTime::now().into() };
        let committed = self.store.commit(batch).await?;
        self.backend.served(committed.revision).await;
        Ok(committed.objects.into_iter().next().flatten())
    }

    /// What has become of one object.
    async fn status(&self, object: &Object, intent: &Intent) -> IntentStatus {
        self.backend.statuses(&[(object.clone(), intent.clone())]).await.pop().unwrap_or_default()
    }

    /// The object of a place.
    async fn there(&self, place: &Place) -> Result<Object, Refusal> {
        let found = self.store.read(&place.key(None)).await.map_err(|error| not_stored(&error))?;
        found.ok_or_else(|| {
            let name = place.names.last().map_or("", |name| name.as_str());
            problem(StatusCode::NOT_FOUND, format!("there is no {} {name:?}", place.kind.word()))
        })
    }
}

impl Asked {
    /// Reads the body; it must be about what the path is about.
    fn read(&self, octets: &[u8], before: Option<&Intent>) -> Result<Intent, Refusal> {
        if octets.iter().all(u8::is_ascii_whitespace) {
            return Err(problem(StatusCode::BAD_REQUEST, "the body is empty; give the object as JSON"));
        }
        let mended = if self.query.lenient { Some(lenient::mend(octets)) } else { None };
        let octets = mended.as_deref().unwrap_or(octets);
        let kind = self.place.kind;
        // Of a body that has the key, too, the intent is a part.
        let at = if self.path == OWN { "/intent" } else { "" };
        let intent = body::read(kind, octets, before).map_err(|error| refused(kind, &error.within(at)))?;
        match relations::is_named_otherwise(&self.place, &intent) {
            Some(detail) => Err(problem(StatusCode::BAD_REQUEST, detail)),
            None => Ok(intent),
        }
    }

    /// A key below the place by the rest of its text.
    fn below(&self, rest: &str) -> Result<Key, Refusal> {
        let text = format!("{}{rest}", self.place.prefix().as_str());
        Key::parse(&text).map_err(|error| problem(StatusCode::BAD_REQUEST, error.to_string()))
    }

    /// Refuses to replace what the client says is not there (RFC 9110 section 13.1.2).
    fn if_none_match(&self, there: Option<&Object>) -> Result<(), Refusal> {
        let tags = self.headers.get(header::IF_NONE_MATCH);
        match there.filter(|object| tags.is_some_and(|tags| matches(tags, object))) {
            None => Ok(()),
            Some(object) => {
                let detail = format!("it exists already, with the ETag {}; read it and try again", tag(object));
                Err(problem(StatusCode::PRECONDITION_FAILED, detail))
            }
        }
    }

    /// Refuses a change of something else than the client has seen (RFC 9110 section 13.1.1).
    fn if_match(&self, there: Option<&Object>) -> Result<(), Refusal> {
        let Some(tags) = self.headers.get(header::IF_MATCH) else { return Ok(()) };
        if there.is_some_and(|object| matches(tags, object)) {
            return Ok(());
        }
        let now = there
            .map_or_else(|| "there is no such object".to_owned(), |object| format!("its ETag is {} now", tag(object)));
        Err(problem(StatusCode::PRECONDITION_FAILED, format!("{now}; read it and try again")))
    }
}

/// The answer to an object that was made below a path, which leads to it.
fn created(path: &str, intent: &Intent, object: &Object, status: &IntentStatus) -> Response {
    let mut response = answer::stored(StatusCode::CREATED, intent, object, status);
    let place = match Place::read(path) {
        Ok(place) => {
            let own = place.names.len();
            let steps = std::iter::once(path.trim_end_matches('/')).chain(object.key.names().skip(own));
            steps.collect::<Vec<_>>().join("/")
        }
        Err(_) => path_of(&object.key, Family::Fairway).unwrap_or_default(),
    };
    let location = HeaderValue::from_str(&place).expect("paths and names are printable");
    response.headers_mut().insert(header::LOCATION, location);
    response
}

/// What will have been done by a change to what is there.
fn done(change: &Change, before: Option<&Object>) -> Done {
    let Some(value) = &change.value else { return Done::Deleted };
    let same = before.filter(|object| *object.value == **value);
    let (key, is_new) = (change.key.to_string(), before.is_none());
    Done::Kept { key, is_new, revision: same.map(|object| object.revision) }
}

/// Whether a list of ETags has that of an object, or is `*`.
fn matches(tags: &HeaderValue, object: &Object) -> bool {
    let tags = tags.to_str().unwrap_or_default();
    tags.split(',').map(str::trim).any(|of| of == "*" || of == tag(object))
}

fn understood(object: &Object) -> Result<Intent, Refusal> {
    let kind: Kind = object.key.kind();
    body::read_kept(kind, &object.value)
        .map_err(|error| problem(StatusCode::INTERNAL_SERVER_ERROR, body::unreadable(&error).detail))
}

/// The answer to a write that does not fit the objects that exist.
fn unrelated(error: RelationError) -> Refusal {
    match error {
        RelationError::InUse { .. } => problem(StatusCode::CONFLICT, error.to_string()),
        RelationError::NoParent(_) => problem(StatusCode::NOT_FOUND, error.to_string()),
        RelationError::NoSuchIntents(missing) => refused(Kind::TrafficSet, &missing),
        RelationError::Store(error) => not_stored(&error),
    }
}

fn unwritten(error: RelationError) -> Unwritten {
    Unwritten::Answered(unrelated(error))
}

/// Why an object was not written.
enum Unwritten {
    /// The answer is known: an error, or the result of a dry run.
    Answered(Refusal),
    Store(StoreError),
}

/// Where intents of all projects are listed, and made with their keys in the body.
const OWN: &str = "/v1/intents";
/// Most octets of a body: an intent with three certificates of 64 KiB, and room for the rest.
pub(crate) const BODY_MAX: usize = 256 << 10;
/// Most objects of one answer.
const PAGE_MAX: usize = 1_000;
/// Most octets of a reason.
const REASON_MAX: usize = 1_024;
/// Most tries of a change that others come before.
const TRIES_MAX: usize = 8;
