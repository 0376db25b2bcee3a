//! The law of revisions: whatever was changed, added and removed, in whatever order, a revised snapshot is the one that compiling
//! the same wish anew gives: in every answer, explanation, target, counter and id.

#![allow(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    sync::Arc,
};

use fairway_model::{
    Bias, Check, ClientMap, ClientPlace, Cluster, ClusterName, Coordinates, Desired, DownAnswer, Geo, Health, Location,
    MapLayer, MapName, Member, Mode, Monitor, MonitorName, Name, Network, Pace, Permille, PlaceMatch, Policy, Pool,
    PoolName, Preference, ProbeAddress, Rank, RecordSet, Risk, Rtype, Schedule, Severity, Spread, SteeredName, Tier,
    Timestamp, Ttl, TtlBounds, Verdict, Visibility, Weight, Window, ZoneSpec,
};
use fairway_zones::{
    Client, Conditions, Draw, Now, Outcome, PoolInfo, ServerOptions, Slot, Snapshot, Tallies, Tally, TargetIndex,
    Touched, Transport, View, compile, explain, recompile, respond, revise,
    text::{ZoneData, read_zone},
};
use proptest::{prelude::*, test_runner::TestRunner};

const OUTER: &str = "\
    $TTL 300\n@ IN SOA ns1 hostmaster 7 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 192.0.2.53\nwww IN CNAME shop\n\
    shop IN TXT beside\nx.*.wild IN A 192.0.2.4\n*.wild IN TXT wild\n*.free IN MX 1 own\nsub IN NS ns.sub\n\
    ns.sub IN A 192.0.2.5\nold IN DNAME new\na.new IN A 192.0.2.6\n_s._udp IN SRV 0 0 1 eu1\neu1 IN TXT eu\n\
    own IN A 192.0.2.7\nlink IN CNAME own\nfar IN CNAME a.deep.shop\n";
const INNER: &str =
    "$TTL 60\n@ IN SOA ns1 h 1 2 3 4 5\n@ IN NS ns1\nns1 IN A 192.0.2.1\n@ IN HTTPS 0 shop.example.test.\n";

/// Names that are steered now and then: beside records, below each other, wildcards, apexes, below zones that no text delegates to,
/// names of clusters; and such as cannot be.
const STEERED: [&str; 30] = [
    "shop.",
    "a.shop.",
    "deep.shop.",
    "a.deep.shop.",
    "*.shop.",
    "*.*.shop.",
    "*.wild.",
    "y.wild.",
    "y.*.wild.",
    "*.free.",
    "*.",
    "",
    "in.",
    "x.in.",
    "*.in.",
    "d.new.",
    "b.c.d.new.",
    "*.c.d.new.",
    "a.b.c.d.new.",
    "gap.",
    "x.gap.",
    "deep.gap.",
    "y.deep.gap.",
    "us1.",
    "z.us1.",
    "*.ap1.",
    "own.",
    "x.sub.",
    "b.old.",
    "eu1.",
];
/// Beside those, what is asked for.
const ASKED: &str = "www. www.shop. q.a.shop. q.wild. x.*.wild. free. y.free. sub. q.sub. old. a.old. a.new. new. c.d.new. q.c.d.new. \
     _s._udp. ap1. q.ap1. link. far. y.in. q.gap. ns.deep.gap. nowhere. a.b.nowhere. new2. b.new2. a.b.new2. q.new2. x.b.new2.";
const TYPES: [Rtype; 5] = [Rtype::A, Rtype::AAAA, Rtype::TXT, Rtype::MX, Rtype::ANY];
const CLIENTS: [&str; 3] = ["198.51.100.7", "203.0.113.200", "2001:db8:7::1"];

fn owner(relative: &str) -> Name {
    format!("{relative}example.test").parse().unwrap()
}

fn zones() -> Vec<ZoneData> {
    let read = |origin: &str, text: &str| {
        let (zone, faults) = read_zone(&origin.parse().unwrap(), "z", text.as_bytes(), &mut |_| Err("none".into()));
        assert!(faults.is_empty(), "{faults:?}");
        zone
    };
    [("", OUTER), ("in.", INNER), ("deep.gap.", INNER)]
        .map(|(origin, text)| read(&format!("{origin}example.test"), text))
        .into()
}

/// Small numbers from a large one.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        let face = self.0 % count;
        self.0 = ((self.0 / count) ^ self.0.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        face
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

fn cluster(number: u64) -> ClusterName {
    ClusterName::new(["eu1", "us1", "ap1", "sa1", "af1", "me1"][number as usize]).unwrap()
}

/// Clusters, monitors, zones and a map; no pool yet.
fn world() -> Desired {
    let mut desired = Desired::default();
    for (number, addresses) in (0..).zip([
        vec!["203.0.113.1"],
        vec!["203.0.113.2", "2001:db8::2"],
        vec!["203.0.113.3", "203.0.113.4"],
        vec!["2001:db8::5"],
        vec!["203.0.113.6"],
        vec!["203.0.113.7", "203.0.113.8", "2001:db8::7", "2001:db8::8"],
    ]) {
        let name = cluster(number);
        let location = Location {
            latitude: number as f64 * 10.0,
            longitude: 7.0,
            region: Some(format!("r{number}")),
            bias: Bias::default(),
        };
        let made = Cluster {
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            dns_name: Some(owner(&format!("{name}."))),
            location: Some(location),
            capacity: Some(100),
            services: vec![],
            name: name.clone(),
        };
        desired.clusters.insert(name, made);
    }
    for (monitor, port) in [("first", 81), ("second", 82)] {
        let made = Monitor::new(Check::Tcp { port });
        desired.monitors.insert(MonitorName::new(monitor).unwrap(), Arc::new(made));
    }
    let spec = |relative: &str| ZoneSpec::new(owner(relative));
    let inner = ZoneSpec { visibility: Visibility::Private, monitor: MonitorName::new("first").ok(), ..spec("in.") };
    desired.zones = [spec(""), inner, spec("deep.gap.")].map(|zone| (zone.name.clone(), zone)).into();
    let place =
        ClientPlace { asn: Some(7), coordinates: Coordinates::from_degrees(20.0, 8.0), ..ClientPlace::default() };
    let layers = MapLayer::of_networks(&[("198.51.100.0/24".parse().unwrap(), place)]);
    let map = ClientMap::new(MapName::new("m").unwrap(), layers);
    desired.maps.insert(map.name().clone(), Arc::new(map));
    desired
}

/// A pool of any kind.
fn pool(name: &PoolName, dice: &mut Dice) -> Pool {
    let mut pool = Pool::new(name.clone(), [Policy::WEIGHTED, Policy::FAILOVER][dice.below(2) as usize].clone());
    let first = dice.below(6);
    for place in 0..=dice.below(4) {
        let mut member = Member::new(cluster((first + place) % 6));
        member.weight = Weight([1, 1, 5, 0][dice.below(4) as usize]);
        member.tier = Tier::new(1 + (dice.below(3) as u8 & place as u8)).unwrap();
        member.internal = dice.one_in(6);
        if dice.one_in(6) {
            member.networks = vec!["198.51.100.0/25".parse().unwrap()];
        }
        if dice.one_in(6) {
            let before = Timestamp::from_secs([500, 5_000][dice.below(2) as usize]);
            member.open = Schedule::new(vec![Window::new(None, None, Some(before)).unwrap()]);
        }
        if dice.one_in(6) {
            member.probe = Some(ProbeAddress::Host("gw.test".into(), 80 + dice.below(2) as u16));
        }
        member.monitor = MonitorName::new("second").ok().filter(|_| dice.one_in(6));
        pool.members.push(member);
    }
    pool.members[0].tier = Tier::default();
    pool.monitor = MonitorName::new("second").ok().filter(|_| dice.one_in(4));
    pool.policy.schedule = dice.one_in(3);
    pool.policy.load = dice.one_in(4);
    match dice.below(6) {
        0 => pool.policy.ranks = vec![Rank::Nearest],
        1 => {
            pool.policy.ranks = vec![Rank::Geo];
            let clients = PlaceMatch { asn: Some(7), ..PlaceMatch::default() };
            let regions = vec![format!("r{}", (first + 1) % 6).into()];
            let prefer = vec![Preference { clients, regions, only: dice.one_in(3) }];
            pool.place.geo = Geo { prefer, default: vec![] };
        }
        _ => {}
    }
    pool.ttl = Ttl::from_secs(20 + dice.below(2) as u32).unwrap();
    if dice.one_in(4) {
        let [short, long] = [5, 60].map(|secs| Ttl::from_secs(secs).unwrap());
        pool.ttl_bounds = Some(TtlBounds { short, long });
    }
    pool.answers = [1, 1, 2, 3][dice.below(4) as usize];
    pool.down = match dice.below(8) {
        0 | 1 => DownAnswer::LastGood,
        2 => DownAnswer::Empty,
        3 => DownAnswer::FallbackAddresses(vec!["192.0.2.99".parse().unwrap()]),
        4 => DownAnswer::FallbackCname(owner("own.")),
        _ => DownAnswer::All,
    };
    pool.spread = if dice.one_in(8) { Spread::Query } else { Spread::Client };
    pool.panic_threshold = Permille::new([0, 400][dice.below(2) as usize]).unwrap();
    pool.mode = if dice.one_in(10) { Mode::Cname } else { Mode::Address };
    pool
}

/// RDATA of types that are declared: addresses, text, an alias, a delegation, names inside.
const DECLARED: [(Rtype, &[u8]); 7] = [
    (Rtype::A, &[192, 0, 2, 77]),
    (Rtype::TXT, b"\x05hello"),
    (Rtype::CNAME, b"\x03own\x07example\x04test\0"),
    (Rtype::MX, b"\0\x01\x03own\x07example\x04test\0"),
    (Rtype::SRV, b"\0\0\0\0\0\x01\x03own\x07example\x04test\0"),
    (Rtype::NS, b"\x02ns\x07invalid\0"),
    (Rtype::CAA, b"\0\x05issue;"),
];

/// Declares or takes back a record set; says whose.
fn edit_records(wish: &mut Desired, dice: &mut Dice) -> Name {
    let name = owner(if dice.one_in(3) {
        ["new2.", "a.b.new2.", "*.new2."][dice.below(3) as usize]
    } else {
        STEERED[dice.below(30) as usize]
    });
    let (rtype, rdata) = DECLARED[dice.below(7) as usize];
    let mine: Vec<_> = wish.records.keys().filter(|(of, _)| *of == name).cloned().collect();
    match mine.first() {
        Some(key) if dice.one_in(2) => _ = wish.records.remove(key),
        _ => {
            let ttl = Ttl::from_secs(60 + dice.below(2) as u32).unwrap();
            let set = RecordSet::new(name.clone(), rtype, ttl, [rdata.into()]);
            wish.records.insert(set.key(), set);
        }
    }
    name
}

/// Makes an edit; says what it touches.
fn edit(wish: &mut Desired, dice: &mut Dice) -> Touched {
    let mut touched = Touched::default();
    if dice.one_in(3) {
        touched.records.insert(edit_records(wish, dice));
        return touched;
    }
    let name = PoolName::new(&format!("p{}", dice.below(7))).unwrap();
    match dice.below(8) {
        0..=2 => {
            wish.pools.insert(name.clone(), pool(&name, dice));
            touched.pools.insert(name);
        }
        3 if wish.names.values().all(|steered| steered.pool != name) => {
            wish.pools.remove(&name);
            touched.pools.insert(name);
        }
        4 => {
            let steered = owner(STEERED[dice.below(30) as usize]);
            wish.names.remove(&steered);
            touched.names.insert(steered);
        }
        _ if wish.pools.contains_key(&name) => {
            let steered = owner(STEERED[dice.below(30) as usize]);
            let ttl = dice.one_in(4).then(|| Ttl::from_secs(40 + dice.below(2) as u32).unwrap());
            wish.names.insert(steered.clone(), SteeredName { name: steered.clone(), pool: name, ttl });
            touched.names.insert(steered);
        }
        _ => {}
    }
    touched
}

/// The health of a target at a step: the same wherever it stands.
fn health(snapshot: &Snapshot, target: TargetIndex, step: usize) -> Health {
    let mut hasher = DefaultHasher::new();
    (&snapshot.targets()[target.0 as usize].address, step).hash(&mut hasher);
    let verdicts = [Verdict::Up, Verdict::Up, Verdict::Down, Verdict::Down, Verdict::Pending];
    Health::new(verdicts[hasher.finish() as usize % 5], None)
}

/// The view of a snapshot at a step.
fn view(snapshot: Snapshot, before: Option<&View>, step: usize) -> View {
    let now = Timestamp::from_secs(100 * step as u64);
    let judge = |target| health(&snapshot, target, step);
    let conditions = match before {
        Some(before) => Conditions::after(&snapshot, (&before.snapshot, &before.conditions), now, judge),
        None => Conditions::new_at(&snapshot, now, judge),
    };
    let conditions = conditions.with_paces(&snapshot, |place| pace(&snapshot.pool_infos()[place].name, step));
    View { snapshot: Arc::new(snapshot), conditions: Arc::new(conditions) }
}

/// The pace of a pool at a step: the same wherever it stands.
fn pace(pool: &PoolName, step: usize) -> Pace {
    let mut hasher = DefaultHasher::new();
    (pool, step).hash(&mut hasher);
    [Pace::Declared, Pace::Calm, Pace::Risky(Risk::Down)][hasher.finish() as usize % 3]
}

/// Every response to the names of interest, every explanation, and the answers counted by what they count.
fn said(view: &View) -> (Vec<Vec<u8>>, Vec<String>, BTreeMap<String, u64>) {
    let mut names: BTreeSet<Name> = STEERED.iter().copied().chain(ASKED.split_whitespace()).map(owner).collect();
    names.extend(view.snapshot.pool_infos().iter().flat_map(|info| info.names.iter().cloned()));
    let (tally, mut out) = (Tally::default(), vec![0; 65_535]);
    let (mut responses, mut explained) = (Vec::new(), Vec::new());
    for (name, rtype) in names.iter().flat_map(|name| TYPES.map(|rtype| (name, rtype))) {
        let head = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let packet = [&head, name.as_wire(), &rtype.0.to_be_bytes(), &[0, 1]].concat();
        // Who asks matters where pools answer.
        let clients = if matches!(rtype, Rtype::A | Rtype::AAAA) { &CLIENTS[..] } else { &CLIENTS[..1] };
        for address in clients.iter().map(|client| client.parse::<IpAddr>().unwrap()) {
            let client = Client { address, port: 4242, transport: Transport::Tcp };
            let outcome = respond(view, &client, &packet, Now(0), Draw(1), &tally, &mut out);
            let Outcome::Reply(length) = outcome else { panic!("no reply") };
            responses.push(out[..length].to_vec());
        }
        if rtype == Rtype::A {
            let network = Network::of(CLIENTS[0].parse().unwrap(), 24);
            let told = format!("{:?}", explain(view, name, rtype, Some(network)));
            explained.push(by_address(&told, &view.snapshot));
        }
    }
    let mut tallies = Tallies::default();
    tally.add_to(&mut tallies);
    let of = |Slot { pool, cluster }: &Slot| format!("{pool} {cluster}");
    let slots = view.snapshot.slots().iter().zip(&tallies.answers[1..]);
    (responses, explained, slots.filter(|(_, count)| **count > 0).map(|(slot, count)| (of(slot), *count)).collect())
}

/// The same with what targets probe in place of their numbers.
fn by_address(told: &str, snapshot: &Snapshot) -> String {
    let mut parts = told.split("TargetIndex(");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_once(')').unwrap();
        let target = &snapshot.targets()[number.parse::<usize>().unwrap()];
        out += &format!("target {} {}{rest}", target.address, target.label);
    }
    out
}

/// What each pool is called and serves, in an order that does not go by number.
fn infos(snapshot: &Snapshot) -> Vec<String> {
    let told = |PoolInfo { name, clusters, ttl, bounds, names, .. }: &PoolInfo| {
        format!("{name} {clusters:?} {ttl} {bounds:?} {names:?}")
    };
    let mut infos: Vec<String> = snapshot.pool_infos().iter().map(told).collect();
    infos.sort();
    infos
}

/// Panics where two views are not the same but for numbers.
fn assert_same(revised: &View, compiled: &View, context: &str) {
    let (ours, theirs) = (&revised.snapshot, &compiled.snapshot);
    assert_eq!(ours.id(), theirs.id(), "snapshot's id, {context}");
    let targets = |snapshot: &Snapshot| snapshot.targets().iter().cloned().collect::<HashSet<_>>();
    assert_eq!(targets(ours), targets(theirs), "{context}");
    assert_eq!(ours.targets().len(), theirs.targets().len(), "{context}");
    assert!(ours.zones().eq(theirs.zones()), "{context}");
    assert_eq!(infos(ours), infos(theirs), "{context}");
    assert_eq!(ours.steer_pools().len(), theirs.steer_pools().len(), "{context}");
    let of_place = |(pool, info): (&fairway_zones::steer::SteerPool, &PoolInfo)| *pool.name() == info.name;
    assert!(ours.steer_pools().iter().zip(ours.pool_infos()).all(of_place), "{context}");
    assert_eq!(revised.conditions.id(), compiled.conditions.id(), "conditions' id, {context}");
    let ((responses, explained, counted), expected) = (said(revised), said(compiled));
    assert!(responses == expected.0, "responses, {context}");
    for (explained, expected) in explained.iter().zip(&expected.1) {
        assert_eq!(explained, expected, "{context}");
    }
    assert_eq!(counted, expected.2, "{context}");
}

#[test]
fn ordinary_changes_are_revised() {
    let (zones, options) = (zones(), ServerOptions::default());
    let mut wish = world();
    let plain = |number: u64| {
        let mut pool = Pool::new(PoolName::new(&format!("p{number}")).unwrap(), Policy::WEIGHTED);
        pool.members = (0..3).map(|place| Member::new(cluster((number + place) % 6))).collect();
        pool
    };
    let steered = |name: &str, pool: u64| {
        let pool = PoolName::new(&format!("p{pool}")).unwrap();
        SteeredName { name: owner(name), pool, ttl: None }
    };
    for number in 0..6 {
        wish.pools.insert(plain(number).name, plain(number));
        let steered = steered(&format!("n{number}."), number);
        wish.names.insert(steered.name.clone(), steered);
    }
    let mut snapshot = Arc::new(compile(&wish, &zones, &options, None).unwrap().0);
    let mut check = |what: &str, change: &dyn Fn(&mut Desired), pools: &[u64], names: &[&str]| {
        let mut after = wish.clone();
        change(&mut after);
        let touched = Touched {
            pools: pools.iter().map(|number| plain(*number).name).collect(),
            names: names.iter().map(|name| owner(name)).collect(),
            records: BTreeSet::new(),
        };
        let made = revise(&wish, &after, &touched, &options, &snapshot);
        let made = made.unwrap_or_else(|| panic!("{what}: left to the whole compilation"));
        let expected = compile(&after, &zones, &options, None).unwrap().0;
        let made = view(made, None, 1);
        assert_same(&made, &view(expected, None, 1), what);
        (snapshot, wish) = (made.snapshot, after);
    };
    let put = |wish: &mut Desired, name: &str, pool: u64| {
        let steered = steered(name, pool);
        wish.names.insert(steered.name.clone(), steered);
    };
    check("nothing changed", &|_| {}, &[2], &["n3."]);
    let weigh = |wish: &mut Desired| wish.pools.get_mut(&plain(1).name).unwrap().members[1].weight = Weight(9);
    check("a weight", &weigh, &[1], &[]);
    check("a name", &|wish| put(wish, "x.y.", 1), &[], &["x.y."]);
    check(
        "a name below it, and a wildcard",
        &|wish| ["q.x.y.", "*.y."].iter().for_each(|n| put(wish, n, 2)),
        &[],
        &["q.x.y.", "*.y."],
    );
    check("a name in another zone", &|wish| put(wish, "x.in.", 3), &[], &["x.in."]);
    check("another pool for a name", &|wish| put(wish, "x.y.", 3), &[], &["x.y."]);
    check("a name less", &|wish| _ = wish.names.remove(&owner("q.x.y.")), &[], &["q.x.y."]);
    check("a wildcard less", &|wish| _ = wish.names.remove(&owner("*.y.")), &[], &["*.y."]);
    let add = |wish: &mut Desired| {
        wish.pools.insert(plain(7).name, plain(7));
        put(wish, "n7.", 7);
    };
    check("a pool and its name", &add, &[7], &["n7."]);
    let take = |wish: &mut Desired| {
        wish.pools.remove(&plain(2).name);
        wish.names.remove(&owner("n2."));
    };
    check("a pool and its name less", &take, &[2], &["n2."]);
    let ttl = |wish: &mut Desired| wish.pools.get_mut(&plain(3).name).unwrap().ttl = Ttl::from_secs(77).unwrap();
    check("a TTL", &ttl, &[3], &[]);
    check("a pool that no name uses", &|wish| _ = wish.pools.insert(plain(8).name, plain(8)), &[8], &[]);
}

#[test]
fn what_a_revision_cannot_tell_is_left_to_the_whole_compilation() {
    let (zones, options) = (zones(), ServerOptions::default());
    let pool = |number: u64, clusters: &[u64]| {
        let mut pool = Pool::new(PoolName::new(&format!("p{number}")).unwrap(), Policy::WEIGHTED);
        pool.members = clusters.iter().map(|number| Member::new(cluster(*number))).collect();
        pool
    };
    let mut wish = world();
    for (number, clusters) in [(0, &[0, 1][..]), (1, &[0, 2])] {
        let made = pool(number, clusters);
        let name = owner(&format!("n{number}."));
        wish.names.insert(name.clone(), SteeredName { name, pool: made.name.clone(), ttl: None });
        wish.pools.insert(made.name.clone(), made);
    }
    let snapshot = compile(&wish, &zones, &options, None).unwrap().0;
    let is_left = |change: &dyn Fn(&mut Desired), pools: &[&str], names: &[&str], options: &ServerOptions| {
        let mut after = wish.clone();
        change(&mut after);
        let touched = Touched {
            pools: pools.iter().map(|name| PoolName::new(name).unwrap()).collect(),
            names: names.iter().map(|name| owner(name)).collect(),
            records: BTreeSet::new(),
        };
        revise(&wish, &after, &touched, options, &snapshot).is_none()
    };
    let names = |relative: &'static str| {
        move |wish: &mut Desired| {
            let (name, pool) = (owner(relative), PoolName::new("p0").unwrap());
            wish.names.insert(name.clone(), SteeredName { name, pool, ttl: None });
        }
    };
    assert!(!is_left(&names("fine."), &[], &["fine."], &options));
    for relative in ["own.", "x.sub.", "y.old.", "link."] {
        assert!(is_left(&names(relative), &[], &[relative], &options), "{relative} cannot be steered");
    }
    assert!(is_left(&|wish| _ = wish.names.remove(&owner("n1.")), &[], &["n1."], &options), "a cluster's last name");
    let p1 = PoolName::new("p1").unwrap();
    assert!(is_left(&|wish| _ = wish.pools.remove(&p1), &["p1"], &[], &options), "a pool that a name uses still");
    let alias = |wish: &mut Desired| wish.pools.get_mut(&p1).unwrap().mode = Mode::Cname;
    assert!(is_left(&alias, &["p1"], &[], &options), "clusters get names");
    let other = ServerOptions { udp_payload: 1_000, ..ServerOptions::default() };
    assert!(is_left(&|_| {}, &[], &[], &other), "the server's own options");
    let many: Vec<String> = (0..25_000).map(|number| format!("a-rather-long-name-{number}.")).collect();
    let add = |wish: &mut Desired| {
        many.iter().for_each(|name| {
            let (name, pool) = (owner(name), PoolName::new("p0").unwrap());
            wish.names.insert(name.clone(), SteeredName { name, pool, ttl: None });
        })
    };
    let added: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(is_left(&add, &[], &added, &options), "more than a revision is to add");
}

/// Plays edits one after the other; gives how many were revised, and how many were played.
fn play(edits: &[u64]) -> Result<(u32, u32), TestCaseError> {
    let (zones, options) = (zones(), ServerOptions::default());
    let mut wish = world();
    let whole = |wish: &Desired| compile(wish, &zones, &options, None).map(|(snapshot, _)| snapshot);
    let mut revised = view(whole(&wish).unwrap(), None, 0);
    let mut compiled = view(whole(&wish).unwrap(), None, 0);
    let (mut narrow, mut played) = (0, 0);
    for (step, number) in edits.iter().enumerate() {
        let (mut after, mut dice) = (wish.clone(), Dice(*number));
        let mut touched = edit(&mut after, &mut dice);
        if dice.one_in(3) {
            let more = edit(&mut after, &mut dice);
            touched.pools.extend(more.pools);
            touched.names.extend(more.names);
            touched.records.extend(more.records);
        }
        if touched == Touched::default() || after.problems().iter().any(|problem| problem.severity == Severity::Error) {
            continue;
        }
        let made = revise(&wish, &after, &touched, &options, &revised.snapshot);
        let Ok(expected) = whole(&after) else {
            prop_assert!(made.is_none(), "at fault, and revised: {:?}", touched);
            continue;
        };
        (narrow, played) = (narrow + u32::from(made.is_some()), played + 1);
        let next = made.unwrap_or_else(|| recompile(&after, &options, &revised.snapshot).unwrap().0);
        revised = view(next, Some(&revised), step);
        compiled = view(expected, Some(&compiled), step);
        assert_same(&revised, &compiled, &format!("step {step}: {touched:?}"));
        wish = after;
    }
    Ok((narrow, played))
}

#[test]
fn a_revised_snapshot_is_the_one_that_is_compiled_anew() {
    let config =
        ProptestConfig { cases: 12, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() };
    let (narrow, played) = (Cell::new(0), Cell::new(0));
    let edits = prop::collection::vec(any::<u64>(), 1..50);
    let law = TestRunner::new(config).run(&edits, |edits| {
        let (revised, all) = play(&edits)?;
        narrow.set(narrow.get() + revised);
        played.set(played.get() + all);
        Ok(())
    });
    law.unwrap_or_else(|fault| panic!("{fault}"));
    // A law that everything is left out of says nothing.
    let (narrow, played) = (narrow.get(), played.get());
    assert!(3 * narrow > 2 * played && played > 60, "{narrow} of {played} edits were revised");
}
