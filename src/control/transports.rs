//! The running transports, for whoever counts: from the first query to after the last.

use std::sync::{PoisonError, RwLock};

use fairway_zones::Tallies;

use crate::serve::{Server, Stats};

/// The server once it runs, and its last counters once it has ended.
#[derive(Debug, Default)]
pub(crate) struct Transports(RwLock<Inner>);

#[derive(Debug, Default)]
struct Inner {
    server: Option<Server>,
    /// Counters of the server that has been taken out.
    last: (Tallies, Stats),
}

impl Transports {
    /// Puts the running server in.
    pub(super) fn put(&self, server: Server) {
        // A lock is poisoned by a panic while it is held; counters are whole all the same.
        self.0.write().unwrap_or_else(PoisonError::into_inner).server = Some(server);
    }

    /// Takes the server out, to end it.
    pub(super) fn take(&self) -> Option<Server> {
        let last = (self.tallies(), self.stats());
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        inner.last = last;
        inner.server.take()
    }

    /// The counters of all threads.
    pub(crate) fn tallies(&self) -> Tallies {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        inner.server.as_ref().map_or_else(|| inner.last.0.clone(), Server::tallies)
    }

    /// What the transports did.
    pub(crate) fn stats(&self) -> Stats {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        inner.server.as_ref().map_or(inner.last.1, Server::stats)
    }

    /// Something else of the running server.
    pub(super) fn with<T>(&self, ask: impl FnOnce(&Server) -> T) -> Option<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).server.as_ref().map(ask)
    }
}
