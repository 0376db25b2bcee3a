//! Computes answers from the JSON of their explanations, by the formulas of `docs/internals/policies.md`. This implementation shares no code with
//! the answering one: it uses floating point and lists of names.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use fairway_model::{
    ClassLatencies, ClassRanks, ClientPartition, ClientPrefix, Cluster, ClusterName, Demand, DesiredState, DownAnswer,
    Health, HealthStatus, LocationRankings, Member, Name, Partition, Permille, Policy, Pool, PoolName, Rank, Schedule,
    ScheduleWindow, Selection, Shares, SlotTable, SplitMix, Spread, SteeredName, Tier, Timestamp, Weight, ZoneSpec,
};
use fairway_zonefile::read_zone;
use fairway_zones::{
    Draw, RuntimeState, ServerOptions, Snapshot, compile,
    steer::{Kind, SteerPool, TargetTable},
};
use serde_json::Value;

use super::{TargetNote, pool_choice};

/// Time when windows of members open or close.
const NOON: u64 = 1_000_000;
/// Number of random pools, and of random clients of each.
const POOLS: u64 = 400;
const CLIENTS: u64 = 5;

#[test]
fn explanation_is_enough_to_compute_the_answer() {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for number in 0..POOLS {
        let mut dice = SplitMix::new(number);
        let mut scene = Scene::new(&mut dice);
        for _ in 0..CLIENTS {
            let (json, chosen) = scene.ask(&mut dice);
            let pool: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(first_of(&pool).as_deref(), chosen.as_deref(), "pool {number}: {json}");
            *seen
                .entry(format!("{} {}", pool["policySteps"].as_array().unwrap().len(), pool["assignment"]))
                .or_default() += 1;
            *seen.entry(pool["assignment"].to_string()).or_default() += 1;
            *seen.entry(pool["basis"].to_string()).or_default() += 1;
            *seen.entry("\"closed\"".to_owned()).or_default() += closed(&pool);
        }
    }
    for expected in ["slot", "nearest", "live", "pending", "down", "closed"] {
        let count = seen.get(&format!("{expected:?}")).copied().unwrap_or_default();
        assert!(count >= 20, "{expected} was seen only {count} times: {seen:?}");
    }
}

/// Returns the number of closed members. The reason of each must be its schedule, unless it lacks the address family.
fn closed(pool: &Value) -> u32 {
    let closed = |member: &&Value| member["schedule"].as_str().is_some_and(|schedule| schedule.starts_with("closed: "));
    let members = pool["members"].as_array().unwrap();
    for member in members {
        let (is_closed, candidacy) = (closed(&member), member["candidacy"].as_str());
        assert_eq!(is_closed, candidacy.map_or(is_closed, |candidacy| candidacy == "closed"), "{member}");
        assert!(!is_closed || member["in"] == false && candidate(member).is_none(), "{member}");
        let lacks_family = member["reason"] == "has no address of this family";
        assert!(!is_closed || lacks_family || member["reason"] == member["schedule"], "{member}");
    }
    members.iter().filter(closed).count() as u32
}

/// A member of an explanation, as the formulas use it.
struct Candidate<'a> {
    cluster: &'a str,
    standby: bool,
    /// True if only some addresses are eligible: such members come after the others.
    is_partial: bool,
    key: u64,
    weight: f64,
}

/// Returns the first cluster of the answer by the formulas; none if the answer has none.
fn first_of(pool: &Value) -> Option<String> {
    let text = |value: &'_ Value| value.as_str().unwrap().to_owned();
    if pool["result"] != "members" || pool["chosen"].as_array().unwrap().is_empty() {
        return None;
    }
    let seed = hex(&pool["seed"]);
    if let Some(network) = text(&pool["dependsOn"]).strip_prefix("client ")
        && seed != 0
    {
        assert_eq!(seed, client_seed(network), "{pool}");
    }
    let candidates: Vec<Candidate<'_>> = pool["members"].as_array().unwrap().iter().filter_map(candidate).collect();
    let groups: Vec<Vec<&str>> = pool["groups"].as_array().unwrap().iter().map(clusters).collect();
    let policy = text(&pool["policy"]);
    let chosen = if policy.contains("load") {
        by_load(pool, seed, &groups, &candidates)
    } else if policy.ends_with("failover") {
        let order = groups.concat();
        candidates
            .iter()
            .min_by_key(|candidate| (candidate.is_partial, order.iter().position(|name| *name == candidate.cluster)))
    } else {
        best(candidates.iter(), seed, |candidate| candidate.weight)
    };
    chosen.map(|candidate| candidate.cluster.to_owned())
}

/// Chooses by load: the cluster of the slot, or else the best candidate of the first group that has one.
fn by_load<'a>(
    pool: &Value,
    seed: u64,
    groups: &[Vec<&str>],
    candidates: &'a [Candidate<'a>],
) -> Option<&'a Candidate<'a>> {
    if let Some(slot) = pool["slot"].as_u64() {
        assert_eq!(slot, mix(seed ^ hex(&pool["key"])) % 256, "{pool}");
    }
    if let Some(candidate) = candidates.iter().find(|candidate| pool["slotCluster"] == candidate.cluster)
        && !candidate.standby
    {
        return Some(candidate);
    }
    let of_group = |group: &Vec<&str>| {
        best(candidates.iter().filter(|candidate| group.contains(&candidate.cluster)), seed, |candidate| {
            candidate.weight
        })
    };
    groups.iter().find_map(of_group)
}

/// Chooses by weighted rendezvous hash: the smallest cost by weight; partial members come last.
fn best<'a>(
    candidates: impl Iterator<Item = &'a Candidate<'a>>,
    seed: u64,
    weight: impl Fn(&Candidate<'_>) -> f64,
) -> Option<&'a Candidate<'a>> {
    let score = |candidate: &Candidate<'_>| (candidate.is_partial, cost(mix(seed ^ candidate.key)) / weight(candidate));
    candidates.min_by(|a, b| score(a).partial_cmp(&score(b)).unwrap())
}

fn candidate(member: &Value) -> Option<Candidate<'_>> {
    let candidacy = member["candidacy"].as_str()?;
    let number = |value: &Value| value.as_f64().unwrap();
    matches!(candidacy, "candidate" | "partial").then(|| Candidate {
        cluster: member["cluster"].as_str().unwrap(),
        standby: member["standby"].as_bool().unwrap(),
        is_partial: candidacy == "partial",
        key: hex(&member["key"]),
        weight: number(&member["effectiveWeight"]),
    })
}

fn clusters(group: &Value) -> Vec<&str> {
    group.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

fn hex(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap(), 16).unwrap()
}

/// Returns the seed of a client network.
fn client_seed(network: &str) -> u64 {
    match network.split_once('/').unwrap().0.parse().unwrap() {
        IpAddr::V4(address) => mix(0x66_61_69_72_77_61_79_04 ^ u64::from(u32::from(address))),
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            mix(mix(0x66_61_69_72_77_61_79_06 ^ (bits >> 64) as u64) ^ bits as u64)
        }
    }
}

fn mix(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 27).wrapping_mul(0x3c79_ac49_2ba7_b653);
    let hash = (hash ^ hash >> 33).wrapping_mul(0x1c69_b3f7_4ac4_ae35);
    hash ^ hash >> 27
}

/// Returns `-log2` of the hash as a number between 0 and 1, by linear interpolation between 256 points per octave.
fn cost(hash: u64) -> f64 {
    let hash = hash | 1;
    let zeros = hash.leading_zeros();
    let fraction = (u128::from(hash) << (zeros + 1)) as u64 as f64 / 2f64.powi(64) * 256.0;
    let point = |at: f64| 1.0 - (1.0 + at / 256.0).log2();
    let (low, high) = (fraction.floor(), fraction.floor() + 1.0);
    f64::from(zeros) + point(low) + (point(high) - point(low)) * (fraction - low)
}

/// A random pool with a random runtime state.
struct Scene {
    snapshot: Snapshot,
    steer: SteerPool,
    health: Vec<Health>,
    shares: Shares,
}

impl Scene {
    fn new(dice: &mut SplitMix) -> Self {
        let desired = desired(dice);
        let pool = desired.pools.values().next().unwrap();
        let mut rows = ClassRanks::new(pool.members.len());
        for _ in 0..4 {
            let ranks: Vec<u16> = pool.members.iter().map(|_| dice.below(3) as u16).collect();
            rows.push(&ranks);
        }
        let quarters = ["0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/2", "192.0.0.0/2"].map(|text| text.parse().unwrap());
        let placement = if pool.policy.location_rankings().next().is_some() {
            LocationRankings {
                partition: ClientPartition::new(Partition::of_networks(quarters.into_iter().zip(0..), 0)).unwrap(),
                rankings: vec![rows],
                latencies: ClassLatencies::default(),
            }
        } else {
            LocationRankings::none()
        };
        let zone = desired.zones.values().next();
        let steer = SteerPool::build(&desired, pool, zone, &placement, &mut TargetTable::default());
        let health = (0..64).map(|_| health(dice)).collect();
        let health = match dice.below(12) {
            0 => vec![Health::PENDING; 64],
            1 => vec![Health::new(HealthStatus::Down, None); 64],
            _ => health,
        };
        let snapshot = snapshot(desired);
        let mut tables = Vec::new();
        for group in snapshot.load_classes().groups() {
            for class in 0..group.costs.len() {
                let costs: Vec<_> =
                    group.costs_of(class).filter_map(|(name, cost)| Some((name.clone(), cost?))).collect();
                let count = costs.len() as u64;
                let slots = (0..Demand::SLOTS).map(|_| dice.below(count + 1) as u16);
                let slots = slots.map(|slot| if u64::from(slot) == count { SlotTable::NONE } else { slot }).collect();
                tables.push(SlotTable { costs, slots });
            }
        }
        let shares = Shares { epoch: 3, tables, ..Shares::default() };
        Self { snapshot, steer, health, shares }
    }

    /// Returns the explanation for a random client, and the first cluster of the real answer.
    fn ask(&mut self, dice: &mut SplitMix) -> (String, Option<String>) {
        let address = if dice.below(4) == 0 {
            IpAddr::from(u128::from(dice.bits()).wrapping_mul(0x1_0000_0001).to_be_bytes())
        } else {
            IpAddr::from((dice.bits() as u32).to_be_bytes())
        };
        let (client, draw) = (self.steer.client_net(address), Draw(dice.bits()));
        let now = Timestamp::from_secs(NOON + dice.below(2) - 1);
        let runtime = RuntimeState::new_at(&self.snapshot, now, |target| self.health[target.0 as usize % 64]);
        let runtime = match dice.below(6) {
            0 => runtime,
            _ => runtime.with_shares(&self.snapshot, &Arc::new(self.shares.clone())),
        };
        let kind = if dice.below(4) == 0 { Kind::V6 } else { Kind::V4 };
        let choice = self.steer.choose(kind, &runtime, client, draw, &mut ());
        let first = choice.members.as_slice().first().and_then(|number| self.steer.clusters().nth((*number).into()));
        let explanation = self.steer.explain(kind, &runtime, client, draw);
        let json = serde_json::to_string(&pool_choice(&explanation, &|_, _, _| TargetNote::default())).unwrap();
        (json, first.map(ToString::to_string))
    }
}

/// Returns a random status, mostly up.
fn health(dice: &mut SplitMix) -> Health {
    let statuses = [
        HealthStatus::Up,
        HealthStatus::Up,
        HealthStatus::Up,
        HealthStatus::Down,
        HealthStatus::Pending,
        HealthStatus::Unknown,
    ];
    Health::new(statuses[dice.below(6) as usize], None)
}

fn desired(dice: &mut SplitMix) -> DesiredState {
    let mut ranks: Vec<Rank> = [Rank::Geo, Rank::Cost, Rank::Tier].into_iter().filter(|_| dice.below(2) == 0).collect();
    let turns = (dice.below(3) as usize).min(ranks.len());
    ranks.rotate_left(turns);
    let choose = if dice.below(4) == 0 { Selection::First } else { Selection::Weighted };
    let policy = Policy { schedule: dice.below(3) == 0, ranks, load: dice.below(3) > 0, selection: choose };
    let mut pool = Pool::new(PoolName::new(&format!("p{}", dice.below(9))).unwrap(), policy);
    pool.answers = [1, 1, 2, 3][dice.below(4) as usize];
    pool.spread = if dice.below(4) == 0 { Spread::Query } else { Spread::Client };
    pool.client_prefix = ClientPrefix { v4: 16 + dice.below(12) as u8, v6: 40 + dice.below(24) as u8 };
    pool.min_healthy = Permille::new(dice.below(2) as u16 * 700).unwrap();
    pool.panic_threshold = Permille::new((dice.below(4) / 3) as u16 * 600).unwrap();
    pool.down = if dice.below(2) == 0 { DownAnswer::LastGood } else { DownAnswer::All };
    let mut clusters = BTreeMap::new();
    for number in 0..1 + dice.below(9) as u8 {
        let name = ClusterName::new(&format!("c{number}")).unwrap();
        let v4 = (0..1 + dice.below(6) / 5).map(|host| IpAddr::from([10, 0, number, host as u8]));
        let v6 =
            (0..dice.below(2)).map(|host| IpAddr::from([0x2001, 0xdb8, u16::from(number), 0, 0, 0, 0, host as u16]));
        let addresses = v4.chain(v6).collect();
        let mut member = Member::new(name.clone());
        member.weight = Weight([0, 1, 7, 100, 65_535, dice.below(500) as u16][dice.below(6) as usize]);
        member.tier = Tier::new(1 + dice.below(3) as u8).unwrap();
        member.cost = dice.below(3) as u16;
        let noon = Some(Timestamp::from_secs(NOON));
        let window = match dice.below(4) {
            0 => ScheduleWindow::new(None, None, noon).ok(),
            1 => ScheduleWindow::new(None, noon, None).ok(),
            _ => None,
        };
        member.schedule = window.and_then(|window| Schedule::new(vec![window]));
        pool.members.push(member);
        let cluster = Cluster { capacity: Some(100), ..Cluster::new(name.clone(), addresses) };
        clusters.insert(name, cluster);
    }
    let zone = ZoneSpec::new(name("a.test"));
    let steered = SteeredName { name: name("shop.a.test"), pool: pool.name.clone(), ttl: None };
    DesiredState {
        zones: [(zone.name.clone(), zone)].into(),
        clusters: clusters.into_iter().collect(),
        pools: [(pool.name.clone(), pool)].into(),
        names: [(steered.name.clone(), steered)].into(),
        ..DesiredState::default()
    }
}

/// Returns the snapshot of a pool. Rankings by location are left to its placement.
fn snapshot(mut desired: DesiredState) -> Snapshot {
    let zone = b"$TTL 60\n@ IN SOA ns h 1 1 1 1 1\n@ IN NS ns\nns IN A 192.0.2.53\n";
    let (zone, _) = read_zone(&name("a.test"), "a.zone", zone, &mut |_| Err("none".into()));
    desired.pools.values_mut().for_each(|pool| pool.policy.ranks.retain(|rank| !rank.is_by_location()));
    compile(&desired, &[zone], &ServerOptions::default(), None).unwrap().0
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}
