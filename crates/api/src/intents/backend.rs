//! Functions of the running server that the handlers of intents use. A trait, so that tests can run them over a store in memory.

use async_trait::async_trait;
use fairway_model::intent::Intent;

use crate::{
    objects::{SERVED_MAX, dry_run},
    problem::ApiError,
    render::intent_statuses,
};
use fairway_api_types::intent_status_wire::IntentStatus;
use fairway_api_types::objects_wire::ApplyReport;
use fairway_control::Control;
use fairway_store::objects::{Change, Object};

/// The server that serves the intents of a store.
#[async_trait]
pub(super) trait Backend: std::fmt::Debug + Send + Sync {
    /// Returns the statuses of intents, in their order.
    async fn statuses(&self, of: &[(Object, Intent)]) -> Vec<IntentStatus>;

    /// Waits until a revision of the store is in the answers, at most [`SERVED_MAX`].
    async fn served(&self, revision: u64);

    /// Returns what a change would do, without making it.
    async fn dry_run(&self, change: Change) -> Result<ApplyReport, ApiError>;
}

#[async_trait]
impl Backend for Control {
    async fn statuses(&self, of: &[(Object, Intent)]) -> Vec<IntentStatus> {
        intent_statuses(self, of)
    }

    async fn served(&self, revision: u64) {
        Self::served(self, revision, SERVED_MAX).await;
    }

    async fn dry_run(&self, change: Change) -> Result<ApplyReport, ApiError> {
        dry_run(self, &change).await
    }
}
