//! Leader election among the servers that share a store. The leader publishes a decision, and the other servers follow it. They publish the
//! evidence that it decides from beside its own.

use std::sync::Arc;

use tokio::sync::watch;

/// A server's side of the election.
#[derive(Clone, Debug)]
pub struct Election {
    offer: Arc<watch::Sender<Offer>>,
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
    /// This server is the leader; holds the evidence of each of the others.
    ThisServer(Arc<[Arc<[u8]>]>),
    /// Another server is the leader; holds its decision.
    Other(Arc<[u8]>),
}

/// Texts that this server publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Its decision, as leader. `None`: it is no candidate.
    pub decision: Option<Arc<[u8]>>,
    /// Its evidence, while another server is the leader.
    pub evidence: Option<Arc<[u8]>>,
}

/// The store's side of the election.
#[derive(Debug)]
pub struct ElectionBackend {
    /// Texts that this server publishes.
    pub offer: watch::Receiver<Offer>,
    /// Result of the election.
    pub leadership: watch::Sender<Leadership>,
}

impl Election {
    /// Returns both sides of an election.
    pub fn new() -> (Self, ElectionBackend) {
        let (offer, offers) = watch::channel(Offer::default());
        let (results, leadership) = watch::channel(Leadership::Vacant);
        let backend = ElectionBackend { offer: offers, leadership: results };
        (Self { offer: Arc::new(offer), leadership }, backend)
    }

    /// Sets the decision that this server publishes while it is the leader. With `None` it is no candidate, and gives up the lead.
    pub fn set_decision(&self, decision: Option<Arc<[u8]>>) {
        self.offer.send_if_modified(|offer| {
            let is_new = offer.decision != decision;
            offer.decision = decision;
            is_new
        });
    }

    /// Sets the evidence that this server publishes while another one is the leader.
    pub fn set_evidence(&self, evidence: Arc<[u8]>) {
        self.offer.send_modify(|offer| offer.evidence = Some(evidence));
    }

    /// Returns the result of the election and its changes.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }
}
