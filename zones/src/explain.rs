//! Explains an answer: runs the code that answers queries with a trace, and decodes its response.

mod decode;

use std::net::IpAddr;

use fairway_model::{Name, Network, Rtype};

pub use self::decode::{ExplainedRecord, decode};
use crate::{
    client::{Client, Draw, Now, Request, Transport},
    location::LocationNote,
    lookup::Found,
    respond::{Outcome, Query, find, read, write_traced},
    serving::ServingState,
    snapshot::Snapshot,
    steer,
    tally::Tally,
};

/// Observer of an answer. The implementation for `()` compiles to nothing.
pub(crate) trait Trace: steer::Trace {
    /// True if it observes anything. Then the slow path answers.
    const LISTENS: bool = true;

    /// Called after the lookup of each name of the chain.
    fn located(&mut self, snapshot: &Snapshot, name: &[u8], found: Found);
}

impl Trace for () {
    const LISTENS: bool = false;

    #[inline]
    fn located(&mut self, _: &Snapshot, _: &[u8], _: Found) {}
}

/// An answer with every step that led to it.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Ids of the snapshot and the runtime state.
    pub ids: StateIds,
    /// Name of the question.
    pub name: Name,
    /// Type of the question.
    pub rtype: Rtype,
    /// Client network of the query, or `None` for a query without one.
    pub client: Option<Network>,
    /// Names that were looked up: that of the question, then those of CNAME and DNAME targets.
    pub steps: Vec<ExplainedStep>,
    /// Mnemonic of the response code.
    pub rcode: &'static str,
    /// True if the AA flag is set.
    pub authoritative: bool,
    /// Answer section.
    pub answer: Vec<ExplainedRecord>,
    /// Authority section.
    pub authority: Vec<ExplainedRecord>,
    /// Additional section without OPT.
    pub additional: Vec<ExplainedRecord>,
    /// Scope of the client subnet in the response (RFC 7871). `None` without a client network.
    pub scope: Option<u8>,
    /// Origin of the TTL.
    pub ttl_reason: String,
}

/// Ids of the state behind an answer. Equal ids of snapshot and runtime state give equal answers on every server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateIds {
    /// Id of the snapshot.
    pub snapshot: u64,
    /// Id of the runtime state.
    pub runtime: u64,
    /// Epoch of the shares from balancing, or `None` without shares.
    pub epoch: Option<u64>,
}

impl StateIds {
    /// Returns the ids of a serving state.
    pub fn of(serving: &ServingState) -> Self {
        let epoch = serving.runtime.shares().map(|shares| shares.epoch);
        Self { snapshot: serving.snapshot.id(), runtime: serving.runtime.id(), epoch }
    }
}

/// One name of the chain.
#[derive(Clone, Debug)]
pub struct ExplainedStep {
    /// Name that was looked up.
    pub name: Name,
    /// Zone of the name, or `None` outside of all zones.
    pub zone: Option<Name>,
    /// Result of the lookup.
    pub node: NodeKind,
    /// Choice of the pool, for a steered name.
    pub pool: Option<steer::Explanation>,
    /// Location of the client, for a pool that ranks by location.
    pub place: Option<LocationNote>,
}

/// Result of the lookup of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Records of a zone file.
    Static,
    /// A pool answers addresses. Other types may come from the zone file.
    Steered,
    /// No records, but names below it: NODATA (RFC 8020).
    EmptyNonTerminal,
    /// No such name, but a wildcard matches (RFC 4592).
    Wildcard {
        /// Name of the wildcard.
        name: Name,
        /// True if a pool answers it.
        steered: bool,
    },
    /// At or below a delegation to other servers.
    Delegation(Name),
    /// Below a DNAME (RFC 6672).
    Dname(Name),
    /// The zone has no such name: NXDOMAIN.
    Nothing,
    /// No zone of ours: REFUSED.
    Outside,
}

/// Answers one query and explains the answer.
///
/// `client` is the client subnet of the query (RFC 7871). With `None` the query has no such option.
pub fn explain(serving: &ServingState, name: &Name, rtype: Rtype, client: Option<Network>) -> Explained {
    let packet = question(name, rtype, client);
    let mut query = Query::default();
    read(&packet, &mut query);
    find(&serving.snapshot, &packet, &mut query);
    let from = Client { address: IpAddr::from([127, 0, 0, 1]), port: 53, transport: Transport::Tcp };
    let mut out = vec![0; 65_535];
    let mut listener = Listener::default();
    let tally = Tally::default();
    let request = Request { client: &from, packet: &packet, now: Now(0), draw: Draw(0) };
    let outcome = write_traced(serving, &request, &query, &tally, &mut out, &mut listener);
    let Outcome::Reply(length) = outcome else { unreachable!("a well-formed query from a real port is answered") };
    let message = decode(&out[..length]).expect("our own response is well-formed");
    let address = client.filter(|network| network.length() > 0).map_or(from.address, Network::address).to_canonical();
    let mut steps: Vec<ExplainedStep> = listener.steps.into_iter().map(TracedStep::into_step).collect();
    for step in &mut steps {
        step.place = step
            .pool
            .as_ref()
            .and_then(|pool| serving.snapshot.placed(&pool.pool))
            .map(|placed| placed.describe(address));
    }
    let ttl_reason = ttl_reason(serving, &steps, &message);
    Explained {
        ids: StateIds::of(serving),
        name: name.clone(),
        rtype,
        client,
        steps,
        rcode: message.rcode,
        authoritative: message.authoritative,
        answer: message.answer,
        authority: message.authority,
        additional: message.additional,
        scope: message.scope,
        ttl_reason,
    }
}

fn ttl_reason(serving: &ServingState, steps: &[ExplainedStep], message: &decode::Decoded) -> String {
    let Some(first) = message.answer.first() else {
        return match message.authority.iter().find(|r| r.rtype == Rtype::SOA) {
            Some(soa) => format!("{} s: the smaller of the SOA's TTL and MINIMUM (RFC 2308 section 5)", soa.ttl.secs()),
            None => "no record to cache".to_owned(),
        };
    };
    let ttl = first.ttl;
    let pool = steps.first().and_then(|s| s.pool.as_ref());
    let infos = || serving.snapshot.pool_infos().iter().enumerate();
    let Some((place, info)) = pool.and_then(|p| infos().find(|(_, info)| info.name == p.pool)) else {
        return format!("{ttl}: from the zone's records");
    };
    let adaptive_ttl = serving.runtime.adaptive_ttl(place);
    match info.bounds {
        Some(bounds) if adaptive_ttl.ttl(info.ttl, bounds) == ttl => {
            format!("{ttl}: {}: of pool {}", adaptive_ttl.reason(), info.name)
        }
        _ if info.ttl == ttl => format!("{ttl}: of pool {}", info.name),
        _ => format!("{ttl}: declared at the name, in place of pool {}'s {}", info.name, info.ttl),
    }
}

/// Returns a query in wire form, with RD clear, and with EDNS if there is a client network.
pub(crate) fn question(name: &Name, rtype: Rtype, client: Option<Network>) -> Vec<u8> {
    let mut packet = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(client.is_some())];
    packet.extend_from_slice(name.as_wire());
    packet.extend_from_slice(&rtype.0.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    let Some(network) = client else { return packet };
    let octets = match network.address() {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let octets = &octets[..usize::from(network.length()).div_ceil(8)];
    let family = if network.address().is_ipv4() { 1 } else { 2 };
    let length = octets.len() as u8;
    // OPT: root, type 41, payload 1232, TTL 0; one option, client subnet.
    packet.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, length + 8]);
    packet.extend_from_slice(&[0, 8, 0, length + 4, 0, family, network.length(), 0]);
    packet.extend_from_slice(octets);
    packet
}

#[derive(Default)]
struct Listener {
    steps: Vec<TracedStep>,
}

/// A step with the recorder of its pool's choice.
struct TracedStep {
    step: ExplainedStep,
    recorder: steer::Recorder,
}

impl TracedStep {
    fn into_step(self) -> ExplainedStep {
        ExplainedStep { pool: self.recorder.into_explanation(), ..self.step }
    }
}

impl Trace for Listener {
    fn located(&mut self, snapshot: &Snapshot, name: &[u8], found: Found) {
        let node_name = |number| name_of(snapshot.node(number).name());
        let zone_of = |zone: u16| Some(snapshot.zone(zone).origin.clone());
        let (zone, node) = match found {
            Found::Exact(number) => {
                let node = snapshot.node(number);
                let kind = match (node.steered(), node.set_count()) {
                    (0, 0) => NodeKind::EmptyNonTerminal,
                    (0, _) => NodeKind::Static,
                    _ => NodeKind::Steered,
                };
                (zone_of(node.zone()), kind)
            }
            Found::Wildcard(number) => {
                let node = snapshot.node(number);
                (zone_of(node.zone()), NodeKind::Wildcard { name: node_name(number), steered: node.steered() != 0 })
            }
            Found::Cut(number) => (zone_of(snapshot.node(number).zone()), NodeKind::Delegation(node_name(number))),
            Found::Dname(number) => (zone_of(snapshot.node(number).zone()), NodeKind::Dname(node_name(number))),
            Found::Nothing(zone) => (zone_of(zone as u16), NodeKind::Nothing),
            Found::Outside => (None, NodeKind::Outside),
        };
        let step = ExplainedStep { name: name_of(name).to_lowercase(), zone, node, pool: None, place: None };
        self.steps.push(TracedStep { step, recorder: steer::Recorder::default() });
    }
}

/// Forwards the calls of the pool's trace to the recorder of the current step.
macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*)),* $(,)?) => {
        impl steer::Trace for Listener {
            $(fn $method(&mut self, $($argument: $type),*) {
                if let Some(step) = self.steps.last_mut() {
                    step.recorder.$method($($argument),*);
                }
            })*
        }
    };
}

forward! {
    begin(pool: &steer::SteerPool, kind: steer::Kind, runtime: &crate::RuntimeState, client: steer::ClientNet, draw: Draw),
    stage(basis: steer::Basis),
    member(number: u8, candidacy: steer::Candidacy),
    acceptance_test(number: u8, acceptance_test: steer::AcceptanceTest),
    assigned(assignment: steer::Assignment),
    end(choice: &steer::Choice),
}

fn name_of(wire: &[u8]) -> Name {
    Name::from_wire(wire).expect("compiled names are valid")
}
