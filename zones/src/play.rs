//! Plays queries with the code that answers them, and reports what each pool chose: for replay and simulation.

use std::net::IpAddr;

use fairway_model::{Name, Network, Rtype};

use crate::{
    client::{Client, Draw, Now, Request, Transport},
    explain::{self, question},
    lookup::Found,
    respond::{Outcome, Query, write_traced},
    runtime::RuntimeState,
    serving::ServingState,
    snapshot::Snapshot,
    steer::{Choice, ClientNet, Kind, SteerPool, Trace},
    tally::Tally,
};

/// A query to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayedQuery {
    /// Name of the question.
    pub name: Name,
    /// Type of the question.
    pub rtype: Rtype,
    /// Source address, usually of a resolver.
    pub address: IpAddr,
    /// Client subnet of the query (RFC 7871).
    pub subnet: Option<Network>,
}

/// Choice of one pool for a query.
#[derive(Debug)]
pub struct PoolChoice<'a> {
    /// The pool.
    pub pool: &'a SteerPool,
    /// Client, as the pool groups clients.
    pub client: ClientNet,
    /// Members in the answer, by number, best first. Empty if the answer is not a choice among members.
    pub members: &'a [u8],
}

/// Plays queries with buffers that it keeps.
#[derive(Debug)]
pub struct Player {
    tally: Tally,
    out: Vec<u8>,
}

impl Default for Player {
    fn default() -> Self {
        Self { tally: Tally::default(), out: vec![0; 65_535] }
    }
}

impl Player {
    /// Answers a query as a server would. Calls `each` with the choice of each pool, in the order of the CNAME chain.
    pub fn play(&mut self, serving: &ServingState, played: &PlayedQuery, draw: Draw, each: impl FnMut(PoolChoice<'_>)) {
        let packet = question(&played.name, played.rtype, played.subnet);
        self.answer(serving, &packet, played.address, draw, &mut Listener { each, asked: None, serving });
    }

    /// Answers a well-formed query over TCP and returns the response.
    pub(crate) fn answer(
        &mut self,
        serving: &ServingState,
        packet: &[u8],
        address: IpAddr,
        draw: Draw,
        trace: &mut impl explain::Trace,
    ) -> &[u8] {
        let client = Client::new(address, 53, Transport::Tcp);
        let request = Request { client: &client, packet, now: Now(0), draw };
        let query = Query::located(&serving.snapshot, packet);
        match write_traced(serving, &request, &query, &self.tally, &mut self.out, trace) {
            Outcome::Reply(length) | Outcome::ErrorReply(length) => &self.out[..length],
            Outcome::Drop => unreachable!("a well-formed query from a real port is answered"),
        }
    }
}

struct Listener<'a, F> {
    each: F,
    /// Index of the pool that is choosing, and its client.
    asked: Option<(usize, ClientNet)>,
    serving: &'a ServingState,
}

impl<F: FnMut(PoolChoice<'_>)> Trace for Listener<'_, F> {
    fn begin(&mut self, pool: &SteerPool, _: Kind, _: &RuntimeState, client: ClientNet, _: Draw) {
        let place = self.serving.snapshot.index_of(pool);
        self.asked = place.map(|place| (place, client));
    }

    fn end(&mut self, choice: &Choice) {
        let Some((place, client)) = self.asked.take() else { return };
        let pool = &self.serving.snapshot.steer_pools()[place];
        (self.each)(PoolChoice { pool, client, members: choice.members.as_slice() });
    }
}

impl<F: FnMut(PoolChoice<'_>)> explain::Trace for Listener<'_, F> {
    type Choices = Self;

    fn located(&mut self, _: &Snapshot, _: &[u8], _: Found) {}

    fn choices(&mut self) -> &mut Self {
        self
    }
}
