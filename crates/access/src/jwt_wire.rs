//! What is read of tokens and documents of issuers.

use serde::Deserialize;

/// The claim that says whose keys a token is to be held against; not believed before that.
#[derive(Debug, Deserialize)]
pub(super) struct Unverified {
    pub(super) iss: String,
}

/// The document of an issuer (OpenID Connect Discovery 1.0 section 3), as far as it is needed.
#[derive(Debug, Deserialize)]
pub(super) struct Discovery {
    pub(super) issuer: String,
    pub(super) jwks_uri: String,
}
