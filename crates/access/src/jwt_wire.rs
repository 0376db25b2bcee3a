//! Wire formats of issuers.

use serde::Deserialize;

/// The claim that is read before the token is verified: it selects the keys.
#[derive(Debug, Deserialize)]
pub(super) struct Unverified {
    pub(super) iss: String,
}

/// The metadata document of an issuer (OpenID Connect Discovery 1.0 section 3); only the fields that are used.
#[derive(Debug, Deserialize)]
pub(super) struct Discovery {
    pub(super) issuer: String,
    pub(super) jwks_uri: String,
}
