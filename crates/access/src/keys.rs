//! The cache of issuers' keys.
//!
//! ```text
//! cached, fresh ──► use it            cached, old ──► use it, and fetch again in the background
//! not cached ──► fetch, at most once per RETRY, and wait
//! ```
//! While an issuer is unreachable, its cached keys stay valid for KEEP. Tokens with unknown key ids cause one fetch per RETRY, however many
//! clients send them.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use fairway_http::{
    Client, Options, Request, Response, Tls, Url,
    header::{ACCEPT, HeaderValue},
};

use super::{
    Access,
    identity::Identity,
    issuer::{Issuer, KeySource},
    jwt::{JwtError, KeySet, claimed, verify},
    jwt_wire::Discovery,
};

/// The reason why a JSON Web Token proves no identity.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The token is rejected.
    #[error(transparent)]
    Rejected(#[from] JwtError),
    /// The token cannot be verified without keys.
    #[error("cannot load the keys of {issuer}: {why}")]
    Unavailable {
        /// Name of the issuer.
        issuer: String,
        /// Cause of the failure.
        why: String,
    },
}

/// The keys of all issuers.
#[derive(Debug, Default)]
pub struct KeyRings(Mutex<Vec<Arc<KeyRing>>>);

impl KeyRings {
    /// Verifies a JSON Web Token and returns the identity that it proves.
    pub async fn identify(&self, access: &Access, token: &str, now: Instant) -> Result<Identity, KeyError> {
        let (issuer, key) = claimed(token, &access.issuers)?;
        let keys = self.ring(access, issuer).keys(key.as_deref(), now).await?;
        Ok(verify(token, issuer, &keys)?)
    }

    /// Returns the key ring of an issuer, and drops those of issuers that are no longer configured.
    fn ring(&self, access: &Access, issuer: &Arc<Issuer>) -> Arc<KeyRing> {
        let mut rings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rings.retain(|ring| access.issuers.contains(&ring.issuer));
        if let Some(ring) = rings.iter().find(|ring| ring.issuer == *issuer) {
            return Arc::clone(ring);
        }
        let ring = Arc::new(KeyRing::new(Arc::clone(issuer)));
        rings.push(Arc::clone(&ring));
        ring
    }
}

/// The keys of one issuer.
#[derive(Debug)]
struct KeyRing {
    issuer: Arc<Issuer>,
    client: Client,
    cached: ArcSwapOption<Cached>,
    /// Locked during a fetch.
    last_fetch: tokio::sync::Mutex<Option<LastFetch>>,
}

/// Time of the last fetch, and its error.
type LastFetch = (Instant, Option<String>);

#[derive(Debug)]
struct Cached {
    keys: Arc<KeySet>,
    fetched: Instant,
}

impl KeyRing {
    fn new(issuer: Arc<Issuer>) -> Self {
        let tls = Tls { ca: issuer.ca.clone(), identity: None };
        let client = Client::new(Options { tls, shows_path: true, ..Options::new(TIMEOUT, BODY_MAX) });
        Self { issuer, client, cached: ArcSwapOption::empty(), last_fetch: tokio::sync::Mutex::default() }
    }

    /// Returns the keys. The wanted one is among them if the issuer has it.
    async fn keys(self: &Arc<Self>, wanted: Option<&str>, now: Instant) -> Result<Arc<KeySet>, KeyError> {
        if let Some(keys) = self.cached(wanted, now) {
            return Ok(keys);
        }
        let mut last = self.last_fetch.lock().await;
        if let Some(keys) = self.cached(wanted, now) {
            return Ok(keys);
        }
        self.fetch_if_due(&mut last, now).await;
        let cached = self.cached.load_full().filter(|cached| now.saturating_duration_since(cached.fetched) < KEEP);
        cached.map(|cached| Arc::clone(&cached.keys)).ok_or_else(|| {
            let why = last.as_ref().and_then(|(_, why)| why.clone()).unwrap_or_default();
            KeyError::Unavailable { issuer: self.issuer.name.clone(), why }
        })
    }

    /// Returns the cached keys if the wanted one is among them. Old keys are fetched again in the background.
    fn cached(self: &Arc<Self>, wanted: Option<&str>, now: Instant) -> Option<Arc<KeySet>> {
        let cached = self.cached.load_full().filter(|cached| cached.keys.has(wanted))?;
        let age = now.saturating_duration_since(cached.fetched);
        if age >= self.issuer.refresh && !matches!(self.issuer.keys, KeySource::Given(_)) {
            if age >= KEEP {
                return None;
            }
            let ring = Arc::clone(self);
            tokio::spawn(async move {
                // A locked mutex means that another task is fetching.
                let Ok(mut last) = ring.last_fetch.try_lock() else { return };
                ring.fetch_if_due(&mut last, now).await;
            });
        }
        Some(Arc::clone(&cached.keys))
    }

    /// Fetches the keys unless the last fetch is too recent.
    async fn fetch_if_due(&self, last: &mut Option<LastFetch>, now: Instant) {
        if last.as_ref().is_some_and(|(at, _)| now.saturating_duration_since(*at) < RETRY) {
            return;
        }
        let error = match fetch(&self.issuer, &self.client).await {
            Ok(keys) => {
                self.cached.store(Some(Arc::new(Cached { keys: Arc::new(keys), fetched: now })));
                None
            }
            Err(why) => {
                let kept = self.cached.load().is_some();
                tracing::warn!(issuer = self.issuer.name, error = why, kept, "issuer keys not loaded");
                Some(why)
            }
        };
        *last = Some((now, error));
    }
}

async fn fetch(issuer: &Issuer, client: &Client) -> Result<KeySet, String> {
    let url = match &issuer.keys {
        KeySource::Given(text) => return KeySet::read(text.as_bytes()),
        KeySource::Url(url) => url.clone(),
        KeySource::Discovered(at) => discover(issuer, at, client).await?,
    };
    KeySet::read(&get(&url, client).await?).map_err(|why| format!("{url}: {why}"))
}

async fn get(url: &Url, client: &Client) -> Result<Vec<u8>, String> {
    let request = Request::get(url.clone()).header(ACCEPT, HeaderValue::from_static("application/json"));
    let answer = client.send(request).await.and_then(Response::require_success);
    answer.map(|answer| answer.body).map_err(|error| error.to_string())
}

/// Returns the URL of the keys from the issuer's metadata, which must be about the same issuer.
async fn discover(issuer: &Issuer, at: &Url, client: &Client) -> Result<Url, String> {
    let url = at.join("/.well-known/openid-configuration");
    let found: Discovery =
        serde_json::from_slice(&get(&url, client).await?).map_err(|error| format!("{url}: {error}"))?;
    if found.issuer != issuer.issuer {
        return Err(format!("{url}: issuer is {:?}, expected {:?}", found.issuer, issuer.issuer));
    }
    let keys = Url::parse_secure(&found.jwks_uri);
    keys.map_err(|error| format!("{url}: jwks_uri {:?} rejected: {error}; {}", found.jwks_uri, error.hint()))
}

/// Longest time of a fetch.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes of a document: a hundred keys with their certificates.
const BODY_MAX: usize = 1 << 20;
/// Longest age of keys that cannot be fetched again.
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// Shortest time between two fetches of an issuer's keys.
const RETRY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
