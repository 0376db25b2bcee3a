//! Inputs of the property of incremental compilation: zones, a desired state, and edits of it.

use super::*;

pub(super) const OUTER: &str = "\
    $TTL 300\n@ IN SOA ns1 hostmaster 7 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 192.0.2.53\nwww IN CNAME shop\n\
    shop IN TXT beside\nx.*.wild IN A 192.0.2.4\n*.wild IN TXT wild\n*.free IN MX 1 own\nsub IN NS ns.sub\n\
    ns.sub IN A 192.0.2.5\nold IN DNAME new\na.new IN A 192.0.2.6\n_s._udp IN SRV 0 0 1 eu1\neu1 IN TXT eu\n\
    own IN A 192.0.2.7\nlink IN CNAME own\nfar IN CNAME a.deep.shop\n";
pub(super) const INNER: &str =
    "$TTL 60\n@ IN SOA ns1 h 1 2 3 4 5\n@ IN NS ns1\nns1 IN A 192.0.2.1\n@ IN HTTPS 0 shop.example.test.\n";

/// Names that are steered in some steps: next to records, below each other, wildcards, apexes, below zones without a
/// delegation, names of clusters, and invalid ones.
pub(super) const STEERED: [&str; 33] = [
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
    "wild.",
    "free.",
    "*.a.b.c.d.new.",
];
/// Further names that are queried.
pub(super) const ASKED: &str = "www. www.shop. q.a.shop. q.wild. x.*.wild. free. y.free. sub. q.sub. old. a.old. a.new. new. c.d.new. q.c.d.new. q.a.b.c.d.new. \
     _s._udp. ap1. q.ap1. link. far. y.in. q.gap. ns.deep.gap. nowhere. a.b.nowhere. new2. b.new2. a.b.new2. q.new2. x.b.new2.";
pub(super) const TYPES: [Rtype; 5] = [Rtype::A, Rtype::AAAA, Rtype::TXT, Rtype::MX, Rtype::ANY];
pub(super) const CLIENTS: [&str; 3] = ["198.51.100.7", "203.0.113.200", "2001:db8:7::1"];

pub(super) fn owner(relative: &str) -> Name {
    format!("{relative}example.test").parse().unwrap()
}

pub(super) fn zones() -> Vec<ZoneData> {
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
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, count: u64) -> u64 {
        let face = self.0 % count;
        self.0 = ((self.0 / count) ^ self.0.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        face
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

pub(super) fn cluster(number: u64) -> ClusterName {
    ClusterName::new(["eu1", "us1", "ap1", "sa1", "af1", "me1"][number as usize]).unwrap()
}

/// Returns clusters, monitors, zones and a map, without a pool.
pub(super) fn world() -> DesiredState {
    let mut desired = DesiredState::default();
    for (number, addresses) in (0..).zip([
        vec!["203.0.113.1"],
        vec!["203.0.113.2", "2001:db8::2"],
        vec!["203.0.113.3", "203.0.113.4"],
        vec!["2001:db8::5"],
        vec!["203.0.113.6"],
        vec!["203.0.113.7", "203.0.113.8", "2001:db8::7", "2001:db8::8"],
    ]) {
        let name = cluster(number);
        let location = ClusterLocation {
            coordinates: Coordinates::from_degrees(number as f64 * 10.0, 7.0),
            region: Some(format!("r{number}")),
            bias: Bias::default(),
        };
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let reuse = Cluster {
            dns_name: Some(owner(&format!("{name}."))),
            location: Some(location),
            capacity: Some(100),
            ..Cluster::new(name.clone(), addresses)
        };
        desired.clusters.insert(name, reuse);
    }
    for (monitor, port) in [("first", 81), ("second", 82)] {
        let reuse = Monitor::new(Check::Tcp { port });
        desired.monitors.insert(MonitorName::new(monitor).unwrap(), Arc::new(reuse));
    }
    let spec = |relative: &str| ZoneSpec::new(owner(relative));
    let inner = ZoneSpec { visibility: Visibility::Private, monitor: MonitorName::new("first").ok(), ..spec("in.") };
    desired.zones = [spec(""), inner, spec("deep.gap.")].map(|zone| (zone.name.clone(), zone)).into();
    let place =
        ClientLocation { asn: Some(7), coordinates: Coordinates::from_degrees(20.0, 8.0), ..ClientLocation::default() };
    let layers = MapLayer::of_networks(&[("198.51.100.0/24".parse().unwrap(), place)]);
    let map = ClientMap::new(MapName::new("m").unwrap(), layers);
    desired.maps.insert(map.name().clone(), Arc::new(map));
    desired
}

/// Returns a pool of any kind.
pub(super) fn pool(name: &PoolName, dice: &mut Dice) -> Pool {
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
            member.schedule = Schedule::new(vec![ScheduleWindow::new(None, None, Some(before)).unwrap()]);
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
            let clients = LocationMatch { asn: Some(7), ..LocationMatch::default() };
            let regions = vec![format!("r{}", (first + 1) % 6).into()];
            let prefer = vec![Preference { clients, regions, only: dice.one_in(3) }];
            pool.location.geo = Geo { prefer, default: vec![] };
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
    pool.mode = if dice.one_in(10) { AnswerMode::Cname } else { AnswerMode::Address };
    pool
}

/// RDATA of declared types: addresses, text, an alias, a delegation, names in RDATA.
pub(super) const DECLARED: [(Rtype, &[u8]); 7] = [
    (Rtype::A, &[192, 0, 2, 77]),
    (Rtype::TXT, b"\x05hello"),
    (Rtype::CNAME, b"\x03own\x07example\x04test\0"),
    (Rtype::MX, b"\0\x01\x03own\x07example\x04test\0"),
    (Rtype::SRV, b"\0\0\0\0\0\x01\x03own\x07example\x04test\0"),
    (Rtype::NS, b"\x02ns\x07invalid\0"),
    (Rtype::CAA, b"\0\x05issue;"),
];

/// Adds or removes a declared record set and returns its owner.
pub(super) fn edit_records(desired: &mut DesiredState, dice: &mut Dice) -> Name {
    let name = owner(if dice.one_in(3) {
        ["new2.", "a.b.new2.", "*.new2."][dice.below(3) as usize]
    } else {
        STEERED[dice.below(30) as usize]
    });
    let (rtype, rdata) = DECLARED[dice.below(7) as usize];
    let mine: Vec<_> = desired.records.keys().filter(|(of, _)| *of == name).cloned().collect();
    match mine.first() {
        Some(key) if dice.one_in(2) => _ = desired.records.remove(key),
        _ => {
            let ttl = Ttl::from_secs(60 + dice.below(2) as u32).unwrap();
            let set = RecordSet::new(name.clone(), rtype, ttl, [rdata.into()]);
            desired.records.insert(set.key(), set);
        }
    }
    name
}

/// Applies an edit and returns the changed items.
pub(super) fn edit(desired: &mut DesiredState, dice: &mut Dice) -> ChangedItems {
    let mut touched = ChangedItems::default();
    if dice.one_in(3) {
        touched.records.insert(edit_records(desired, dice));
        return touched;
    }
    let name = PoolName::new(&format!("p{}", dice.below(7))).unwrap();
    match dice.below(8) {
        0..=2 => {
            desired.pools.insert(name.clone(), pool(&name, dice));
            touched.pools.insert(name);
        }
        3 if desired.names.values().all(|steered| steered.pool != name) => {
            desired.pools.remove(&name);
            touched.pools.insert(name);
        }
        4 => {
            let steered = owner(STEERED[dice.below(STEERED.len() as u64) as usize]);
            desired.names.remove(&steered);
            touched.names.insert(steered);
        }
        _ if desired.pools.contains_key(&name) => {
            let steered = owner(STEERED[dice.below(STEERED.len() as u64) as usize]);
            let ttl = dice.one_in(4).then(|| Ttl::from_secs(40 + dice.below(2) as u32).unwrap());
            desired.names.insert(steered.clone(), SteeredName { name: steered.clone(), pool: name, ttl });
            touched.names.insert(steered);
        }
        _ => {}
    }
    touched
}
