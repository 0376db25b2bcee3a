//! The text of a registry TXT record, plain or encrypted, as ExternalDNS writes it (`endpoint/labels.go`, `endpoint/crypto.go`).
//!
//! ```text
//!  "heritage=external-dns,external-dns/owner=us,external-dns/resource=service/shop/web,fairway/at=1700000000,fairway/from=them"
//! ```
//! An encrypted text is compressed with gzip, encrypted with AES-256-GCM after its nonce, and encoded in base64. ExternalDNS ignores labels
//! that begin with `fairway/`; `from` and `at` are present while a set is handed over from one owner to another.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
};

use data_encoding::BASE64;
use fairway_model::{Name, Secret, Timestamp};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, Salt},
    hmac,
};

use zeroize::Zeroizing;

use crate::sets::{text_of, txt_of};

/// The key that encrypts registry records: 32 bytes, as `--txt-encrypt-aes-key` of ExternalDNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealKey(Secret);

/// The text is not a key of 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a registry key has 32 bytes, or is the base64 of 32 bytes")]
pub struct NoSealKey;

impl SealKey {
    /// Creates a key from 32 bytes, or their base64.
    pub fn new(secret: Secret) -> Result<Self, NoSealKey> {
        let key = Self(secret);
        key.bytes().map_or(Err(NoSealKey), |_| Ok(key.clone()))
    }

    fn bytes(&self) -> Option<Zeroizing<[u8; 32]>> {
        let text = self.0.expose().trim_end_matches(['\r', '\n']).as_bytes();
        let decoded = || Zeroizing::new(BASE64.decode(text).unwrap_or_default());
        text.try_into().or_else(|_| decoded()[..].try_into()).map(Zeroizing::new).ok()
    }

    fn cipher(&self) -> Option<LessSafeKey> {
        Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*self.bytes()?).ok()?))
    }

    /// Returns the key that nonces are derived with. The cipher uses the secret itself, as ExternalDNS does, so this key is another one.
    fn nonce_key(&self) -> Option<hmac::Key> {
        let secret = Salt::new(HKDF_SHA256, b"fairway registry record").extract(&*self.bytes()?);
        Some(hmac::Key::from(secret.expand(&[b"nonce"], hmac::HMAC_SHA256).ok()?))
    }

    /// Encrypts a text. The result depends only on text and name, so that an unchanged registry record is not written again. The nonce is
    /// derived from both, so that no two texts share one (as in RFC 5297).
    fn seal(&self, text: &str, at: &Name) -> Option<String> {
        let mut zipped = GzEncoder::new(Vec::new(), Compression::best());
        zipped.write_all(text.as_bytes()).ok()?;
        let mut data = zipped.finish().ok()?;
        let mut context = hmac::Context::with_key(&self.nonce_key()?);
        context.update(at.to_lowercase().as_wire());
        context.update(text.as_bytes());
        let tag = context.sign();
        let nonce: [u8; NONCE_LEN] = tag.as_ref().get(..NONCE_LEN)?.try_into().ok()?;
        let sealed = Nonce::assume_unique_for_key(nonce);
        self.cipher()?.seal_in_place_append_tag(sealed, Aad::empty(), &mut data).ok()?;
        Some(BASE64.encode(&[&nonce[..], &data].concat()))
    }

    fn open(&self, text: &str) -> Option<String> {
        let mut data = BASE64.decode(text.as_bytes()).ok()?;
        let (nonce, sealed) = data.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let zipped = self.cipher()?.open_in_place(nonce, Aad::empty(), sealed).ok()?;
        let mut text = String::new();
        // A small compressed text can expand without limit.
        GzDecoder::new(&*zipped).take(TEXT_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    }
}

/// A registry record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Owner of the set; empty if it is not given.
    pub(super) owner: String,
    /// Previous owner, and start of the handover.
    pub(super) from: Option<(String, Timestamp)>,
    /// Other labels of ExternalDNS (`resource`), by their keys.
    pub(super) labels: BTreeMap<String, String>,
}

impl Mark {
    /// Returns the record of an owner.
    pub(super) fn of(owner: &str) -> Self {
        Self { owner: owner.to_owned(), ..Self::default() }
    }

    /// Parses RDATA. Returns `None` if it is not a registry record, or is encrypted with another key.
    pub(super) fn read(rdata: &[u8], key: Option<&SealKey>) -> Option<Self> {
        let text = String::from_utf8(text_of(rdata)?).ok()?;
        let text = text.trim_matches('"');
        let opened = key.and_then(|key| key.open(text));
        Self::parse(opened.as_deref().unwrap_or(text))
    }

    fn parse(text: &str) -> Option<Self> {
        let (mut mark, mut is_heritage, mut from, mut at) = (Self::default(), false, None, None);
        for (key, value) in text.split(',').map(str::trim).filter_map(|label| label.split_once('=')) {
            match key {
                "heritage" if value == HERITAGE => is_heritage = true,
                "heritage" => return None,
                OWNER => value.clone_into(&mut mark.owner),
                FROM => from = Some(value.to_owned()),
                AT => at = value.parse().ok().map(Timestamp::from_secs),
                _ if key.starts_with(HERITAGE) => drop(mark.labels.insert(key.to_owned(), value.to_owned())),
                _ => {}
            }
        }
        mark.from = from.map(|from| (from, at.unwrap_or_else(|| Timestamp::from_secs(0))));
        is_heritage.then_some(mark)
    }

    /// Returns the RDATA of the record at a name.
    pub(super) fn rdata(&self, key: Option<&SealKey>, at: &Name) -> Box<[u8]> {
        let plain = self.text();
        let text = key.and_then(|key| key.seal(&plain, at)).unwrap_or(plain);
        txt_of(text.as_bytes())
    }

    fn text(&self) -> String {
        let mut labels = self.labels.clone();
        if !self.owner.is_empty() {
            labels.insert(OWNER.to_owned(), self.owner.clone());
        }
        if let Some((from, at)) = &self.from {
            labels.extend([(FROM.to_owned(), from.clone()), (AT.to_owned(), at.secs().to_string())]);
        }
        let labels = labels.iter().map(|(key, value)| format!(",{key}={value}"));
        format!("heritage={HERITAGE}{}", labels.collect::<String>())
    }
}

const HERITAGE: &str = "external-dns";
const OWNER: &str = "external-dns/owner";
const FROM: &str = "fairway/from";
const AT: &str = "fairway/at";
/// Maximum number of bytes of an encrypted record's text.
const TEXT_MAX: u64 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn rdata(text: &str) -> Vec<u8> {
        [&[text.len() as u8], text.as_bytes()].concat()
    }

    fn key() -> SealKey {
        SealKey::new(Secret::new("passphrasewhichneedstobe32bytes!")).unwrap()
    }

    #[test]
    fn text_is_that_of_external_dns() {
        let text = b"\x2fheritage=external-dns,external-dns/owner=us-eu1";
        assert_eq!(*Mark::of("us-eu1").rdata(None, &Name::root()), text[..]);
        assert_eq!(Mark::read(text, None), Some(Mark::of("us-eu1")));
    }

    #[test]
    fn text_of_another_version_is_parsed_and_other_text_is_not() {
        let of = |text: &str| Mark::read(&rdata(text), None).map(|mark| mark.owner);
        let whole = "heritage=external-dns,external-dns/owner=a,external-dns/resource=service/x/y";
        assert_eq!(of(whole).as_deref(), Some("a"));
        assert_eq!(of("\"heritage=external-dns,external-dns/owner=a\"").as_deref(), Some("a"));
        assert_eq!(of("external-dns/owner=a,heritage=external-dns").as_deref(), Some("a"));
        assert_eq!(of("heritage=external-dns").as_deref(), Some(""));
        assert_eq!(of("v=spf1 -all"), None);
        assert_eq!(of("heritage=mate,external-dns/owner=a"), None);
        assert_eq!(Mark::read(b"\x40cut", None), None);
    }

    #[test]
    fn unknown_labels_are_kept() {
        let text = "heritage=external-dns,external-dns/owner=a,external-dns/resource=service/x/y";
        let mut mark = Mark::read(&rdata(text), None).unwrap();
        assert_eq!(*mark.rdata(None, &Name::root()), rdata(text));
        mark.owner = "us".to_owned();
        mark.from = Some(("a".to_owned(), Timestamp::from_secs(7)));
        let on_its_way = mark.rdata(None, &Name::root());
        assert_eq!(Mark::read(&on_its_way, None), Some(mark));
    }

    #[test]
    fn encrypted_text_is_deterministic_and_needs_its_key() {
        let (www, mail): (Name, Name) = ("a-www.x.".parse().unwrap(), "a-mail.x.".parse().unwrap());
        let sealed = Mark::of("us").rdata(Some(&key()), &www);
        assert_eq!(Mark::read(&sealed, Some(&key())), Some(Mark::of("us")));
        assert_eq!(Mark::read(&sealed, None), None);
        let other = SealKey::new(Secret::new("another-passphrase-of-32-octets!")).unwrap();
        assert_eq!(Mark::read(&sealed, Some(&other)), None);
        assert_eq!(Mark::of("us").rdata(Some(&key()), &www), sealed);
        assert_ne!(Mark::of("us").rdata(Some(&key()), &mail), sealed);
        assert!(!String::from_utf8_lossy(&sealed).contains("heritage"));
        // ExternalDNS reads plain text even with a key.
        assert_eq!(Mark::read(&Mark::of("us").rdata(None, &www), Some(&key())), Some(Mark::of("us")));
        for cut in 0..sealed.len() - 1 {
            assert_eq!(Mark::read(&rdata(&String::from_utf8_lossy(&sealed[1..=cut])), Some(&key())), None);
        }
    }

    #[test]
    fn record_of_the_real_external_dns_is_decrypted() {
        // Written by 0.21.0 with --txt-encrypt-enabled and this key at a-ewcu.example.com.
        let row = "LrEhCZ2McH1xAXc0sSj0ngi+KyLwr2ueF+UZuV+h/1IIigufRyaa/0WkzzTThsepy9QLyYqTHjoRlliI6KlWmez9k6cNnEKUmKTIzzvLPRYDlx4t5WAoteBOxtY=";
        let mark = Mark::read(&rdata(row), Some(&key())).unwrap();
        assert_eq!(mark.owner, "them");
    }

    #[test]
    fn nonce_is_made_with_another_key_than_the_cipher() {
        let www: Name = "a-www.x.".parse().unwrap();
        let sealed = BASE64.decode(key().seal("text", &www).unwrap().as_bytes()).unwrap();
        let tag = |key: &hmac::Key| {
            let mut context = hmac::Context::with_key(key);
            context.update(www.as_wire());
            context.update(b"text");
            context.sign().as_ref()[..NONCE_LEN].to_vec()
        };
        let raw = hmac::Key::new(hmac::HMAC_SHA256, &*key().bytes().unwrap());
        assert_eq!(sealed[..NONCE_LEN], tag(&key().nonce_key().unwrap()));
        assert_ne!(sealed[..NONCE_LEN], tag(&raw));
    }

    #[test]
    fn key_has_32_bytes_or_their_base64() {
        assert!(SealKey::new(Secret::new(BASE64.encode(&[7; 32]))).is_ok());
        for text in ["", "short", &BASE64.encode(&[7; 31])] {
            assert_eq!(SealKey::new(Secret::new(text)), Err(NoSealKey));
        }
    }
}
