//! The pair a batch of queries is answered from.

use std::sync::Arc;

use crate::{runtime::RuntimeState, snapshot::Snapshot};

/// What is configured and what is measured, taken together: one pointer, one swap, no race between the two.
#[derive(Clone, Debug)]
pub struct ServingState {
    /// What is configured, compiled.
    pub snapshot: Arc<Snapshot>,
    /// What is measured about it.
    pub runtime: Arc<RuntimeState>,
}

impl AsRef<Self> for ServingState {
    fn as_ref(&self) -> &Self {
        self
    }
}
