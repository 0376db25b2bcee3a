//! What the routes ask the server that serves the intents: what has become of them, and what would.

use async_trait::async_trait;
use axum::response::Response;
use fairway_model::intent::Intent;

use crate::{
    intents::IntentStatus,
    store::objects::{Change, Object},
};

/// A server that serves what is declared.
#[async_trait]
pub(super) trait Behold: std::fmt::Debug + Send + Sync {
    /// What has become of each of these.
    async fn statuses(&self, of: &[(Object, Intent)]) -> Vec<IntentStatus>;

    /// Waits until a revision is in the answers, within reason.
    async fn served(&self, revision: u64);

    /// What a change would do, as the answer that tells it; or why it cannot be told.
    async fn supposed(&self, change: Change) -> Response;
}
