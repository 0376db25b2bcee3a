//! The interface between transports and DNS. Tests replace it to give any answer. It has no run-time cost, because each transport is
//! generic over its responder.

use std::{net::IpAddr, sync::Arc};

use arc_swap::{ArcSwap, Cache};
use fairway_zones::{Now, Outcome, ProvenNetworks, RateTable, Request, ServingState, Tally};

/// Answers packets for one thread, in the three stages of [`fairway_zones`]. A batch parses all its packets first, so that the memory
/// that the later stages need is prefetched for all of them together.
pub trait Responder: Send + 'static {
    /// The data that answers are made from.
    type State;

    /// A query between the stages.
    type Query: Default;

    /// Returns the current data. Called once per batch, so that a batch is answered from one state.
    fn serving(&mut self) -> &Self::State;

    /// Stage one: parses a packet into `query`, replacing its content. Looks nothing up. `serving` must be that of the next stages.
    fn read(serving: &Self::State, packet: &[u8], query: &mut Self::Query);

    /// Prefetches memory for a whole batch after stage one, so that its cache misses overlap.
    fn read_ahead(serving: &Self::State, queries: &mut [Self::Query]);

    /// Stage two: looks the name up. `packet` must be that of stage one.
    fn find(serving: &Self::State, packet: &[u8], query: &mut Self::Query);

    /// Stage three: writes the answer. `request.packet` and `serving` must be those of the stages before.
    fn write(
        serving: &Self::State,
        request: &Request<'_>,
        query: &Self::Query,
        tally: &Tally,
        out: &mut [u8],
    ) -> Outcome;

    /// True if responses over UDP are limited per client network.
    fn is_limited(_serving: &Self::State) -> bool {
        false
    }

    /// Notes the network of a client over TCP, while responses over UDP are limited.
    fn prove(_serving: &Self::State, _address: IpAddr, _proven: &ProvenNetworks, _now: Now) {}

    /// Stage three for UDP while responses are limited. `rates` has the responses of this socket.
    fn write_limited(
        serving: &Self::State,
        request: &Request<'_>,
        query: &Self::Query,
        tally: &Tally,
        _rates: &RateTable,
        out: &mut [u8],
    ) -> Outcome {
        Self::write(serving, request, query, tally, out)
    }

    /// Runs all stages for one packet.
    fn respond(serving: &Self::State, request: &Request<'_>, tally: &Tally, out: &mut [u8]) -> Outcome {
        let mut query = Self::Query::default();
        Self::read(serving, request.packet, &mut query);
        Self::find(serving, request.packet, &mut query);
        Self::write(serving, request, &query, tally, out)
    }
}

/// Answers from the serving state. `S` contains it, with anything else that the caller swaps together with it.
#[derive(Debug)]
pub struct Zones<S> {
    /// The pointer that reloads and health transitions swap, with its last value: checking for a change costs one load.
    serving: Cache<Arc<ArcSwap<S>>, Arc<S>>,
}

impl<S> Zones<S> {
    /// Returns a responder for one thread.
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
    fn read(serving: &ServingState, packet: &[u8], query: &mut Self::Query) {
        fairway_zones::read(&serving.snapshot, packet, query);
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

    #[inline]
    fn is_limited(serving: &ServingState) -> bool {
        serving.snapshot.is_rate_limited()
    }

    fn prove(serving: &ServingState, address: IpAddr, proven: &ProvenNetworks, now: Now) {
        proven.prove(&serving.snapshot, address, now);
    }

    fn write_limited(
        serving: &ServingState,
        request: &Request<'_>,
        query: &Self::Query,
        tally: &Tally,
        rates: &RateTable,
        out: &mut [u8],
    ) -> Outcome {
        fairway_zones::write_limited(serving, request, query, tally, rates, out)
    }
}
