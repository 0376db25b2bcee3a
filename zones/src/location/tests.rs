//! Location rankings: each ranking, the partition, sharing, bounds and notes.

use std::{net::IpAddr, sync::Arc, time::Duration};

use fairway_model::{
    Bias, ClassRanks, ClientLocation, ClientMap, ClientPartition, Cluster, ClusterLocation, ClusterName, Continent,
    Coordinates, Country, DesiredState, EarthPoint, Geo, Latency, LatencyTable, LatencyTableName, LocationMatch,
    MapLayer, MapName, Member, Name, Network, Policy, Pool, PoolName, Preference, Rank, SteeredName, Weight,
    ranking::{self, MemberLocation, RankingInputs},
};
use fairway_zonefile::read_zone;
use proptest::prelude::*;

use super::compile::{CompiledRankings, RankingCache, TooLarge};
use crate::{
    compile, recompile,
    snapshot::{ServerOptions, Snapshot},
};

const LAST: u16 = ClassRanks::LAST;

fn compiled(inputs: RankingInputs) -> CompiledRankings {
    CompiledRankings::new(inputs, ClientPartition::CLASSES_MAX)
}

fn member(region: &str, at: Option<(f64, f64)>, bias: i8) -> MemberLocation {
    MemberLocation {
        coordinates: at.and_then(|(latitude, longitude)| Coordinates::from_degrees(latitude, longitude)),
        region: Some(region).filter(|region| !region.is_empty()).map(Arc::from),
        bias: Bias::new(bias).unwrap(),
        column: None,
    }
}

/// Dublin, Frankfurt, Ashburn, and a member without coordinates.
fn members() -> Vec<MemberLocation> {
    vec![
        member("eu", Some((53.35, -6.26)), 0),
        member("eu", Some((50.11, 8.68)), 0),
        member("us", Some((39.04, -77.49)), 0),
        member("", None, 0),
    ]
}

fn at(latitude: f64, longitude: f64) -> ClientLocation {
    ClientLocation { coordinates: Coordinates::from_degrees(latitude, longitude), ..ClientLocation::default() }
}

fn country(letters: &str) -> ClientLocation {
    let country = Country::new(letters);
    ClientLocation { country, continent: country.and_then(Country::continent), ..ClientLocation::default() }
}

fn region(name: &str) -> ClientLocation {
    ClientLocation { region: Some(name.into()), ..ClientLocation::default() }
}

fn nearest(place: &ClientLocation, members: &[MemberLocation], kilometres: u32) -> Vec<u16> {
    let points: Vec<_> = members.iter().map(|member| member.coordinates.map(EarthPoint::from)).collect();
    ranking::nearest(place, members, &points, kilometres * 1_000)
}

#[test]
fn nearest_member_ranks_first_and_member_without_coordinates_last() {
    assert_eq!(nearest(&at(48.85, 2.35), &members(), 0), [1, 0, 2, LAST], "Paris");
    assert_eq!(nearest(&at(40.71, -74.0), &members(), 0), [1, 2, 0, LAST], "New York");
}

#[test]
fn members_within_tolerance_rank_equal() {
    // 478 km to Frankfurt, 781 km to Dublin.
    assert_eq!(nearest(&at(48.85, 2.35), &members(), 303), [1, 0, 2, LAST]);
    assert_eq!(nearest(&at(48.85, 2.35), &members(), 304), [0, 0, 1, LAST]);
}

#[test]
fn bias_attracts_clients_nearer_to_another_member() {
    let mut members = members();
    members[0].bias = Bias::new(50).unwrap();
    assert_eq!(nearest(&at(48.85, 2.35), &members, 0), [0, 1, 2, LAST]);
    members[0].bias = Bias::new(-99).unwrap();
    assert_eq!(nearest(&at(53.35, -6.3), &members, 0), [0, 1, 2, LAST], "one at its door stays");
    assert_eq!(nearest(&at(52.0, -1.0), &members, 0), [2, 0, 1, LAST]);
}

#[test]
fn client_without_coordinates_uses_region_then_country_then_nothing() {
    assert_eq!(nearest(&region("us"), &members(), 0), [1, 2, 0, LAST]);
    assert_eq!(nearest(&region("eu"), &members(), 0), [0, 0, 1, LAST], "both members of the region rank first");
    assert_eq!(nearest(&country("US"), &members(), 0), [1, 2, 0, LAST]);
    let elsewhere = ClientLocation { region: Some("ap".into()), ..country("DE") };
    assert_eq!(nearest(&elsewhere, &members(), 0), [1, 0, 2, LAST]);
    assert_eq!(nearest(&ClientLocation::default(), &members(), 0), [0; 4]);
    assert_eq!(nearest(&region("ap"), &members(), 0), [0; 4]);
}

fn preferences() -> Geo {
    let of_continent = LocationMatch { continent: Some(Continent::Europe), ..LocationMatch::default() };
    let of_country = LocationMatch { country: Country::new("DE"), ..LocationMatch::default() };
    let prefer = |clients, regions: &[&str]| Preference {
        clients,
        regions: regions.iter().map(|r| (*r).into()).collect(),
        only: false,
    };
    Geo { prefer: vec![prefer(of_continent, &["eu"]), prefer(of_country, &["us", "eu"])], default: vec!["us".into()] }
}

#[test]
fn members_rank_by_preferred_regions_and_others_last() {
    let geo = |place: &ClientLocation| ranking::geo(place, &members(), &preferences());
    assert_eq!(geo(&country("FR")), [0, 0, LAST, LAST]);
    assert_eq!(geo(&country("DE")), [1, 1, 0, LAST]);
    assert_eq!(geo(&country("JP")), [LAST, LAST, 0, LAST]);
    assert_eq!(ranking::geo(&country("JP"), &members(), &Geo::default()), [0; 4]);
}

#[test]
fn exclusive_preference_excludes_other_regions_at_every_depth() {
    let mut geo = preferences();
    geo.prefer[1] = Preference { regions: vec!["us".into()], only: true, ..geo.prefer[1].clone() };
    const NEVER: u16 = ClassRanks::NEVER;
    assert_eq!(ranking::geo(&country("DE"), &members(), &geo), [NEVER, NEVER, 0, NEVER]);
    assert_eq!(ranking::geo(&country("FR"), &members(), &geo), [0, 0, LAST, LAST]);
    let inputs = RankingInputs { geo, ..inputs(&[Rank::Geo, Rank::Nearest], &world()) };
    let placed = CompiledRankings::new(inputs, 2);
    assert_eq!(placed.depth, Some(0));
    assert_eq!(ranks_of(&placed, 0, "192.0.2.1").0, [NEVER, NEVER, 0, NEVER]);
    assert_eq!(ranks_of(&placed, 0, "10.2.0.1").0, [0; 4]);
}

#[test]
fn fastest_member_ranks_first_and_unmeasured_one_last() {
    let members: Vec<_> = (0..3).map(|column| MemberLocation { column: Some(column), ..member("", None, 0) }).collect();
    let class = [Some(Latency(30_000)), Some(Latency(20_000)), None];
    let latency = |class: &[Option<Latency>], millis| ranking::latency(class, &members, Duration::from_millis(millis));
    assert_eq!(latency(&class, 0), [1, 0, LAST]);
    assert_eq!(latency(&class, 9), [1, 0, LAST]);
    assert_eq!(latency(&class, 10), [0, 0, LAST]);
    assert_eq!(latency(&[None, None, None], 0), [0; 3], "all are equal where nothing is known");
}

fn map(networks: &[(&str, ClientLocation)]) -> Arc<ClientMap> {
    let networks: Vec<_> = networks.iter().map(|(network, place)| (network.parse().unwrap(), place.clone())).collect();
    Arc::new(ClientMap::new(MapName::new("m").unwrap(), MapLayer::of_networks(&networks)))
}

fn inputs(ranks: &[Rank], map: &Arc<ClientMap>) -> RankingInputs {
    RankingInputs {
        ranks: ranks.to_vec(),
        members: members(),
        geo: preferences(),
        tolerance: 0,
        map: Some(Arc::clone(map)),
        latencies: None,
        costs_by_latency: false,
    }
}

fn world() -> Arc<ClientMap> {
    map(&[
        ("10.0.0.0/9", country("FR")),
        ("10.128.0.0/9", country("BE")),
        ("10.1.0.0/16", country("US")),
        ("192.0.2.0/24", country("DE")),
        ("2001:db8::/32", country("JP")),
    ])
}

fn ranks_of(placed: &CompiledRankings, ranking: usize, address: &str) -> (Vec<u16>, u8) {
    let (class, length) = placed.location.partition.lookup(address.parse().unwrap());
    let classes = &placed.location.rankings[ranking];
    ((0..4).map(|member| classes.rank(class, member)).collect(), length)
}

#[test]
fn networks_with_equal_ranks_form_one_block() {
    let placed = compiled(inputs(&[Rank::Geo], &world()));
    assert_eq!(ranks_of(&placed, 0, "10.2.0.1"), (vec![0, 0, LAST, LAST], 15));
    assert_eq!(ranks_of(&placed, 0, "10.200.0.1").1, 9, "France and Belgium are one, but for the part between");
    assert_eq!(ranks_of(&placed, 0, "10.1.2.3"), (vec![LAST, LAST, 0, LAST], 16));
    assert_eq!(ranks_of(&placed, 0, "2001:db8::1"), (vec![LAST, LAST, 0, LAST], 0), "as all of IPv6: the default");
    assert_eq!(placed.location.partition.classes(), 3);
}

#[test]
fn several_rankings_share_one_partition() {
    let placed = compiled(inputs(&[Rank::Geo, Rank::Nearest], &world()));
    assert_eq!(ranks_of(&placed, 0, "192.0.2.1").0, [1, 1, 0, LAST]);
    assert_eq!(ranks_of(&placed, 1, "192.0.2.1").0, [1, 0, 2, LAST]);
    assert_eq!(ranks_of(&placed, 1, "8.8.8.8").0, [0; 4]);
}

#[test]
fn map_and_latency_table_are_overlaid() {
    let clusters = ["a", "b"].map(|name| ClusterName::new(name).unwrap()).to_vec();
    let class =
        |network: &str, cells: [u32; 2]| (network.parse().unwrap(), cells.map(|cell| Some(Latency(cell))).to_vec());
    let classes = vec![class("10.0.0.0/8", [9_000, 30_000]), class("192.0.2.128/25", [30_000, 9_000])];
    let table = LatencyTable::new(LatencyTableName::new("rtt").unwrap(), clusters, classes);
    let latency = Rank::Latency { tolerance: Duration::from_millis(10) };
    let mut inputs = inputs(&[latency, Rank::Nearest], &world());
    inputs.latencies = Some(Arc::new(table));
    inputs.members[0].column = Some(0);
    inputs.members[2].column = Some(1);
    let placed = compiled(inputs);
    assert_eq!(ranks_of(&placed, 0, "192.0.2.129"), (vec![1, LAST, 0, LAST], 25));
    assert_eq!(
        (ranks_of(&placed, 0, "192.0.2.1"), ranks_of(&placed, 1, "192.0.2.1").0),
        ((vec![0; 4], 25), vec![1, 0, 2, LAST])
    );
    let client = "192.0.2.200".parse().unwrap();
    assert_eq!(placed.location.partition.lookup(client), (4, 25));
    let note = placed.describe(client);
    assert_eq!(
        note.to_string(),
        "192.0.2.200 -> country DE, continent EU (192.0.2.0/24, network 192.0.2.0/24 of the map); \
         latencies: a 30 ms, b 9 ms (192.0.2.128/25); geo.prefer[1] applies"
    );
}

#[test]
fn latencies_of_a_class_are_the_means_of_its_networks() {
    let clusters = ["a", "b"].map(|name| ClusterName::new(name).unwrap()).to_vec();
    let row = |network: &str, cells: [Option<u32>; 2]| {
        (network.parse().unwrap(), cells.map(|cell| cell.map(Latency)).to_vec())
    };
    let rows = vec![
        row("192.0.2.0/24", [Some(10_000), Some(30_000)]),
        row("198.51.100.0/24", [Some(20_000), Some(80_000)]),
        row("203.0.113.0/24", [None, Some(5_000)]),
    ];
    let table = LatencyTable::new(LatencyTableName::new("rtt").unwrap(), clusters, rows);
    let mut inputs = inputs(&[Rank::Latency { tolerance: Duration::from_millis(10) }], &world());
    inputs.map = None;
    inputs.latencies = Some(Arc::new(table));
    (inputs.members[0].column, inputs.members[2].column) = (Some(0), Some(1));
    let without = compiled(inputs.clone());
    assert_eq!(without.location.latencies.size_in_bytes(), 0, "only load control uses them");
    inputs.costs_by_latency = true;
    let placed = compiled(inputs);
    let of = |client: &str| {
        let (class, _) = placed.location.partition.lookup(client.parse().unwrap());
        [0, 1, 2, 9].map(|member| placed.location.latencies.get(class, member).map(|Latency(micros)| micros))
    };
    assert_eq!(of("192.0.2.1"), [Some(15_000), None, Some(55_000), None]);
    assert_eq!(of("198.51.100.1"), of("192.0.2.1"), "the order is the same");
    assert_eq!(of("203.0.113.1"), [None, None, Some(5_000), None]);
    assert_eq!(of("8.8.8.8"), [None; 4]);
}

#[test]
fn latencies_are_costs_of_load_control_if_they_are_ranked_first() {
    let latency = Rank::Latency { tolerance: Duration::from_millis(10) };
    let are_costs = |load, ranks: &[Rank]| {
        let policy = Policy { ranks: ranks.to_vec(), load, ..Policy::WEIGHTED };
        let pool = Pool::new(PoolName::new("p").unwrap(), policy);
        RankingInputs::of(&DesiredState::default(), &pool).unwrap().costs_by_latency
    };
    assert!(are_costs(true, &[latency, Rank::Nearest]));
    assert!(are_costs(true, &[Rank::Tier, latency]));
    assert!(!are_costs(true, &[Rank::Nearest, latency]));
    assert!(!are_costs(true, &[latency, Rank::Tier]));
    assert!(!are_costs(false, &[latency]));
}

#[test]
fn note_of_unknown_client_says_unknown() {
    let placed = compiled(inputs(&[Rank::Nearest], &world()));
    let client = "8.8.8.8".parse().unwrap();
    assert_eq!(placed.location.partition.lookup(client), (0, 7));
    assert_eq!(placed.describe(client).to_string(), "8.8.8.8 -> nowhere");
}

#[test]
fn too_many_classes_merge_high_ranks() {
    // Clients and members all around the globe, so that nearly each client has its own order.
    let networks: Vec<_> = (0..200u8)
        .map(|n| (format!("10.{n}.0.0/16"), at(f64::from(n % 20) * 8.0 - 80.0, f64::from(n / 20) * 36.0 - 170.0)))
        .collect();
    let networks: Vec<_> = networks.iter().map(|(network, place)| (network.as_str(), place.clone())).collect();
    let map = map(&networks);
    let members =
        (0..40).map(|n| member("", Some((f64::from(n % 8) * 20.0 - 70.0, f64::from(n / 8) * 70.0 - 175.0)), 0));
    let inputs = RankingInputs { members: members.collect(), ..inputs(&[Rank::Nearest], &map) };
    let all = compiled(inputs.clone());
    assert_eq!((all.depth, all.location.partition.classes() > 100), (None, true));
    let fewer = CompiledRankings::new(inputs.clone(), 100);
    assert!(fewer.depth.is_some_and(|depth| (1..=16).contains(&depth)), "{:?}", fewer.depth);
    assert!(fewer.location.partition.classes() <= 100);
    for n in 0..200u8 {
        let address = IpAddr::from([10, n, 0, 1]);
        let class = |placed: &CompiledRankings| placed.location.partition.lookup(address).0;
        for member in 0..40 {
            let before = all.location.rankings[0].rank(class(&all), member);
            assert_eq!(fewer.location.rankings[0].rank(class(&fewer), member), before.min(fewer.depth.unwrap()));
        }
    }
    let none = CompiledRankings::new(inputs, 1);
    assert_eq!((none.depth, none.location.partition), (Some(0), ClientPartition::everywhere()));
}

#[test]
fn total_size_of_rankings_is_bounded() {
    let mut ranking_cache = RankingCache::default();
    assert_eq!(ranking_cache.admit(RankingCache::OCTETS_MAX), Ok(()));
    assert_eq!(ranking_cache.admit(1), Err(TooLarge));
    assert_eq!(ranking_cache.admit(usize::MAX), Err(TooLarge));
}

#[test]
fn equal_rankings_have_equal_digests_and_different_ones_differ() {
    let digest = |ranks: &[Rank], map: &Arc<ClientMap>| compiled(inputs(ranks, map)).digest;
    assert_eq!(digest(&[Rank::Geo], &world()), digest(&[Rank::Geo], &world()));
    assert_ne!(digest(&[Rank::Geo], &world()), digest(&[Rank::Nearest], &world()));
    let moved = map(&[("10.0.0.0/8", country("FR")), ("10.1.0.0/16", country("US")), ("192.0.3.0/24", country("DE"))]);
    assert_ne!(digest(&[Rank::Geo], &world()), digest(&[Rank::Geo], &moved));
}

#[test]
fn digest_is_pinned() {
    assert_eq!(compiled(inputs(&[Rank::Geo], &world())).digest, 15_139_349_308_809_866_153);
}

/// Returns a state with this number of names, each with its own pool that ranks by location, over one pair of clusters.
fn desired(pools: usize, map: &Arc<ClientMap>, adjust: impl Fn(&mut Pool)) -> DesiredState {
    let mut desired = DesiredState::default();
    for (name, region, n) in [("eu1", "eu", 1), ("us1", "us", 2)] {
        let name = ClusterName::new(name).unwrap();
        let location = ClusterLocation {
            coordinates: Coordinates::from_degrees(1.0, 2.0),
            region: Some(region.into()),
            bias: Bias::default(),
        };
        let cluster = Cluster::new(name.clone(), vec![IpAddr::from([192, 0, 2, n])]);
        let cluster = Cluster { location: Some(location), ..cluster };
        desired.clusters.insert(name, cluster);
    }
    for number in 0..pools {
        let name = PoolName::new(&format!("p{number}")).unwrap();
        let mut pool = Pool::new(name.clone(), Policy { ranks: vec![Rank::Geo], ..Policy::FAILOVER });
        pool.members = desired.clusters.keys().cloned().map(Member::new).collect();
        pool.location.geo = preferences();
        adjust(&mut pool);
        let steered: Name = format!("n{number}.example.test").parse().unwrap();
        desired.names.insert(steered.clone(), SteeredName { name: steered, pool: name.clone(), ttl: None });
        desired.pools.insert(name, pool);
    }
    desired.maps.insert(map.name().clone(), Arc::clone(map));
    desired
}

#[test]
fn pools_with_equal_inputs_and_next_snapshot_share_rankings() {
    let text = "$TTL 60\n@ IN SOA ns1 h 1 2 3 4 5\n@ IN NS ns1\nns1 IN A 192.0.2.1\n";
    let (zone, _) = read_zone(&"example.test".parse().unwrap(), "z", text.as_bytes(), &mut |_| Err("none".into()));
    let (options, world) = (ServerOptions::default(), world());
    let (first, faults) = compile(&desired(50, &world, |_| ()), &[zone], &options, None).unwrap();
    assert_eq!((faults, first.ranking_cache.count()), (vec![], 1));
    let placed = |snapshot: &Snapshot, at: usize| Arc::clone(snapshot.pool_infos[at].rankings.as_ref().unwrap());
    assert!((0..50).all(|at| Arc::ptr_eq(&placed(&first, at), &placed(&first, 0))));

    let weights = desired(50, &world, |pool| pool.members[0].weight = Weight(7));
    let (second, _) = recompile(&weights, &options, &first).unwrap();
    assert!(Arc::ptr_eq(&placed(&first, 0), &placed(&second, 0)), "nothing of it changed");

    let moved = map(&[("10.0.0.0/8", country("DE"))]);
    let (third, _) = recompile(&desired(50, &moved, |_| ()), &options, &first).unwrap();
    assert!(!Arc::ptr_eq(&placed(&first, 0), &placed(&third, 0)));
    assert_ne!(first.id(), third.id(), "another map gives other answers");
    let (again, _) = recompile(&desired(50, &self::world(), |_| ()), &options, &third).unwrap();
    assert_eq!(first.id(), again.id());

    let two = desired(2, &world, |pool| pool.location.geo.default = vec![pool.name.as_str().into()]);
    assert_eq!(recompile(&two, &options, &first).unwrap().0.ranking_cache.count(), 2);
}

fn any_network() -> impl Strategy<Value = (Network, ClientLocation)> {
    let place = prop::sample::select(vec!["FR", "DE", "US", "JP", "CA", "IE"]).prop_map(country);
    let coordinates = (-90.0f64..90.0, -180.0f64..180.0).prop_map(|(n, e)| at(n, e));
    let address = prop_oneof![
        any::<u8>().prop_map(|low| IpAddr::from([192, 0, 2, low])),
        any::<u16>().prop_map(|low| IpAddr::from([0x2001, 0xdb8, 0, low, 0, 0, 0, 0])),
    ];
    let network = (address, 0u8..=16)
        .prop_map(|(address, free)| Network::of(address, if address.is_ipv4() { 32 } else { 64 } - free));
    (network, prop_oneof![place, coordinates])
}

proptest! {
    /// The class of an address has the ranks of its location in the map, and all addresses of the block have that
    /// class.
    #[test]
    fn class_has_ranks_of_its_location(
        networks in prop::collection::vec(any_network(), 0..20), lows in prop::collection::vec(any::<u16>(), 20)
    ) {
        let map = Arc::new(ClientMap::new(MapName::new("m").unwrap(), MapLayer::of_networks(&networks)));
        let placed = compiled(inputs(&[Rank::Nearest, Rank::Geo], &map));
        let addresses: Vec<IpAddr> = lows.iter().flat_map(|low| [
            IpAddr::from([192, 0, 2, *low as u8]), IpAddr::from([0x2001, 0xdb8, 0, *low, 0, 0, 0, 1]),
        ]).collect();
        for address in &addresses {
            let (class, length) = placed.location.partition.lookup(*address);
            let place = map.entry(*address).location;
            let expected = [nearest(place, &members(), 0), ranking::geo(place, &members(), &preferences())];
            for (ranking, expected) in placed.location.rankings.iter().zip(expected) {
                prop_assert_eq!((0..4).map(|member| ranking.rank(class, member)).collect::<Vec<_>>(), expected);
            }
            for other in addresses.iter().filter(|other| Network::of(*address, length).contains(**other)) {
                prop_assert_eq!(placed.location.partition.lookup(*other), (class, length));
            }
        }
    }
}
