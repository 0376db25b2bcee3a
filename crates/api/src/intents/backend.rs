//! Functions of the running server that the handlers of intents use. A trait, so that tests can run them over a store in memory.

use std::sync::Arc;

use async_trait::async_trait;
use fairway_model::intent::Intent;

use crate::{
    objects::{FIRST_RESULTS_MAX, SERVED_MAX, dry_run},
    problem::ApiError,
    render::intent_statuses,
};
use fairway_api_types::intent_status_wire::IntentStatus;
use fairway_api_types::objects_wire::ApplyReport;
use fairway_control::{Control, Published};
use fairway_store::objects::{Change, Key, Object};

/// The server that serves the intents of a store.
#[async_trait]
pub(super) trait Backend: Send + Sync {
    /// Returns the statuses of intents, in their order.
    async fn statuses(&self, of: &[(Object, Intent)]) -> Vec<IntentStatus>;

    /// Returns what is served before a change; `None` without a server.
    fn published(&self) -> Option<Arc<Published>>;

    /// Waits until a change of the object at a key is in the answers, at most [`SERVED_MAX`], then for the first results of the targets that
    /// it added, at most [`FIRST_RESULTS_MAX`].
    async fn served(&self, revision: u64, key: &Key, before: Option<Arc<Published>>);

    /// Returns what a change would do, without making it.
    async fn dry_run(&self, change: Change) -> Result<ApplyReport, ApiError>;
}

#[async_trait]
impl Backend for Control {
    async fn statuses(&self, of: &[(Object, Intent)]) -> Vec<IntentStatus> {
        intent_statuses(self, of)
    }

    fn published(&self) -> Option<Arc<Published>> {
        Some(self.shared.serving.published())
    }

    async fn served(&self, revision: u64, key: &Key, before: Option<Arc<Published>>) {
        Self::served(self, revision, SERVED_MAX).await;
        if let Some(before) = before {
            self.first_results(key, &before, FIRST_RESULTS_MAX).await;
        }
    }

    async fn dry_run(&self, change: Change) -> Result<ApplyReport, ApiError> {
        dry_run(self, &change).await
    }
}
