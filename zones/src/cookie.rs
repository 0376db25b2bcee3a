//! DNS cookies (RFC 7873): the keys of server cookies, and the cookies of RFC 9018 that are made and checked with them.
//!
//! A server cookie has 16 octets: version 1, three reserved octets, the time in seconds, and SipHash-2-4 over all that,
//! the client cookie and the client's address. Every server with the same key can check it, and no server keeps state.

use std::{
    fmt,
    hash::Hasher,
    net::IpAddr,
    slice,
    sync::{Arc, OnceLock},
};

use fairway_model::Secret;
use secrecy::{ExposeSecret, SecretBox};
use siphasher::sip::SipHasher24;

use crate::client::Now;

/// A key of 128 bits for server cookies. Debug output never shows it, and its memory is overwritten at the end.
#[derive(Clone)]
pub struct CookieKey(Arc<SecretBox<[u64; 2]>>);

impl CookieKey {
    /// Digits of a key.
    const DIGITS: usize = 32;

    /// Returns the key that a secret holds as 32 hexadecimal digits; `None` if it holds anything else.
    pub fn from_hex(secret: &Secret) -> Option<Self> {
        let text = secret.expose();
        if text.len() != Self::DIGITS || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        // SipHash takes the key as two little-endian words.
        let word = |half: &str| u64::from_str_radix(half, 16).ok().map(u64::swap_bytes);
        let (first, second) = text.split_at(Self::DIGITS / 2);
        Some(Self(Arc::new(SecretBox::new(Box::new([word(first)?, word(second)?])))))
    }

    /// Returns the hash of a server cookie (RFC 9018 section 4.4). `head` is its version, reserved octets and timestamp.
    fn hash(&self, client: [u8; 8], head: [u8; 8], address: IpAddr) -> [u8; 8] {
        let [low, high] = *self.0.expose_secret();
        let mut hasher = SipHasher24::new_with_keys(low, high);
        hasher.write(&client);
        hasher.write(&head);
        match address {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        hasher.finish().to_le_bytes()
    }
}

impl PartialEq for CookieKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl Eq for CookieKey {}

impl fmt::Debug for CookieKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Keys of server cookies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CookieKeys {
    /// No cookies: the option is ignored.
    #[default]
    Off,
    /// The key of this server.
    OfServer(ServerCookieKey),
    /// Keys that several servers share. The first one makes cookies, and all of them are accepted.
    Listed(Arc<[CookieKey]>),
}

/// The key of this server, which is known once the data folder is open: after the first compilation, and before the first answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerCookieKey(Arc<OnceLock<CookieKey>>);

impl ServerCookieKey {
    /// Sets the key. Later calls have no effect.
    pub fn set(&self, key: CookieKey) {
        // The first key is in use; a second one would only make cookies of the first invalid.
        let _ = self.0.set(key);
    }
}

impl CookieKeys {
    #[inline]
    fn all(&self) -> &[CookieKey] {
        match self {
            Self::Off => &[],
            Self::OfServer(key) => key.0.get().map(slice::from_ref).unwrap_or_default(),
            Self::Listed(keys) => keys,
        }
    }

    /// True if a query's cookie is one that a server with our keys gave to this address within the last hour: proof that the client
    /// receives at it. Costs a hash, and nothing if the query has no server cookie.
    pub(crate) fn is_valid(&self, query: &QueryCookie, address: IpAddr, now: Now) -> bool {
        let ServerPart::Standard(server) = query.server else { return false };
        !matches!(Check::of(self.all(), query.client, server, address, now.0 as u32), Check::Bad)
    }

    /// Checks the cookie of a query, and returns the one to answer with. `None` if cookies are off.
    pub(crate) fn answer(&self, query: &QueryCookie, address: IpAddr, now: Now) -> Option<Cookie> {
        let keys = self.all();
        let newest = keys.first()?;
        // 32 bits until 2106; then serial arithmetic goes on (RFC 9018 section 4.3).
        let now = now.0 as u32;
        let (status, server) = match query.server {
            ServerPart::None => (CookieStatus::New, None),
            ServerPart::Foreign => (CookieStatus::Bad, None),
            ServerPart::Standard(server) => match Check::of(keys, query.client, server, address, now) {
                Check::Bad => (CookieStatus::Bad, None),
                Check::Renew => (CookieStatus::Valid, None),
                Check::Keep => (CookieStatus::Valid, Some(server)),
            },
        };
        let server = server.unwrap_or_else(|| make(newest, query.client, address, now));
        let mut octets = [0; Cookie::OCTETS];
        octets[..8].copy_from_slice(&query.client);
        octets[8..].copy_from_slice(&server);
        Some(Cookie { octets, status })
    }
}

/// The cookie option of a query (RFC 7873 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryCookie {
    client: [u8; 8],
    server: ServerPart,
}

/// The server's part of a query's cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerPart {
    /// The client does not have one yet.
    None,
    /// 16 octets of version 1.
    Standard([u8; 16]),
    /// Another length or version, which no server with our keys made.
    Foreign,
}

impl QueryCookie {
    /// Parses the data of the option. `None` if its length is neither 8 nor 16 to 40 (RFC 7873 section 5.2.2).
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let (client, server) = data.split_first_chunk::<8>()?;
        let server = match server.len() {
            0 => ServerPart::None,
            8..=32 => match <[u8; 16]>::try_from(server) {
                Ok(standard) if standard[0] == VERSION => ServerPart::Standard(standard),
                _ => ServerPart::Foreign,
            },
            _ => return None,
        };
        Some(Self { client: *client, server })
    }
}

/// The cookie option of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cookie {
    pub(crate) octets: [u8; Self::OCTETS],
    pub(crate) status: CookieStatus,
}

impl Cookie {
    /// Octets of the client's and the server's part.
    pub(crate) const OCTETS: usize = 24;
}

/// Result of a check of a query's cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum CookieStatus {
    /// This server, or one with the same key, gave it to this address within the last hour.
    Valid,
    /// It has no server's part: the client asks for one.
    New,
    /// Its server's part is too old, from the future, of another address or key, or of an unknown form.
    Bad,
}

impl CookieStatus {
    /// All results, in declared order.
    pub const ALL: [Self; 3] = [Self::Valid, Self::New, Self::Bad];
}

/// Result of a check of a standard server cookie.
enum Check {
    Bad,
    /// Valid, and the response has a new one.
    Renew,
    /// Valid, and the response has the same one.
    Keep,
}

impl Check {
    fn of(keys: &[CookieKey], client: [u8; 8], server: [u8; 16], address: IpAddr, now: u32) -> Self {
        let [head @ .., _, _, _, _, _, _, _, _] = server;
        let [_, _, _, _, _, _, _, _, hash @ ..] = server;
        let [_, reserved @ .., t0, t1, t2, t3] = head;
        let age = now.wrapping_sub(u32::from_be_bytes([t0, t1, t2, t3])).cast_signed();
        if !(-AHEAD_MAX..=AGE_MAX).contains(&age) {
            return Self::Bad;
        }
        // The hash covers the reserved octets as they came (RFC 9018 section 4.2). There are few keys, so the loop is short.
        let Some(number) = keys.iter().position(|key| key.hash(client, head, address) == hash) else {
            return Self::Bad;
        };
        // A cookie from the future goes back as one of now, or it would stay in the future as long as it is in use.
        let is_recent = (0..=KEEP_MAX).contains(&age);
        if number == 0 && is_recent && reserved == [0; 3] { Self::Keep } else { Self::Renew }
    }
}

/// Makes a server cookie.
fn make(key: &CookieKey, client: [u8; 8], address: IpAddr, now: u32) -> [u8; 16] {
    let [t0, t1, t2, t3] = now.to_be_bytes();
    let head = [VERSION, 0, 0, 0, t0, t1, t2, t3];
    let mut server = [0; 16];
    server[..8].copy_from_slice(&head);
    server[8..].copy_from_slice(&key.hash(client, head, address));
    server
}

/// The version of RFC 9018.
const VERSION: u8 = 1;
/// Seconds that a cookie is accepted for (RFC 9018 section 4.3).
const AGE_MAX: i32 = 3_600;
/// Seconds that a cookie may be ahead of our clock (RFC 9018 section 4.3).
const AHEAD_MAX: i32 = 300;
/// Seconds after which a response has a new cookie (RFC 9018 section 4.3).
const KEEP_MAX: i32 = 1_800;

#[cfg(test)]
#[path = "cookie_tests.rs"]
mod tests;
