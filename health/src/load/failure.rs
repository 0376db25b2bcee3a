//! Why a reading gave no load, in words and in kinds.

use std::time::Duration;

use fairway_model::Cause;

use super::{exposition::ExpositionError, gateway::GatewayError};

/// Why one place could not be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReadError {
    /// No connection, no TLS, or no HTTP over it.
    #[error("{0}")]
    Connect(Cause),
    /// An answer that is not what it should be.
    #[error("{0}")]
    Content(String),
    /// Nothing, or not all of it, in time.
    #[error("no whole answer within {0:?}")]
    Late(Duration),
    /// Metrics that tell nothing.
    #[error(transparent)]
    Metrics(#[from] GatewayError),
    /// The observer's own fault: no descriptor, no resolver, held up.
    #[error("{0}")]
    Observer(Cause),
    /// Another status than 200.
    #[error("status {0}, where 200 is wanted")]
    Status(u16),
    /// Metrics that are malformed, cut or too long.
    #[error(transparent)]
    Text(#[from] ExpositionError),
}

impl ReadError {
    /// The kinds, for metrics.
    pub const REASONS: [&str; 5] = ["connect", "content", "observer", "status", "timeout"];

    /// The place of the observer's own faults among the kinds.
    pub const OBSERVER: usize = 2;

    /// Returns its place among the kinds.
    pub const fn reason(&self) -> usize {
        match self {
            Self::Connect(_) => 0,
            Self::Content(_) | Self::Metrics(_) | Self::Text(_) => 1,
            Self::Observer(_) => Self::OBSERVER,
            Self::Status(_) => 3,
            Self::Late(_) => 4,
        }
    }
}
