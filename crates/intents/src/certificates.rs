//! Certificates in bodies. A private key goes in and never comes out: what is shown is its SHA-256, which stands for it when the
//! same body is sent again.

use data_encoding::HEXLOWER;
use fairway_model::{Secret, intent::Certificates};
use ring::digest::{SHA256, digest};

use super::{
    fields::{Body, Field},
    json_wire::Json,
    values::{Flaws, flaw},
};

/// Places where certificates stand; the wiki's bodies have them in `spec` itself.
const HOMES: &[&str] = &["spec", "spec.external.externalcerts", "spec.externalcerts"];

/// Certificates of an inbound service.
pub(super) const SERVICE: &[Field] = &[
    Field::homed("spec.certificates.service", HOMES, &["servicecertificate"]),
    Field::homed("spec.certificates.privateKey", HOMES, &["serviceprivatekey"]),
    Field::homed("spec.certificates.ca", HOMES, &["cacertificate"]),
];

/// Certificates that clients show to an outbound server.
pub(super) const CLIENT: &[Field] = &[
    Field::homed("spec.certificates.service", HOMES, &["clientcertificate"]),
    Field::homed("spec.certificates.privateKey", HOMES, &["clientprivatekey"]),
    Field::homed("spec.certificates.ca", HOMES, &["cacertificate"]),
];

/// How a private key is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// As it is: what the store keeps.
    Kept,
    /// As its SHA-256: what anybody is shown.
    Shown,
}

/// Reads them. `kept` is the key of the object that this one takes the place of.
pub(super) fn read(body: &mut Body<'_>, kept: Option<&Secret>) -> Certificates {
    Certificates {
        service: body.read("spec.certificates.service", pem).unwrap_or_default(),
        private_key: body.read("spec.certificates.privateKey", |json| key(json, kept)),
        ca: body.read("spec.certificates.ca", pem).unwrap_or_default(),
    }
}

/// The canonical form.
pub(super) fn write(certificates: &Certificates, keys: Keys) -> Json {
    let key = certificates.private_key.as_ref().map(|key| match keys {
        Keys::Kept => Json::from(key.expose()),
        Keys::Shown => Json::map([("sha256", sha256(key.expose()).into())]),
    });
    Json::map([
        ("service", certificates.service.as_str().into()),
        ("privateKey", key.into()),
        ("ca", certificates.ca.as_str().into()),
    ])
}

fn key(json: &Json, kept: Option<&Secret>) -> Result<Secret, Flaws> {
    if let Json::Map(entries) = json {
        let [(name, Json::Text(hash))] = &entries[..] else {
            return flaw("give the key itself (PEM), or the \"sha256\" of the one that is kept");
        };
        let same = |key: &&Secret| name == "sha256" && sha256(key.expose()).eq_ignore_ascii_case(hash);
        let kept = kept.filter(same).cloned();
        return kept
            .map_or_else(|| flaw("the key that is kept has another hash, or none is kept; give the key itself"), Ok);
    }
    // What it says goes into no message.
    pem(json).map(Secret::new).or_else(|_| flaw("this is no key in PEM, or PEM in base64; give one of at most 64 KiB"))
}

/// PEM (RFC 7468), or what may be PEM in base64.
fn pem(json: &Json) -> Result<String, Flaws> {
    let what = "give a certificate in PEM, or PEM in base64, of at most 64 KiB";
    let Json::Text(text) = json else { return flaw(format!("{} is no text; {what}", json.what())) };
    let base64 = |octet: u8| octet.is_ascii_alphanumeric() || b"+/=-_\r\n".contains(&octet);
    let fits = text.contains("-----BEGIN ") || text.bytes().all(base64);
    if fits && text.len() <= 65_536 { Ok(text.clone()) } else { flaw(format!("this is neither; {what}")) }
}

/// SHA-256 of a text, in hexadecimal.
pub(super) fn sha256(text: &str) -> String {
    HEXLOWER.encode(digest(&SHA256, text.as_bytes()).as_ref())
}
