//! Bodies of records of where to publish: reading and canonical form. What is secret goes in and never comes out.

use std::collections::BTreeMap;

use fairway_model::{
    Secret,
    intent::{DnsUpdateRecord, Intent},
};
use fairway_providers::spoken::{Spoken, Use, is_secret};

use super::{Site, publish_to};
use crate::{
    certificates::Keys,
    common::{self, LABEL_MAX, metadata},
    fault::{Fault, step},
    fields::{Body, Field, Table, fold},
    json_wire::Json,
    values::{Flaws, below, flaw, list, text},
};

/// Fields of a record of where to publish. The older body, of `dnsproviders`, has them in the one entry of `dnsProvider`.
pub(crate) static TABLE: Table = Table::of(&[
    common::METADATA,
    &[
        Field::homed("spec.provider", &["dnsprovider"], &["id", "provider"]),
        Field::homed("spec.parameters", &["dnsprovider"], &["externaldnsparameters", "parameters"]),
        Field::homed("spec.bind", &["dnsprovider"], &["clusterselector", "bind"]),
    ],
]);

/// Reads a record. `before` is the object that it takes the place of, whose secrets it may keep.
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
    // What is missing in a body that cannot be read may be what could not be read.
    if body.is_sound() && !body.is_kept() {
        check(body, &record);
    }
    Some(record)
}

/// Tells what keeps a record from being run here, each flaw at its parameter as the body calls it.
fn check(body: &mut Body<'_>, record: &DnsUpdateRecord) {
    let Some(Err(refused)) = publish_to(record, &Site::any()) else { return };
    let hit = body.hits("spec.parameters").next().cloned();
    let above = body.pointer("spec.parameters");
    for Fault { pointer, detail } in refused.faults {
        let called = hit.as_ref().and_then(|hit| called(hit.value, &pointer));
        body.fault(&format!("{above}{}", called.unwrap_or(pointer)), detail);
    }
}

/// The pointer to a parameter as the body itself calls it: there may be dashes before it.
fn called(json: &Json, pointer: &str) -> Option<String> {
    let Json::Map(entries) = json else { return None };
    entries.iter().map(|(key, _)| key).find(|key| step(bare(key)) == pointer).map(|key| step(key))
}

fn bare(key: &str) -> &str {
    key.trim_start_matches('-')
}

/// What a record says to its provider.
#[derive(Default, PartialEq)]
struct Parameters {
    plain: BTreeMap<String, String>,
    secret: BTreeMap<String, Secret>,
}

fn parameters(json: &Json, provider: &str, before: Option<&DnsUpdateRecord>) -> Result<Parameters, Flaws> {
    let Json::Map(entries) = json else {
        return flaw(format!("{} is no object; write {{\"rfc2136-host\": \"192.0.2.53\"}}", json.what()));
    };
    if entries.len() > 256 {
        return flaw(format!("there are {} parameters; 256 is the most", entries.len()));
    }
    let (mut read, mut flaws, mut reused) = (Parameters::default(), Vec::new(), Vec::new());
    for (key, value) in entries {
        let (way, name) = (step(key), bare(key));
        if name.is_empty() || key.len() > 128 {
            flaws.push(Fault::new(way, "is no parameter; give 1 to 128 characters"));
            continue;
        }
        if read.plain.contains_key(name) || read.secret.contains_key(name) {
            flaws.push(Fault::new(way, format!("{name} stands here twice; keep one")));
            continue;
        }
        if !is_secret(provider, name) {
            match plain(value) {
                // An empty text says nothing.
                Ok(value) if value.trim().is_empty() => {}
                Ok(value) => _ = read.plain.insert(name.to_owned(), value),
                Err(found) => flaws.extend(below(&way, found)),
            }
            continue;
        }
        match secret(value, before.and_then(|before| before.secrets.get(name))) {
            Ok(value) if value.expose().trim().is_empty() => {}
            Ok(value) => _ = read.secret.insert(name.to_owned(), value),
            Err(found) => flaws.extend(below(&way, found)),
        }
        if matches!(value, Json::Map(_)) {
            reused.push(way);
        }
    }
    let is_elsewhere = |before: &DnsUpdateRecord| {
        before.provider != provider || place(provider, &before.parameters) != place(provider, &read.plain)
    };
    if before.is_some_and(is_elsewhere) && flaws.is_empty() {
        let what = "is kept for where it went before, and this record goes elsewhere; give the secret itself";
        flaws.extend(reused.into_iter().map(|way| Fault::new(way, what)));
    }
    if flaws.is_empty() { Ok(read) } else { Err(flaws) }
}

fn plain(json: &Json) -> Result<String, Flaws> {
    match json {
        Json::Bool(bool) => Ok(bool.to_string()),
        other => text(other, VALUE_MAX),
    }
}

/// A secret, or the one that is kept. What it says goes into no message.
fn secret(json: &Json, kept: Option<&Secret>) -> Result<Secret, Flaws> {
    if let Json::Map(entries) = json {
        return match (&entries[..], kept) {
            ([(word, Json::Bool(true))], Some(kept)) if word == KEPT => Ok(kept.clone()),
            ([(word, Json::Bool(true))], None) if word == KEPT => {
                flaw("none is kept under this name; give the secret itself")
            }
            _ => flaw("give the secret itself, or {\"kept\": true} for the one that is kept"),
        };
    }
    let what = || format!("this is no text of at most {VALUE_MAX} characters; give one");
    text(json, VALUE_MAX).map(Secret::new).or_else(|_| flaw(what()))
}

/// Where a provider is, as far as its parameters tell.
fn place<'a>(provider: &str, parameters: &'a BTreeMap<String, String>) -> BTreeMap<&'static str, &'a str> {
    let Some(spoken) = Spoken::of(provider) else { return BTreeMap::new() };
    let place = |(called, value): (&String, &'a String)| {
        let (flag, is) = spoken.flag(called)?;
        (is == Use::Place).then_some((flag, value.as_str()))
    };
    parameters.iter().filter_map(place).collect()
}

/// `[{"cluster": "p1+c1"}, {"logicalCloud": "lc1"}]`, or one such object with several keys.
fn bind(json: &Json) -> Result<Vec<(String, String)>, Flaws> {
    let pairs = |json: &Json| match json {
        Json::Map(entries) => entries.iter().map(|(key, value)| bound_to(key, value)).collect::<Result<Vec<_>, _>>(),
        other => flaw(format!("{} binds to nothing; write {{\"cluster\": \"eu1\"}}", other.what())),
    };
    if matches!(json, Json::Map(_)) {
        return pairs(json);
    }
    Ok(list(json, 256, pairs)?.into_iter().flatten().collect())
}

fn bound_to(key: &str, value: &Json) -> Result<(String, String), Flaws> {
    let kind = match &*fold(key) {
        "cluster" | "edge" => "cluster",
        "logicalcloud" => "logicalCloud",
        _ => return flaw(format!("{key:?} is nothing to bind to; it is cluster or logicalCloud")),
    };
    Ok((kind.to_owned(), text(value, LABEL_MAX)?))
}

/// The canonical form of its `spec`. That a secret is kept is shown, and nothing of it: from a hash a short one could be guessed.
pub(crate) fn write(record: &DnsUpdateRecord, keys: Keys) -> Json {
    let plain = record.parameters.iter().map(|(key, value)| (key, Json::from(value.as_str())));
    let secret = record.secrets.iter().map(|(key, secret)| match keys {
        Keys::Kept => (key, Json::from(secret.expose())),
        Keys::Shown => (key, Json::map([(KEPT, true.into())])),
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

/// What stands for a secret that is kept.
const KEPT: &str = "kept";
/// Most characters of a value: a chain of certificates.
const VALUE_MAX: usize = 16_384;
