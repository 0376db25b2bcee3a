//! Errors of reading load, and their kinds for metrics.

use std::time::Duration;

use fairway_model::Cause;

use super::{exposition::ExpositionError, gateway::GatewayError};
use crate::{fence::NotAllowed, probe::Failure};

/// The reason why a gateway or another source could not be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReadError {
    /// No connection, no TLS, or no HTTP response.
    #[error("{0}")]
    Connect(Cause),
    /// An invalid response.
    #[error("{0}")]
    Content(String),
    /// No complete response before the timeout.
    #[error("no complete response within {0:?}")]
    Late(Duration),
    /// Metrics without a usable load.
    #[error(transparent)]
    Metrics(#[from] GatewayError),
    /// This server may not connect to the gateway.
    #[error("{0}")]
    NotAllowed(NotAllowed),
    /// A failure of the probe host: no file descriptor, no resolver, or stalled.
    #[error("{0}")]
    Observer(Cause),
    /// A status other than 200.
    #[error("status {0}, expected 200")]
    Status(u16),
    /// Metrics that are malformed, incomplete or too long.
    #[error(transparent)]
    Text(#[from] ExpositionError),
}

impl ReadError {
    /// The kinds of errors, as metrics name them.
    pub const REASONS: [&str; 5] = ["connect", "content", "observer", "status", "timeout"];

    /// Index of failures of the probe host in [`REASONS`](Self::REASONS).
    pub const OBSERVER: usize = 2;

    /// Returns the index of its kind in [`REASONS`](Self::REASONS).
    pub const fn reason(&self) -> usize {
        match self {
            Self::Connect(_) | Self::NotAllowed(_) => 0,
            Self::Content(_) | Self::Metrics(_) | Self::Text(_) => 1,
            Self::Observer(_) => Self::OBSERVER,
            Self::Status(_) => 3,
            Self::Late(_) => 4,
        }
    }
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::ProbeHost(cause) => Self::Observer(cause),
            Failure::Target(cause) | Failure::Silent(cause) | Failure::Unreachable(cause) => Self::Connect(cause),
        }
    }
}
