//! Reads and writes of one intent, or of one collection, on every path that leads to it: those of ONAP and EMCO, and by key.
//!
//! Writes that depend on other objects (of sets, and deletions) exclude all other writes: else a set could be created while an intent that
//! it names is being deleted. This does not hold between servers that share a store.

use std::{convert::Infallible, sync::Arc, time::SystemTime};

use axum::{
    Json as JsonBody, RequestExt, RequestPartsExt,
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use fairway_model::intent::Intent;
use tokio::sync::RwLock;

use super::{
    backend::Backend,
    parameters_wire::IntentParameters,
    response::{self, etag, invalid_body},
};
use crate::{
    idempotency::{self, Begun},
    outcome_wire::WriteOutcome,
    problem::{ApiError, bad_request, problem},
    state::{Caller, Parameters, RequestBody, check_line},
};
use fairway_api_types::intent_status_wire::IntentStatus;
use fairway_intents::{
    BodyError, Family, IntentPath, InvalidBody, Json, KEY_FORM, PathError, PathKind, body, lenient, path_of,
    relations::{self, RelationError},
};
use fairway_store::objects::{
    Author, Batch, Change, Expect, Key, Kind, Object, ObjectStore, StoreError,
    idempotency::{RequestInProgress, RequestsInProgress},
};

/// The intents of one store.
#[derive(Clone, Debug)]
pub(super) struct IntentApi {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) backend: Arc<dyn Backend>,
    /// Read lock: writes that touch one object. Write lock: writes that depend on others. One for all listeners.
    pub(super) writes: Arc<RwLock<()>>,
    /// Requests with an idempotency key that are being handled.
    pub(super) requests: RequestsInProgress,
}

/// A request about intents, as it was received.
pub(crate) struct IntentRequest {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    caller: String,
    query: IntentParameters,
    body: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for IntentRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (mut head, body) = request.into_parts();
        let Parameters(query) = head.extract::<Parameters<IntentParameters>>().await?;
        let caller: Result<_, Infallible> = head.extract::<Caller>().await;
        let Ok(Caller(caller)) = caller;
        let (method, uri, headers) = (head.method.clone(), head.uri.clone(), head.headers.clone());
        let RequestBody(body) = Request::from_parts(head, body).extract().await?;
        Ok(Self { method, uri, headers, caller, query, body })
    }
}

/// A request whose path, or the key in whose body, leads to an intent.
struct Operation {
    place: IntentPath,
    path: String,
    query: IntentParameters,
    headers: HeaderMap,
    by: Author,
    /// None without an idempotency key.
    in_progress: Option<RequestInProgress>,
}

impl IntentApi {
    /// Handles one request.
    pub(super) async fn handle(&self, request: IntentRequest) -> Result<Response, ApiError> {
        let IntentRequest { method, uri, headers, caller, query, body } = request;
        let place = Some(uri.path()).filter(|path| *path != ALL).map(parse_path).transpose()?;
        check_line("reason", &query.reason)?;
        let idempotent = match method.is_safe() || query.dry_run {
            true => None,
            false => idempotency::identify(&headers, &caller, &identity(&method, &uri, &headers, &body))?,
        };
        let (place, body) = match place {
            Some(place) => (place, body),
            None => parse_item(&body, query.lenient)?,
        };
        let in_progress = match idempotency::begin(&self.requests, idempotent.as_ref(), &*self.store).await? {
            Begun::Done(outcome, record) => return self.repeat(&method, uri.path(), outcome, *record).await,
            Begun::New(in_progress) => in_progress,
        };
        let by = Author::new(caller, query.reason.clone());
        let operation = Operation { place, path: uri.path().to_owned(), query, headers, by, in_progress };
        match (method.as_str(), operation.place.what) {
            ("GET" | "HEAD", PathKind::Collection) => self.list(&operation).await,
            ("GET" | "HEAD", _) => self.get(&operation).await,
            ("POST", PathKind::Collection | PathKind::Singleton) => self.create(&operation, &body).await,
            ("POST", PathKind::Object) if operation.path == ALL => self.create(&operation, &body).await,
            ("PUT", PathKind::Object | PathKind::Singleton) => self.replace(&operation, &body).await,
            ("DELETE", PathKind::Object | PathKind::Singleton) => self.delete(&operation).await,
            (_, what) => Err(method_not_allowed(&method, what)),
        }
    }
}

fn parse_path(path: &str) -> Result<IntentPath, ApiError> {
    IntentPath::read(path).map_err(|error| {
        let status = match error {
            PathError::Name(_) => StatusCode::BAD_REQUEST,
            PathError::Unknown => StatusCode::NOT_FOUND,
        };
        problem(status, error.to_string())
    })
}

/// Returns everything that makes two requests equal.
fn identity<'a>(method: &'a Method, uri: &'a Uri, headers: &'a HeaderMap, body: &'a [u8]) -> [&'a [u8]; 6] {
    let header = |name| headers.get(name).map_or(&b""[..], HeaderValue::as_bytes);
    let (path, query) = (uri.path().as_bytes(), uri.query().unwrap_or_default().as_bytes());
    [method.as_str().as_bytes(), path, query, header(header::IF_MATCH), header(header::IF_NONE_MATCH), body]
}

/// Parses a body that has an intent with its key: `{"key": …, "intent": …}`.
fn parse_item(body: &[u8], is_lenient: bool) -> Result<(IntentPath, Bytes), ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(bad_request("the body is empty; give an intent with its key as JSON"));
    }
    let fixed = if is_lenient { Some(lenient::to_json(body)) } else { None };
    let invalid = |fault| invalid_body(Kind::Inbound, &InvalidBody { errors: vec![fault], nameless: false });
    let json = Json::read(fixed.as_deref().unwrap_or(body)).map_err(invalid)?;
    let (Some(Json::Text(key)), Some(intent)) = (json.get("key"), json.get("intent")) else {
        let detail = "give {\"key\": \"inbound/…\", \"intent\": {…}}, as GET /v1/intents lists them";
        return Err(invalid(BodyError::new("", detail)));
    };
    let place = IntentPath::of_key(key)
        .map_err(|_| invalid(BodyError::new("/key", format!("{key:?} is not the key of an intent; {KEY_FORM}"))))?;
    Ok((place, intent.to_text().into()))
}

fn method_not_allowed(method: &Method, what: PathKind) -> ApiError {
    let allowed = match what {
        PathKind::Collection => "GET, HEAD, POST",
        PathKind::Object => "GET, HEAD, PUT, DELETE",
        PathKind::Singleton => "GET, HEAD, POST, PUT, DELETE",
    };
    let detail = format!("{method} is not allowed on this path; allowed are {allowed}");
    problem(StatusCode::METHOD_NOT_ALLOWED, detail).header(header::ALLOW, HeaderValue::from_static(allowed))
}

impl IntentApi {
    async fn list(&self, operation: &Operation) -> Result<Response, ApiError> {
        relations::has_parent(&*self.store, &operation.place).await.map_err(relation_error)?;
        let limit = operation.query.limit.unwrap_or(PAGE_MAX);
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(bad_request(format!("limit is a number from 1 to {PAGE_MAX}")));
        }
        let after = operation.query.after.as_ref().map(|after| operation.key_below(after)).transpose()?;
        let prefix = operation.place.prefix();
        let listing = self.store.list(&prefix, after.as_ref(), limit).await?;
        let last = listing.objects.last().filter(|_| listing.more);
        let next = last.map(|last| {
            let after = last.key.as_str().strip_prefix(prefix.as_str()).unwrap_or_default();
            format!("{}?limit={limit}&after={after}", operation.path)
        });
        let mut found = Vec::new();
        for object in listing.objects {
            let intent = parse_stored(&object)?;
            found.push((object, intent));
        }
        let statuses = self.backend.statuses(&found).await;
        Ok(response::listed(&found, &statuses, next))
    }

    async fn get(&self, operation: &Operation) -> Result<Response, ApiError> {
        let object = self.object(&operation.place).await?;
        if operation.headers.get(header::IF_NONE_MATCH).is_some_and(|tags| matches(tags, &object)) {
            return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag(&object))]).into_response());
        }
        let intent = parse_stored(&object)?;
        let status = self.status(&object, &intent).await;
        Ok(response::found(&intent, &object, &status))
    }

    async fn create(&self, operation: &Operation, body: &[u8]) -> Result<Response, ApiError> {
        relations::has_parent(&*self.store, &operation.place).await.map_err(relation_error)?;
        let intent = operation.parse(body, None)?;
        let key = match &intent {
            Intent::CompositeApp(app) => operation.key_below(&format!("{}/{}", app.metadata.name, app.version))?,
            intent => operation.place.key(Some(&intent.metadata().name)),
        };
        match self.write(operation, key, None, &intent).await {
            Ok(Written::Stored(object)) => {
                let status = self.status(&object, &intent).await;
                Ok(created(&operation.path, &intent, &object, &status))
            }
            Ok(Written::Responded(response)) => Ok(response),
            Err(WriteError::Changed(key)) => {
                let detail = format!("the {} {:?} exists already; PUT replaces it", key.kind().word(), key.name());
                Err(problem(StatusCode::CONFLICT, detail))
            }
            Err(WriteError::Api(error)) => Err(error),
        }
    }

    /// Returns the response to a write that was handled before. Its status is the current one.
    async fn repeat(
        &self,
        method: &Method,
        path: &str,
        outcome: WriteOutcome,
        record: Object,
    ) -> Result<Response, ApiError> {
        let WriteOutcome::IntentDeclared { key, is_new, revision } = outcome else {
            return Ok(StatusCode::NO_CONTENT.into_response());
        };
        let forgotten =
            || problem(StatusCode::CONFLICT, format!("{key} was written, and has changed too often since; read it"));
        let (key, revision) = (Key::parse(&key).map_err(|_| forgotten())?, revision.unwrap_or(record.revision));
        let history = self.store.history(&key, Some(revision + 1), 1).await?;
        let entry = history.into_iter().find(|entry| entry.revision == revision);
        let value = entry.and_then(|entry| entry.value).ok_or_else(forgotten)?;
        let status = match self.store.read(&key).await? {
            Some(now) => self.status(&now, &parse_stored(&now)?).await,
            None => IntentStatus::default(),
        };
        let object = Object { key, value, revision, ..record };
        let intent = parse_stored(&object)?;
        Ok(match (method.as_str(), is_new) {
            ("POST", _) => created(path, &intent, &object, &status),
            (_, true) => response::stored(StatusCode::CREATED, &intent, &object, &status),
            (_, false) => response::stored(StatusCode::OK, &intent, &object, &status),
        })
    }

    async fn replace(&self, operation: &Operation, body: &[u8]) -> Result<Response, ApiError> {
        relations::has_parent(&*self.store, &operation.place).await.map_err(relation_error)?;
        let key = operation.place.key(None);
        for _ in 0..ATTEMPTS_MAX {
            let before = self.store.read(&key).await?;
            operation.check_if_match(before.as_ref())?;
            operation.check_if_none_match(before.as_ref())?;
            let stored = before.as_ref().map(parse_stored).transpose()?;
            let intent = operation.parse(body, stored.as_ref())?;
            match self.write(operation, key.clone(), before.as_ref(), &intent).await {
                Ok(Written::Stored(object)) => {
                    let code = if before.is_none() { StatusCode::CREATED } else { StatusCode::OK };
                    let status = self.status(&object, &intent).await;
                    return Ok(response::stored(code, &intent, &object, &status));
                }
                Ok(Written::Responded(response)) => return Ok(response),
                // Another write changed the object after it was read: read it again.
                Err(WriteError::Changed(_)) => {}
                Err(WriteError::Api(error)) => return Err(error),
            }
        }
        let detail = format!("other writes changed the object {ATTEMPTS_MAX} times at the same time; try again");
        Err(problem(StatusCode::CONFLICT, detail))
    }

    async fn delete(&self, operation: &Operation) -> Result<Response, ApiError> {
        let _exclusive = self.writes.write().await;
        let object = self.object(&operation.place).await?;
        operation.check_if_match(Some(&object))?;
        relations::is_free(&*self.store, &object.key).await.map_err(relation_error)?;
        let change = Change { key: object.key.clone(), expect: Expect::Revision(object.revision), value: None };
        match self.commit(operation, change, Some(&object)).await {
            Ok(Written::Responded(response)) => Ok(response),
            // A deletion leaves no object.
            Ok(Written::Stored(_)) => Ok(StatusCode::NO_CONTENT.into_response()),
            Err(WriteError::Changed(key)) => {
                let detail = format!("{key} was changed at the same time; read it and try again");
                Err(problem(StatusCode::PRECONDITION_FAILED, detail))
            }
            Err(WriteError::Api(error)) => Err(error),
        }
    }

    /// Writes one object over the one that was read before, if the objects that it depends on exist.
    async fn write(
        &self,
        operation: &Operation,
        key: Key,
        before: Option<&Object>,
        intent: &Intent,
    ) -> Result<Written, WriteError> {
        let expect = before.map_or(Expect::Absent, |before| Expect::Revision(before.revision));
        let change = Change { key, expect, value: Some(body::to_stored(intent)) };
        if let Intent::TrafficSet(set) = intent {
            let _exclusive = self.writes.write().await;
            if !operation.query.defer {
                relations::refers(&*self.store, &operation.place, set).await.map_err(relation_error)?;
            }
            self.commit(operation, change, before).await
        } else {
            let _shared = self.writes.read().await;
            // The parent may have been deleted since it was checked first.
            relations::has_parent(&*self.store, &operation.place).await.map_err(relation_error)?;
            self.commit(operation, change, before).await
        }
    }

    /// Makes a change; with an idempotency key it records the outcome in the same batch. A dry run reports what the change would do.
    async fn commit(
        &self,
        operation: &Operation,
        change: Change,
        before: Option<&Object>,
    ) -> Result<Written, WriteError> {
        if operation.query.dry_run {
            let found = self.store.read(&change.key).await?.map(|object| object.revision);
            change.expect.check(&change.key, found)?;
            let report = self.backend.dry_run(change).await?;
            return Ok(Written::Responded(JsonBody(report).into_response()));
        }
        let mut changes = vec![change];
        if let Some(in_progress) = &operation.in_progress {
            self.requests.remove_expired(&*self.store).await;
            changes.push(idempotency::record(in_progress, &outcome(&changes[0], before))?);
        }
        let batch = Batch { changes, by: operation.by.clone(), at: SystemTime::now().into() };
        let committed = self.store.commit(batch).await?;
        self.backend.served(committed.revision).await;
        Ok(match committed.objects.into_iter().next().flatten() {
            Some(object) => Written::Stored(object),
            None => Written::Responded(StatusCode::NO_CONTENT.into_response()),
        })
    }

    async fn status(&self, object: &Object, intent: &Intent) -> IntentStatus {
        self.backend.statuses(&[(object.clone(), intent.clone())]).await.pop().unwrap_or_default()
    }

    /// Reads the object that a path leads to.
    async fn object(&self, place: &IntentPath) -> Result<Object, ApiError> {
        self.store.read(&place.key(None)).await?.ok_or_else(|| {
            let name = place.names.last().map_or("", |name| name.as_str());
            problem(StatusCode::NOT_FOUND, format!("there is no {} {name:?}", place.kind.word()))
        })
    }
}

impl Operation {
    /// Parses the body. Its kind and name must be those of the path.
    fn parse(&self, body: &[u8], before: Option<&Intent>) -> Result<Intent, ApiError> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(bad_request("the body is empty; give the object as JSON"));
        }
        let fixed = if self.query.lenient { Some(lenient::to_json(body)) } else { None };
        let body = fixed.as_deref().unwrap_or(body);
        let kind = self.place.kind;
        // If the body has the key too, the intent is one of its fields.
        let at = if self.path == ALL { "/intent" } else { "" };
        let intent = body::read(kind, body, before).map_err(|error| invalid_body(kind, &error.within(at)))?;
        match IntentPath::name_mismatch(&self.place, &intent) {
            Some(detail) => Err(bad_request(detail)),
            None => Ok(intent),
        }
    }

    /// Returns the key whose text is that of the path's collection and this rest.
    fn key_below(&self, rest: &str) -> Result<Key, ApiError> {
        let text = format!("{}{rest}", self.place.prefix().as_str());
        Key::parse(&text).map_err(|error| bad_request(error.to_string()))
    }

    /// Checks `If-None-Match`: the client expects that no such object exists (RFC 9110 section 13.1.2).
    fn check_if_none_match(&self, found: Option<&Object>) -> Result<(), ApiError> {
        let tags = self.headers.get(header::IF_NONE_MATCH);
        match found.filter(|object| tags.is_some_and(|tags| matches(tags, object))) {
            None => Ok(()),
            Some(object) => {
                let detail = format!("it exists already, with the ETag {}; read it and try again", etag(object));
                Err(problem(StatusCode::PRECONDITION_FAILED, detail))
            }
        }
    }

    /// Checks `If-Match`: the client expects the revision that it has seen (RFC 9110 section 13.1.1).
    fn check_if_match(&self, found: Option<&Object>) -> Result<(), ApiError> {
        let Some(tags) = self.headers.get(header::IF_MATCH) else { return Ok(()) };
        let now = match found {
            Some(object) if matches(tags, object) => return Ok(()),
            Some(object) => format!("its ETag is {} now", etag(object)),
            None => "there is no such object".to_owned(),
        };
        Err(problem(StatusCode::PRECONDITION_FAILED, format!("{now}; read it and try again")))
    }
}

/// Returns the response to the creation of an object below a path, with its location.
fn created(path: &str, intent: &Intent, object: &Object, status: &IntentStatus) -> Response {
    let mut response = response::stored(StatusCode::CREATED, intent, object, status);
    let location = match IntentPath::read(path) {
        Ok(place) => {
            let of_path = place.names.len();
            let steps = std::iter::once(path.trim_end_matches('/')).chain(object.key.names().skip(of_path));
            steps.collect::<Vec<_>>().join("/")
        }
        Err(_) => path_of(&object.key, Family::Fairway).unwrap_or_default(),
    };
    let location = HeaderValue::from_str(&location).expect("paths and names are printable");
    response.headers_mut().insert(header::LOCATION, location);
    response
}

/// Returns the outcome of a change of the object that was read before.
fn outcome(change: &Change, before: Option<&Object>) -> WriteOutcome {
    let Some(value) = &change.value else { return WriteOutcome::Deleted };
    let unchanged = before.filter(|object| *object.value == **value);
    WriteOutcome::IntentDeclared {
        key: change.key.to_string(),
        is_new: before.is_none(),
        revision: unchanged.map(|object| object.revision),
    }
}

/// True if a list of ETags has that of the object, or is `*`.
fn matches(tags: &HeaderValue, object: &Object) -> bool {
    let tags = tags.to_str().unwrap_or_default();
    tags.split(',').map(str::trim).any(|tag| tag == "*" || tag == etag(object))
}

fn parse_stored(object: &Object) -> Result<Intent, ApiError> {
    body::read_stored(object.key.kind(), &object.value)
        .map_err(|error| problem(StatusCode::INTERNAL_SERVER_ERROR, body::unreadable(&error).detail))
}

fn relation_error(error: RelationError) -> ApiError {
    match error {
        RelationError::InUse { .. } => problem(StatusCode::CONFLICT, error.to_string()),
        RelationError::NoParent(_) => problem(StatusCode::NOT_FOUND, error.to_string()),
        RelationError::NoSuchIntents(missing) => invalid_body(Kind::TrafficSet, &missing),
        RelationError::Store(error) => error.into(),
    }
}

/// Result of a change.
enum Written {
    /// The object was created or replaced.
    Stored(Object),
    /// Response to a deletion or a dry run.
    Responded(Response),
}

/// Why an object was not written.
enum WriteError {
    Api(ApiError),
    /// Another write changed the object with this key after it was read.
    Changed(Key),
}

impl From<ApiError> for WriteError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<StoreError> for WriteError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict { key, .. } if key.kind() != Kind::IdempotencyRecord => Self::Changed(key),
            error => Self::Api(error.into()),
        }
    }
}

/// Path of the list of all intents, and of their creation with the key in the body.
const ALL: &str = "/v1/intents";
/// Largest body, in bytes: an intent with three certificates of 64 KiB, and 64 KiB for the rest.
pub(crate) const BODY_MAX: usize = 256 << 10;
/// Objects of one page.
const PAGE_MAX: usize = 1_000;
/// Attempts of a change, each after another write came first.
const ATTEMPTS_MAX: usize = 8;
