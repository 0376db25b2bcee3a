//! TSIG keys (RFC 8945). The crate `domain` signs and verifies.

use std::sync::Arc;

use data_encoding::BASE64_NOPAD;
use domain::{
    base::{Message, ParsedName, iana::TsigRcode, name::ToName},
    rdata::Tsig,
    tsig::{Algorithm, Key, ValidationError},
};
use fairway_model::{Name, Secret};

use super::message::wire_name;

/// A TSIG key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TsigKey {
    /// Name of the key at the other server.
    pub name: Name,
    /// Algorithm of the signatures.
    pub algorithm: TsigAlgorithm,
    /// Base64, as in other servers' configurations.
    pub secret: Secret,
}

/// The algorithms that RFC 8945 section 6 does not advise against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TsigAlgorithm {
    /// `hmac-sha256`
    #[default]
    Sha256,
    /// `hmac-sha384`
    Sha384,
    /// `hmac-sha512`
    Sha512,
}

impl TsigKey {
    /// Returns true if the secret is base64 and not empty.
    pub fn is_valid(&self) -> bool {
        self.secret_bytes().is_some()
    }

    fn secret_bytes(&self) -> Option<Vec<u8>> {
        let text = self.secret.expose().trim().trim_end_matches('=');
        BASE64_NOPAD.decode(text.as_bytes()).ok().filter(|bytes| !bytes.is_empty())
    }

    /// Returns the key as `domain` needs it, or `None` if the secret is invalid.
    pub(super) fn to_domain(&self) -> Option<Arc<Key>> {
        let algorithm = match self.algorithm {
            TsigAlgorithm::Sha256 => Algorithm::Sha256,
            TsigAlgorithm::Sha384 => Algorithm::Sha384,
            TsigAlgorithm::Sha512 => Algorithm::Sha512,
        };
        // Without limits of its own a key accepts and makes only MACs of full length.
        let name = wire_name(&self.name).try_to_name().ok()?;
        Key::new(algorithm, &self.secret_bytes()?, name, None, None).ok().map(Arc::new)
    }
}

/// Returns the error BADTIME if the server reports it (RFC 8945 section 5.2.3).
///
/// `domain` 0.12.3 cannot verify such a response: it hashes 8 bytes of the server's time where the record has 6, and reports a wrong
/// signature. The request has failed either way, so an unverified reason is better than a misleading one.
pub(super) fn reported_badtime(response: &Message<Vec<u8>>) -> Option<ValidationError> {
    let record = response.get_last_additional::<Tsig<_, ParsedName<_>>>()?;
    let tsig = record.data();
    let server = tsig.other_time().filter(|_| tsig.error() == TsigRcode::BADTIME)?;
    Some(ValidationError::ServerBadTime { client: tsig.time_signed(), server })
}

/// Returns what is wrong with the signature of a response, and what to do.
pub(super) fn explain(error: ValidationError) -> String {
    let text = match error {
        ValidationError::ServerUnsigned | ValidationError::TooManyUnsigned => "the response is not signed",
        ValidationError::BadSig => "the signature of the response is wrong; compare the secrets",
        ValidationError::BadTrunc => "the signature of the response is truncated",
        ValidationError::BadKey => "the response is signed with another key or algorithm",
        ValidationError::BadTime => {
            "the response was signed too long ago or in the future; synchronize the clocks of both servers"
        }
        ValidationError::ServerBadKey => {
            "the server does not know the key (BADKEY); compare the name and the algorithm of the key"
        }
        ValidationError::ServerBadSig => "the server rejected the signature (BADSIG); compare the secrets",
        ValidationError::ServerBadTime { client, server } => {
            let seconds = i128::from(u64::from(server)) - i128::from(u64::from(client));
            let side = if seconds < 0 { "behind" } else { "ahead" };
            return format!(
                "the server rejected the time of the signature (BADTIME): its clock is {} s {side}; synchronize the clocks",
                seconds.abs()
            );
        }
        ValidationError::BadAlg | ValidationError::BadOther | ValidationError::FormErr => {
            "the signature of the response is malformed"
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_base64_with_or_without_padding() {
        let bytes = |secret: &str| {
            let key =
                TsigKey { name: "k.".parse().unwrap(), algorithm: TsigAlgorithm::Sha256, secret: Secret::new(secret) };
            key.secret_bytes()
        };
        assert_eq!(bytes("Zm9vYmE=").unwrap(), b"fooba");
        assert_eq!(bytes("Zm9vYmE").unwrap(), b"fooba");
        assert_eq!(bytes(" Zm9vYmFy\n").unwrap(), b"foobar");
        assert!(bytes("no base64!").is_none() && bytes("").is_none(), "expected an error for an invalid secret");
    }
}
