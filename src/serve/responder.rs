//! The seam between transports and DNS, so that a transport can be tested with any answer. It costs nothing: each transport
//! is compiled for its responder.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use fairway_zones::{Client, Draw, Now, Outcome, Tally, View};

/// Answers packets for one thread.
pub trait Responder: Send + 'static {
    /// What answers are made from.
    type View;

    /// What answers are made from now; taken once a batch, so that a batch is answered from one state.
    fn view(&mut self) -> &Self::View;

    /// Answers one packet, as [`fairway_zones::respond()`] does.
    fn respond(
        view: &Self::View,
        client: &Client,
        packet: &[u8],
        now: Now,
        draw: Draw,
        tally: &Tally,
        out: &mut [u8],
    ) -> Outcome;
}

/// Answers from zones and health.
#[derive(Debug)]
pub struct Zones {
    /// The pointer that reload and health swap, and what it held last: looking whether it moved is one load.
    view: Cache<Arc<ArcSwap<View>>, Arc<View>>,
}

impl Zones {
    /// A responder of its own for one thread.
    pub fn new(view: Arc<ArcSwap<View>>) -> Self {
        Self { view: Cache::new(view) }
    }
}

impl Responder for Zones {
    type View = View;

    fn view(&mut self) -> &View {
        self.view.load()
    }

    #[inline]
    fn respond(
        view: &View,
        client: &Client,
        packet: &[u8],
        now: Now,
        draw: Draw,
        tally: &Tally,
        out: &mut [u8],
    ) -> Outcome {
        fairway_zones::respond(view, client, packet, now, draw, tally, out)
    }
}
