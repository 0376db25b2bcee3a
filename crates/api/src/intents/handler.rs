//! Reads and writes of one intent, or of one collection, on every path that leads to it: those of ONAP and EMCO, and by key.
//!
//! Writes that depend on other objects (of sets, and deletions) exclude all other writes: else a set could be created while an intent that
//! it names is being deleted. This does not hold between servers that share a store.

use std::{sync::Arc, time::SystemTime};

use axum::{
    Extension, Json as JsonBody,
    body::Bytes,
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use fairway_model::intent::{Intent, IntentSpec};
use tokio::sync::RwLock;

use super::{
    backend::Backend,
    parameters_wire::IntentParameters,
    response::{self, etag, invalid_body},
};
use crate::{
    idempotency::{self, Begun},
    outcome_wire::WriteOutcome,
    problem::{ApiError, FieldError, bad_request, invalid, problem},
    state::{Caller, DryRun, Parameters, RequestBody, check_line},
};
use fairway_api_types::intent_status_wire::IntentStatus;
use fairway_intents::{
    BodyError, Family, IntentPath, InvalidBody, Json, KEY_FORM, PathError, PathTarget, body, lenient, path_of,
    relations::{self, RelationError},
    unenforced_denial,
};
use fairway_store::objects::{
    Author, Batch, Change, Expect, Key, Kind, Object, ObjectStore, StoreError,
    idempotency::{RequestInProgress, RequestsInProgress},
};

/// The intents of one store.
#[derive(Clone)]
pub(super) struct IntentApi {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) backend: Arc<dyn Backend>,
    /// Read lock: writes that touch one object. Write lock: writes that depend on others. One for all listeners.
    pub(super) writes: Arc<RwLock<()>>,
    /// Requests with an idempotency key that are being handled.
    pub(super) requests: RequestsInProgress,
}

/// A request about intents, as it was received.
pub(crate) type IntentRequest = (Method, Uri, HeaderMap, Caller, Parameters<IntentParameters>, RequestBody);

/// A request whose path, or the key in whose body, leads to an intent.
struct Operation {
    place: IntentPath,
    method: Method,
    path: String,
    query: IntentParameters,
    headers: HeaderMap,
    by: Author,
    /// None without an idempotency key.
    in_progress: Option<RequestInProgress>,
    body: Bytes,
}

impl IntentApi {
    /// Handles one request.
    pub(super) async fn handle(&self, request: IntentRequest) -> Result<Response, ApiError> {
        let (method, uri, headers, Caller(caller), Parameters(query), RequestBody(body)) = request;
        let place = Some(uri.path()).filter(|path| *path != ALL).map(parse_path).transpose()?;
        check_line("reason", &query.reason).map_err(bad_request)?;
        let idempotent = match method.is_safe() {
            true => None,
            false => idempotency::identify(&headers, &caller, &identity(&method, &uri, &headers, &body))?,
        };
        let idempotent = idempotent.filter(|_| !query.dry_run);
        let (place, body) = match place {
            Some(place) => (place, body),
            None => parse_item(&body, query.lenient)?,
        };
        let in_progress = match idempotency::begin(&self.requests, idempotent.as_ref(), &*self.store).await? {
            Begun::Done(outcome, record) => return self.repeat(&method, uri.path(), outcome, *record).await,
            Begun::New(in_progress) => in_progress,
        };
        let by = Author::new(caller, query.reason.clone());
        let path = uri.path().to_owned();
        let operation = Operation { place, method, path, query, headers, by, in_progress, body };
        match (operation.method.as_str(), operation.place.target) {
            ("GET" | "HEAD", PathTarget::Collection) => self.list(&operation).await,
            ("GET" | "HEAD", _) => self.get(&operation).await,
            ("POST", PathTarget::Collection | PathTarget::Singleton) => self.create(&operation).await,
            ("POST", PathTarget::Object) if operation.path == ALL => self.create(&operation).await,
            ("PUT", PathTarget::Object | PathTarget::Singleton) => self.replace(&operation).await,
            ("DELETE", PathTarget::Object | PathTarget::Singleton) => self.delete(&operation).await,
            (_, target) => Err(method_not_allowed(&operation.method, target)),
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

fn method_not_allowed(method: &Method, target: PathTarget) -> ApiError {
    let allowed = match target {
        PathTarget::Collection => "GET, HEAD, POST",
        PathTarget::Object => "GET, HEAD, PUT, DELETE",
        PathTarget::Singleton => "GET, HEAD, POST, PUT, DELETE",
    };
    let detail = format!("{method} is not allowed on this path; allowed are {allowed}");
    problem(StatusCode::METHOD_NOT_ALLOWED, detail).header(header::ALLOW, HeaderValue::from_static(allowed))
}

impl IntentApi {
    async fn list(&self, operation: &Operation) -> Result<Response, ApiError> {
        relations::has_parent(&*self.store, &operation.place).await?;
        let limit = operation.query.limit.unwrap_or(PAGE_MAX);
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(bad_request(format!("limit: {limit} is out of range; give 1 to {PAGE_MAX}")));
        }
        let after = operation.query.after.as_deref().filter(|after| !after.is_empty());
        let after = after.map(|after| operation.key_below(after)).transpose()?;
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

    async fn create(&self, operation: &Operation) -> Result<Response, ApiError> {
        relations::has_parent(&*self.store, &operation.place).await?;
        let intent = operation.parse(None)?;
        let name = &intent.metadata.name;
        let key = match &intent.spec {
            IntentSpec::CompositeApp(app) => operation.key_below(&format!("{name}/{}", app.version))?,
            _ => operation.place.key(Some(name)),
        };
        let response = self.write(operation, &key, None, &intent).await?;
        response.ok_or_else(|| {
            let detail = format!("the {} {:?} exists already; PUT replaces it", key.kind().word(), key.name());
            problem(StatusCode::CONFLICT, detail)
        })
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
        let forgotten = || {
            problem(
                StatusCode::CONFLICT,
                format!("{key} was written and changed since, and its history has no secrets; read the intent"),
            )
        };
        let (key, revision) = (Key::parse(&key).map_err(|_| forgotten())?, revision.unwrap_or(record.revision));
        let history = self.store.history(&key, Some(revision + 1), 1).await?;
        let entry = history.into_iter().find(|entry| entry.revision == revision && !entry.is_redacted);
        let value = entry.and_then(|entry| entry.value).ok_or_else(forgotten)?;
        let status = match self.store.read(&key).await? {
            Some(now) => self.status(&now, &parse_stored(&now)?).await,
            None => IntentStatus::default(),
        };
        let object = Object { key, value, revision, ..record };
        let intent = parse_stored(&object)?;
        Ok(written(method, path, is_new, &object, &intent, &status))
    }

    async fn replace(&self, operation: &Operation) -> Result<Response, ApiError> {
        relations::has_parent(&*self.store, &operation.place).await?;
        let key = operation.place.key(None);
        for _ in 0..ATTEMPTS_MAX {
            let before = self.store.read(&key).await?;
            operation.check_if_match(before.as_ref())?;
            operation.check_if_none_match(before.as_ref())?;
            let stored = before.as_ref().map(parse_stored).transpose()?;
            let intent = operation.parse(stored.as_ref())?;
            if let Some(response) = self.write(operation, &key, before.as_ref(), &intent).await? {
                return Ok(response);
            }
        }
        let detail = format!("other writes changed the object {ATTEMPTS_MAX} times at the same time; try again");
        Err(problem(StatusCode::CONFLICT, detail))
    }

    async fn delete(&self, operation: &Operation) -> Result<Response, ApiError> {
        let _exclusive = self.writes.write().await;
        let object = self.object(&operation.place).await?;
        operation.check_if_match(Some(&object))?;
        relations::is_free(&*self.store, &object.key).await?;
        let response = self.commit(operation, &object.key, Some(&object), None).await?;
        response.ok_or_else(|| {
            let detail = format!("{} was changed at the same time; read it and try again", object.key);
            problem(StatusCode::PRECONDITION_FAILED, detail)
        })
    }

    /// Replaces the object that was read before, if the objects that the new one depends on exist. Returns none if another write
    /// changed it in the meantime.
    async fn write(
        &self,
        operation: &Operation,
        key: &Key,
        before: Option<&Object>,
        intent: &Intent,
    ) -> Result<Option<Response>, ApiError> {
        if let IntentSpec::TrafficSet(set) = &intent.spec {
            let _exclusive = self.writes.write().await;
            if !operation.query.defer {
                relations::refers(&*self.store, &operation.place, set).await?;
            }
            self.commit(operation, key, before, Some(intent)).await
        } else {
            let _shared = self.writes.read().await;
            // The parent may have been deleted since it was checked first.
            relations::has_parent(&*self.store, &operation.place).await?;
            self.commit(operation, key, before, Some(intent)).await
        }
    }

    /// Changes the object that was read before, or deletes it; with an idempotency key it records the outcome in the same batch. A dry
    /// run reports what the change would do. Returns none if another write changed the object in the meantime.
    async fn commit(
        &self,
        operation: &Operation,
        key: &Key,
        before: Option<&Object>,
        intent: Option<&Intent>,
    ) -> Result<Option<Response>, ApiError> {
        let expect = before.map_or(Expect::Absent, |before| Expect::Revision(before.revision));
        let change = Change { key: key.clone(), expect, value: intent.map(body::to_stored) };
        if operation.query.dry_run {
            let found = self.store.read(key).await?.map(|object| object.revision);
            if change.expect.check(key, found).is_err() {
                return Ok(None);
            }
            return Ok(Some((Extension(DryRun), JsonBody(self.backend.dry_run(change).await?)).into_response()));
        }
        let mut changes = vec![change];
        if let Some(in_progress) = &operation.in_progress {
            self.requests.remove_expired(&*self.store).await;
            changes.push(idempotency::record(in_progress, &outcome(&changes[0], before))?);
        }
        let batch = Batch { changes, by: operation.by.clone(), at: SystemTime::now().into() };
        let served_before = self.backend.published();
        let committed = match self.store.commit(batch).await {
            Err(StoreError::Conflict { key, .. }) if key.kind() != Kind::IdempotencyRecord => return Ok(None),
            committed => committed?,
        };
        self.backend.served(committed.revision, key, served_before).await;
        let object = committed.objects.into_iter().next().flatten();
        let Some((object, intent)) = object.zip(intent) else {
            return Ok(Some(StatusCode::NO_CONTENT.into_response()));
        };
        let status = self.status(&object, intent).await;
        let Operation { method, path, .. } = operation;
        Ok(Some(written(method, path, before.is_none(), &object, intent, &status)))
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
    fn parse(&self, before: Option<&Intent>) -> Result<Intent, ApiError> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Err(bad_request("the body is empty; give the object as JSON"));
        }
        let fixed = if self.query.lenient { Some(lenient::to_json(&self.body)) } else { None };
        let body = fixed.as_deref().unwrap_or(&self.body);
        let kind = self.place.kind;
        // If the body has the key too, the intent is one of its fields.
        let at = if self.path == ALL { "/intent" } else { "" };
        let intent = body::read(kind, body, before).map_err(|error| invalid_body(kind, &error.within(at)))?;
        if let Some(error) = unenforced_denial(&intent, before).filter(|_| !self.query.inert) {
            return Err(invalid_body(kind, &InvalidBody::from(error).within(at)));
        }
        match IntentPath::name_mismatch(&self.place, &intent) {
            Some(detail) => {
                let error = FieldError { pointer: format!("{at}/metadata/name"), detail };
                Err(invalid(StatusCode::BAD_REQUEST, "the object is another one", vec![error]))
            }
            None => Ok(intent),
        }
    }

    /// Returns the key whose text is that of the path's collection and this rest.
    fn key_below(&self, rest: &str) -> Result<Key, ApiError> {
        // A name without a version comes before all versions of the next name: `~` is no character of a version.
        let last = if self.place.kind == Kind::CompositeApp && !rest.contains('/') { "/~" } else { "" };
        let text = format!("{}{rest}{last}", self.place.prefix().as_str());
        Key::parse(&text).map_err(|error| bad_request(error.to_string()))
    }

    /// Checks `If-None-Match`: the client expects that no such object exists (RFC 9110 section 13.1.2).
    fn check_if_none_match(&self, found: Option<&Object>) -> Result<(), ApiError> {
        let tags = self.headers.get(header::IF_NONE_MATCH);
        if tags.is_some_and(|tags| tags != "*") {
            return Err(bad_request("If-None-Match: give *, which requires that there is no such object"));
        }
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

/// Returns the response to a write of an object; after a `POST` with its location.
fn written(
    method: &Method,
    path: &str,
    is_new: bool,
    object: &Object,
    intent: &Intent,
    status: &IntentStatus,
) -> Response {
    let code = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = response::stored(code, intent, object, status);
    if *method == Method::POST {
        response.headers_mut().insert(header::LOCATION, location(path, &object.key));
    }
    response
}

/// Returns the path of an object that was created below a path.
fn location(path: &str, key: &Key) -> HeaderValue {
    let location = match IntentPath::read(path) {
        Ok(place) => {
            let steps = std::iter::once(path.trim_end_matches('/')).chain(key.names().skip(place.names.len()));
            steps.collect::<Vec<_>>().join("/")
        }
        Err(_) => path_of(key, Family::Fairway).unwrap_or_default(),
    };
    HeaderValue::from_str(&location).expect("paths and names are printable")
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

impl From<RelationError> for ApiError {
    fn from(error: RelationError) -> Self {
        match error {
            RelationError::InUse { .. } => problem(StatusCode::CONFLICT, error.to_string()),
            RelationError::NoParent(_) => problem(StatusCode::NOT_FOUND, error.to_string()),
            RelationError::NoSuchIntents(missing) => invalid_body(Kind::TrafficSet, &missing),
            RelationError::Store(error) => error.into(),
        }
    }
}

/// Path of the list of all intents, and of their creation with the key in the body.
const ALL: &str = "/v1/intents";
/// Largest body, in bytes: an intent with three certificates of 64 KiB, and 64 KiB for the rest.
pub(crate) const BODY_MAX: usize = 256 << 10;
/// Objects of one page.
const PAGE_MAX: usize = 1_000;
/// Maximum number of attempts of a change if other writes come first.
const ATTEMPTS_MAX: usize = 8;
