//! What the handlers of intents need of the running server. A trait, so that tests run them over a store in memory.

use async_trait::async_trait;
use fairway_model::intent::Intent;

use super::super::{
    objects::{SERVED_MAX, supposed},
    problem::Refusal,
};
use fairway_api_types::objects_wire::ApplyReport;
use fairway_control::Control;
use fairway_intents::IntentStatus;
use fairway_store::objects::{Change, Object};

/// The server that answers for the intents of a store.
#[async_trait]
pub(super) trait Backend: std::fmt::Debug + Send + Sync {
    /// Returns the status of each of these intents, in their order.
    async fn statuses(&self, of: &[(Object, Intent)]) -> Vec<IntentStatus>;

    /// Waits until the answers follow a revision of the store, at most [`SERVED_MAX`].
    async fn served(&self, revision: u64);

    /// Returns what a change would do, without making it.
    async fn dry_run(&self, change: Change) -> Result<ApplyReport, Refusal>;
}

#[async_trait]
impl Backend for Control {
    async fn statuses(&self, of: &[(Object, Intent)]) -> Vec<IntentStatus> {
        self.intent_statuses(of).await
    }

    async fn served(&self, revision: u64) {
        Self::served(self, revision, SERVED_MAX).await;
    }

    async fn dry_run(&self, change: Change) -> Result<ApplyReport, Refusal> {
        supposed(self, &change).await
    }
}
