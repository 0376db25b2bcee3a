//! Bearer tokens that Fairway generates.
//!
//! Only the SHA-256 of a token is stored. A token has 256 random bits, so inverting the hash is as hard as guessing the token. Salt and a slow
//! hash protect secrets that people choose, and are not needed here.

use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use fairway_model::Timestamp;
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use subtle::ConstantTimeEq;

/// The SHA-256 of a token.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Returns the hash of a token.
    pub fn of(token: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(bytes)
    }

    /// Parses 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok().map(Self)
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({self})")
    }
}

/// A known token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEntry {
    /// Name of its holder.
    pub name: String,
    /// Its hash.
    pub hash: TokenHash,
    /// Time when it expires; `None` for never.
    pub expires: Option<Timestamp>,
}

/// Returns the entry of a hash. All entries are compared to the last byte, so that the time reveals nothing about stored hashes.
pub(super) fn find<'a>(entries: &'a [TokenEntry], hash: &TokenHash) -> Option<&'a TokenEntry> {
    entries.iter().fold(None, |found, entry| if bool::from(entry.hash.0.ct_eq(&hash.0)) { Some(entry) } else { found })
}

/// Returns a new token and its hash. Returns `None` if the system has no random numbers.
pub fn new_token() -> Option<(String, TokenHash)> {
    let mut random = [0; 32];
    SystemRandom::new().fill(&mut random).ok()?;
    let token = PREFIX.to_owned() + &HEXLOWER.encode(&random);
    let hash = TokenHash::of(&token);
    Some((token, hash))
}

/// Prefix of each token, by which people and scanners for leaked secrets recognize it.
pub(super) const PREFIX: &str = "fairway_";

#[cfg(test)]
mod tests {
    use super::{super::Access, *};

    #[test]
    fn a_token_is_found_by_its_hash_until_it_ends_and_another_is_not() {
        let (token, hash) = new_token().unwrap();
        let (other, _) = new_token().unwrap();
        assert!(token.starts_with(PREFIX) && token.len() == PREFIX.len() + 64 && token != other);
        assert_eq!(TokenHash::from_hex(&hash.to_string()), Some(hash.clone()));
        let entry = TokenEntry { name: "ci".to_owned(), hash, expires: Some(Timestamp::from_secs(100)) };
        let entries = [TokenEntry { hash: TokenHash::of("x"), ..entry.clone() }, entry.clone()];
        assert_eq!(find(&entries, &TokenHash::of(&token)), Some(&entry));
        assert_eq!(find(&entries, &TokenHash::of(&other)), None);
        assert_eq!(find(&entries, &TokenHash::of(&token[..token.len() - 1])), None);
        let access = Access { tokens: entries.into(), ..Access::default() };
        let identity = |secs| access.identify_token(&token, Timestamp::from_secs(secs));
        assert!(identity(99).is_some() && identity(100).is_none());
    }

    #[test]
    fn hash_has_64_hexadecimal_digits() {
        for text in ["", "00", &"g".repeat(64), &"0".repeat(63), &"0".repeat(65), &format!("+{}", "0".repeat(63))] {
            assert_eq!(TokenHash::from_hex(text), None, "{text}");
        }
        // FIPS 180-2 appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenHash::of("abc").to_string(), abc);
        assert_eq!(TokenHash::from_hex(&abc.to_uppercase()), Some(TokenHash::of("abc")));
    }
}
