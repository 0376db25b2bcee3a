//! Explains an answer: runs the code that answers queries with a trace, and decodes its response.

mod decode;

use std::net::IpAddr;

use domain::base::{MessageBuilder, Name as WireName, Rtype as WireType, message_builder::OptBuilder};
use fairway_model::{Name, Network, Rtype};

pub use self::decode::{Decoded, ExplainedRecord, decode};
use crate::{client::Draw, lookup::Found, play::Player, serving::ServingState, snapshot::Snapshot, steer};

/// Observer of an answer. The implementation for `()` compiles to nothing.
pub(crate) trait Trace {
    /// Observer of the choices of pools.
    type Choices: steer::Trace;
    /// True if it observes anything. Then the slow path answers.
    const LISTENS: bool = true;

    /// Called after the lookup of each name of the chain.
    fn located(&mut self, snapshot: &Snapshot, name: &[u8], found: Found);

    /// Returns the observer of the choice for the name that was located last.
    fn choices(&mut self) -> &mut Self::Choices;
}

impl Trace for () {
    type Choices = ();
    const LISTENS: bool = false;

    #[inline]
    fn located(&mut self, _: &Snapshot, _: &[u8], _: Found) {}

    #[inline]
    fn choices(&mut self) -> &mut () {
        self
    }
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
    /// The response.
    pub message: Decoded,
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
    /// Location of the client with its sources, for a pool that ranks by location.
    pub place: Option<String>,
}

/// Result of the lookup of a name.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "camelCase")]
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
    let address = IpAddr::from([127, 0, 0, 1]);
    let (mut player, mut listener) = (Player::default(), Listener::default());
    let response = player.answer(serving, &question(name, rtype, client), address, Draw(0), &mut listener);
    let message = decode(response).expect("our own response is well-formed");
    let located = client.filter(|network| network.length() > 0).map_or(address, Network::address).to_canonical();
    let step = |(step, recorder): (ExplainedStep, steer::Recorder)| {
        let pool = recorder.into_explanation();
        let rankings = pool.as_ref().and_then(|pool| serving.snapshot.rankings(&pool.pool));
        ExplainedStep { place: rankings.map(|rankings| rankings.describe(located)), pool, ..step }
    };
    let steps: Vec<_> = listener.steps.into_iter().map(step).collect();
    let ttl_reason = ttl_reason(serving, rtype, &steps, &message);
    Explained { ids: StateIds::of(serving), name: name.clone(), rtype, client, steps, message, ttl_reason }
}

fn ttl_reason(serving: &ServingState, rtype: Rtype, steps: &[ExplainedStep], message: &Decoded) -> String {
    let Some(first) = message.answer.first() else {
        return match message.authority.iter().find(|r| r.rtype == Rtype::SOA) {
            Some(soa) => {
                let denier = steps.last().and_then(|step| step.pool.as_ref()).filter(|pool| pool.is_denial(rtype));
                let pool = denier.map_or_else(String::new, |pool| format!(", at most the TTL of pool {}", pool.pool));
                let ttl = soa.ttl.secs();
                format!("{ttl} s: the smaller of the SOA's TTL and MINIMUM (RFC 2308 section 5){pool}")
            }
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
    let proof = "a question and one option are small";
    let name = WireName::from_octets(name.as_wire()).expect("a `Name` is a valid name in wire form");
    let mut message = MessageBuilder::new_vec().question();
    message.push((name, WireType::from_int(rtype.0))).expect(proof);
    let mut message = message.additional();
    if let Some(network) = client {
        let subnet = |options: &mut OptBuilder<'_, _>| {
            options.set_udp_payload_size(1_232);
            options.client_subnet(network.length(), 0, network.address())
        };
        message.opt(subnet).expect(proof);
    }
    message.finish()
}

#[derive(Default)]
struct Listener {
    /// Steps, each with the recorder of its pool's choice.
    steps: Vec<(ExplainedStep, steer::Recorder)>,
}

impl Trace for Listener {
    type Choices = steer::Recorder;

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
        self.steps.push((step, steer::Recorder::default()));
    }

    fn choices(&mut self) -> &mut steer::Recorder {
        let (_, recorder) = self.steps.last_mut().expect("a name is located before its pool chooses");
        recorder
    }
}

fn name_of(wire: &[u8]) -> Name {
    Name::from_wire(wire).expect("compiled names are valid")
}
