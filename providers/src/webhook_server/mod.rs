//! Server of ExternalDNS' webhook: Fairway as a webhook provider.
//!
//! ```text
//! GET  /                  negotiate: media type and domains       200
//! GET  /records           endpoints of this client                200
//! POST /adjustendpoints   endpoints in the form that is stored    200
//! POST /records           changes, all of them or none            204, once they are durable
//! ```
//! The same routes exist below `/owners/NAME`, for the client of that name. [`EndpointStore`] stores the endpoints.
//!
//! Source: `provider/webhook/webhook.go` and `provider/webhook/api/httpapi.go` of kubernetes-sigs/external-dns. The client's process exits
//! after a refused connection, a slow call and every 4xx; it retries after 500 to 510. So temporary errors are 503, every call ends within
//! [`CALL_MAX`], and each call has its own connection, which a shutdown does not break.

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
    calls::{Call, CallCounts, Calls},
    edits::{Edits, edits},
    routes::{CallCheck, router, scope_of_path, token_of},
};
use crate::{Changes, Endpoint};

/// Storage of clients' endpoints. Methods may be called concurrently.
#[async_trait]
pub trait EndpointStore: Send + Sync + 'static {
    /// Returns the domains that a client may use.
    fn domains(&self, scope: &Scope) -> Result<Vec<String>, WebhookError>;

    /// Returns the endpoints of a client, as they were adjusted.
    async fn endpoints(&self, scope: &Scope) -> Result<Vec<Endpoint>, WebhookError>;

    /// Applies all changes or none, and returns once they are durable. Idempotent.
    async fn apply(&self, scope: &Scope, changes: Changes) -> Result<(), WebhookError>;
}

/// A client.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Clients without a base path. Labels of their endpoints contain the owner.
    Root,
    /// The client at `/owners/NAME`.
    Owner(Arc<str>),
}

impl Scope {
    /// Returns the client of a name of 1 to 63 letters, digits, `-`, `_`, `.`.
    pub fn owner(name: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
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

/// The reason why the store rejected a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// The call may succeed later.
    #[error("{0}; try again")]
    Busy(String),
    /// All clients together have reached a limit. The client retries after this status, too.
    #[error("{0}")]
    Full(String),
    /// The endpoints exceed a limit.
    #[error("{0}")]
    Large(String),
}

/// Longest time of a call. The client waits 15 s in all, and exits after that.
pub const CALL_MAX: Duration = Duration::from_millis(4_500);
/// Maximum number of bytes of a body, the client's own limit (`--webhook-provider-max-body-size`).
pub const BODY_MAX: usize = 32 << 20;
/// Bytes of a response from which it is near the client's limit, [`BODY_MAX`].
pub const ANSWER_LARGE: usize = 30 << 20;
