//! What a DNS provider must do to be published to: a trait of three methods.

use std::time::Duration;

use async_trait::async_trait;
use fairway_model::{Changes, ProviderSet, Rtype};

/// A place that records can be published to.
///
/// A call may hang or fail at any point; whoever calls bounds its time and reads again afterwards.
#[async_trait]
pub trait Provider: Send + Sync {
    /// What it can take; the same at each call.
    fn limits(&self) -> Limits;

    /// All record sets of its zones, those of others too. A zone that cannot be read whole is an error, never a part of it.
    async fn read(&self) -> Result<Vec<ProviderSet>, ProviderError>;

    /// Carries changes out, at most [`Limits::batch_max`] sets. On an error, all of them, some or none may have been.
    ///
    /// It may come again with what is done already.
    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError>;
}

/// What a provider can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most sets of one call of [`Provider::apply`]. Sets that belong together are never parted, also where they are more.
    pub batch_max: usize,
    /// Types that it can write; none for all.
    pub types: Option<&'static [Rtype]>,
    /// Whether it tells sets of one name and type apart by set identifiers, and so knows weights.
    pub set_identifiers: bool,
    /// Longest time of a call.
    pub timeout: Duration,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// It understood and said no: trying the same again is of no use before something is changed.
    #[error("refused: {0}")]
    Refused(String),
    /// It did not answer as it should; trying again may help.
    #[error("{0}")]
    Unavailable(String),
    /// Nothing came back in time.
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
}
