//! The seam between transports and DNS, so that a transport can be tested with any answer. It costs nothing: each transport
//! is compiled for its responder.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use fairway_zones::{Outcome, Request, ServingState, Tally};

/// Answers packets for one thread, in the three stages of [`fairway_zones`], so that a batch can read all its packets before it looks
/// anything up: what the later stages need is fetched from memory for all of them together.
pub trait Responder: Send + 'static {
    /// What answers are made from.
    type State;

    /// A packet between the stages.
    type Query: Default;

    /// What answers are made from now; taken once a batch, so that a batch is answered from one state.
    fn serving(&mut self) -> &Self::State;

    /// Stage one: parses over what `query` held, without looking anything up.
    fn read(packet: &[u8], query: &mut Self::Query);

    /// Reads ahead for a batch after stage one, so that all its packets wait for memory together.
    fn read_ahead(serving: &Self::State, queries: &mut [Self::Query]);

    /// Stage two: looks the name up. `packet` is that of stage one.
    fn find(serving: &Self::State, packet: &[u8], query: &mut Self::Query);

    /// Stage three: writes the answer. `request.packet` and `serving` are those of the stages before.
    fn write(
        serving: &Self::State,
        request: &Request<'_>,
        query: &Self::Query,
        tally: &Tally,
        out: &mut [u8],
    ) -> Outcome;

    /// All stages for one packet.
    fn respond(serving: &Self::State, request: &Request<'_>, tally: &Tally, out: &mut [u8]) -> Outcome {
        let mut query = Self::Query::default();
        Self::read(request.packet, &mut query);
        Self::find(serving, request.packet, &mut query);
        Self::write(serving, request, &query, tally, out)
    }
}

/// Answers from zones and health. `S` holds the serving state, with whatever the caller swaps together with it.
#[derive(Debug)]
pub struct Zones<S> {
    /// The pointer that reload and health swap, and what it held last: looking whether it moved is one load.
    serving: Cache<Arc<ArcSwap<S>>, Arc<S>>,
}

impl<S> Zones<S> {
    /// A responder of its own for one thread.
    pub fn new(serving: Arc<ArcSwap<S>>) -> Self {
        Self { serving: Cache::new(serving) }
    }
}

impl<S: AsRef<ServingState> + Send + Sync + 'static> Responder for Zones<S> {
    type State = ServingState;
    type Query = fairway_zones::Query;

    fn serving(&mut self) -> &ServingState {
        self.serving.load().as_ref().as_ref()
    }

    #[inline]
    fn read(packet: &[u8], query: &mut Self::Query) {
        fairway_zones::read(packet, query);
    }

    #[inline]
    fn read_ahead(serving: &ServingState, queries: &mut [Self::Query]) {
        fairway_zones::read_ahead(&serving.snapshot, queries);
    }

    #[inline]
    fn find(serving: &ServingState, packet: &[u8], query: &mut Self::Query) {
        fairway_zones::find(&serving.snapshot, packet, query);
    }

    #[inline]
    fn write(
        serving: &ServingState,
        request: &Request<'_>,
        query: &Self::Query,
        tally: &Tally,
        out: &mut [u8],
    ) -> Outcome {
        fairway_zones::write(serving, request, query, tally, out)
    }
}
