//! The trait of a DNS provider.

use std::{io, time::Duration};

use async_trait::async_trait;
use fairway_model::{Changes, ProviderRecordSet, Rtype};
use tokio::sync::watch;

/// A DNS provider.
///
/// A call may hang or fail at any point. The caller limits its time, and reads again after a failure.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Returns the limits, which never change.
    fn limits(&self) -> Limits;

    /// Reads all record sets of its zones, including those of other owners. A zone that cannot be read completely is an error.
    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError>;

    /// Returns the wanted sets in the form in which the provider keeps them; a set that it omits is not published. Idempotent.
    async fn adjust(&self, wanted: Vec<ProviderRecordSet>) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        Ok(wanted)
    }

    /// Applies changes of at most [`Limits::batch_max`] sets. After an error all, some or none of them may have been applied.
    ///
    /// Changes that are already applied may be applied again.
    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError>;

    /// Returns the result of the leader election, with its changes. `None` for a provider to which every server publishes.
    fn leadership(&self) -> Option<watch::Receiver<Leadership>> {
        None
    }

    /// Stops leading, so that another server can publish at once. Nothing is applied afterwards.
    async fn resign(&self) {}
}

/// Result of a leader election: of several servers that publish the same names, only the leader changes anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Leadership {
    /// The election has not ended.
    #[default]
    Pending,
    /// This server publishes.
    Leader,
    /// Another server publishes, which the text names.
    Standby(String),
    /// The leader is unknown, with the reason. Nothing is changed.
    Failing(String),
}

/// Limits of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of sets of one [`Provider::apply`]. Sets of one unit are never split, even if they are more.
    pub batch_max: usize,
    /// True if [`Provider::apply`] makes changes only if the sets are still as they were read. Otherwise the publisher reads them again
    /// right before each call.
    pub is_conditional: bool,
    /// Types that it can write; `None` for all.
    pub types: Option<&'static [Rtype]>,
    /// The field for weights of sets with set identifiers; `None` if a name has only one set per type.
    pub weights: Option<Weights>,
    /// Longest time of a call.
    pub timeout: Duration,
}

/// The field for the weight of a set, one of ExternalDNS' provider-specific fields (`providerSpecific`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// `aws/weight`, 0 to 255: Amazon Route 53, and providers that adopted its field.
    Aws,
    /// `webhook/gslb-weight`, 0 to 65,535: another Fairway.
    Fairway,
}

impl Weights {
    /// Returns the name of the field.
    pub fn field(self) -> &'static str {
        match self {
            Self::Aws => "aws/weight",
            Self::Fairway => "webhook/gslb-weight",
        }
    }

    /// Returns the largest weight.
    pub fn max(self) -> u16 {
        match self {
            Self::Aws => 255,
            Self::Fairway => u16::MAX,
        }
    }
}

/// The error of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The provider rejected the request; the same request will fail again.
    #[error("rejected: {0}")]
    Refused(String),
    /// The provider is not reachable or not working; a retry may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// No answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
    /// The plan that was to be applied is not the present one.
    #[error(
        "the plan is outdated: its records changed at the provider or here since it was made, so nothing was changed; look at the present \
         one with `fairway publish plan`"
    )]
    OutdatedPlan,
    /// Another server publishes, which the text names.
    #[error("nothing was changed: {0}; ask that server")]
    Standby(String),
}

impl From<io::Error> for ProviderError {
    fn from(error: io::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
}
