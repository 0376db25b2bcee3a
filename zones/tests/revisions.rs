//! Property of incremental compilation: after any changes in any order, the snapshot equals a full compilation of the
//! same state in every answer, explanation, target, counter and id.

#![allow(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]
#[path = "revisions/world.rs"]
mod world;

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    sync::Arc,
};

use fairway_model::{
    AdaptiveTtl, AnswerMode, Bias, Check, ClientLocation, ClientMap, Cluster, ClusterLocation, ClusterName,
    Coordinates, DesiredState, DownAnswer, Geo, Health, HealthStatus, LocationMatch, MapLayer, MapName, Member,
    Monitor, MonitorName, Name, Network, Permille, Policy, Pool, PoolName, Preference, ProbeAddress, Rank, RecordSet,
    Risk, Rtype, Schedule, ScheduleWindow, Severity, Spread, SteeredName, Tier, Timestamp, Ttl, TtlBounds, Visibility,
    Weight, ZoneSpec,
};
use fairway_zonefile::{ZoneData, read_zone};
use fairway_zones::{
    ChangedItems, Client, Draw, Now, Outcome, PoolInfo, Request, RuntimeState, ServerOptions, ServingState, Slot,
    Snapshot, Tallies, Tally, TargetIndex, Transport, compile, explain, recompile, respond, revise, steer::SteerPool,
};
use proptest::{prelude::*, test_runner::TestRunner};
use world::{ASKED, CLIENTS, Dice, STEERED, TYPES, cluster, edit, owner, world, zones};

/// Returns the health of a target at a step, independent of its number.
fn health(snapshot: &Snapshot, target: TargetIndex, step: usize) -> Health {
    let mut hasher = DefaultHasher::new();
    (&snapshot.targets()[target.0 as usize].address, step).hash(&mut hasher);
    let statuses = [HealthStatus::Up, HealthStatus::Up, HealthStatus::Down, HealthStatus::Down, HealthStatus::Pending];
    Health::new(statuses[hasher.finish() as usize % 5], None)
}

/// Returns the serving state of a snapshot at a step.
fn serving(snapshot: Snapshot, before: Option<&ServingState>, step: usize) -> ServingState {
    let now = Timestamp::from_secs(100 * step as u64);
    let health_of = |target| health(&snapshot, target, step);
    let runtime = match before {
        Some(before) => RuntimeState::after(&snapshot, (&before.snapshot, &before.runtime), now, health_of),
        None => RuntimeState::new_at(&snapshot, now, health_of),
    };
    let runtime = runtime.with_adaptive_ttls(&snapshot, |place| adaptive_ttl(&snapshot.pool_infos()[place].name, step));
    ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
}

/// Returns the adaptive TTL of a pool at a step, independent of its number.
fn adaptive_ttl(pool: &PoolName, step: usize) -> AdaptiveTtl {
    let mut hasher = DefaultHasher::new();
    (pool, step).hash(&mut hasher);
    [AdaptiveTtl::Declared, AdaptiveTtl::Calm, AdaptiveTtl::Risky(Risk::Down)][hasher.finish() as usize % 3]
}

/// Returns every response for the tested names, every explanation, and the answer counters.
fn said(serving: &ServingState) -> (Vec<Vec<u8>>, Vec<String>, BTreeMap<String, u64>) {
    let mut names: BTreeSet<Name> = STEERED.iter().copied().chain(ASKED.split_whitespace()).map(owner).collect();
    names.extend(serving.snapshot.pool_infos().iter().flat_map(|info| info.names.iter().cloned()));
    let (tally, mut out) = (Tally::default(), vec![0; 65_535]);
    let (mut responses, mut explained) = (Vec::new(), Vec::new());
    for (name, rtype) in names.iter().flat_map(|name| TYPES.map(|rtype| (name, rtype))) {
        let head = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let packet = [&head, name.as_wire(), &rtype.0.to_be_bytes(), &[0, 1]].concat();
        // The client matters only for answers of pools.
        let clients = if matches!(rtype, Rtype::A | Rtype::AAAA) { &CLIENTS[..] } else { &CLIENTS[..1] };
        for address in clients.iter().map(|client| client.parse::<IpAddr>().unwrap()) {
            let client = Client { address, port: 4242, transport: Transport::Tcp };
            let request = Request { client: &client, packet: &packet, now: Now(0), draw: Draw(1) };
            let outcome = respond(serving, &request, &tally, &mut out);
            let Outcome::Reply(length) = outcome else { panic!("no reply") };
            responses.push(out[..length].to_vec());
        }
        if rtype == Rtype::A {
            let network = Network::of(CLIENTS[0].parse().unwrap(), 24);
            let text = format!("{:?}", explain(serving, name, rtype, Some(network)));
            explained.push(by_address(&text, &serving.snapshot));
        }
    }
    let mut tallies = Tallies::default();
    tally.add_to(&mut tallies);
    let of = |Slot { pool, cluster }: &Slot| format!("{pool} {cluster}");
    let slots = serving.snapshot.slots().iter().zip(&tallies.answers[1..]);
    (responses, explained, slots.filter(|(_, count)| **count > 0).map(|(slot, count)| (of(slot), *count)).collect())
}

/// Returns the explanations with addresses in place of target numbers.
fn by_address(explained: &str, snapshot: &Snapshot) -> String {
    let mut parts = explained.split("TargetIndex(");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_once(')').unwrap();
        let target = &snapshot.targets()[number.parse::<usize>().unwrap()];
        out += &format!("target {} {}{rest}", target.address, target.label);
    }
    out
}

/// Returns name and members of each pool, in an order that does not depend on numbers.
fn infos(snapshot: &Snapshot) -> Vec<String> {
    let explained = |(pool, PoolInfo { name, ttl, bounds, names, .. }): (&SteerPool, &PoolInfo)| {
        format!("{name} {:?} {ttl} {bounds:?} {names:?}", pool.clusters().collect::<Vec<_>>())
    };
    let pools = snapshot.steer_pools().iter().zip(snapshot.pool_infos().iter());
    let mut infos: Vec<String> = pools.map(explained).collect();
    infos.sort();
    infos
}

/// Panics if two serving states differ in more than numbers.
fn assert_same(revised: &ServingState, compiled: &ServingState, context: &str) {
    let (ours, theirs) = (&revised.snapshot, &compiled.snapshot);
    assert_eq!(ours.id(), theirs.id(), "snapshot's id, {context}");
    let targets = |snapshot: &Snapshot| snapshot.targets().iter().cloned().collect::<HashSet<_>>();
    assert_eq!(targets(ours), targets(theirs), "{context}");
    assert_eq!(ours.targets().len(), theirs.targets().len(), "{context}");
    assert!(ours.zones().eq(theirs.zones()), "{context}");
    assert_eq!(infos(ours), infos(theirs), "{context}");
    assert_eq!(ours.steer_pools().len(), theirs.steer_pools().len(), "{context}");
    let of_place = |(pool, info): (&SteerPool, &PoolInfo)| *pool.name() == info.name;
    assert!(ours.steer_pools().iter().zip(ours.pool_infos().iter()).all(of_place), "{context}");
    assert!(ours.uses_load() || !ours.steer_pools().iter().any(|pool| pool.is_balanced()), "{context}");
    assert_eq!(revised.runtime.id(), compiled.runtime.id(), "conditions' id, {context}");
    let ((responses, explained, counted), expected) = (said(revised), said(compiled));
    assert!(responses == expected.0, "responses, {context}");
    for (explained, expected) in explained.iter().zip(&expected.1) {
        assert_eq!(explained, expected, "{context}");
    }
    assert_eq!(counted, expected.2, "{context}");
}

/// Returns an ordinary pool.
fn plain(number: u64) -> Pool {
    let mut pool = Pool::new(PoolName::new(&format!("p{number}")).unwrap(), Policy::WEIGHTED);
    pool.members = (0..3).map(|place| Member::new(cluster((number + place) % 6))).collect();
    pool
}

/// Returns a pool with mode `cname`.
fn by_name(number: u64) -> Pool {
    Pool { members: vec![Member::new(cluster(1))], mode: AnswerMode::Cname, ..plain(number) }
}

fn put(desired: &mut DesiredState, name: &str, pool: u64) {
    let pool = PoolName::new(&format!("p{pool}")).unwrap();
    desired.names.insert(owner(name), SteeredName { name: owner(name), pool, ttl: None });
}

/// Removes a pool and its name.
fn take(desired: &mut DesiredState, number: u64) {
    desired.pools.remove(&plain(number).name);
    desired.names.remove(&owner(&format!("n{number}.")));
}

/// A state that is compiled once and then changed incrementally.
struct Revisions {
    desired: DesiredState,
    snapshot: Arc<Snapshot>,
}

impl Revisions {
    /// Returns some pools with a name each, and one with mode `cname`.
    fn begin() -> Self {
        let mut desired = world();
        for number in 0..6 {
            desired.pools.insert(plain(number).name, plain(number));
            put(&mut desired, &format!("n{number}."), number);
        }
        desired.pools.insert(plain(9).name, by_name(9));
        put(&mut desired, "n9.", 9);
        let (snapshot, _) = compile(&desired, &zones(), &ServerOptions::default(), None).unwrap();
        Self { desired, snapshot: Arc::new(snapshot) }
    }

    /// Applies a change, which must be compiled incrementally and equal a full compilation.
    fn check(&mut self, what: &str, change: &dyn Fn(&mut DesiredState), pools: &[u64], names: &[&str]) {
        let (mut after, options) = (self.desired.clone(), ServerOptions::default());
        change(&mut after);
        let touched = ChangedItems {
            pools: pools.iter().map(|number| plain(*number).name).collect(),
            names: names.iter().map(|name| owner(name)).collect(),
            records: BTreeSet::new(),
        };
        let reuse = revise(&self.desired, &after, &touched, &options, &self.snapshot);
        let reuse = serving(reuse.unwrap_or_else(|| panic!("{what}: left to the whole compilation")), None, 1);
        let expected = compile(&after, &zones(), &options, None).unwrap().0;
        let expected = serving(expected, None, 1);
        assert_same(&reuse, &expected, what);
        for adaptive_ttl in [AdaptiveTtl::Calm, AdaptiveTtl::Risky(Risk::Down)] {
            let is_adaptive = |ServingState { snapshot, runtime }: &ServingState| ServingState {
                snapshot: Arc::clone(snapshot),
                runtime: Arc::new(runtime.with_adaptive_ttls(snapshot, |_| adaptive_ttl)),
            };
            assert_same(&is_adaptive(&reuse), &is_adaptive(&expected), what);
        }
        (self.snapshot, self.desired) = (reuse.snapshot, after);
    }
}

/// A change of the desired state.
type Change<'c> = &'c dyn Fn(&mut DesiredState);

#[test]
fn ordinary_changes_are_compiled_incrementally() {
    let mut revisions = Revisions::begin();
    let mut check =
        |what: &str, change: Change<'_>, pools: &[u64], names: &[&str]| revisions.check(what, change, pools, names);
    check("nothing changed", &|_| {}, &[2], &["n3."]);
    let weigh =
        |desired: &mut DesiredState| desired.pools.get_mut(&plain(1).name).unwrap().members[1].weight = Weight(9);
    check("a weight", &weigh, &[1], &[]);
    check("a name", &|desired| put(desired, "x.y.", 1), &[], &["x.y."]);
    check(
        "a name below it, and a wildcard",
        &|desired| ["q.x.y.", "*.y."].iter().for_each(|n| put(desired, n, 2)),
        &[],
        &["q.x.y.", "*.y."],
    );
    check("a name in another zone", &|desired| put(desired, "x.in.", 3), &[], &["x.in."]);
    check("another pool for a name", &|desired| put(desired, "x.y.", 3), &[], &["x.y."]);
    let beside_text = |desired: &mut DesiredState| ["free.", "*.a.b.c.d.new."].iter().for_each(|n| put(desired, n, 3));
    check(
        "a name above a wildcard of the text, and one deeper than all",
        &beside_text,
        &[],
        &["free.", "*.a.b.c.d.new."],
    );
    check("a name less", &|desired| _ = desired.names.remove(&owner("q.x.y.")), &[], &["q.x.y."]);
    check("a wildcard less", &|desired| _ = desired.names.remove(&owner("*.y.")), &[], &["*.y."]);
    let add = |desired: &mut DesiredState| {
        desired.pools.insert(plain(7).name, plain(7));
        put(desired, "n7.", 7);
    };
    check("a pool and its name", &add, &[7], &["n7."]);
    check("a pool and its name less", &|desired| take(desired, 2), &[2], &["n2."]);
    let by_place = |desired: &mut DesiredState| {
        let mut pool = plain(10);
        pool.policy.ranks = vec![Rank::Nearest];
        let [short, long] = [5, 60].map(|secs| Ttl::from_secs(secs).unwrap());
        pool.ttl_bounds = Some(TtlBounds { short, long });
        desired.pools.insert(pool.name.clone(), pool);
        put(desired, "n10.", 10);
    };
    check("a pool that goes by place", &by_place, &[10], &["n10."]);
    check("a pool less before one that goes by place", &|desired| take(desired, 0), &[0], &["n0."]);
    let own_ttl = |desired: &mut DesiredState| {
        put(desired, "m10.", 10);
        desired.names.get_mut(&owner("m10.")).unwrap().ttl = Some(plain(10).ttl);
    };
    check("a name with the pool's TTL as its own, which keeps it", &own_ttl, &[], &["m10."]);
    let rank =
        |desired: &mut DesiredState| desired.pools.get_mut(&plain(4).name).unwrap().policy.ranks = vec![Rank::Nearest];
    check("a pool that goes by place from now on", &rank, &[4], &[]);
    let ttl =
        |desired: &mut DesiredState| desired.pools.get_mut(&plain(3).name).unwrap().ttl = Ttl::from_secs(77).unwrap();
    check("a TTL", &ttl, &[3], &[]);
    check("a pool that no name uses", &|desired| _ = desired.pools.insert(plain(8).name, plain(8)), &[8], &[]);
}

#[test]
fn pools_change_with_targets_and_cluster_names() {
    let mut revisions = Revisions::begin();
    let mut check =
        |what: &str, change: Change<'_>, pools: &[u64], names: &[&str]| revisions.check(what, change, pools, names);
    let alias = |desired: &mut DesiredState| {
        desired.pools.insert(plain(11).name, by_name(11));
        put(desired, "n11.", 11);
    };
    check("one more pool that answers by the name of a cluster", &alias, &[11], &["n11."]);
    let weigh =
        |desired: &mut DesiredState| desired.pools.get_mut(&plain(11).name).unwrap().members[0].weight = Weight(7);
    check("a weight in it", &weigh, &[11], &[]);
    check("one of the two less", &|desired| take(desired, 11), &[11], &["n11."]);
    let with_monitor = |number: u64, monitor: &'static str| {
        move |desired: &mut DesiredState| {
            let pool = Pool { monitor: MonitorName::new(monitor).ok(), ..plain(number) };
            desired.pools.insert(pool.name.clone(), pool);
            put(desired, &format!("n{number}."), number);
        }
    };
    check("a pool with a monitor of its own", &with_monitor(12, "first"), &[12], &["n12."]);
    check("another one", &with_monitor(13, "second"), &[13], &["n13."]);
    check("one more of those", &with_monitor(14, "second"), &[14], &["n14."]);
    check(
        "the first of them less, whose numbers of targets others take",
        &|desired| take(desired, 12),
        &[12],
        &["n12."],
    );
    check("one of two that share theirs less", &|desired| take(desired, 14), &[14], &["n14."]);
    let other = |desired: &mut DesiredState| {
        desired.pools.get_mut(&plain(13).name).unwrap().monitor = MonitorName::new("first").ok()
    };
    check("another monitor", &other, &[13], &[]);
    check("the last of them less", &|desired| take(desired, 13), &[13], &["n13."]);
}

#[test]
fn too_many_moved_pools_need_full_compilation() {
    let options = ServerOptions::default();
    for (count, is_revised) in [(1_000, true), (1_001, false)] {
        let mut desired = world();
        // The first pool's target has the first number, that of all others the last.
        for number in 0..=count {
            let monitor = MonitorName::new(if number == 0 { "first" } else { "second" }).ok();
            let pool = Pool { members: vec![Member::new(cluster(0))], monitor, ..plain(number) };
            desired.pools.insert(pool.name.clone(), pool);
            put(&mut desired, &format!("m{number}."), number);
        }
        let snapshot = compile(&desired, &zones(), &options, None).unwrap().0;
        let mut after = desired.clone();
        take(&mut after, 0);
        after.names.remove(&owner("m0."));
        let touched =
            ChangedItems { pools: [plain(0).name].into(), names: [owner("m0.")].into(), records: BTreeSet::new() };
        let reuse = revise(&desired, &after, &touched, &options, &snapshot);
        assert_eq!(reuse.is_some(), is_revised, "{count}");
        let expected = compile(&after, &zones(), &options, None).unwrap().0;
        if let Some(reuse) = reuse {
            assert_same(&serving(reuse, None, 1), &serving(expected, None, 1), "all pools have moved");
        }
    }
}

#[test]
fn names_needed_by_others_stay() {
    let mut revisions = Revisions::begin();
    // Names to add, and those of them to remove again.
    for (what, put_there, taken) in [
        ("a wildcard, where the text has one", &["free.", "*.free."][..], &["*.free."][..]),
        ("a wildcard, where the text has none", &["shop.", "*.shop."], &["*.shop."]),
        ("a name above a wildcard", &["wild.", "*.wild."], &["wild."]),
        ("a name with two above it that are there because of it", &["b.c.d.new."], &["b.c.d.new."]),
        ("a name below that of a cluster", &["z.us1."], &["z.us1."]),
        ("a name above one", &["gap.", "x.gap."], &["gap."]),
    ] {
        let (there, taken): (Vec<&str>, &[&str]) = (put_there.to_vec(), taken);
        revisions.check(what, &|desired| there.iter().for_each(|name| put(desired, name, 4)), &[], &there);
        revisions.check(
            what,
            &|desired| taken.iter().for_each(|name| _ = desired.names.remove(&owner(name))),
            &[],
            taken,
        );
        let left: Vec<&str> = there.iter().copied().filter(|name| !taken.contains(name)).collect();
        revisions.check(
            what,
            &|desired| left.iter().for_each(|name| _ = desired.names.remove(&owner(name))),
            &[],
            &left,
        );
    }
}

#[test]
fn last_good_members_survive_incremental_compilation() {
    let mut revisions = Revisions::begin();
    let last_good =
        |desired: &mut DesiredState| desired.pools.get_mut(&plain(0).name).unwrap().down = DownAnswer::LastGood;
    revisions.check("a pool that remembers", &last_good, &[0], &[]);
    let (before, now) = (Arc::clone(&revisions.snapshot), Timestamp::from_secs(1));
    let of_eu1 = before.targets().iter().position(|target| target.address.to_string().contains("203.0.113.1"));
    let status =
        |target: TargetIndex| [HealthStatus::Down, HealthStatus::Up][usize::from(Some(target.0 as usize) == of_eu1)];
    let first = RuntimeState::new_at(&before, now, |target| Health::new(status(target), None));
    revisions.check("another pool", &|desired| put(desired, "x.", 1), &[], &["x."]);
    let down = |_| Health::new(HealthStatus::Down, None);
    let runtime = Arc::new(RuntimeState::after(&revisions.snapshot, (&before, &first), now, down));
    let explained = explain(&ServingState { snapshot: revisions.snapshot, runtime }, &owner("n0."), Rtype::A, None);
    assert_eq!(explained.message.answer.iter().map(|record| &*record.rdata).collect::<Vec<_>>(), ["203.0.113.1"]);
}

/// Returns the test world with three named pools; the third answers with the names of its clusters, which then exist in the upper layer.
fn world_with_pools() -> DesiredState {
    let mut desired = world();
    for (number, clusters) in [(0, &[0, 1][..]), (1, &[0, 2]), (2, &[4])] {
        let mut pool = Pool::new(PoolName::new(&format!("p{number}")).unwrap(), Policy::WEIGHTED);
        pool.members = clusters.iter().map(|number| Member::new(cluster(*number))).collect();
        pool.mode = if number == 2 { AnswerMode::Cname } else { AnswerMode::Address };
        let name = owner(&format!("n{number}."));
        desired.names.insert(name.clone(), SteeredName { name, pool: pool.name.clone(), ttl: None });
        desired.pools.insert(pool.name.clone(), pool);
    }
    ["gap.", "y.deep.gap."].iter().for_each(|name| put(&mut desired, name, 0));
    desired
}

#[test]
fn unsupported_change_needs_full_compilation() {
    let (zones, options) = (zones(), ServerOptions::default());
    let desired = world_with_pools();
    let snapshot = compile(&desired, &zones, &options, None).unwrap().0;
    let is_left = |change: &dyn Fn(&mut DesiredState), pools: &[&str], names: &[&str], options: &ServerOptions| {
        let mut after = desired.clone();
        change(&mut after);
        let touched = ChangedItems {
            pools: pools.iter().map(|name| PoolName::new(name).unwrap()).collect(),
            names: names.iter().map(|name| owner(name)).collect(),
            records: BTreeSet::new(),
        };
        revise(&desired, &after, &touched, options, &snapshot).is_none()
    };
    let names = |relative: &'static str| {
        move |desired: &mut DesiredState| {
            let (name, pool) = (owner(relative), PoolName::new("p0").unwrap());
            desired.names.insert(name.clone(), SteeredName { name, pool, ttl: None });
        }
    };
    assert!(!is_left(&names("fine."), &[], &["fine."], &options));
    for relative in ["own.", "x.sub.", "y.old.", "link."] {
        assert!(is_left(&names(relative), &[], &[relative], &options), "{relative} cannot be steered");
    }
    assert!(is_left(&names("af1."), &[], &["af1."], &options), "the name of a cluster that a pool answers by it");
    assert!(
        !is_left(&|desired| _ = desired.names.remove(&owner("n1.")), &[], &["n1."], &options),
        "a target's last name"
    );
    let no_gap = |desired: &mut DesiredState| _ = desired.names.remove(&owner("gap."));
    assert!(is_left(&no_gap, &[], &["gap."], &options), "a zone stands between it and what is below");
    let p1 = PoolName::new("p1").unwrap();
    assert!(is_left(&|desired| _ = desired.pools.remove(&p1), &["p1"], &[], &options), "a pool that a name uses still");
    let alias = |desired: &mut DesiredState| desired.pools.get_mut(&p1).unwrap().mode = AnswerMode::Cname;
    assert!(is_left(&alias, &["p1"], &[], &options), "clusters get names");
    let p2 = PoolName::new("p2").unwrap();
    let weigh = |desired: &mut DesiredState| desired.pools.get_mut(&p2).unwrap().members[0].weight = Weight(7);
    assert!(!is_left(&weigh, &["p2"], &[], &options), "clusters keep their names");
    let hurry = |desired: &mut DesiredState| desired.pools.get_mut(&p2).unwrap().ttl = Ttl::from_secs(7).unwrap();
    assert!(is_left(&hurry, &["p2"], &[], &options), "the name of a cluster has another TTL");
    let other = ServerOptions { udp_payload: 1_000, ..ServerOptions::default() };
    assert!(is_left(&|_| {}, &[], &[], &other), "the server's own options");
    let many: Vec<String> = (0..25_000).map(|number| format!("a-rather-long-name-{number}.")).collect();
    let add = |desired: &mut DesiredState| {
        many.iter().for_each(|name| {
            let (name, pool) = (owner(name), PoolName::new("p0").unwrap());
            desired.names.insert(name.clone(), SteeredName { name, pool, ttl: None });
        })
    };
    let added: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(is_left(&add, &[], &added, &options), "more than a revision is to add");
}

/// Applies edits one after the other. Returns how many were compiled incrementally, and how many were applied.
fn play(edits: &[u64]) -> Result<(u32, u32), TestCaseError> {
    let (zones, options) = (zones(), ServerOptions::default());
    let mut desired = world();
    let whole = |desired: &DesiredState| compile(desired, &zones, &options, None).map(|(snapshot, _)| snapshot);
    let mut revised = serving(whole(&desired).unwrap(), None, 0);
    let mut compiled = serving(whole(&desired).unwrap(), None, 0);
    let (mut narrow, mut played) = (0, 0);
    for (step, number) in edits.iter().enumerate() {
        let (mut after, mut dice) = (desired.clone(), Dice(*number));
        let mut touched = edit(&mut after, &mut dice);
        if dice.one_in(3) {
            let more = edit(&mut after, &mut dice);
            touched.pools.extend(more.pools);
            touched.names.extend(more.names);
            touched.records.extend(more.records);
        }
        if touched == ChangedItems::default()
            || after.violations().iter().any(|problem| problem.severity == Severity::Error)
        {
            continue;
        }
        let reuse = revise(&desired, &after, &touched, &options, &revised.snapshot);
        let Ok(expected) = whole(&after) else {
            prop_assert!(reuse.is_none(), "compiled incrementally despite an error: {:?}", touched);
            continue;
        };
        (narrow, played) = (narrow + u32::from(reuse.is_some()), played + 1);
        let next = reuse.unwrap_or_else(|| recompile(&after, &options, &revised.snapshot).unwrap().0);
        revised = serving(next, Some(&revised), step);
        compiled = serving(expected, Some(&compiled), step);
        assert_same(&revised, &compiled, &format!("step {step}: {touched:?}"));
        desired = after;
    }
    Ok((narrow, played))
}

#[test]
fn incremental_snapshot_equals_full_one() {
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
    // A property that skips every case would prove nothing.
    let (narrow, played) = (narrow.get(), played.get());
    assert!(3 * narrow > 2 * played && played > 60, "{narrow} of {played} edits were revised");
}
