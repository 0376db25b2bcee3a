//! What a write asks for: who wants it and why, what it expects to find, and the objects of its body with all that is wrong with them.

use std::collections::BTreeMap;

use axum::{
    RequestExt, RequestPartsExt,
    body::Bytes,
    extract::{FromRequest, Query, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header},
};
use fairway_model::Name;
use serde_json::Value;

use super::super::{
    problem::{Flaw, Refusal, flawed, problem},
    routes::{Caller, Site},
};
use crate::once::Given;
use fairway_api_types::{
    intents_wire::NewIntent,
    objects_wire::{ApplyBody, ObjectBody, WriteParameters},
    state_wire::Body,
};
use fairway_control::declared::{Declared, key_name, section};
use fairway_store::objects::{Author, Expect, Key, Kind, VALUE_MAX};

/// A write, as it was asked for.
pub(super) struct Asked {
    /// Who wants it, and why.
    pub(super) by: Author,
    /// What must be there; none where nothing was said of it.
    pub(super) expect: Option<Expect>,
    /// Whether to tell only what would come of it.
    pub(super) dry_run: bool,
    /// Whether what is not named goes.
    pub(super) prune: bool,
    /// By which it is known when it is sent again.
    pub(super) given: Option<Given>,
    body: Bytes,
}

impl FromRequest<Site> for Asked {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &Site) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        let parameters = parts.extract::<Query<WriteParameters>>().await;
        let Query(parameters) = parameters.map_err(|error| problem(StatusCode::BAD_REQUEST, error.body_text()))?;
        let WriteParameters { dry_run, prune, reason } = parameters;
        if reason.len() > REASON_MAX || reason.chars().any(char::is_control) {
            let what = format!("reason: give one line of at most {REASON_MAX} bytes");
            return Err(problem(StatusCode::BAD_REQUEST, what).into());
        }
        let who = parts.extensions.get::<Caller>().map(|caller| caller.0.clone()).unwrap_or_default();
        let expect = expected(&parts.headers)?;
        let (headers, what) = (parts.headers.clone(), format!("{} {}", parts.method, parts.uri));
        let body = Request::from_parts(parts, body).extract::<Bytes, _>().await;
        let body =
            body.map_err(|error| problem(error.status(), format!("{}; the limit is 16 MiB", error.body_text())))?;
        let by = Author::new(who, reason);
        let given = Given::read(&headers, &by, &[what.as_bytes(), format!("{expect:?}").as_bytes(), &body])?;
        Ok(Self { by, expect, dry_run, prune, given, body })
    }
}

impl Asked {
    /// The object that the body declares; under this name, where it has one already.
    pub(super) fn object(&self, kind: Kind, name: Option<&str>) -> Result<(Key, Vec<u8>), Refusal> {
        let body: ObjectBody = self.json("one object, like {\"name\": \"…\"}")?;
        let faulty = |flaws| flawed(StatusCode::UNPROCESSABLE_ENTITY, "the object is invalid", flaws);
        let (own, value) = sound(kind, &body).map_err(faulty)?;
        match name.map(|name| key(kind, name)) {
            Some(asked) if asked.as_ref() != Some(&own) => {
                let asked = name.unwrap_or_default();
                let what = format!("the name in the body is {}, but {asked} in the path; make them equal", own.name());
                Err(problem(StatusCode::BAD_REQUEST, what).into())
            }
            _ => Ok((own, value)),
        }
    }

    /// All objects that the body declares beside those that are there, by their keys.
    pub(super) fn objects(&self, declared: &Declared) -> Result<BTreeMap<Key, Vec<u8>>, Refusal> {
        let body: ApplyBody = self.json("objects by section, like {\"pools\": [{\"name\": \"…\"}]}")?;
        if let Some(version) = body.version.filter(|version| *version != 1) {
            let what = format!("version {version} is not supported; write version 1, or leave it out");
            return Err(problem(StatusCode::UNPROCESSABLE_ENTITY, what).into());
        }
        let (wanted, flaws) = all_sound(body, declared);
        match flaws.is_empty() {
            true => Ok(wanted),
            false => {
                Err(flawed(StatusCode::UNPROCESSABLE_ENTITY, "nothing was changed: an object is invalid", flaws).into())
            }
        }
    }

    /// The body; text that is no JSON is a bad request, JSON that means nothing is told as such.
    fn json<T: Body>(&self, what: &str) -> Result<T, Refusal> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let status = if error.is_data() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::BAD_REQUEST };
            problem(status, format!("the body: {error}; give {what}")).into()
        })
    }
}

/// Every object of a body by its key, and every flaw.
fn all_sound(body: ApplyBody, declared: &Declared) -> (BTreeMap<Key, Vec<u8>>, Vec<Flaw>) {
    let (mut wanted, mut flaws) = (BTreeMap::new(), Vec::new());
    let ApplyBody { clusters, intents, monitors, names, pools, records, .. } = body;
    let mut bodies = Vec::new();
    for (kind, of) in [
        (Kind::Cluster, clusters),
        (Kind::Monitor, monitors),
        (Kind::Name, names),
        (Kind::Pool, pools),
        (Kind::Records, records),
    ] {
        let place = |index| format!("/{}/{index}", section(kind).unwrap_or_default());
        bodies.extend(of.iter().enumerate().map(|(index, body)| (place(index), sound(kind, body))));
    }
    let intent = |(index, NewIntent { key, intent }): (usize, &NewIntent)| {
        (format!("/intents/{index}"), fairway_intents::sound(key, intent, |key| declared.intent(key)))
    };
    bodies.extend(intents.iter().enumerate().map(intent));
    for (at, body) in bodies {
        match body {
            Ok((key, value)) => {
                let name = key.to_string();
                if wanted.insert(key, value).is_some() {
                    flaws.push(Flaw { pointer: at, detail: format!("{name} is here twice; keep one") });
                }
            }
            Err(own) => flaws.extend(own.into_iter().map(|f| Flaw { pointer: format!("{at}{}", f.pointer), ..f })),
        }
    }
    let is_there = |key: &Key| wanted.contains_key(key) || declared.get(key).is_some();
    let alone = wanted
        .keys()
        .filter_map(|key| fairway_intents::lacks(key).filter(|above| !is_there(above)).map(|above| (key, above)));
    flaws.extend(alone.map(|(key, above)| {
        let detail = format!("{key}: there is no {} {:?}; create it first", above.kind().word(), above.name());
        Flaw { pointer: "/intents".to_owned(), detail }
    }));
    (wanted, flaws)
}

/// The key of an object and its canonical octets, or everything that is wrong with it.
fn sound(kind: Kind, body: &ObjectBody) -> Result<(Key, Vec<u8>), Vec<Flaw>> {
    let text = Value::Object(body.spec.clone()).to_string();
    let flaw = |pointer: &str, detail: String| vec![Flaw { pointer: pointer.to_owned(), detail }];
    if text.len() > VALUE_MAX {
        return Err(flaw("", format!("the object has {} bytes; the limit is {VALUE_MAX}", text.len())));
    }
    fairway_config::object(section(kind).unwrap_or_default(), &text).map_err(|faults| {
        faults.into_iter().map(|fault| Flaw { pointer: fault.pointer, detail: fault.what }).collect::<Vec<_>>()
    })?;
    let name = body.spec.get("name").and_then(Value::as_str).unwrap_or_default();
    let key = key(kind, name).ok_or_else(|| flaw("/name", format!("{name} cannot be the name of an object")))?;
    Ok((key, text.into_bytes()))
}

/// The key of an object by its name as people write it.
pub(super) fn key(kind: Kind, name: &str) -> Option<Key> {
    let name = match kind {
        Kind::Name | Kind::Records => key_name(&name.parse::<Name>().ok()?),
        _ => name.to_owned(),
    };
    Key::new(kind, &[&name]).ok()
}

/// What `If-Match` and `If-None-Match` expect (RFC 9110 section 13.1).
fn expected(headers: &HeaderMap) -> Result<Option<Expect>, Refusal> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default().trim());
    let tag = |text: &str| text.strip_prefix('"')?.strip_suffix('"')?.parse().ok().map(Expect::Revision);
    let expect = match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => return Ok(None),
        (Some("*"), None) => Some(Expect::Present),
        (None, Some("*")) => Some(Expect::Absent),
        (Some(text), None) => tag(text),
        _ => None,
    };
    let what = "give If-Match with one ETag (digits in quotes) or *, or If-None-Match with *";
    expect.map(Some).ok_or_else(|| problem(StatusCode::BAD_REQUEST, what).into())
}

/// Most octets of a body: 10,000 objects of a kB.
pub(super) const BODY_MAX: usize = 16 << 20;
/// Most octets of a reason.
const REASON_MAX: usize = 1_024;
