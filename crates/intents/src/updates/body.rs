//! Bodies of DNS update records: parsing and canonical form. A secret is accepted and never returned.

use std::collections::BTreeMap;

use fairway_model::{
    Secret,
    intent::{DnsUpdateRecord, Intent},
};

use super::{
    PublisherContext,
    mapping::{Provider, Use, is_secret},
    publish_to,
};
use crate::{
    certificates::SecretForm,
    common::{self, LABEL_MAX, metadata},
    error::{BodyError, step},
    fields::{Body, Field, Table, fold},
    json_wire::Json,
    values::{Errors, below, invalid, list, text},
};

/// Fields of a DNS update record. The older body, of `dnsproviders`, has them in the one entry of `dnsProvider`.
pub(crate) static TABLE: Table = Table::of(&[
    common::METADATA,
    &[
        Field::homed("spec.provider", &["dnsprovider"], &["id", "provider"]),
        Field::homed("spec.parameters", &["dnsprovider"], &["externaldnsparameters", "parameters"]),
        Field::homed("spec.bind", &["dnsprovider"], &["clusterselector", "bind"]),
    ],
]);

/// Parses a record. `before` is the object that it replaces, whose secrets it may keep.
pub(crate) fn read(body: &mut Body<'_>, before: Option<&Intent>) -> Option<DnsUpdateRecord> {
    let metadata = metadata(body)?;
    let given = body.needed_text("spec.provider", LABEL_MAX, "\"rfc2136\"").to_ascii_lowercase();
    let provider = match given.as_str() {
        "pdns" => "powerdns".to_owned(),
        "coredns" => "etcd".to_owned(),
        _ => given,
    };
    let before = match before {
        Some(Intent::DnsUpdateRecord(record)) => Some(record),
        _ => None,
    };
    let parameters = body.read("spec.parameters", |json| parameters(json, &provider, before));
    let Parameters { plain, secret } = parameters.unwrap_or_default();
    let bind = body.read("spec.bind", bind).unwrap_or_default();
    let record = DnsUpdateRecord { metadata, provider, parameters: plain, secrets: secret, bind };
    // If the body has errors, a missing parameter may be one that failed to parse.
    if body.is_valid() && !body.is_stored() {
        check(body, &record);
    }
    Some(record)
}

/// Adds the errors that keep a record from running. Each points at its parameter by its name in the body.
fn check(body: &mut Body<'_>, record: &DnsUpdateRecord) {
    let Some(Err(refused)) = publish_to(record, &PublisherContext::any()) else { return };
    let hit = body.found("spec.parameters").next().cloned();
    let above = body.pointer("spec.parameters");
    for BodyError { pointer, detail } in refused.errors {
        let given = hit.as_ref().and_then(|hit| given_pointer(hit.value, &pointer));
        body.error(&format!("{above}{}", given.unwrap_or(pointer)), detail);
    }
}

/// Returns the pointer to a parameter by its name in the body, where dashes may precede it.
fn given_pointer(json: &Json, pointer: &str) -> Option<String> {
    let Json::Map(entries) = json else { return None };
    entries.iter().map(|(key, _)| key).find(|key| step(bare(key)) == pointer).map(|key| step(key))
}

fn bare(key: &str) -> &str {
    key.trim_start_matches('-')
}

/// The parameters of a record.
#[derive(Default, PartialEq)]
struct Parameters {
    plain: BTreeMap<String, String>,
    secret: BTreeMap<String, Secret>,
}

fn parameters(json: &Json, provider: &str, before: Option<&DnsUpdateRecord>) -> Result<Parameters, Errors> {
    let Json::Map(entries) = json else {
        return invalid(format!("{} is not an object; write {{\"rfc2136-host\": \"192.0.2.53\"}}", json.what()));
    };
    if entries.len() > 256 {
        return invalid(format!("has {} parameters, at most 256 are allowed", entries.len()));
    }
    let mut read = Parameters::default();
    let mut errors = Vec::new();
    let mut reused = Vec::new();
    for (key, value) in entries {
        let pointer = step(key);
        let name = bare(key);
        if name.is_empty() || key.len() > 128 {
            errors.push(BodyError::new(pointer, "the name of a parameter has 1 to 128 characters"));
            continue;
        }
        if read.plain.contains_key(name) || read.secret.contains_key(name) {
            errors.push(BodyError::new(pointer, format!("{name} is given twice; keep one")));
            continue;
        }
        if !is_secret(provider, name) {
            match plain(value) {
                // An empty text is the same as no parameter.
                Ok(value) if value.trim().is_empty() => {}
                Ok(value) => _ = read.plain.insert(name.to_owned(), value),
                Err(found) => errors.extend(below(&pointer, found)),
            }
            continue;
        }
        match secret(value, before.and_then(|before| before.secrets.get(name))) {
            Ok(value) if value.expose().trim().is_empty() => {}
            Ok(value) => _ = read.secret.insert(name.to_owned(), value),
            Err(found) => errors.extend(below(&pointer, found)),
        }
        if matches!(value, Json::Map(_)) {
            reused.push(pointer);
        }
    }
    let is_elsewhere = |before: &DnsUpdateRecord| {
        before.provider != provider || address(provider, &before.parameters) != address(provider, &read.plain)
    };
    if before.is_some_and(is_elsewhere) && errors.is_empty() {
        let what = "was given for another address of the provider; give the secret again";
        errors.extend(reused.into_iter().map(|pointer| BodyError::new(pointer, what)));
    }
    if errors.is_empty() { Ok(read) } else { Err(errors) }
}

fn plain(json: &Json) -> Result<String, Errors> {
    match json {
        Json::Bool(bool) => Ok(bool.to_string()),
        other => text(other, VALUE_MAX),
    }
}

/// Parses a secret, or returns the one that is kept. No error shows its value.
fn secret(json: &Json, kept: Option<&Secret>) -> Result<Secret, Errors> {
    if let Json::Map(entries) = json {
        return match (&entries[..], kept) {
            ([(word, Json::Bool(true))], Some(kept)) if word == KEPT => Ok(kept.clone()),
            ([(word, Json::Bool(true))], None) if word == KEPT => {
                invalid("no secret is stored under this name; give the secret")
            }
            _ => invalid("give the secret, or {\"kept\": true} to keep the stored one"),
        };
    }
    let what = || format!("is not a text of at most {VALUE_MAX} characters; give one");
    text(json, VALUE_MAX).map(Secret::new).or_else(|_| invalid(what()))
}

/// Returns the parameters that are part of the provider's address, by their full names.
fn address<'a>(provider: &str, parameters: &'a BTreeMap<String, String>) -> BTreeMap<&'static str, &'a str> {
    let Some(provider) = Provider::of(provider) else { return BTreeMap::new() };
    let address = |(given, value): (&String, &'a String)| {
        let (name, is) = provider.parameter(given)?;
        (is == Use::Address).then_some((name, value.as_str()))
    };
    parameters.iter().filter_map(address).collect()
}

/// Parses `[{"cluster": "p1+c1"}, {"logicalCloud": "lc1"}]`, or one such object with several keys.
fn bind(json: &Json) -> Result<Vec<(String, String)>, Errors> {
    let pairs = |json: &Json| match json {
        Json::Map(entries) => entries.iter().map(|(key, value)| bound_to(key, value)).collect::<Result<Vec<_>, _>>(),
        other => invalid(format!("{} is not a binding; write {{\"cluster\": \"eu1\"}}", other.what())),
    };
    if matches!(json, Json::Map(_)) {
        return pairs(json);
    }
    Ok(list(json, 256, pairs)?.into_iter().flatten().collect())
}

fn bound_to(key: &str, value: &Json) -> Result<(String, String), Errors> {
    let kind = match &*fold(key) {
        "cluster" | "edge" => "cluster",
        "logicalcloud" => "logicalCloud",
        _ => return invalid(format!("{key:?} is not a kind of binding; use cluster or logicalCloud")),
    };
    Ok((kind.to_owned(), text(value, LABEL_MAX)?))
}

/// Returns the canonical form of `spec`. Of a secret only its presence is shown; a short one could be guessed from a hash.
pub(crate) fn write(record: &DnsUpdateRecord, keys: SecretForm) -> Json {
    let plain = record.parameters.iter().map(|(key, value)| (key, Json::from(value.as_str())));
    let secret = record.secrets.iter().map(|(key, secret)| match keys {
        SecretForm::Plain => (key, Json::from(secret.expose())),
        SecretForm::Hashed => (key, Json::map([(KEPT, true.into())])),
    });
    let parameters: BTreeMap<&String, Json> = plain.chain(secret).collect();
    let parameters = parameters.into_iter().map(|(key, value)| (key.clone(), value));
    let bind = record.bind.iter().map(|(key, value)| Json::map([(key, value.as_str().into())]));
    Json::map([
        ("provider", record.provider.as_str().into()),
        ("parameters", Json::Map(parameters.collect())),
        ("bind", Json::List(bind.collect())),
    ])
}

/// The key of the object that is shown in place of a secret, and that keeps it in a PUT.
const KEPT: &str = "kept";
/// Most characters of a value: a chain of certificates.
const VALUE_MAX: usize = 16_384;
