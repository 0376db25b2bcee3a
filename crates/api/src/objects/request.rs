//! Requests that write objects: author, preconditions, and the objects of the body with all their errors.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    RequestExt, RequestPartsExt,
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header},
};
use serde_json::Value;

use super::kinds::{key, section_of};
use crate::{
    idempotency,
    problem::{ApiError, FieldError, bad_request, invalid, problem},
    state::{Caller, Operates, Parameters, RequestBody, check_line},
};
use fairway_api_types::{
    intents_wire::NewIntent,
    objects_wire::{ApplyBody, ObjectBody, WriteParameters},
    state_wire::Body,
};
use fairway_config::parse_duration;
use fairway_control::declared::Declared;
use fairway_store::objects::{Author, Expect, Key, Kind, VALUE_MAX, idempotency::IdempotentRequest};

/// A request that writes objects.
pub(super) struct WriteRequest {
    /// Identity of the caller, and the reason that it gave.
    pub(super) by: Author,
    operates: Operates,
    /// Precondition of the headers; none without one.
    pub(super) expect: Option<Expect>,
    /// True if nothing is to be changed.
    pub(super) dry_run: bool,
    /// True if denials that nothing enforces are stored.
    inert: bool,
    /// True if objects that the body lacks are to be deleted.
    pub(super) prune: bool,
    /// True if they are deleted also if that looks like a mistake.
    pub(super) allow_removals: bool,
    /// Identification by idempotency key; none without a key.
    pub(super) idempotent: Option<IdempotentRequest>,
    body: RequestBody,
}

impl<S: Send + Sync> FromRequest<S> for WriteRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let Parameters(query) = parts.extract::<Parameters<WriteParameters>>().await?;
        let WriteParameters { allow_removals, dry_run, inert, prune, reason } = query;
        check_line("reason", &reason).map_err(bad_request)?;
        let Ok(Caller(caller)) = parts.extract::<Caller>().await;
        let Ok(operates) = parts.extract::<Operates>().await;
        let expect = precondition(&parts.headers)?;
        let (headers, target) = (parts.headers.clone(), format!("{} {}", parts.method, parts.uri));
        let body = Request::from_parts(parts, body).extract::<RequestBody, _>().await?;
        let precondition = format!("{expect:?}");
        let same = [target.as_bytes(), precondition.as_bytes(), &body.0];
        let idempotent = idempotency::identify(&headers, &caller, &same)?;
        let by = Author::new(caller, reason);
        Ok(Self { by, operates, expect, dry_run, inert, prune, allow_removals, idempotent, body })
    }
}

impl WriteRequest {
    /// Returns the object of the body. If the path has a name, the body's name must be equal.
    pub(super) fn object(&self, kind: Kind, name: Option<&str>) -> Result<(Key, Vec<u8>), ApiError> {
        let body: ObjectBody = self.json("give one object, like {\"name\": \"…\"}")?;
        let (own, value) = validated(kind, &body)
            .map_err(|errors| invalid(StatusCode::UNPROCESSABLE_ENTITY, "the object is invalid", errors))?;
        match name {
            Some(name) if key(kind, name).is_none_or(|key| key != own) => {
                let detail = format!("the name is {}, but {name} in the path; make them equal", own.name());
                let error = FieldError { pointer: "/name".to_owned(), detail };
                Err(invalid(StatusCode::BAD_REQUEST, "the object is another one", vec![error]))
            }
            _ => {
                self.check_connections(&own, &value)?;
                Ok((own, value))
            }
        }
    }

    /// Returns all objects of the body.
    pub(super) fn objects(&self, declared: &Declared) -> Result<BodyObjects, ApiError> {
        let body: ApplyBody = self.json("give objects by section, like {\"pools\": [{\"name\": \"…\"}]}")?;
        if let Some(version) = body.version.filter(|version| *version != 1) {
            let detail = format!("version {version} is not supported; write version 1, or leave it out");
            return Err(problem(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
        let (objects, errors) = all_validated(body, self.inert, declared);
        let is_new = |key: &Key, value: &[u8]| declared.get(key).is_none_or(|object| *object.value != *value);
        for (key, value) in objects.values.iter().filter(|(key, value)| is_new(key, value)) {
            self.check_connections(key, value)?;
        }
        match errors.is_empty() {
            true => Ok(objects),
            false => {
                let summary = "nothing was changed: an object is invalid";
                Err(invalid(StatusCode::UNPROCESSABLE_ENTITY, summary, errors))
            }
        }
    }

    /// Checks that the caller may declare what an object has the server send, and to where.
    fn check_connections(&self, key: &Key, value: &[u8]) -> Result<(), ApiError> {
        if self.operates.0 {
            return Ok(());
        }
        let object: Value = serde_json::from_slice(value).unwrap_or_default();
        let what = match key.kind() {
            // With headers and texts to look for, the health status shows what a service answers.
            Kind::Monitor => {
                let name = ["headers", "body", "responseHeader"].into_iter().find(|name| object.get(name).is_some());
                let period = object.get("period").and_then(Value::as_str).and_then(|text| parse_duration(text).ok());
                let is_short = period.is_some_and(|period| period < PERIOD_MIN);
                name.map(|name| format!("{name} of a monitor"))
                    .or_else(|| is_short.then(|| format!("a period below {PERIOD_MIN:?}")))
            }
            Kind::Cluster => {
                let name = ["load", "scrape"].into_iter().find(|name| object.get(name).is_some());
                name.map(|name| format!("{name} of a cluster"))
            }
            _ => None,
        };
        let Some(what) = what else { return Ok(()) };
        let detail = format!("{key}: {what} requires the verb operate; remove it, or add a grant (access.grants)");
        Err(problem(StatusCode::FORBIDDEN, detail))
    }

    /// Parses the body: 400 if it is not JSON, 413 if it has too many values, 422 if it is JSON of another type.
    fn json<T: Body>(&self, hint: &str) -> Result<T, ApiError> {
        if values(&self.body.0) > VALUES_MAX {
            let detail = format!("the body has more than {VALUES_MAX} values; send it in parts");
            return Err(problem(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        serde_json::from_slice(&self.body.0).map_err(|error| {
            let status = if error.is_data() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::BAD_REQUEST };
            problem(status, format!("the body: {error}; {hint}"))
        })
    }
}

/// Returns the number of values and member names of a JSON text, at most one too many per list and object. Parsed, each takes some
/// hundred bytes, and so many times the memory of the text.
fn values(json: &[u8]) -> usize {
    let (mut count, mut is_string, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b'{' | b'[' | b',' | b':' if !is_string => count += 1,
            _ => {}
        }
    }
    count
}

/// The objects of a body.
#[derive(Default)]
pub(super) struct BodyObjects {
    /// Canonical JSON of each.
    pub(super) values: BTreeMap<Key, Vec<u8>>,
    /// JSON pointer to each in the body.
    pub(super) pointers: BTreeMap<Key, String>,
}

/// Returns every valid object of a body, and the errors.
fn all_validated(body: ApplyBody, is_inert: bool, declared: &Declared) -> (BodyObjects, Vec<FieldError>) {
    let ApplyBody { clusters, intents, monitors, names, pools, records, .. } = body;
    let of_kinds = [
        (Kind::Cluster, &clusters),
        (Kind::Monitor, &monitors),
        (Kind::Name, &names),
        (Kind::Pool, &pools),
        (Kind::Records, &records),
    ];
    let of_kinds = of_kinds.into_iter().flat_map(|(kind, objects)| {
        let pointer = move |index| format!("/{}/{index}", section_of(kind));
        objects.iter().enumerate().map(move |(index, body)| (pointer(index), validated(kind, body)))
    });
    let of_intents = intents.iter().enumerate().map(|(index, NewIntent { key, intent })| {
        let result = fairway_intents::validate(key, intent, is_inert, |key| declared.intent(key)).map_err(|errors| {
            let error = |error: fairway_intents::BodyError| FieldError { pointer: error.pointer, detail: error.detail };
            errors.into_iter().map(error).collect()
        });
        (format!("/intents/{index}"), result)
    });
    let (mut objects, mut errors) = (BodyObjects::default(), Vec::new());
    for (at, result) in of_kinds.chain(of_intents) {
        if errors.len() >= ERRORS_MAX {
            let detail = format!("not checked, like the objects after it: there are {} errors before", errors.len());
            errors.push(FieldError { pointer: at, detail });
            return (objects, errors);
        }
        match result {
            Ok((key, value)) => {
                if objects.pointers.contains_key(&key) {
                    errors.push(FieldError { pointer: at, detail: format!("{key} is here twice; keep one") });
                } else {
                    objects.pointers.insert(key.clone(), at);
                    objects.values.insert(key, value);
                }
            }
            Err(own) => {
                errors.extend(own.into_iter().map(|e| FieldError { pointer: format!("{at}{}", e.pointer), ..e }))
            }
        }
    }
    for (key, pointer) in &objects.pointers {
        let parent = fairway_intents::required_parent(key);
        if let Some(parent) = parent.filter(|key| !objects.values.contains_key(key) && declared.get(key).is_none()) {
            let detail = format!("{key}: there is no {} {:?}; create it first", parent.kind().word(), parent.name());
            errors.push(FieldError { pointer: pointer.clone(), detail });
        }
    }
    (objects, errors)
}

/// Returns the key of an object and its canonical JSON, or all its errors.
fn validated(kind: Kind, body: &ObjectBody) -> Result<(Key, Vec<u8>), Vec<FieldError>> {
    let text = serde_json::to_string(&body.spec).expect("a map of JSON values");
    let error = |pointer: &str, detail: String| vec![FieldError { pointer: pointer.to_owned(), detail }];
    if text.len() > VALUE_MAX {
        return Err(error("", format!("the object has {} bytes; the limit is {VALUE_MAX}", text.len())));
    }
    fairway_config::object(section_of(kind), &text).map_err(|errors| {
        let error = |error: fairway_config::ObjectError| FieldError { pointer: error.pointer, detail: error.what };
        errors.into_iter().map(error).collect::<Vec<_>>()
    })?;
    let name = body.spec.get("name").and_then(Value::as_str).unwrap_or_default();
    let key = key(kind, name).ok_or_else(|| error("/name", format!("{name} cannot be the name of an object")))?;
    Ok((key, text.into_bytes()))
}

/// Returns the precondition of `If-Match` or `If-None-Match` (RFC 9110 section 13.1).
fn precondition(headers: &HeaderMap) -> Result<Option<Expect>, ApiError> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default().trim());
    let tag = |text: &str| text.strip_prefix('"')?.strip_suffix('"')?.parse().ok().map(Expect::Revision);
    let expect = match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => return Ok(None),
        (Some("*"), None) => Some(Expect::Present),
        (None, Some("*")) => Some(Expect::Absent),
        (Some(text), None) => Some(tag(text).ok_or_else(|| {
            problem(StatusCode::PRECONDITION_FAILED, "If-Match: no object has this ETag; ETags are digits in quotes")
        })?),
        (Some(_), Some("*")) => {
            let detail = "If-Match requires that the object exists, If-None-Match that it does not; give one of them";
            return Err(problem(StatusCode::PRECONDITION_FAILED, detail));
        }
        _ => None,
    };
    let hint = "give If-Match with one ETag (digits in quotes) or *, or If-None-Match with *";
    expect.map(Some).ok_or_else(|| bad_request(hint))
}

/// Shortest period of monitors of callers without the verb `operate`. It bounds what one target costs this server and the target's owner:
/// one connection per second. After a failure, up to `fall` probes follow faster.
const PERIOD_MIN: Duration = Duration::from_secs(1);
/// Largest body with many objects, in bytes: 10,000 objects of about 1.6 kB.
pub(super) const BODY_MAX: usize = 16 << 20;
/// Largest body with one object, in bytes: as much again for white space.
pub(super) const ONE_MAX: usize = 2 * VALUE_MAX;
/// Maximum number of values of a body: 10,000 objects with 30 values each.
const VALUES_MAX: usize = 300_000;
/// Number of errors after which no further object of a body is checked.
const ERRORS_MAX: usize = 100;
