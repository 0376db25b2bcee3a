//! The running transports, for whoever counts: from the first query to after the last.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use fairway_zones::Tallies;

use fairway_transport::{Counters, Server, Stats};

/// The server once it runs, and its counters from then on, also while it drains and when it has ended.
#[derive(Debug, Default)]
pub struct Transports(RwLock<Inner>);

#[derive(Debug, Default)]
struct Inner {
    server: Option<Server>,
    counters: Counters,
}

impl Transports {
    /// Puts the running server in.
    pub fn put(&self, server: Server) {
        let counters = server.counters().clone();
        // A lock is poisoned by a panic while it is held; what is in it is whole all the same.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Inner { server: Some(server), counters };
    }

    /// Takes the server out, to end it. Its counters stay.
    pub fn take(&self) -> Option<Server> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).server.take()
    }

    /// The counters of all threads.
    pub fn tallies(&self) -> Tallies {
        self.read().counters.tallies()
    }

    /// Those of each thread.
    pub fn counters(&self) -> Counters {
        self.read().counters.clone()
    }

    /// What the transports did.
    pub fn stats(&self) -> Stats {
        self.read().counters.stats()
    }

    /// Something else of the running server.
    pub fn with<T>(&self, ask: impl FnOnce(&Server) -> T) -> Option<T> {
        self.read().server.as_ref().map(ask)
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
