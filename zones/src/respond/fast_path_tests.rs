//! The fast path answers like the slow path, for many kinds of zones and pools.

use std::{net::IpAddr, sync::Arc};

use fairway_model::{
    AnswerMode, Cluster, ClusterName, DesiredState, DownAnswer, Health, HealthStatus, Member, Name, OverrideAction,
    Permille, Policy, Pool, PoolName, Rtype, Spread, SteeredName, Tier, Weight,
};
use fairway_zonefile::read_zone;

use crate::{
    client::{Client, Draw, Now, Request, Transport},
    compile,
    explain::Trace,
    find,
    lookup::Found,
    read,
    respond::{LEVELS, Outcome, Query, Response, read_level, write_traced},
    runtime::RuntimeState,
    serving::ServingState,
    snapshot::{ServerIdentity, ServerOptions, Snapshot},
    steer,
    tally::{Tallies, Tally},
};

/// A trace that does nothing but selects the slow path.
struct Deaf;

impl steer::Trace for Deaf {}

impl Trace for Deaf {
    type Choices = Self;

    fn located(&mut self, _: &Snapshot, _: &[u8], _: Found) {}

    fn choices(&mut self) -> &mut Self {
        self
    }
}

/// Nested zones up to the root. At each cut the outer zone has hidden records.
const ZONES: [(&str, &str); 4] = [
    (
        ".",
        "$TTL 300\n@ SOA ns. admin. 1 3600 600 86400 60\n@ NS ns.\n@ TXT \"the root\"\nns A 192.0.2.1\nhost A 192.0.2.2\n\
         alias CNAME host\ntest NS ns.test.\nns.test A 192.0.2.3\nhidden.test A 192.0.2.4\n*.any TXT \"any\"\nold DNAME host\n",
    ),
    (
        "example.test",
        "$TTL 300\n@ IN SOA ns1 hostmaster 7 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 192.0.2.53\nwww IN A 192.0.2.1\n\
         www IN AAAA 2001:db8::1\nbig IN TXT \"a long text, so that many of them do not fit\" \"x\"\nalias IN CNAME www\n\
         *.wild IN A 192.0.2.4\nsub IN NS ns.sub\nns.sub IN A 192.0.2.5\nold IN DNAME new\nold IN A 192.0.2.6\n\
         mx IN MX 10 www\n_s._udp IN SRV 0 0 1 www\nshop IN TXT beside\nto.shop IN CNAME shop\nto.cn CNAME cn\n\
         child NS ns1\nchild DS 1 13 2 0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20\nwww.child A 192.0.2.9\n\
         in.child CNAME www.child\ninto CNAME www.child\ntwo CNAME both\nboth A 192.0.2.20\nboth A 192.0.2.21\n\
         both AAAA 2001:db8::20\nboth TXT both\n*.two CNAME www\nitself CNAME itself\nlong CNAME big\nfar CNAME www.child\n\
         glue NS a.glue\nglue NS b.glue\nglue NS ns1\nglue NS ns.example.net.\na.glue A 192.0.2.30\na.glue AAAA 2001:db8::30\n\
         b.glue A 192.0.2.31\nbare NS ns.example.net.\n*.mail MX 5 mx\n",
    ),
    (
        "child.example.test",
        "$TTL 300\n@ SOA ns1.example.test. admin 2 3600 600 86400 30\n@ NS ns1.example.test.\nwww A 192.0.2.77\n\
         up CNAME www.example.test.\n",
    ),
    ("deep.far.example.test", "$TTL 300\n@ SOA a b 3 3600 600 86400 30\n@ NS a\na A 192.0.2.88\n* TXT \"star\"\n"),
];

/// Every queried name apart from the steered ones: existing, missing, above, below, and under a wildcard.
const NAMES: &str = "two.example.test x.two.example.test itself.example.test long.example.test glue.example.test x.glue.example.test \
    a.glue.example.test bare.example.test x.bare.example.test many.test x.many.test x.wide.example.test both.example.test \
    into.wide.example.test . ns host nx alias test x.test hidden.test x.any any x.old www.example.test WWW.Example.TEST nx.example.test \
    deep.nx.example.test alias.example.test wild.example.test x.wild.example.test sub.example.test x.sub.example.test \
    old.example.test x.old.example.test big.example.test mx.example.test _s._udp.example.test _udp.example.test \
    ns1.example.test example.test to.shop.example.test to.cn.example.test into.example.test child.example.test \
    www.child.example.test in.child.example.test up.child.example.test nx.child.example.test far.example.test \
    deep.far.example.test x.deep.far.example.test x.y.deep.far.example.test a.deep.far.example.test x.pool.example.test \
    pool.example.test x.y.pool.example.test version.bind id.server hostname.bind";

/// A name, the policy of its pool, and further settings.
type Declared = (&'static str, Policy, fn(&mut Pool));

/// Pools with their names, which include a wildcard and an apex.
static POOLS: [Declared; 17] = [
    ("shop.example.test", Policy::WEIGHTED, |_| {}),
    ("*.pool.example.test", Policy::WEIGHTED, |_| {}),
    ("child.example.test", Policy::WEIGHTED, |pool| pool.members.truncate(2)),
    ("fall.example.test", Policy::FAILOVER, |_| {}),
    ("*.fall.example.test", Policy::FAILOVER, |pool| pool.members.truncate(3)),
    ("drawn.example.test", Policy::WEIGHTED, |pool| pool.spread = Spread::Query),
    ("*.drawn.child.example.test", Policy::WEIGHTED, |pool| pool.spread = Spread::Query),
    ("cn.example.test", Policy::WEIGHTED, |pool| pool.mode = AnswerMode::Cname),
    ("*.cn.example.test", Policy::FAILOVER, |pool| pool.mode = AnswerMode::Cname),
    ("many.example.test", Policy::WEIGHTED, |pool| pool.answers = 3),
    ("tiers.example.test", Policy::WEIGHTED, |pool| {
        pool.members.iter_mut().skip(2).for_each(|member| member.tier = Tier::new(2).unwrap());
        pool.min_healthy = Permille::new(600).unwrap();
    }),
    ("panic.example.test", Policy::WEIGHTED, |pool| pool.panic_threshold = Permille::new(900).unwrap()),
    ("addresses.example.test", Policy::FAILOVER, |pool| {
        pool.down = DownAnswer::FallbackAddresses(vec![[192, 0, 2, 99].into()])
    }),
    ("outside.example.test", Policy::WEIGHTED, |pool| pool.down = DownAnswer::FallbackCname(name("www.example.test"))),
    ("empty.example.test", Policy::WEIGHTED, |pool| pool.down = DownAnswer::Empty),
    ("refuse.example.test", Policy::WEIGHTED, |pool| pool.down = DownAnswer::Refuse),
    ("last.example.test", Policy::WEIGHTED, |pool| pool.down = DownAnswer::LastGood),
];

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Returns the owner with the same pool over all clusters, which has no fast path.
fn mixed(owner: &str) -> String {
    owner.strip_prefix("*.").map_or_else(|| format!("mixed.{owner}"), |rest| format!("*.mixed.{rest}"))
}

/// Adds nine clusters: three alike, with an address of each family; the others with two of one family, or with one
/// family only. Some of their names are in our zones.
fn clusters(desired: &mut DesiredState) {
    for number in 1..=9u8 {
        let v4: IpAddr = [203, 0, 113, number].into();
        let v6: IpAddr = [0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(number)].into();
        let addresses = match number % 3 {
            0 => vec![v6],
            1 => vec![v4, v6],
            _ => vec![v4, [203, 0, 113, 100 + number].into()],
        };
        let dns_name = Some(name(if number % 2 == 0 { "www.example.test" } else { "edge.example.net" }));
        let cluster = ClusterName::new(&format!("c{number}")).unwrap();
        let reuse = Cluster { dns_name, ..Cluster::new(cluster.clone(), addresses) };
        desired.clusters.insert(cluster, reuse);
    }
}

fn snapshot() -> Snapshot {
    let zones = ZONES.map(|(origin, text)| {
        let big = |i| format!("big IN TXT \"record number {i} of a set of records\"\n");
        let text = text.to_owned() + &(0..40).map(big).collect::<String>();
        let server = |i| format!("wide NS n{i}.wide\nn{i}.wide A 192.0.2.{i}\n");
        let servers = (0..20).map(server).collect::<String>();
        let text = if origin == "example.test" { text + &servers } else { text.replace("big IN", "large IN") };
        read_zone(&name(origin), origin, text.as_bytes(), &mut |_| Err("none".into())).0
    });
    let mut desired = DesiredState::default();
    clusters(&mut desired);
    let alike = POOLS.iter().map(|(owner, policy, change)| ((*owner).to_owned(), policy.clone(), *change, 3));
    let all = POOLS.iter().map(|(owner, policy, change)| (mixed(owner), policy.clone(), *change, 1));
    for (number, (owner, policy, change, step)) in alike.into_iter().chain(all).enumerate() {
        let mut pool = Pool::new(PoolName::new(&format!("p{number}")).unwrap(), policy);
        let clusters = desired.clusters.keys().step_by(step).zip(1..);
        let member = |(cluster, weight): (&ClusterName, u16)| Member {
            weight: Weight(weight % 4),
            ..Member::new(cluster.clone())
        };
        pool.members = clusters.map(member).collect();
        change(&mut pool);
        let steered = SteeredName { name: name(&owner), pool: pool.name.clone(), ttl: None };
        desired.names.insert(steered.name.clone(), steered);
        desired.pools.insert(pool.name.clone(), pool);
    }
    let identity = ServerIdentity { version: Some("of a test".to_owned()), id: Some("ns1".to_owned()) };
    let explain = vec!["198.51.100.0/24".parse().unwrap()];
    compile(&desired, &zones, &ServerOptions { identity, explain, ..ServerOptions::default() }, None).unwrap().0
}

/// All up, all down, all pending, and three mixtures, one with overrides.
fn states() -> Vec<ServingState> {
    const STATUSES: [HealthStatus; 4] =
        [HealthStatus::Up, HealthStatus::Down, HealthStatus::Pending, HealthStatus::Unknown];
    let snapshot = Arc::new(snapshot());
    let mixtures: [fn(usize) -> Health; 6] = [
        |_| Health::new(HealthStatus::Up, None),
        |_| Health::new(HealthStatus::Down, None),
        |_| Health::new(HealthStatus::Pending, None),
        |index| Health::new(STATUSES[index % 2], None),
        |index| Health::new(STATUSES[index / 2 % 4], None),
        |index| Health::new(STATUSES[index % 2], (index % 3 == 0).then_some(OverrideAction::Drain)),
    ];
    let serving = |mixture: fn(usize) -> Health| ServingState {
        snapshot: Arc::clone(&snapshot),
        runtime: Arc::new(RuntimeState::new(&snapshot, |index| mixture(index.0 as usize))),
    };
    mixtures.map(serving).into()
}

const OPTS: [&[u8]; 7] = [
    &[],
    &[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0],
    &[0, 0, 41, 2, 0, 0, 0, 0x80, 0, 0, 0],
    &[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2],
    &[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 8, 0, 3, 0, 0, 0, 11, 0, 0],
    // The /48 of an IPv6 client, and an unknown version.
    &[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 14, 0, 8, 0, 10, 0, 2, 48, 0, 0x20, 1, 0xd, 0xb8, 0, 9],
    &[0, 0, 41, 4, 0xd0, 0, 1, 0, 0, 0, 0],
];

const TYPES: [Rtype; 13] = [
    Rtype::A,
    Rtype::AAAA,
    Rtype::TXT,
    Rtype::MX,
    Rtype::SRV,
    Rtype::ANY,
    Rtype::CNAME,
    Rtype::NS,
    Rtype::SOA,
    Rtype::DS,
    Rtype::AXFR,
    Rtype::OPT,
    Rtype(65_400),
];

/// IN, CH, and any.
const CLASSES: [u16; 3] = [1, 3, 255];

fn packet(name: &Name, rtype: Rtype, class: u16, opt: &[u8]) -> Vec<u8> {
    let head = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(!opt.is_empty())];
    [&head, name.as_wire(), &rtype.0.to_be_bytes(), &class.to_be_bytes(), opt].concat()
}

/// Returns a query that was used for other packets, as in a batch: one with every option, and one that is refused.
fn used(serving: &ServingState) -> Query {
    let mut query = Query::default();
    let before = packet(&name("used.up.before.example.test"), Rtype::TXT, 1, OPTS[3]);
    for packet in [&before, &before[..20]] {
        read(&serving.snapshot, packet, &mut query);
        (0..LEVELS).for_each(|level| read_level(&serving.snapshot, level, &mut query));
        find(&serving.snapshot, packet, &mut query);
    }
    query
}

/// An answer of one path, with its counters.
struct AnswerPath {
    out: Vec<u8>,
    length: usize,
    tally: Tally,
}

impl AnswerPath {
    fn new() -> Self {
        Self { out: vec![0; 65_535], length: 0, tally: Tally::default() }
    }

    fn answer<T: Trace>(
        &mut self,
        serving: &ServingState,
        client: &Client,
        packet: &[u8],
        query: &Query,
        draw: Draw,
        trace: &mut T,
    ) {
        let outcome = write_traced(
            serving,
            &Request { client, packet, now: Now(0), draw },
            query,
            &self.tally,
            &mut self.out,
            trace,
        );
        let Outcome::Reply(length) = outcome else { panic!("no reply") };
        self.length = length;
    }

    fn said(&self) -> &[u8] {
        &self.out[..self.length]
    }

    fn counted(&self) -> Tallies {
        let mut sum = Tallies::default();
        self.tally.add_to(&mut sum);
        sum
    }
}

#[test]
fn fast_path_answers_and_counts_like_slow_path() {
    let states = states();
    let owners = POOLS.iter().flat_map(|(owner, ..)| [owner.replace('*', "x"), mixed(owner).replace('*', "x")]);
    let explained = POOLS.iter().map(|(owner, ..)| format!("_explain.{}", owner.replace('*', "x")));
    let names = NAMES.split_whitespace().map(str::to_owned).chain(owners).chain(explained);
    let names: Vec<Name> = names.map(|text| name(&text)).collect();
    let questions: Vec<_> = names
        .iter()
        .flat_map(|name| TYPES.map(|rtype| (name, rtype)))
        .flat_map(|(name, rtype)| CLASSES.map(|class| (name, rtype, class)))
        .flat_map(|(name, rtype, class)| OPTS.map(|opt| (name, rtype, class, opt)))
        .collect();
    for (number, serving) in states.iter().enumerate() {
        let [mut fast, mut slow] = [AnswerPath::new(), AnswerPath::new()];
        let mut query = used(serving);
        for (turn, (name, rtype, class, opt)) in (0u64..).zip(&questions) {
            let packet = packet(name, *rtype, *class, opt);
            read(&serving.snapshot, &packet, &mut query);
            (0..LEVELS).for_each(|level| read_level(&serving.snapshot, level, &mut query));
            find(&serving.snapshot, &packet, &mut query);
            let (v4, v6): (IpAddr, IpAddr) =
                ([198, 51, 100, turn as u8].into(), [0x2001, 0xdb8, 7, 0, 0, 0, 0, turn as u16].into());
            let address = if turn % 3 == 0 { v6 } else { v4 };
            for transport in [Transport::Udp, Transport::Tcp] {
                let client = Client { address, port: 4242, transport };
                let draw = Draw(fairway_model::SplitMix::new(turn).bits());
                fast.answer(serving, &client, &packet, &query, draw, &mut ());
                slow.answer(serving, &client, &packet, &query, draw, &mut Deaf);
                let explained = || {
                    format!("{name} {rtype} class {class} {opt:?} {transport:?}, mixture {number}, client {address}")
                };
                assert_eq!(fast.said(), slow.said(), "{}", explained());
            }
        }
        assert_eq!(fast.counted(), slow.counted(), "mixture {number}");
    }
}

/// True if the fast path answers.
fn is_verbatim(serving: &ServingState, owner: &str, rtype: Rtype, opt: &[u8]) -> bool {
    let packet = packet(&name(owner), rtype, 1, opt);
    let mut query = Query::default();
    read(&serving.snapshot, &packet, &mut query);
    find(&serving.snapshot, &packet, &mut query);
    let client = Client { address: [192, 0, 2, 1].into(), port: 4242, transport: Transport::Udp };
    let Query { asked, found, .. } = &query;
    let tally = Tally::default();
    let response = Response {
        cookie: None,
        serving,
        client: &client,
        packet: &packet,
        query: asked,
        found: *found,
        now: Now(0),
        draw: Draw(0),
        tally: &tally,
    };
    response.fast_path(&mut [0; 1232]).is_some()
}

#[test]
fn whole_answers_are_used_as_stored() {
    let serving = &states()[0];
    let reuse = [
        ("nx.example.test", Rtype::A),
        ("www.example.test", Rtype::TXT),
        ("alias.example.test", Rtype::A),
        ("two.example.test", Rtype::AAAA),
        ("two.example.test", Rtype::TXT),
        ("x.two.example.test", Rtype::A),
        ("up.child.example.test", Rtype::A),
        ("sub.example.test", Rtype::A),
        ("x.glue.example.test", Rtype::A),
        ("x.bare.example.test", Rtype::A),
    ];
    for (owner, rtype) in reuse {
        assert!(is_verbatim(serving, owner, rtype, &[]), "{owner} {rtype}");
    }
    assert!(is_verbatim(serving, "x.wide.example.test", Rtype::A, OPTS[1]));
    // Glue that does not fit; an answer too large to store; a steered target; a longer chain.
    let put_together = [
        ("x.wide.example.test", Rtype::A),
        ("long.example.test", Rtype::TXT),
        ("to.shop.example.test", Rtype::TXT),
        ("to.cn.example.test", Rtype::A),
        ("itself.example.test", Rtype::A),
    ];
    for (owner, rtype) in put_together {
        assert!(!is_verbatim(serving, owner, rtype, &[]), "{owner} {rtype}");
    }
}
