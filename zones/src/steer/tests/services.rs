//! Pools that are balanced by the load of their services.

use fairway_model::MemberService;

use super::{load::*, *};
use crate::steer::LoadClasses;

/// Returns the pool of a scene with this name, and services of a known capacity.
fn of_service(scene: &Scene, name: &str) -> Pool {
    let mut pool = Pool { name: PoolName::new(name).unwrap(), ..scene.pool.clone() };
    let service = MemberService { capacity: 10, services: Arc::default() };
    pool.members.iter_mut().for_each(|member| member.service = Some(service.clone()));
    pool
}

#[test]
fn service_with_a_capacity_has_a_table_of_its_own() {
    let scene = loaded("a b");
    let mut partly = of_service(&scene, "partly");
    partly.members[1].service = None;
    let (mut table, mut built) = (TargetTable::default(), Vec::new());
    for pool in [scene.pool.clone(), of_service(&scene, "web"), partly] {
        built.push(SteerPool::build(&scene.desired, &pool, None, &LocationRankings::none(), &mut table));
    }
    let snapshot = snapshot_of(&built, table);
    let groups = snapshot.load_classes().groups();
    assert_eq!(groups.iter().map(|group| texts(group).join(" ")).collect::<Vec<_>>(), ["a b", "web@a web@b"]);
    let table = |place: usize, cluster: u16| SlotTable {
        costs: groups[place].costs_of(0).map(|(name, cost)| (name.clone(), cost.unwrap())).collect(),
        slots: vec![cluster; Demand::SLOTS],
    };
    let shares = Shares { epoch: 1, tables: vec![table(0, 0), table(1, 1)], ..Shares::default() };
    let runtime = RuntimeState::new(&snapshot, |_| Health::new(HealthStatus::Up, None));
    let runtime = runtime.with_shares(&snapshot, &Arc::new(shares));
    let answered = built.iter().map(|pool| {
        let client = pool.client_net([192, 0, 2, 1].into());
        pool.route(Kind::V4, &runtime, client, Draw(0)).unwrap().cluster.to_string()
    });
    assert_eq!(answered.collect::<Vec<_>>(), ["a", "b", "a"], "a pool with an unknown capacity is balanced by cluster");
}

#[test]
fn services_over_the_limit_are_the_last_by_name() {
    let scene = loaded("a b");
    let pools = |order: &mut dyn Iterator<Item = usize>| {
        let (mut table, mut built) = (TargetTable::default(), Vec::new());
        for number in order {
            // All but the first one are contributed, and come after it.
            let name = if number == 0 { "web".to_owned() } else { format!("contributed+s{number:04}") };
            let pool = of_service(&scene, &name);
            built.push(SteerPool::build(&scene.desired, &pool, None, &LocationRankings::none(), &mut table));
        }
        let snapshot = snapshot_of(&built, table);
        snapshot.load_classes().groups().iter().flat_map(texts).collect::<Vec<_>>()
    };
    let count = LoadClasses::SERVICES_MAX + 2;
    let balanced = pools(&mut (0..count).rev());
    assert_eq!(balanced, pools(&mut (0..count)), "whatever the order");
    assert_eq!(balanced.len(), 2 * LoadClasses::SERVICES_MAX);
    assert_eq!(balanced[0], "web@a");
    let last = format!("contributed+s{:04}@b", LoadClasses::SERVICES_MAX - 1);
    assert_eq!(balanced.last(), Some(&last));
}
