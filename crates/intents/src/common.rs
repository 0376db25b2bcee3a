//! Fields that bodies of several kinds have: metadata, labels, protocols.

use fairway_model::{
    Name,
    intent::{IntentName, Metadata, Protocol},
};
use serde_json::json;

use super::{
    fields::{Body, homed},
    schema::NAME,
    values::{Custom, Text, Whole, Words, invalid, text},
};

/// Visits the metadata. Responses also have the name in the body itself; sets have name and description there only.
pub(super) fn metadata(body: &mut Body<'_>, metadata: &mut Metadata) {
    body.required(homed("metadata.name", &[""], &["name"]), &INTENT_NAME, &mut metadata.name, "\"shop\"");
    body.field(homed("metadata.description", &[""], &["description"]), &Text(1_024), &mut metadata.description);
    body.field("metadata.userData1", &Text(512), &mut metadata.user_data1);
    body.field("metadata.userData2", &Text(512), &mut metadata.user_data2);
}

/// The name of an object.
pub(super) const INTENT_NAME: Custom<IntentName> = Custom {
    parse: |json| IntentName::new(&text(json, 1_024)?).or_else(|error| invalid(error.to_string())),
    write: |name| name.as_str().into(),
    schema: || json!({"type": "string", "pattern": NAME}),
};

/// The label of a workload, `key=value`.
pub(super) const LABEL: Custom<String> = Custom {
    parse: |json| {
        let label = text(json, LABEL_MAX)?;
        match label.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() && !value.contains('=') => Ok(label),
            _ => invalid(format!("{label:?} is not a label; write it like app=shop")),
        }
    },
    write: |label| label.as_str().into(),
    schema: || json!({"type": "string", "maxLength": LABEL_MAX, "examples": ["app=shop"]}),
};

/// A domain name, a label of one, or an address.
pub(super) const DOMAIN: Custom<String> = Custom {
    parse: |json| {
        let text = text(json, 255)?;
        match Name::without_control(&text) {
            Ok(_) if !text.contains(char::is_whitespace) => Ok(text),
            Ok(_) => invalid(format!("{text:?} has spaces; write a domain name, like shop.gslb.example")),
            Err(error) => invalid(error.to_string()),
        }
    },
    write: |name| name.as_str().into(),
    schema: || json!({"type": "string", "maxLength": 255}),
};

/// An HTTP method, in capitals.
pub(super) const METHOD: Custom<String> = Custom {
    parse: |json| {
        let method = text(json, 32)?.to_ascii_uppercase();
        let plain = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic());
        if plain { Ok(method) } else { invalid(format!("{method:?} is not an HTTP method; write it like GET")) }
    },
    write: |method| method.as_str().into(),
    schema: || json!({"type": "string", "pattern": "^[A-Za-z]{1,32}$", "examples": ["GET"]}),
};

/// The protocol of a service.
pub(super) const PROTOCOL: Words<Protocol> = Words(&[
    ("HTTP", Protocol::Http),
    ("HTTP2", Protocol::Http2),
    ("HTTPS", Protocol::Https),
    ("GRPC", Protocol::Grpc),
    ("TCP", Protocol::Tcp),
    ("UDP", Protocol::Udp),
]);
/// A port.
pub(super) const PORT: Whole<u16> = Whole(1..=65_535);
/// The name of an app, a service, a namespace or a user.
pub(super) const WORD: Text = Text(LABEL_MAX);
/// Maximum length of names of apps, services, namespaces and labels.
const LABEL_MAX: usize = 255;
