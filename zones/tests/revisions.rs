//! The law of revisions: whatever was changed, added and removed, in whatever order, a revised snapshot is the one that compiling
//! the same wish anew gives: in every answer, explanation, target, counter and id.

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
    Snapshot, Tallies, Tally, TargetIndex, Transport, compile, explain, recompile, respond, revise,
};
use proptest::{prelude::*, test_runner::TestRunner};
use world::{ASKED, CLIENTS, Dice, STEERED, TYPES, cluster, edit, owner, world, zones};

/// The health of a target at a step: the same wherever it stands.
fn health(snapshot: &Snapshot, target: TargetIndex, step: usize) -> Health {
    let mut hasher = DefaultHasher::new();
    (&snapshot.targets()[target.0 as usize].address, step).hash(&mut hasher);
    let statuses = [HealthStatus::Up, HealthStatus::Up, HealthStatus::Down, HealthStatus::Down, HealthStatus::Pending];
    Health::new(statuses[hasher.finish() as usize % 5], None)
}

/// The serving state of a snapshot at a step.
fn serving(snapshot: Snapshot, before: Option<&ServingState>, step: usize) -> ServingState {
    let now = Timestamp::from_secs(100 * step as u64);
    let judge = |target| health(&snapshot, target, step);
    let runtime = match before {
        Some(before) => RuntimeState::after(&snapshot, (&before.snapshot, &before.runtime), now, judge),
        None => RuntimeState::new_at(&snapshot, now, judge),
    };
    let runtime = runtime.with_adaptive_ttls(&snapshot, |place| adaptive_ttl(&snapshot.pool_infos()[place].name, step));
    ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
}

/// The pace of a pool at a step: the same wherever it stands.
fn adaptive_ttl(pool: &PoolName, step: usize) -> AdaptiveTtl {
    let mut hasher = DefaultHasher::new();
    (pool, step).hash(&mut hasher);
    [AdaptiveTtl::Declared, AdaptiveTtl::Calm, AdaptiveTtl::Risky(Risk::Down)][hasher.finish() as usize % 3]
}

/// Every response to the names of interest, every explanation, and the answers counted by what they count.
fn said(serving: &ServingState) -> (Vec<Vec<u8>>, Vec<String>, BTreeMap<String, u64>) {
    let mut names: BTreeSet<Name> = STEERED.iter().copied().chain(ASKED.split_whitespace()).map(owner).collect();
    names.extend(serving.snapshot.pool_infos().iter().flat_map(|info| info.names.iter().cloned()));
    let (tally, mut out) = (Tally::default(), vec![0; 65_535]);
    let (mut responses, mut explained) = (Vec::new(), Vec::new());
    for (name, rtype) in names.iter().flat_map(|name| TYPES.map(|rtype| (name, rtype))) {
        let head = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let packet = [&head, name.as_wire(), &rtype.0.to_be_bytes(), &[0, 1]].concat();
        // Who asks matters where pools answer.
        let clients = if matches!(rtype, Rtype::A | Rtype::AAAA) { &CLIENTS[..] } else { &CLIENTS[..1] };
        for address in clients.iter().map(|client| client.parse::<IpAddr>().unwrap()) {
            let client = Client { address, port: 4242, transport: Transport::Tcp };
            let outcome = respond(
                serving,
                &Request { client: &client, packet: &packet, now: Now(0), draw: Draw(1) },
                &tally,
                &mut out,
            );
            let Outcome::Reply(length) = outcome else { panic!("no reply") };
            responses.push(out[..length].to_vec());
        }
        if rtype == Rtype::A {
            let network = Network::of(CLIENTS[0].parse().unwrap(), 24);
            let told = format!("{:?}", explain(serving, name, rtype, Some(network)));
            explained.push(by_address(&told, &serving.snapshot));
        }
    }
    let mut tallies = Tallies::default();
    tally.add_to(&mut tallies);
    let of = |Slot { pool, cluster }: &Slot| format!("{pool} {cluster}");
    let slots = serving.snapshot.slots().iter().zip(&tallies.answers[1..]);
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
fn assert_same(revised: &ServingState, compiled: &ServingState, context: &str) {
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
    assert!(ours.uses_load() || !ours.steer_pools().iter().any(|pool| pool.is_balanced()), "{context}");
    assert_eq!(revised.runtime.id(), compiled.runtime.id(), "conditions' id, {context}");
    let ((responses, explained, counted), expected) = (said(revised), said(compiled));
    assert!(responses == expected.0, "responses, {context}");
    for (explained, expected) in explained.iter().zip(&expected.1) {
        assert_eq!(explained, expected, "{context}");
    }
    assert_eq!(counted, expected.2, "{context}");
}

/// A pool that nothing is special about.
fn plain(number: u64) -> Pool {
    let mut pool = Pool::new(PoolName::new(&format!("p{number}")).unwrap(), Policy::WEIGHTED);
    pool.members = (0..3).map(|place| Member::new(cluster((number + place) % 6))).collect();
    pool
}

/// A pool that answers by the name of a cluster.
fn by_name(number: u64) -> Pool {
    Pool { members: vec![Member::new(cluster(1))], mode: AnswerMode::Cname, ..plain(number) }
}

fn put(wish: &mut DesiredState, name: &str, pool: u64) {
    let pool = PoolName::new(&format!("p{pool}")).unwrap();
    wish.names.insert(owner(name), SteeredName { name: owner(name), pool, ttl: None });
}

/// Takes a pool and its name out.
fn take(wish: &mut DesiredState, number: u64) {
    wish.pools.remove(&plain(number).name);
    wish.names.remove(&owner(&format!("n{number}.")));
}

/// What is wished for, compiled and then revised.
struct Story {
    wish: DesiredState,
    snapshot: Arc<Snapshot>,
}

impl Story {
    /// Some pools with a name each, and one that answers by the name of a cluster.
    fn begin() -> Self {
        let mut wish = world();
        for number in 0..6 {
            wish.pools.insert(plain(number).name, plain(number));
            put(&mut wish, &format!("n{number}."), number);
        }
        wish.pools.insert(plain(9).name, by_name(9));
        put(&mut wish, "n9.", 9);
        let (snapshot, _) = compile(&wish, &zones(), &ServerOptions::default(), None).unwrap();
        Self { wish, snapshot: Arc::new(snapshot) }
    }

    /// Makes a change, which must be revised to what is compiled.
    fn check(&mut self, what: &str, change: &dyn Fn(&mut DesiredState), pools: &[u64], names: &[&str]) {
        let (mut after, options) = (self.wish.clone(), ServerOptions::default());
        change(&mut after);
        let touched = ChangedItems {
            pools: pools.iter().map(|number| plain(*number).name).collect(),
            names: names.iter().map(|name| owner(name)).collect(),
            records: BTreeSet::new(),
        };
        let reuse = revise(&self.wish, &after, &touched, &options, &self.snapshot);
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
        (self.snapshot, self.wish) = (reuse.snapshot, after);
    }
}

/// A change of a wish.
type Change<'c> = &'c dyn Fn(&mut DesiredState);

#[test]
fn ordinary_changes_are_compiled_incrementally() {
    let mut story = Story::begin();
    let mut check =
        |what: &str, change: Change<'_>, pools: &[u64], names: &[&str]| story.check(what, change, pools, names);
    check("nothing changed", &|_| {}, &[2], &["n3."]);
    let weigh = |wish: &mut DesiredState| wish.pools.get_mut(&plain(1).name).unwrap().members[1].weight = Weight(9);
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
    let beside_text = |wish: &mut DesiredState| ["free.", "*.a.b.c.d.new."].iter().for_each(|n| put(wish, n, 3));
    check(
        "a name above a wildcard of the text, and one deeper than all",
        &beside_text,
        &[],
        &["free.", "*.a.b.c.d.new."],
    );
    check("a name less", &|wish| _ = wish.names.remove(&owner("q.x.y.")), &[], &["q.x.y."]);
    check("a wildcard less", &|wish| _ = wish.names.remove(&owner("*.y.")), &[], &["*.y."]);
    let add = |wish: &mut DesiredState| {
        wish.pools.insert(plain(7).name, plain(7));
        put(wish, "n7.", 7);
    };
    check("a pool and its name", &add, &[7], &["n7."]);
    check("a pool and its name less", &|wish| take(wish, 2), &[2], &["n2."]);
    let by_place = |wish: &mut DesiredState| {
        let mut pool = plain(10);
        pool.policy.ranks = vec![Rank::Nearest];
        let [short, long] = [5, 60].map(|secs| Ttl::from_secs(secs).unwrap());
        pool.ttl_bounds = Some(TtlBounds { short, long });
        wish.pools.insert(pool.name.clone(), pool);
        put(wish, "n10.", 10);
    };
    check("a pool that goes by place", &by_place, &[10], &["n10."]);
    check("a pool less before one that goes by place", &|wish| take(wish, 0), &[0], &["n0."]);
    let own_ttl = |wish: &mut DesiredState| {
        put(wish, "m10.", 10);
        wish.names.get_mut(&owner("m10.")).unwrap().ttl = Some(plain(10).ttl);
    };
    check("a name with the pool's TTL as its own, which keeps it", &own_ttl, &[], &["m10."]);
    let rank = |wish: &mut DesiredState| wish.pools.get_mut(&plain(4).name).unwrap().policy.ranks = vec![Rank::Nearest];
    check("a pool that goes by place from now on", &rank, &[4], &[]);
    let ttl = |wish: &mut DesiredState| wish.pools.get_mut(&plain(3).name).unwrap().ttl = Ttl::from_secs(77).unwrap();
    check("a TTL", &ttl, &[3], &[]);
    check("a pool that no name uses", &|wish| _ = wish.pools.insert(plain(8).name, plain(8)), &[8], &[]);
}

#[test]
fn pools_change_with_targets_and_cluster_names() {
    let mut story = Story::begin();
    let mut check =
        |what: &str, change: Change<'_>, pools: &[u64], names: &[&str]| story.check(what, change, pools, names);
    let alias = |wish: &mut DesiredState| {
        wish.pools.insert(plain(11).name, by_name(11));
        put(wish, "n11.", 11);
    };
    check("one more pool that answers by the name of a cluster", &alias, &[11], &["n11."]);
    let weigh = |wish: &mut DesiredState| wish.pools.get_mut(&plain(11).name).unwrap().members[0].weight = Weight(7);
    check("a weight in it", &weigh, &[11], &[]);
    check("one of the two less", &|wish| take(wish, 11), &[11], &["n11."]);
    let judged = |number: u64, monitor: &'static str| {
        move |wish: &mut DesiredState| {
            let pool = Pool { monitor: MonitorName::new(monitor).ok(), ..plain(number) };
            wish.pools.insert(pool.name.clone(), pool);
            put(wish, &format!("n{number}."), number);
        }
    };
    check("a pool with a monitor of its own", &judged(12, "first"), &[12], &["n12."]);
    check("another one", &judged(13, "second"), &[13], &["n13."]);
    check("one more of those", &judged(14, "second"), &[14], &["n14."]);
    check("the first of them less, whose numbers of targets others take", &|wish| take(wish, 12), &[12], &["n12."]);
    check("one of two that share theirs less", &|wish| take(wish, 14), &[14], &["n14."]);
    let other =
        |wish: &mut DesiredState| wish.pools.get_mut(&plain(13).name).unwrap().monitor = MonitorName::new("first").ok();
    check("another monitor", &other, &[13], &[]);
    check("the last of them less", &|wish| take(wish, 13), &[13], &["n13."]);
}

#[test]
fn too_many_moved_pools_need_full_compilation() {
    let options = ServerOptions::default();
    for (count, is_revised) in [(1_000, true), (1_001, false)] {
        let mut wish = world();
        // The first pool's target has the first number, that of all others the last.
        for number in 0..=count {
            let monitor = MonitorName::new(if number == 0 { "first" } else { "second" }).ok();
            let pool = Pool { members: vec![Member::new(cluster(0))], monitor, ..plain(number) };
            wish.pools.insert(pool.name.clone(), pool);
            put(&mut wish, &format!("m{number}."), number);
        }
        let snapshot = compile(&wish, &zones(), &options, None).unwrap().0;
        let mut after = wish.clone();
        take(&mut after, 0);
        after.names.remove(&owner("m0."));
        let touched =
            ChangedItems { pools: [plain(0).name].into(), names: [owner("m0.")].into(), records: BTreeSet::new() };
        let reuse = revise(&wish, &after, &touched, &options, &snapshot);
        assert_eq!(reuse.is_some(), is_revised, "{count}");
        let expected = compile(&after, &zones(), &options, None).unwrap().0;
        if let Some(reuse) = reuse {
            assert_same(&serving(reuse, None, 1), &serving(expected, None, 1), "all pools have moved");
        }
    }
}

#[test]
fn names_needed_by_others_stay() {
    let mut story = Story::begin();
    // What is put, and of that what is taken away again.
    for (what, put_there, taken) in [
        ("a wildcard, where the text has one", &["free.", "*.free."][..], &["*.free."][..]),
        ("a wildcard, where the text has none", &["shop.", "*.shop."], &["*.shop."]),
        ("a name above a wildcard", &["wild.", "*.wild."], &["wild."]),
        ("a name with two above it that are there because of it", &["b.c.d.new."], &["b.c.d.new."]),
        ("a name below that of a cluster", &["z.us1."], &["z.us1."]),
        ("a name above one", &["gap.", "x.gap."], &["gap."]),
    ] {
        let (there, taken): (Vec<&str>, &[&str]) = (put_there.to_vec(), taken);
        story.check(what, &|wish| there.iter().for_each(|name| put(wish, name, 4)), &[], &there);
        story.check(what, &|wish| taken.iter().for_each(|name| _ = wish.names.remove(&owner(name))), &[], taken);
        let left: Vec<&str> = there.iter().copied().filter(|name| !taken.contains(name)).collect();
        story.check(what, &|wish| left.iter().for_each(|name| _ = wish.names.remove(&owner(name))), &[], &left);
    }
}

#[test]
fn last_good_members_survive_incremental_compilation() {
    let mut story = Story::begin();
    let last_good = |wish: &mut DesiredState| wish.pools.get_mut(&plain(0).name).unwrap().down = DownAnswer::LastGood;
    story.check("a pool that remembers", &last_good, &[0], &[]);
    let (before, now) = (Arc::clone(&story.snapshot), Timestamp::from_secs(1));
    let of_eu1 = before.targets().iter().position(|target| target.address.to_string().contains("203.0.113.1"));
    let status =
        |target: TargetIndex| [HealthStatus::Down, HealthStatus::Up][usize::from(Some(target.0 as usize) == of_eu1)];
    let first = RuntimeState::new_at(&before, now, |target| Health::new(status(target), None));
    story.check("another pool", &|wish| put(wish, "x.", 1), &[], &["x."]);
    let down = |_| Health::new(HealthStatus::Down, None);
    let runtime = Arc::new(RuntimeState::after(&story.snapshot, (&before, &first), now, down));
    let told = explain(&ServingState { snapshot: story.snapshot, runtime }, &owner("n0."), Rtype::A, None);
    assert_eq!(told.answer.iter().map(|record| &*record.rdata).collect::<Vec<_>>(), ["203.0.113.1"]);
}

#[test]
fn unsupported_change_needs_full_compilation() {
    let (zones, options) = (zones(), ServerOptions::default());
    let pool = |number: u64, clusters: &[u64]| {
        let mut pool = Pool::new(PoolName::new(&format!("p{number}")).unwrap(), Policy::WEIGHTED);
        pool.members = clusters.iter().map(|number| Member::new(cluster(*number))).collect();
        pool
    };
    let mut wish = world();
    for (number, clusters) in [(0, &[0, 1][..]), (1, &[0, 2]), (2, &[4])] {
        let mut reuse = pool(number, clusters);
        // By their names, which are then names of the upper layer.
        reuse.mode = if number == 2 { AnswerMode::Cname } else { AnswerMode::Address };
        let name = owner(&format!("n{number}."));
        wish.names.insert(name.clone(), SteeredName { name, pool: reuse.name.clone(), ttl: None });
        wish.pools.insert(reuse.name.clone(), reuse);
    }
    ["gap.", "y.deep.gap."].iter().for_each(|name| put(&mut wish, name, 0));
    let snapshot = compile(&wish, &zones, &options, None).unwrap().0;
    let is_left = |change: &dyn Fn(&mut DesiredState), pools: &[&str], names: &[&str], options: &ServerOptions| {
        let mut after = wish.clone();
        change(&mut after);
        let touched = ChangedItems {
            pools: pools.iter().map(|name| PoolName::new(name).unwrap()).collect(),
            names: names.iter().map(|name| owner(name)).collect(),
            records: BTreeSet::new(),
        };
        revise(&wish, &after, &touched, options, &snapshot).is_none()
    };
    let names = |relative: &'static str| {
        move |wish: &mut DesiredState| {
            let (name, pool) = (owner(relative), PoolName::new("p0").unwrap());
            wish.names.insert(name.clone(), SteeredName { name, pool, ttl: None });
        }
    };
    assert!(!is_left(&names("fine."), &[], &["fine."], &options));
    for relative in ["own.", "x.sub.", "y.old.", "link."] {
        assert!(is_left(&names(relative), &[], &[relative], &options), "{relative} cannot be steered");
    }
    assert!(is_left(&names("af1."), &[], &["af1."], &options), "the name of a cluster that a pool answers by it");
    assert!(!is_left(&|wish| _ = wish.names.remove(&owner("n1.")), &[], &["n1."], &options), "a target's last name");
    let no_gap = |wish: &mut DesiredState| _ = wish.names.remove(&owner("gap."));
    assert!(is_left(&no_gap, &[], &["gap."], &options), "a zone stands between it and what is below");
    let p1 = PoolName::new("p1").unwrap();
    assert!(is_left(&|wish| _ = wish.pools.remove(&p1), &["p1"], &[], &options), "a pool that a name uses still");
    let alias = |wish: &mut DesiredState| wish.pools.get_mut(&p1).unwrap().mode = AnswerMode::Cname;
    assert!(is_left(&alias, &["p1"], &[], &options), "clusters get names");
    let p2 = PoolName::new("p2").unwrap();
    let weigh = |wish: &mut DesiredState| wish.pools.get_mut(&p2).unwrap().members[0].weight = Weight(7);
    assert!(!is_left(&weigh, &["p2"], &[], &options), "clusters keep their names");
    let hurry = |wish: &mut DesiredState| wish.pools.get_mut(&p2).unwrap().ttl = Ttl::from_secs(7).unwrap();
    assert!(is_left(&hurry, &["p2"], &[], &options), "the name of a cluster has another TTL");
    let other = ServerOptions { udp_payload: 1_000, ..ServerOptions::default() };
    assert!(is_left(&|_| {}, &[], &[], &other), "the server's own options");
    let many: Vec<String> = (0..25_000).map(|number| format!("a-rather-long-name-{number}.")).collect();
    let add = |wish: &mut DesiredState| {
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
    let whole = |wish: &DesiredState| compile(wish, &zones, &options, None).map(|(snapshot, _)| snapshot);
    let mut revised = serving(whole(&wish).unwrap(), None, 0);
    let mut compiled = serving(whole(&wish).unwrap(), None, 0);
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
        if touched == ChangedItems::default()
            || after.violations().iter().any(|problem| problem.severity == Severity::Error)
        {
            continue;
        }
        let reuse = revise(&wish, &after, &touched, &options, &revised.snapshot);
        let Ok(expected) = whole(&after) else {
            prop_assert!(reuse.is_none(), "at fault, and revised: {:?}", touched);
            continue;
        };
        (narrow, played) = (narrow + u32::from(reuse.is_some()), played + 1);
        let next = reuse.unwrap_or_else(|| recompile(&after, &options, &revised.snapshot).unwrap().0);
        revised = serving(next, Some(&revised), step);
        compiled = serving(expected, Some(&compiled), step);
        assert_same(&revised, &compiled, &format!("step {step}: {touched:?}"));
        wish = after;
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
    // A law that everything is left out of says nothing.
    let (narrow, played) = (narrow.get(), played.get());
    assert!(3 * narrow > 2 * played && played > 60, "{narrow} of {played} edits were revised");
}
