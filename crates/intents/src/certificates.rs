//! Certificates in bodies. Private keys are write-only: responses have the SHA-256 of the key, which stands for the key if the same body is
//! sent again.

use data_encoding::HEXLOWER;
use fairway_model::{Secret, intent::Certificates};
use ring::digest::{SHA256, digest};

use super::{
    fields::{Body, Field},
    json_wire::Json,
    values::{Errors, invalid},
};

/// Places of certificates. Bodies of the wiki have them in `spec` itself.
const HOMES: &[&str] = &["spec", "spec.external.externalcerts", "spec.externalcerts"];

/// Certificates of an inbound service.
pub(super) const SERVICE: &[Field] = &[
    Field::homed("spec.certificates.service", HOMES, &["servicecertificate"]),
    Field::homed("spec.certificates.privateKey", HOMES, &["serviceprivatekey"]),
    Field::homed("spec.certificates.ca", HOMES, &["cacertificate"]),
];

/// Client certificates for an outbound server.
pub(super) const CLIENT: &[Field] = &[
    Field::homed("spec.certificates.service", HOMES, &["clientcertificate"]),
    Field::homed("spec.certificates.privateKey", HOMES, &["clientprivatekey"]),
    Field::homed("spec.certificates.ca", HOMES, &["cacertificate"]),
];

/// Form of a private key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretForm {
    /// The key itself, for the store.
    Plain,
    /// Its SHA-256, for responses.
    Hashed,
}

/// Parses certificates. `stored` is the key of the object that is replaced.
pub(super) fn read(body: &mut Body<'_>, stored: Option<&Secret>) -> Certificates {
    Certificates {
        service: body.read("spec.certificates.service", pem).unwrap_or_default(),
        private_key: body.read("spec.certificates.privateKey", |json| key(json, stored)),
        ca: body.read("spec.certificates.ca", pem).unwrap_or_default(),
    }
}

/// Returns the canonical form.
pub(super) fn write(certificates: &Certificates, form: SecretForm) -> Json {
    let key = certificates.private_key.as_ref().map(|key| match form {
        SecretForm::Plain => Json::from(key.expose()),
        SecretForm::Hashed => Json::map([("sha256", sha256(key.expose()).into())]),
    });
    Json::map([
        ("service", certificates.service.as_str().into()),
        ("privateKey", key.into()),
        ("ca", certificates.ca.as_str().into()),
    ])
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
