//! Bodies of DNS update records: parsing and canonical form. A secret is accepted and never returned.

use std::collections::BTreeMap;

use fairway_model::{
    Secret,
    intent::{DnsUpdateRecord, IntentSpec, ProviderParameter},
};
use serde_json::{Value, json};

use super::{
    PublisherContext,
    mapping::{Provider, Use, is_secret},
    publish_to,
};
use crate::{
    common::WORD,
    error::{BodyError, step},
    fields::{Body, fold, homed},
    json_wire::Json,
    values::{Custom, Errors, Form, below, invalid, list, text},
};

/// Visits a DNS update record. The older body, of `dnsproviders`, has its fields in the one entry of `dnsProvider`.
pub(crate) fn fields(body: &mut Body<'_>, record: &mut DnsUpdateRecord) {
    let in_provider = |path, names| homed(path, &["dnsprovider"], names);
    body.required(in_provider("spec.provider", &["id", "provider"]), &WORD, &mut record.provider, "\"rfc2136\"");
    record.provider = match &*record.provider.to_ascii_lowercase() {
        "pdns" => "powerdns".to_owned(),
        "coredns" => "etcd".to_owned(),
        given => given.to_owned(),
    };
    let before = match body.before.map(|before| &before.spec) {
        Some(IntentSpec::DnsUpdateRecord(record)) => Some(record),
        _ => None,
    };
    let form = Parameters { provider: &record.provider, before, is_stored: body.is_stored };
    let parameters = in_provider("spec.parameters", &["externaldnsparameters", "parameters"]);
    body.field(parameters, &form, &mut record.parameters);
    body.field(in_provider("spec.bind", &["clusterselector", "bind"]), &BIND, &mut record.bind);
    // If the body has errors, a missing parameter may be one that failed to parse.
    if body.is_request() && body.is_valid() {
        check(body, record);
    }
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

/// The parameters of a record, by their names without dashes.
struct Parameters<'r> {
    provider: &'r str,
    /// The record that is replaced.
    before: Option<&'r DnsUpdateRecord>,
    is_stored: bool,
}

impl Form for Parameters<'_> {
    type Value = BTreeMap<String, ProviderParameter>;

    fn parse(&self, json: &Json) -> Result<Self::Value, Errors> {
        let Json::Map(entries) = json else {
            return invalid(format!("{} is not an object; write {{\"rfc2136-host\": \"192.0.2.53\"}}", json.what()));
        };
        if entries.len() > 256 {
            return invalid(format!("has {} parameters, at most 256 are allowed", entries.len()));
        }
        let mut parameters = BTreeMap::new();
        let mut errors = Vec::new();
        for (key, value) in entries {
            match self.parse_one(bare(key), value) {
                // No secret. A plain parameter without a value is a flag, which is kept.
                Ok(ProviderParameter::Secret(secret)) if secret.expose().trim().is_empty() => {}
                Ok(_) if parameters.contains_key(bare(key)) => {
                    errors.push(BodyError::new(step(key), format!("{} is given twice; keep one", bare(key))));
                }
                Ok(parameter) => _ = parameters.insert(bare(key).to_owned(), parameter),
                Err(found) => errors.extend(below(&step(key), found)),
            }
        }
        if errors.is_empty() && self.is_elsewhere(&parameters) {
            let what = "was given for another address of the provider; give the secret again";
            let reused = entries.iter().filter(|(_, value)| matches!(value, Json::Map(_)));
            errors.extend(reused.map(|(key, _)| BodyError::new(step(key), what)));
        }
        if errors.is_empty() { Ok(parameters) } else { Err(errors) }
    }

    /// Returns the canonical form. Of a secret only its presence is shown; a short one could be guessed from a hash.
    fn write(&self, parameters: &Self::Value) -> Json {
        let entries = parameters.iter().map(|(name, parameter)| match (parameter, self.is_stored) {
            (ProviderParameter::Secret(_), false) => (name.clone(), Json::map([(KEPT, true.into())])),
            (parameter, _) => (name.clone(), parameter.expose().into()),
        });
        Json::Map(entries.collect())
    }

    fn schema(&self) -> Value {
        let kept = json!({"type": "object", "properties": {KEPT: {"const": true}}, "required": [KEPT],
            "description": "A stored secret, which responses have instead of the secret."});
        let value = json!({"anyOf": [{"type": "string", "maxLength": VALUE_MAX}, {"type": "number"}, {"type": "boolean"}, kept]});
        json!({"type": "object", "maxProperties": 256, "additionalProperties": value})
    }
}

impl Parameters<'_> {
    fn parse_one(&self, name: &str, json: &Json) -> Result<ProviderParameter, Errors> {
        if name.is_empty() || name.len() > 128 {
            return invalid("the name of a parameter has 1 to 128 characters");
        }
        if !is_secret(self.provider, name) {
            return plain(json).map(ProviderParameter::Plain);
        }
        let kept = self.before.and_then(|before| before.parameters.get(name));
        let kept = kept.filter(|kept| matches!(kept, ProviderParameter::Secret(_)));
        secret(json, kept)
    }

    /// True if the record that is replaced is one of another provider, or of another address of it.
    fn is_elsewhere(&self, parameters: &BTreeMap<String, ProviderParameter>) -> bool {
        self.before.is_some_and(|before| {
            let addresses = [&before.parameters, parameters].map(|parameters| address(self.provider, parameters));
            before.provider != self.provider || addresses[0] != addresses[1]
        })
    }
}

fn plain(json: &Json) -> Result<String, Errors> {
    match json {
        Json::Bool(bool) => Ok(bool.to_string()),
        Json::Number(number) => Ok(number.to_string()),
        other => text(other, VALUE_MAX),
    }
}

/// Parses a secret, or returns the one that is kept. No error shows its value.
fn secret(json: &Json, kept: Option<&ProviderParameter>) -> Result<ProviderParameter, Errors> {
    if let Json::Map(entries) = json {
        return match (&entries[..], kept) {
            ([(word, Json::Bool(true))], Some(kept)) if word == KEPT => Ok(kept.clone()),
            ([(word, Json::Bool(true))], None) if word == KEPT => {
                invalid("no secret is stored under this name; give the secret")
            }
            _ => invalid("give the secret, or {\"kept\": true} to keep the stored one"),
        };
    }
    let text = text(json, VALUE_MAX);
    text.map(|text| ProviderParameter::Secret(Secret::new(text)))
        .or_else(|_| invalid(format!("is not a text of at most {VALUE_MAX} characters; give one")))
}

/// Returns the parameters that are part of the provider's address, by their full names.
fn address<'a>(
    provider: &str,
    parameters: &'a BTreeMap<String, ProviderParameter>,
) -> BTreeMap<&'static str, &'a ProviderParameter> {
    let Some(provider) = Provider::of(provider) else { return BTreeMap::new() };
    let address = |(given, value): (&String, &'a ProviderParameter)| {
        let (name, is) = provider.parameter(given)?;
        (is == Use::Address).then_some((name, value))
    };
    parameters.iter().filter_map(address).collect()
}

const BIND: Custom<Vec<(String, String)>> = Custom {
    parse: bind,
    write: |bind| {
        let bind = bind.iter().map(|(key, value)| Json::map([(key, value.as_str().into())]));
        Json::List(bind.collect())
    },
    schema: || {
        let names = json!({"cluster": {"type": "string"}, "logicalCloud": {"type": "string"}});
        json!({"type": "array", "maxItems": 256, "items": {"type": "object", "properties": names}})
    },
};

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
    Ok((kind.to_owned(), WORD.parse(value)?))
}

/// The key of the object that is shown in place of a secret, and that keeps it in a PUT.
const KEPT: &str = "kept";
/// Maximum number of characters of a value: a chain of certificates.
const VALUE_MAX: usize = 16_384;
