//! What a DNS provider must do to be published to: a trait of four methods.

use std::time::Duration;

use async_trait::async_trait;
use fairway_model::{Changes, ProviderRecordSet, Rtype};

/// A place that records can be published to.
///
/// A call may hang or fail at any point; whoever calls bounds its time and reads again afterwards.
#[async_trait]
pub trait Provider: Send + Sync {
    /// What it can take; the same at each call.
    fn limits(&self) -> Limits;

    /// All record sets of its zones, those of others too. A zone that cannot be read whole is an error, never a part of it.
    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError>;

    /// Wanted sets as it will keep them; one that is left out is not published. What comes out stays as it is when it is adjusted again.
    async fn adjust(&self, wanted: Vec<ProviderRecordSet>) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        Ok(wanted)
    }

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
    /// How it weights sets of one name and type, which it then tells apart by set identifiers; none where a name has one set a type.
    pub weights: Option<Weights>,
    /// Longest time of a call.
    pub timeout: Duration,
}

/// How a provider is told the weight of a set, among the fields that ExternalDNS carries beside it (`providerSpecific`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// `aws/weight`, 0 to 255: Amazon Route 53, and providers that took its field over.
    Aws,
    /// `webhook/gslb-weight`, 0 to 65,535: another Fairway.
    Fairway,
}

impl Weights {
    /// The name of the field.
    pub fn field(self) -> &'static str {
        match self {
            Self::Aws => "aws/weight",
            Self::Fairway => "webhook/gslb-weight",
        }
    }

    /// The heaviest weight.
    pub fn max(self) -> u16 {
        match self {
            Self::Aws => 255,
            Self::Fairway => u16::MAX,
        }
    }
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
