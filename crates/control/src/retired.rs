//! Serving states that no longer serve, kept until the last reader has let go.
//!
//! A worker that moves on to a newer state drops its share of the old one. Were that the last share, the worker would free
//! a snapshot of a million names between two queries. So the control side keeps a share of its own, and frees it here.

use std::sync::Arc;

use super::shared::CurrentState;

/// Serving states that were served once and may still be read.
#[derive(Debug, Default)]
pub struct Retired(Vec<Arc<CurrentState>>);

impl Retired {
    /// Keeps a view that was just replaced.
    pub fn keep(&mut self, old: Arc<CurrentState>) {
        self.0.push(old);
    }

    /// Takes out the states that nobody else holds: whoever drops them frees them.
    ///
    /// No new share of a retired view can come up: the pointer to it is gone, and shares are taken from the pointer only.
    pub fn take_free(&mut self) -> Vec<Arc<CurrentState>> {
        self.0.extract_if(.., |view| Arc::strong_count(view) == 1).collect()
    }

    /// How many are still read by someone, or not yet looked at.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
