//! Packets through `respond`: the response to any bytes is within bounds, valid, and for the question of the query.
//!
//! The zones have one case of everything that is hard to answer: chains, loops, DNAMEs, wildcards, cuts with glue, an RRset
//! that does not fit, 62 kB in a record, steered names of each mode with every kind of health.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use fairway_model::{
    AnswerMode, Cluster, ClusterName, DesiredState, DownAnswer, Health, HealthStatus, Member, Name, OverrideAction,
    Policy, Pool, PoolName, Rtype, Spread, SteeredName, Weight, ZoneSpec,
};
use fairway_zonefile::{ZoneData, read_zone};
use fairway_zones::{
    Client, Draw, Now, Outcome, Query, Request, RuntimeState, ServerIdentity, ServerOptions, ServingState, Tally,
    Transport, compile, find, read, write,
};

use crate::{Target, mutate, packet_check, rng::Rng};

/// The function under test: [`in_stages`], or one with a planted bug. The query may have been used for other packets.
pub type Respond = fn(&ServingState, &Request<'_>, &mut Query, &Tally, &mut [u8]) -> Outcome;

/// Answers as `respond` does, with one query that is reused, as a batch of packets reuses its own.
pub fn in_stages(
    serving: &ServingState,
    request: &Request<'_>,
    query: &mut Query,
    tally: &Tally,
    out: &mut [u8],
) -> Outcome {
    read(&serving.snapshot, request.packet, query);
    find(&serving.snapshot, request.packet, query);
    write(serving, request, query, tally, out)
}

/// The packet target.
pub struct Packets {
    serving: ServingState,
    tally: Tally,
    /// Reused for every packet.
    used: Query,
    respond: Respond,
    udp: Box<[u8]>,
    tcp: Box<[u8]>,
    again: Box<[u8]>,
}

impl Default for Packets {
    fn default() -> Self {
        Self::new()
    }
}

impl Packets {
    /// Returns the target with the real code and the zones of this module.
    pub fn new() -> Self {
        Self::with(in_stages)
    }

    /// Returns the target with another function in place of [`in_stages`].
    pub fn with(respond: Respond) -> Self {
        let buffer = |size| vec![0; size].into_boxed_slice();
        Self {
            serving: serving(),
            tally: Tally::default(),
            used: Query::default(),
            respond,
            udp: buffer(1232),
            tcp: buffer(65_535),
            again: buffer(65_535),
        }
    }

    /// Answers into one of the buffers. Returns the length, or none without a response. With `again`, the query was not used for another
    /// packet.
    fn answer(&mut self, packet: &[u8], transport: Transport, again: bool) -> Option<usize> {
        let from = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 7), 4242));
        let client = Client::new(from.ip(), from.port(), transport);
        let out = match (transport, again) {
            (Transport::Udp, false) => &mut self.udp[..],
            (Transport::Udp, true) => &mut self.again[..1232],
            (Transport::Tcp, _) => &mut self.tcp[..],
        };
        let mut fresh = Query::default();
        let query = if again { &mut fresh } else { &mut self.used };
        let request = Request { client: &client, packet, now: Now(1_700_000_000), draw: Draw(9) };
        (self.respond)(&self.serving, &request, query, &self.tally, out).length()
    }
}

impl Target for Packets {
    fn run(&mut self, input: &[u8]) -> Result<Vec<u64>, String> {
        let udp = self.answer(input, Transport::Udp, false);
        let tcp = self.answer(input, Transport::Tcp, false);
        let again = self.answer(input, Transport::Udp, true);
        let overflow = |length: &usize| *length > 65_535;
        if udp.is_some_and(|l| l > 1232) || tcp.as_ref().is_some_and(overflow) {
            return Err(format!("more octets than there is room for: {udp:?} over UDP, {tcp:?} over TCP"));
        }
        let (udp, tcp) = (udp.map(|l| &self.udp[..l]), tcp.map(|l| &self.tcp[..l]));
        if udp != again.map(|l| &self.again[..l]) {
            return Err("the same packet is answered differently after others".to_owned());
        }
        packet_check::check(input, udp, tcp).map(|shown| vec![shown])
    }

    fn mutate(&self, rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
        if rng.one_in(3) { mutate::octets(rng, input, other) } else { build(rng, other) }
    }
}

/// Labels that lead to the special cases of the zones.
const LABELS: &[&str] = &[
    "www",
    "alias",
    "loop1",
    "wild",
    "x",
    "old",
    "sub",
    "ns1.sub",
    "big",
    "huge",
    "ent",
    "a.ent",
    "shop",
    "cn",
    "down",
    "drawn",
    "fall",
    "none",
    "inward",
    "star",
    "*",
    "deep.wild",
    "child",
    "srv",
    "https",
    "version",
    "a\\000b",
    "",
    "self",
];

/// Returns a query made of parts, mostly valid; sometimes it is damaged in one place.
fn build(rng: &mut Rng, other: &[u8]) -> Vec<u8> {
    let mut packet = vec![rng.octet(), rng.octet()];
    let flags: u16 = if rng.one_in(4) { rng.number() as u16 & 0x7fff } else { 0x0100 };
    packet.extend(flags.to_be_bytes());
    let (extra, opt) = (rng.one_in(8), rng.one_in(2));
    packet.extend([0, 1, 0, 0, 0, 0, 0, u8::from(extra) + u8::from(opt)]);
    let origin = *rng.pick(&["fuzz.test", "fuzz.test", "fuzz.test", "child.fuzz.test", "second.test", "bind", "."]);
    let labels: Vec<_> = (0..rng.below(3)).map(|_| *rng.pick(LABELS)).filter(|l| !l.is_empty()).collect();
    let text = [labels.join("."), origin.to_owned()].join(".");
    let name = text.trim_start_matches('.').parse::<Name>().unwrap_or_else(|_| Name::root());
    packet.extend(name.as_wire().iter().map(|b| if rng.one_in(9) { b.to_ascii_uppercase() } else { *b }));
    let rtype = if rng.one_in(6) { rng.number() as u16 } else { *rng.pick(&TYPES) };
    packet.extend(rtype.to_be_bytes());
    packet.extend(if rng.one_in(12) { [0, 3] } else { [0, 1] });
    if extra {
        packet.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1]);
    }
    if opt {
        packet.extend(build_opt(rng));
    }
    if rng.one_in(4) { mutate::octets(rng, &packet, other) } else { packet }
}

const TYPES: [u16; 16] = [
    Rtype::A.0,
    Rtype::AAAA.0,
    Rtype::ANY.0,
    Rtype::CNAME.0,
    Rtype::DNAME.0,
    Rtype::DS.0,
    Rtype::HTTPS.0,
    Rtype::MX.0,
    Rtype::NS.0,
    Rtype::SOA.0,
    Rtype::SRV.0,
    Rtype::TXT.0,
    Rtype::AXFR.0,
    Rtype::TSIG.0,
    Rtype::OPT.0,
    65_280,
];

fn build_opt(rng: &mut Rng) -> Vec<u8> {
    let mut rdata = Vec::new();
    for _ in 0..rng.below(4) {
        let code = *rng.pick(&[3, 8, 8, 10, 11, 12, 15, 65_001]);
        let data: Vec<u8> = match code {
            8 => {
                let source = *rng.pick(&[0u8, 8, 20, 24, 32, 33]);
                let mut data = vec![0, 1, source, 0];
                data.extend((0..source.div_ceil(8)).map(|_| rng.octet() & 0xf0));
                data
            }
            _ => (0..rng.below(12)).map(|_| rng.octet()).collect(),
        };
        rdata.extend((code as u16).to_be_bytes());
        rdata.extend((data.len() as u16).to_be_bytes());
        rdata.extend(data);
    }
    let size = *rng.pick(&[0u16, 511, 512, 700, 1232, 4096, 65_535]);
    let [high, low] = size.to_be_bytes();
    let version = u8::from(rng.one_in(12));
    let mut opt = vec![0, 0, 41, high, low, 0, version, if rng.one_in(2) { 0x80 } else { 0 }, 0];
    opt.extend((rdata.len() as u16).to_be_bytes());
    opt.extend(rdata);
    opt
}

fn name(text: &str) -> Name {
    text.parse().expect("a valid literal")
}

fn zone(origin: &str, text: &str) -> ZoneData {
    let mut none = |path: &str| Err(format!("{path}: nothing is included here"));
    let (data, faults) = read_zone(&name(origin), origin, text.as_bytes(), &mut none);
    assert!(!faults.iter().any(fairway_model::Diagnostic::is_error), "{faults:?}");
    data
}

fn serving() -> ServingState {
    let fat: String = (0..30).map(|i| format!("big TXT \"{i} {}\"\n", "y".repeat(90))).collect();
    let huge = format!("huge TXT {}\n", format!("\"{}\" ", "z".repeat(255)).repeat(243));
    let zones = [
        zone("fuzz.test.", &[include_str!("../zones/fuzz.zone"), &fat, &huge].concat()),
        zone("child.fuzz.test.", "@ 60 SOA a b 1 2 3 4 5\n@ 60 NS ns1.fuzz.test.\nwww 60 A 192.0.2.77\n"),
        zone(
            "second.test.",
            "@ 60 SOA a b 1 2 3 4 5\n@ 60 NS ns1.fuzz.test.\nwww 60 A 198.51.100.1\nback 60 CNAME www.fuzz.test.\n",
        ),
    ];
    let mut desired = DesiredState::default();
    for zone in &zones {
        let spec = ZoneSpec::new(zone.origin.clone());
        desired.zones.insert(zone.origin.clone(), spec);
    }
    steer(&mut desired);
    let identity = ServerIdentity { version: Some("fuzz".to_owned()), id: Some("ns1".to_owned()) };
    let options = ServerOptions { identity, ..ServerOptions::default() };
    let (snapshot, _) = compile(&desired, &zones, &options, None).expect("the zones of this module are sound");
    let healths = [HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown, HealthStatus::Pending];
    let forced = |i: usize| (i % 7 == 6).then_some(OverrideAction::Drain);
    let runtime = RuntimeState::new(&snapshot, |index| {
        let index = index.0 as usize;
        Health::new(healths[index % healths.len()], forced(index))
    });
    ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
}

/// Adds clusters, and a steered name of each kind.
fn steer(desired: &mut DesiredState) {
    for i in 1..=20u8 {
        let addresses: Vec<IpAddr> = match i % 3 {
            0 => vec![[203, 0, 113, i].into(), [203, 0, 113, 100 + i].into()],
            1 => vec![[203, 0, 113, i].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(i)].into()],
            _ => vec![[0x2001, 0xdb8, 0, 0, 0, 0, 1, u16::from(i)].into()],
        };
        let dns_name = if i % 2 == 0 { name(&format!("c{i}.example.com")) } else { name("www.fuzz.test") };
        let cluster = Cluster::new(ClusterName::new(&format!("c{i}")).expect("a valid literal"), addresses);
        let cluster = Cluster { dns_name: Some(dns_name), ..cluster };
        desired.clusters.insert(cluster.name.clone(), cluster);
    }
    let mut add = |owner: &str, policy, change: &dyn Fn(&mut Pool)| {
        let mut pool = Pool::new(PoolName::new(owner.trim_start_matches("*.")).expect("a valid literal"), policy);
        let members = desired
            .clusters
            .keys()
            .zip(0..)
            .map(|(cluster, i)| Member { weight: Weight(i % 5), ..Member::new(cluster.clone()) });
        pool.members = members.collect();
        change(&mut pool);
        let steered = SteeredName { name: name(&format!("{owner}.fuzz.test")), pool: pool.name.clone(), ttl: None };
        desired.names.insert(steered.name.clone(), steered);
        desired.pools.insert(pool.name.clone(), pool);
    };
    add("shop", Policy::WEIGHTED, &|pool| pool.answers = 3);
    add("fall", Policy::FAILOVER, &|_| {});
    add("cn", Policy::WEIGHTED, &|pool| pool.mode = AnswerMode::Cname);
    add("drawn", Policy::WEIGHTED, &|pool| pool.spread = Spread::Query);
    add("*.star2", Policy::WEIGHTED, &|pool| pool.members.truncate(7));
    add("down", Policy::FAILOVER, &|pool| {
        pool.members.truncate(1);
        pool.down = DownAnswer::FallbackCname(name("loop1.fuzz.test"));
    });
}
