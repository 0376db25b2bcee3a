//! The keys of issuers: read when they are first needed, kept, read anew when they get old or when a token names one that is not
//! among them.
//!
//! ```text
//! have the key, young ──► it          have it, old ──► it, and read anew beside
//! do not have it ──► read anew, at most once in RETRY, and wait for it
//! ```
//! An issuer that cannot be reached costs nobody who is known: the keys that are there count for KEEP. Who names keys that do not
//! exist causes one reading in RETRY, whoever they are and however many.

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

/// Why a JSON Web Token proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It is not believed.
    #[error(transparent)]
    Refused(#[from] JwtError),
    /// Whether it is to be believed cannot be told.
    #[error("the keys of {issuer} cannot be read: {why}")]
    Unreadable {
        /// The issuer by its name.
        issuer: String,
        /// What stands in the way.
        why: String,
    },
}

/// The keys of all issuers.
#[derive(Debug, Default)]
pub struct KeyRings(Mutex<Vec<Arc<KeyRing>>>);

impl KeyRings {
    /// Who a JSON Web Token proves that somebody is.
    pub async fn identify(&self, access: &Access, token: &str, now: Instant) -> Result<Identity, KeyError> {
        let (issuer, key) = claimed(token, &access.issuers)?;
        let keys = self.ring(access, issuer).keys(key.as_deref(), now).await?;
        Ok(verify(token, issuer, &keys)?)
    }

    /// The ring of an issuer; those of issuers that are gone go.
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
    held: ArcSwapOption<Held>,
    /// Held while keys are read; when that was tried last, and what came of it.
    trying: tokio::sync::Mutex<Option<(Instant, Option<String>)>>,
}

#[derive(Debug)]
struct Held {
    keys: Arc<KeySet>,
    read: Instant,
}

impl KeyRing {
    fn new(issuer: Arc<Issuer>) -> Self {
        let tls = Tls { ca: issuer.ca.clone(), identity: None };
        let client = Client::new(Options { tls, shows_path: true, ..Options::new(PATIENCE, BODY_MAX) });
        Self { issuer, client, held: ArcSwapOption::empty(), trying: tokio::sync::Mutex::default() }
    }

    /// The keys, with this one among them if the issuer has it.
    async fn keys(self: &Arc<Self>, wanted: Option<&str>, now: Instant) -> Result<Arc<KeySet>, KeyError> {
        if let Some(keys) = self.kept(wanted, now) {
            return Ok(keys);
        }
        let mut tried = self.trying.lock().await;
        if let Some(keys) = self.kept(wanted, now) {
            return Ok(keys);
        }
        if tried.as_ref().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= RETRY) {
            *tried = Some((now, self.read(now).await));
        }
        let held = self.held.load_full().filter(|held| now.saturating_duration_since(held.read) < KEEP);
        held.map(|held| Arc::clone(&held.keys)).ok_or_else(|| {
            let why = tried.as_ref().and_then(|(_, why)| why.clone()).unwrap_or_default();
            KeyError::Unreadable { issuer: self.issuer.name.clone(), why }
        })
    }

    /// What is kept, if it has the key; old keys are read anew beside.
    fn kept(self: &Arc<Self>, wanted: Option<&str>, now: Instant) -> Option<Arc<KeySet>> {
        let held = self.held.load_full().filter(|held| held.keys.has(wanted))?;
        let age = now.saturating_duration_since(held.read);
        if age >= self.issuer.refresh && !matches!(self.issuer.keys, KeySource::Given(_)) {
            if age >= KEEP {
                return None;
            }
            let ring = Arc::clone(self);
            tokio::spawn(async move {
                // Another one reads already, or has just tried.
                let Ok(mut tried) = ring.trying.try_lock() else { return };
                if tried.as_ref().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= RETRY) {
                    *tried = Some((now, ring.read(now).await));
                }
            });
        }
        Some(Arc::clone(&held.keys))
    }

    /// Reads the keys; what stood in the way, if something did.
    async fn read(&self, now: Instant) -> Option<String> {
        match read(&self.issuer, &self.client).await {
            Ok(keys) => {
                self.held.store(Some(Arc::new(Held { keys: Arc::new(keys), read: now })));
                None
            }
            Err(why) => {
                let kept = self.held.load().is_some();
                tracing::warn!(issuer = self.issuer.name, error = why, kept, "issuer keys not loaded");
                Some(why)
            }
        }
    }
}

async fn read(issuer: &Issuer, client: &Client) -> Result<KeySet, String> {
    let url = match &issuer.keys {
        KeySource::Given(text) => return KeySet::read(text.as_bytes()),
        KeySource::Url(url) => url.clone(),
        KeySource::Discovered(at) => discovered(issuer, at, client).await?,
    };
    KeySet::read(&get(&url, client).await?).map_err(|why| format!("{url}: {why}"))
}

async fn get(url: &Url, client: &Client) -> Result<Vec<u8>, String> {
    let request = Request::get(url.clone()).header(ACCEPT, HeaderValue::from_static("application/json"));
    let answer = client.send(request).await.and_then(Response::require_success);
    answer.map(|answer| answer.body).map_err(|error| error.to_string())
}

/// Where the issuer says its keys are; it must speak of itself.
async fn discovered(issuer: &Issuer, at: &Url, client: &Client) -> Result<Url, String> {
    let url = at.join("/.well-known/openid-configuration");
    let found: Discovery =
        serde_json::from_slice(&get(&url, client).await?).map_err(|error| format!("{url}: {error}"))?;
    if found.issuer != issuer.issuer {
        return Err(format!("{url}: issuer is {:?}, expected {:?}", found.issuer, issuer.issuer));
    }
    let keys = Url::parse_secure(&found.jwks_uri);
    keys.map_err(|error| format!("{url}: jwks_uri {:?} rejected: {error}; {}", found.jwks_uri, error.hint()))
}

/// Longest time of a call.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of a document: a hundred keys with their certificates.
const BODY_MAX: usize = 1 << 20;
/// How long keys count that cannot be read anew.
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// Shortest time from one reading of an issuer's keys to the next.
const RETRY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
