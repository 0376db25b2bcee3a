//! The webhook that ExternalDNS speaks to, with Fairway as its provider.
//!
//! ```text
//! GET  /                  negotiate: media type and domains       200
//! GET  /records           what this client contributes            200
//! POST /adjustendpoints   endpoints as they will be kept          200
//! POST /records           changes: all of them or none            204, once they are durable
//! ```
//! The same four stand below `/owners/NAME`, for a client of that name alone. Where the endpoints are kept is not known here: see
//! [`Ledger`].
//!
//! Source: `provider/webhook/webhook.go` and `provider/webhook/api/httpapi.go` of kubernetes-sigs/external-dns. The client ends its
//! process for good at a refused connection, a call that takes too long and every 4xx, and tries again at 500 to 510: whatever may
//! pass is 503, every call ends within [`CALL_MAX`], and each has a connection of its own, so that none is cut off by an end.

mod adjust;
mod calls;
mod edits;
mod routes;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

pub use self::{
    adjust::{ENDPOINT_MAX, adjusted},
    calls::{Call, Calls, Totals},
    edits::{Edits, edits},
    routes::{Bearer, router},
};
use crate::{Changes, Endpoint};

/// Keeps what clients contribute. Every method may be called by many tasks at once.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// The domains that are taken.
    fn domains(&self) -> Result<Vec<String>, Refused>;

    /// What was kept of a client, as it was adjusted.
    async fn endpoints(&self, scope: &Scope) -> Result<Vec<Endpoint>, Refused>;

    /// Makes all changes, or none; returns once they are durable. Changes that were made before change nothing.
    async fn apply(&self, scope: &Scope, changes: Changes) -> Result<(), Refused>;
}

/// Which client speaks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Whoever comes without a base path: their endpoints tell whose they are.
    Root,
    /// The one at `/owners/NAME`.
    Owner(Arc<str>),
}

impl Scope {
    /// The client of this name: 1 to 63 letters, digits, `-`, `_`, `.`.
    pub fn owner(name: &str) -> Option<Self> {
        let plain = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
        ((1..=63).contains(&name.len()) && name.bytes().all(plain)).then(|| Self::Owner(name.into()))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("/"),
            Self::Owner(name) => write!(f, "/owners/{name}"),
        }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a ledger did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It cannot now; the same call may be taken later.
    #[error("{0}; try again")]
    Busy(String),
    /// It never will: there is no room for so much.
    #[error("{0}")]
    Large(String),
}

/// Longest time that a call takes; the client waits 15 s in all, and ends its process after.
pub const CALL_MAX: Duration = Duration::from_millis(4_500);
/// Most octets of a body, as the client's own bound is (`--webhook-provider-max-body-size`).
pub const BODY_MAX: usize = 32 << 20;
/// From here on an answer comes near to what the client reads.
pub const ANSWER_LARGE: usize = 30 << 20;
