//! Encryption of stored values with keys of the operator.
//!
//! ```text
//! secret of 32 bytes ─ HKDF-SHA-256 ─► "value key": AES-256-GCM      each value has a random nonce of 96 bits, which stays safe for
//!                                   └► "key id": 8 bytes             2^32 values per key (NIST SP 800-38D section 8.3)
//!
//! sealed value: key id (8 bytes), nonce (12 bytes), encrypted value, tag (16 bytes); authenticated with it: key and header of the row
//! ```
//! Metadata is not encrypted: keys of objects, revisions, times, authors and reasons.

use std::{fmt, sync::Arc};

use data_encoding::HEXLOWER;
use fairway_model::Secret;
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, KeyType, Prk, Salt},
    rand::{SecureRandom, SystemRandom},
};
use zeroize::Zeroizing;

use super::StoreError;

/// Keys that encrypt stored values: the first one writes, all of them read. The default has none, and values are stored in the clear.
/// Clones share them.
#[derive(Clone, Default)]
pub struct StoreKeys(Arc<[StoreKey]>);

struct StoreKey {
    id: u64,
    cipher: LessSafeKey,
}

/// The text is not a key of 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key of the store has 64 hexadecimal digits; make one with: openssl rand -hex 32")]
pub struct NoStoreKey;

impl StoreKeys {
    /// Creates the keys from secrets of 64 hexadecimal digits each.
    pub fn new(secrets: &[Secret]) -> Result<Self, NoStoreKey> {
        secrets.iter().map(|secret| StoreKey::new(secret).ok_or(NoStoreKey)).collect::<Result<_, _>>().map(Self)
    }

    /// True if values are encrypted.
    pub fn is_encrypting(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the id of the key that writes; 0 if values are stored in the clear.
    pub(super) fn writing_id(&self) -> u64 {
        self.0.first().map_or(0, |key| key.id)
    }

    /// Checks that values of a key can be read; 0 stands for values in the clear.
    pub(super) fn check(&self, id: u64) -> Result<(), StoreError> {
        if id == 0 || self.0.iter().any(|key| key.id == id) { Ok(()) } else { Err(missing(id, self.0.len())) }
    }

    /// Appends a value, encrypted with the first key. Call it only if there is one.
    pub(super) fn seal(&self, context: &[&[u8]], value: &[u8], to: &mut Vec<u8>) -> Result<(), StoreError> {
        let failed = |_| StoreError::Unavailable("the system has no random numbers".to_owned());
        let Some(key) = self.0.first() else { return Err(missing(0, 0)) };
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(failed)?;
        to.extend(key.id.to_be_bytes());
        to.extend(nonce);
        let mut sealed = value.to_vec();
        let aad = Aad::from(context.concat());
        key.cipher
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .map_err(|_| StoreError::Refused("the value is too long to be encrypted".to_owned()))?;
        to.extend(sealed);
        Ok(())
    }

    /// Decrypts a value.
    pub(super) fn open(&self, context: &[&[u8]], sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
        let damaged =
            || StoreError::Damaged("an encrypted value does not belong to its row, or was changed".to_owned());
        let (id, rest) = sealed.split_first_chunk::<8>().ok_or_else(damaged)?;
        let id = u64::from_be_bytes(*id);
        let key = self.0.iter().find(|key| key.id == id).ok_or_else(|| missing(id, self.0.len()))?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(damaged)?;
        let mut value = rest.to_vec();
        let aad = Aad::from(context.concat());
        let length = key
            .cipher
            .open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut value)
            .map_err(|_| damaged())?
            .len();
        value.truncate(length);
        Ok(value)
    }
}

impl StoreKey {
    fn new(secret: &Secret) -> Option<Self> {
        let text = Zeroizing::new(secret.expose().trim().to_ascii_lowercase());
        let bytes = Zeroizing::new(HEXLOWER.decode(text.as_bytes()).ok()?);
        if bytes.len() != KEY_LEN {
            return None;
        }
        let secret = Salt::new(HKDF_SHA256, b"fairway store").extract(&bytes);
        let cipher = secret.expand(&[b"value key"], &AES_256_GCM).ok()?;
        Some(Self { id: key_id(&secret)?, cipher: LessSafeKey::new(UnboundKey::from(cipher)) })
    }
}

/// Returns the id of a key: 0 stands for no key, and has a chance of 2^-64.
fn key_id(secret: &Prk) -> Option<u64> {
    let mut id = [0; 8];
    secret.expand(&[b"key id"], IdLength).and_then(|okm| okm.fill(&mut id)).ok()?;
    Some(u64::from_be_bytes(id).max(1))
}

struct IdLength;

impl KeyType for IdLength {
    fn len(&self) -> usize {
        8
    }
}

/// The error of values whose key is not given.
fn missing(id: u64, given: usize) -> StoreError {
    let given = match given {
        0 => "no key is given".to_owned(),
        1 => "the given key is another one".to_owned(),
        count => format!("the {count} given keys are others"),
    };
    StoreError::Keys(format!("its values are encrypted with the key of id {id:016x}, and {given}"))
}

impl fmt::Debug for StoreKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.0.iter().map(|key| format!("{:016x}", key.id)).collect();
        f.debug_tuple("StoreKeys").field(&ids).finish()
    }
}

/// Keys with the same ids are the same keys.
impl PartialEq for StoreKeys {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(|key| key.id).eq(other.0.iter().map(|key| key.id))
    }
}

impl Eq for StoreKeys {}

/// Bytes of a secret.
const KEY_LEN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(digits: &[&str]) -> StoreKeys {
        let secrets: Vec<_> = digits.iter().map(|digit| Secret::new(digit.repeat(64))).collect();
        StoreKeys::new(&secrets).unwrap()
    }

    #[test]
    fn sealed_value_needs_its_key_and_its_context() {
        let mut sealed = Vec::new();
        keys(&["a"]).seal(&[b"pool/a", b"header"], b"value", &mut sealed).unwrap();
        assert!(!sealed.windows(5).any(|part| part == b"value"));
        assert_eq!(keys(&["b", "a"]).open(&[b"pool/a", b"header"], &sealed).unwrap(), b"value");
        let error = keys(&["b"]).open(&[b"pool/a", b"header"], &sealed).unwrap_err();
        assert!(matches!(&error, StoreError::Keys(what) if what.contains("the given key is another one")), "{error}");
        for context in [[&b"pool/b"[..], b"header"], [b"pool/a", b"headed"]] {
            assert!(matches!(keys(&["a"]).open(&context, &sealed), Err(StoreError::Damaged(_))));
        }
        for at in 8..sealed.len() {
            sealed[at] ^= 1;
            assert!(matches!(keys(&["a"]).open(&[b"pool/a", b"header"], &sealed), Err(StoreError::Damaged(_))), "{at}");
            sealed[at] ^= 1;
        }
    }

    #[test]
    fn equal_values_are_sealed_differently() {
        let sealed = [0, 1].map(|_| {
            let mut sealed = Vec::new();
            keys(&["a"]).seal(&[b"k"], b"value", &mut sealed).unwrap();
            sealed
        });
        assert_ne!(sealed[0], sealed[1]);
    }

    #[test]
    fn key_has_64_hexadecimal_digits_and_is_never_shown() {
        for text in ["", "abc", &"g".repeat(64), &"a".repeat(62)] {
            assert_eq!(StoreKeys::new(&[Secret::new(text)]), Err(NoStoreKey));
        }
        assert_eq!(keys(&["a"]), StoreKeys::new(&[Secret::new(format!("{}\n", "A".repeat(64)))]).unwrap());
        assert!(!format!("{:?}", keys(&["a"])).contains("aaaa"));
    }
}
