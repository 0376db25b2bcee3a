//! Leader election among the servers that share a store. The leader publishes a decision, and the other servers follow it.

use std::sync::Arc;

use tokio::sync::watch;

/// A server's side of the election.
#[derive(Clone, Debug)]
pub struct Election {
    decision: Arc<watch::Sender<Option<Arc<[u8]>>>>,
    leadership: watch::Receiver<Leadership>,
}

/// Result of the election, as this server knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Leadership {
    /// Not known, with the reason: the store is unavailable. Every server decides alone.
    Unknown(Arc<str>),
    /// There is no leader yet. Every server decides alone.
    #[default]
    Vacant,
    /// This server is the leader.
    ThisServer,
    /// Another server is the leader; holds its decision.
    Other(Arc<[u8]>),
}

/// The store's side of the election.
#[derive(Debug)]
pub struct ElectionBackend {
    /// Decision that this server would publish as leader. `None`: it is no candidate.
    pub decision: watch::Receiver<Option<Arc<[u8]>>>,
    /// Result of the election.
    pub leadership: watch::Sender<Leadership>,
}

impl Election {
    /// Returns both sides of an election.
    pub fn new() -> (Self, ElectionBackend) {
        let (decision, decisions) = watch::channel(None);
        let (results, leadership) = watch::channel(Leadership::Vacant);
        let backend = ElectionBackend { decision: decisions, leadership: results };
        (Self { decision: Arc::new(decision), leadership }, backend)
    }

    /// Sets the decision that this server publishes while it is the leader. With `None` it is no candidate, and gives up the lead.
    pub fn set_decision(&self, decision: Option<Arc<[u8]>>) {
        self.decision.send_if_modified(|before| {
            let is_new = *before != decision;
            *before = decision;
            is_new
        });
    }

    /// Returns the result of the election and its changes.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }
}
