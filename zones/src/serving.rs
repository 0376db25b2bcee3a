//! Snapshot and runtime state that a batch of queries is answered from.

use std::sync::Arc;

use crate::{runtime::RuntimeState, snapshot::Snapshot};

/// Snapshot and runtime state, replaced together by one pointer swap, so that a query never sees a mismatched pair.
#[derive(Clone, Debug)]
pub struct ServingState {
    /// Compiled configuration.
    pub snapshot: Arc<Snapshot>,
    /// Measured state of its targets and pools.
    pub runtime: Arc<RuntimeState>,
}

impl AsRef<Self> for ServingState {
    fn as_ref(&self) -> &Self {
        self
    }
}
