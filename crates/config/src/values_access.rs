//! Text values of access control: names, verbs, subjects, hashes, URLs.

use fairway_http::Url;
use fairway_model::{ClusterName, Rtype};

use super::{
    reason::{Reason, did_you_mean},
    values::TextValue,
};
use fairway_access::{CHALLENGE, TokenHash, Verb};

/// Name of a token, an issuer, a role or a provider; same format as names of objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AccessName(pub(super) String);

impl TextValue for AccessName {
    const FORMAT: &'static str = ClusterName::FORMAT;
    const EXPECTED: &'static str = "the name of a token, an issuer or a role";
    const EXAMPLE: &'static str = "ci";

    fn parse(text: &str) -> Result<Self, Reason> {
        ClusterName::parse(text).map(|_| Self(text.to_owned()))
    }
}

/// A record type of a grant, or `_acme-challenge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantedType {
    /// Records at names of ACME challenges.
    Challenge,
    /// Records of a type.
    Type(Rtype),
}

impl TextValue for GrantedType {
    const FORMAT: &'static str = "granted-type";
    const EXPECTED: &'static str = "a record type, or _acme-challenge";
    const EXAMPLE: &'static str = "TXT";

    fn parse(text: &str) -> Result<Self, Reason> {
        if text == CHALLENGE {
            return Ok(Self::Challenge);
        }
        let rtype = Rtype::parse(text)?;
        if !rtype.is_declarable() {
            // Such a grant would look like one of all types, and allow none.
            let hint = "leave out types to grant all that need not be listed (NS, DS, DNAME and _acme-challenge)";
            return Err(Reason::new(format!("{rtype} is not a type of records that tenants can declare"), hint));
        }
        Ok(Self::Type(rtype))
    }
}

/// A URL whose responses nobody on the network can change.
#[derive(Clone, Debug)]
pub(super) struct SecureUrl(pub(super) Url);

impl TextValue for SecureUrl {
    const FORMAT: &'static str = "https-url";
    const EXPECTED: &'static str = "an https URL without user, query and fragment (http on this machine only)";
    const EXAMPLE: &'static str = "https://id.example/keys";

    fn parse(text: &str) -> Result<Self, Reason> {
        Url::parse_secure(text).map(Self).map_err(|_| Self::invalid(text))
    }
}

impl TextValue for TokenHash {
    const FORMAT: &'static str = "sha256";
    const EXPECTED: &'static str = "the SHA-256 of a token";
    const EXAMPLE: &'static str = "64 hexadecimal digits, as `fairway token create` prints them";

    fn parse(text: &str) -> Result<Self, Reason> {
        // The text is not shown: it may be the token itself, by mistake.
        let what = "not the SHA-256 of a token";
        Self::from_hex(text).ok_or_else(|| Reason::new(what, format!("write {}", Self::EXAMPLE)))
    }
}

impl TextValue for Verb {
    const FORMAT: &'static str = "verb";
    const EXPECTED: &'static str = "a verb";
    const EXAMPLE: &'static str = "read, or another of delete, observe, operate, override, read, report, write";

    fn parse(text: &str) -> Result<Self, Reason> {
        text.parse().map_err(|_| {
            let Reason { what, hint } = Self::invalid(text);
            Reason::new(what, did_you_mean(text, Self::ALL.iter().map(Into::into), || hint))
        })
    }
}
