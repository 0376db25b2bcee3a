//! Certificates in bodies. Private keys are write-only: responses have the SHA-256 of the key, which stands for the key if the same body is
//! sent again.

use data_encoding::HEXLOWER;
use fairway_model::{
    Secret,
    intent::{Certificates, Intent},
};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::{
    fields::{Body, homed},
    json_wire::Json,
    values::{Custom, Errors, Form, invalid},
};

/// Places of certificates. Bodies of the wiki have them in `spec` itself.
const HOMES: &[&str] = &["spec", "spec.external.externalcerts", "spec.externalcerts"];

/// Visits certificates. The names of the certificate and of its key depend on whose they are.
pub(super) fn fields(
    body: &mut Body<'_>,
    certificate: &'static [&'static str],
    key: &'static [&'static str],
    certificates: &mut Certificates,
) {
    let form = PrivateKey { stored: body.before.and_then(Intent::private_key), is_stored: body.is_stored };
    body.field(homed("spec.certificates.service", HOMES, certificate), &PEM, &mut certificates.service);
    body.optional(homed("spec.certificates.privateKey", HOMES, key), &form, &mut certificates.private_key);
    body.field(homed("spec.certificates.ca", HOMES, &["cacertificate"]), &PEM, &mut certificates.ca);
}

/// A private key, or the hash of the key of the object that is replaced.
struct PrivateKey<'k> {
    stored: Option<&'k Secret>,
    is_stored: bool,
}

impl Form for PrivateKey<'_> {
    type Value = Secret;

    fn parse(&self, json: &Json) -> Result<Secret, Errors> {
        key(json, self.stored)
    }

    fn write(&self, key: &Secret) -> Json {
        if self.is_stored {
            return key.expose().into();
        }
        Json::map([("sha256", sha256(key.expose()).into())])
    }

    fn schema(&self) -> Value {
        let hash = json!({"type": "object", "properties": {"sha256": {"type": "string"}}, "required": ["sha256"],
            "description": "The hash of the stored key, which responses have instead of the key."});
        json!({"anyOf": [PEM.schema(), hash]})
    }
}

fn key(json: &Json, stored: Option<&Secret>) -> Result<Secret, Errors> {
    if let Json::Map(entries) = json {
        let [(name, Json::Text(hash))] = &entries[..] else {
            return invalid("write the key (PEM), or the \"sha256\" of the stored key");
        };
        let same = |key: &&Secret| name == "sha256" && sha256(key.expose()).eq_ignore_ascii_case(hash);
        return stored
            .filter(same)
            .cloned()
            .map_or_else(|| invalid("no stored key has this hash; write the key itself"), Ok);
    }
    // The value is in no error: it may be a key.
    pem(json).map(Secret::new).or_else(|_| invalid("not a key in PEM, or PEM in base64; write one of at most 64 KiB"))
}

/// A certificate, or several, in PEM or base64.
const PEM: Custom<String> = Custom {
    parse: pem,
    write: |pem| pem.as_str().into(),
    schema: || json!({"type": "string", "maxLength": 65_536, "description": "PEM, or PEM in base64."}),
};

/// Parses PEM (RFC 7468), or what may be PEM in base64.
fn pem(json: &Json) -> Result<String, Errors> {
    let what = "write a certificate in PEM, or PEM in base64, of at most 64 KiB";
    let Json::Text(text) = json else { return invalid(format!("{} is not a text; {what}", json.what())) };
    let base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_\r\n".contains(&byte);
    let fits = text.contains("-----BEGIN ") || text.bytes().all(base64);
    if fits && text.len() <= 65_536 { Ok(text.clone()) } else { invalid(format!("not a certificate; {what}")) }
}

/// Returns the SHA-256 of a text in hexadecimal.
pub(super) fn sha256(text: &str) -> String {
    HEXLOWER.encode(digest(&SHA256, text.as_bytes()).as_ref())
}
