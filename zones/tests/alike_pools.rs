//! Equal pools share record sets. Each answers as it does alone.

#![allow(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]
use std::sync::Arc;

use fairway_model::{
    AnswerMode, Cluster, ClusterName, DesiredState, DownAnswer, Health, HealthStatus, Member, Name, Policy, Pool,
    PoolName, ProbeAddress, Rtype, SteeredName, Ttl, ZoneSpec,
};
use fairway_zonefile::read_zone;
use fairway_zones::{
    Client, Draw, Now, Request, RuntimeState, ServerOptions, ServingState, Tally, Transport, compile, respond,
};

const ZONE: &[u8] = b"$ORIGIN a.test.\n$TTL 60\n@ IN SOA ns h 1 1 1 1 1\n@ IN NS ns\nns IN A 192.0.2.53\n";

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Pools over one list of members. Each differs in one setting, except the first two.
fn pools() -> Vec<Pool> {
    let mut plain = Pool::new(PoolName::new("p").unwrap(), Policy::FAILOVER);
    plain.members = ["c0", "c1", "c2"].map(|name| Member::new(ClusterName::new(name).unwrap())).into();
    let mut pools = vec![plain; 10];
    pools[2].answers = 2;
    pools[3].down = DownAnswer::FallbackAddresses(vec!["192.0.2.8".parse().unwrap()]);
    pools[4].down = DownAnswer::FallbackAddresses(vec!["192.0.2.9".parse().unwrap()]);
    pools[5].down = DownAnswer::FallbackCname(name("elsewhere.test"));
    pools[6].ttl = Ttl::from_secs(7).unwrap();
    pools[7].mode = AnswerMode::Cname;
    pools[8].members[0].probe = Some(ProbeAddress::Host("gw.test".into(), 80));
    pools[9].members.swap(0, 2);
    for (pool, number) in pools.iter_mut().zip(0..) {
        pool.name = PoolName::new(&format!("p{number}")).unwrap();
    }
    pools
}

fn desired(pools: &[Pool]) -> DesiredState {
    let clusters = [0, 1, 2].map(|number| Cluster {
        dns_name: Some(name(&format!("c{number}.a.test"))),
        ..Cluster::new(
            ClusterName::new(&format!("c{number}")).unwrap(),
            [1, 2].map(|host| format!("10.0.{number}.{host}").parse().unwrap()).into(),
        )
    });
    let zone = ZoneSpec::new(name("a.test"));
    let steered =
        |pool: &Pool| SteeredName { name: name(&format!("{}.a.test", pool.name)), pool: pool.name.clone(), ttl: None };
    DesiredState {
        zones: [(zone.name.clone(), zone)].into(),
        clusters: clusters.map(|cluster| (cluster.name.clone(), cluster)).into(),
        pools: pools.iter().map(|pool| (pool.name.clone(), pool.clone())).collect(),
        names: pools.iter().map(steered).map(|steered| (steered.name.clone(), steered)).collect(),
        ..DesiredState::default()
    }
}

/// Returns the pools with those targets down whose address has one of these ends.
fn serving(pools: &[Pool], down: &[&str]) -> ServingState {
    let (zone, _) = read_zone(&name("a.test"), "a.zone", ZONE, &mut |_| Err("none".into()));
    let (snapshot, _) = compile(&desired(pools), &[zone], &ServerOptions::default(), None).unwrap();
    let health = |number: fairway_zones::TargetIndex| {
        let address = snapshot.targets()[number.0 as usize].address.to_string();
        let is_down = down.iter().any(|end| address.ends_with(end));
        Health::new(if is_down { HealthStatus::Down } else { HealthStatus::Up }, None)
    };
    let runtime = RuntimeState::new(&snapshot, health);
    ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
}

fn answer(serving: &ServingState, pool: &Pool) -> Vec<u8> {
    let header = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let question = [name(&format!("{}.a.test", pool.name)).as_wire(), &Rtype::A.0.to_be_bytes(), &[0, 1]].concat();
    let client = Client { address: "198.51.100.7".parse().unwrap(), port: 4242, transport: Transport::Udp };
    let mut out = vec![0; 1232];
    let packet = [&header[..], &question].concat();
    let request = Request { client: &client, packet: &packet, now: Now(1), draw: Draw(0) };
    let length = respond(serving, &request, &Tally::default(), &mut out).length();
    out[..length.unwrap_or(0)].to_vec()
}

#[test]
fn pool_answers_the_same_alone_and_among_others() {
    let pools = pools();
    for down in [&[][..], &["10.0.0.1"], &["gw.test:80"], &["0.1", "0.2", "gw.test:80"], &[".1", ".2", "gw.test:80"]] {
        let together = serving(&pools, down);
        for pool in &pools {
            let alone = serving(std::slice::from_ref(pool), down);
            assert_eq!(answer(&together, pool), answer(&alone, pool), "{} with {down:?} down", pool.name);
        }
    }
}

#[test]
fn pools_with_different_declarations_answer_differently() {
    let pools = pools();
    let serving = serving(&pools, &[".1", ".2", "gw.test:80"]);
    let rest = |pool: &Pool| answer(&serving, pool).split_off(12 + 11 + 4);
    let plain = rest(&pools[0]);
    let same: Vec<_> = pools.iter().map(|pool| rest(pool) == plain).collect();
    assert_eq!(same, [true, true, true, false, false, false, false, false, true, false]);
}
