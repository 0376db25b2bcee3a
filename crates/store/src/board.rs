//! A board that the servers of one store share: one of them, who holds its lease, writes what all of them follow.

use std::sync::Arc;

use tokio::sync::watch;

/// A server's way to the board.
#[derive(Clone, Debug)]
pub struct Board {
    offers: Arc<watch::Sender<Option<Arc<[u8]>>>>,
    posted: watch::Receiver<Posted>,
}

/// What is on the board.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Posted {
    /// Nothing that can be known, and why: the store is away, or refuses. Every server decides for itself.
    Away(Arc<str>),
    /// Nothing: nobody has written yet. Every server decides for itself.
    #[default]
    Nothing,
    /// What this server offers: it holds the lease.
    Own,
    /// What another server offers, which holds the lease.
    Of(Arc<[u8]>),
}

/// The store's side of a board.
#[derive(Debug)]
pub struct Desk {
    /// What this server would write; none where it has nothing to say, and so wants no lease.
    pub offers: watch::Receiver<Option<Arc<[u8]>>>,
    /// What is on the board.
    pub posted: watch::Sender<Posted>,
}

impl Board {
    /// A board, and the side of it that the store works on.
    pub fn new() -> (Self, Desk) {
        let (offers, of_desk) = watch::channel(None);
        let (of_store, posted) = watch::channel(Posted::Nothing);
        (Self { offers: Arc::new(offers), posted }, Desk { offers: of_desk, posted: of_store })
    }

    /// Says what this server would have all of them follow; none takes it back, and gives the lease up.
    pub fn offer(&self, what: Option<Arc<[u8]>>) {
        self.offers.send_if_modified(|before| {
            let is_new = *before != what;
            *before = what;
            is_new
        });
    }

    /// What is on the board, and every change of it.
    pub fn posted(&self) -> watch::Receiver<Posted> {
        self.posted.clone()
    }
}
