//! Pools and runtime states written as text, and their answers as text.

mod answers;
mod down;
mod explain;
mod fast_path;
mod last_good;
mod laws;
mod load;
mod only;
mod schedule;
mod services;
mod shares;
mod tiers;
mod views;

use std::{net::IpAddr, sync::Arc};

use fairway_model::{
    Backend, ClassLatencies, ClassRanks, ClientPartition, Cluster, ClusterCost, ClusterName, Demand, DesiredState,
    Health, HealthStatus, LocationRankings, Member, OverrideAction, Partition, Policy, Pool, PoolName, Schedule,
    Shares, SlotTable, Tier, Weight,
};

use super::{
    TargetUses,
    answer::{Answer, Choice, Family, Kind},
    pool::SteerPool,
    targets::TargetTable,
};
use crate::{
    client::Draw,
    compile,
    runtime::RuntimeState,
    snapshot::{ServerOptions, Snapshot},
};

/// A pool with its compiled form.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) pool: Pool,
    desired: DesiredState,
    pub(super) steer: SteerPool,
    pub(super) snapshot: Snapshot,
}

/// Returns a snapshot with these pools and nothing else.
fn snapshot_of(pools: &[SteerPool], targets: TargetTable) -> Snapshot {
    let (empty, _) = compile(&DesiredState::default(), &[], &ServerOptions::default(), None).unwrap();
    let mut uses = TargetUses::default();
    pools.iter().for_each(|pool| uses.add(pool, &targets));
    Snapshot { pools: pools.iter().cloned().collect(), targets, target_uses: uses, ..empty }
}

impl Scene {
    /// Returns a pool of members such as `a b:60 c:0@2 d/2+1`: name, weight after `:`, tier after `@`, numbers of IPv4
    /// and IPv6 addresses after `/` (default: 1+0).
    pub(super) fn new(policy: Policy, members: &str, adjust: impl FnOnce(&mut Pool)) -> Self {
        let mut desired = DesiredState::default();
        let mut pool = Pool::new(PoolName::new("shop").unwrap(), policy);
        for (place, text) in members.split_whitespace().enumerate() {
            let (cluster, member) = member(place, text);
            desired.clusters.insert(cluster.name.clone(), cluster);
            pool.members.push(member);
        }
        adjust(&mut pool);
        Self::compile(desired, pool)
    }

    /// Returns a pool with two location classes, the halves of the IPv4 addresses, and the ranks of the members in
    /// each.
    pub(super) fn placed(policy: Policy, members: &str, ranks: [&[u16]; 2], adjust: impl FnOnce(&mut Pool)) -> Self {
        let scene = Self::new(policy, members, adjust);
        let halves = ["0.0.0.0/1", "128.0.0.0/1"].map(|half| half.parse().unwrap());
        let mut classes = ClassRanks::new(scene.pool.members.len());
        ranks.iter().for_each(|ranks| classes.push(ranks));
        let location = LocationRankings {
            partition: ClientPartition::new(Partition::of_networks(halves.into_iter().zip(0..), 0)).unwrap(),
            rankings: vec![classes],
            latencies: ClassLatencies::default(),
        };
        Self::compile_at(scene.desired, scene.pool, &location)
    }

    pub(super) fn compile(desired: DesiredState, pool: Pool) -> Self {
        Self::compile_at(desired, pool, &LocationRankings::none())
    }

    pub(super) fn compile_at(desired: DesiredState, pool: Pool, location: &LocationRankings) -> Self {
        let mut table = TargetTable::default();
        let steer = SteerPool::build(&desired, &pool, None, location, &mut table);
        Self::of(desired, pool, steer, table)
    }

    /// Returns a pool with a snapshot that has nothing else.
    pub(super) fn of(desired: DesiredState, pool: Pool, steer: SteerPool, targets: TargetTable) -> Self {
        Self { pool, desired, snapshot: snapshot_of(std::slice::from_ref(&steer), targets), steer }
    }

    /// Returns another pool over the same clusters.
    pub(super) fn recompiled(&self, pool: Pool) -> Self {
        Self::compile(self.desired.clone(), pool)
    }

    pub(super) fn weighted(members: &str) -> Self {
        Self::new(Policy::WEIGHTED, members, |_| {})
    }

    pub(super) fn failover(members: &str) -> Self {
        Self::new(Policy::FAILOVER, members, |_| {})
    }

    /// Returns a runtime state from one word per member and one letter per address, the last letter for all further
    /// ones: `u`p, `d`own, `p`ending, `s`tale (unknown), drained `x`, overridden down `f`, overridden up `U`.
    pub(super) fn runtime(&self, states: &str) -> RuntimeState {
        RuntimeState::new(&self.snapshot, self.health(states))
    }

    /// Returns the runtime state with tables such as `a:100 b:156`: numbers of slots, the first ones first. Slots that are left have no
    /// cluster. Tables of further classes follow after `/`; classes without one have the last.
    pub(super) fn balanced(&self, runtime: &RuntimeState, tables: &str) -> RuntimeState {
        let texts: Vec<&str> = tables.split('/').collect();
        let classes = self
            .snapshot
            .load_classes()
            .groups()
            .iter()
            .flat_map(|group| (0..group.costs.len()).map(|class| group.costs_of(class).collect::<Vec<_>>()));
        let table = |(number, costs): (usize, Vec<(&Backend, Option<ClusterCost>)>)| {
            let costs: Vec<_> = costs.into_iter().filter_map(|(name, cost)| Some((name.clone(), cost?))).collect();
            let text = texts[number.min(texts.len() - 1)];
            let mut slots: Vec<u16> = Vec::new();
            for (name, count) in text.split_whitespace().map(|text| text.split_once(':').unwrap()) {
                let place = costs.iter().position(|(backend, _)| backend.to_string() == name);
                let place = place.map_or(SlotTable::NONE, |place| place as u16);
                slots.extend(std::iter::repeat_n(place, count.parse().unwrap()));
            }
            slots.resize(Demand::SLOTS, SlotTable::NONE);
            SlotTable { costs, slots }
        };
        let tables = classes.enumerate().map(table).collect();
        runtime.with_shares(&self.snapshot, &Arc::new(Shares { epoch: 1, tables, ..Shares::default() }))
    }

    /// Returns the runtime state changed to these states.
    pub(super) fn changed(&self, before: &RuntimeState, states: &str) -> RuntimeState {
        let mut health = self.health(states);
        let indices = (0..self.snapshot.targets().len() as u32).map(crate::TargetIndex);
        let changes: Vec<_> = indices.map(|target| (target, health(target))).collect();
        before.with(&self.snapshot, &changes)
    }

    fn health(&self, states: &str) -> impl FnMut(crate::TargetIndex) -> Health + use<> {
        let mut health = vec![Health::PENDING; self.snapshot.targets().len()];
        let words: Vec<_> = states.split_whitespace().collect();
        assert_eq!(words.len(), self.steer.members.len(), "one word a member");
        for member in &self.steer.members {
            let mut letters = words[usize::from(member.number)].chars();
            let mut letter = 'p';
            for set in &member.address_sets {
                for address in 0..set.addresses() as usize {
                    letter = letters.next().unwrap_or(letter);
                    health[self.steer.target_of(set, address).0 as usize] = state(letter);
                }
            }
        }
        move |target| health[target.0 as usize]
    }

    pub(super) fn choose(&self, kind: Kind, runtime: &RuntimeState, client: &str) -> Choice {
        let client = self.steer.client_net(client.parse().unwrap());
        self.steer.choose(kind, runtime, client, Draw(0), &mut ())
    }

    /// Returns the answer to one client as text.
    pub(super) fn answer(&self, kind: Kind, states: &str) -> String {
        self.text(kind, self.choose(kind, &self.runtime(states), "198.51.100.7").answer)
    }

    /// Returns the answer as names of clusters, further addresses of a cluster with a number: `a a.2 b`.
    pub(super) fn text(&self, kind: Kind, answer: Answer) -> String {
        match (answer, kind) {
            (Answer::Set(number), Kind::Addresses(family)) => {
                let sets = self.steer.sets(family);
                sets[usize::from(number)].iter().map(label).collect::<Vec<_>>().join(" ")
            }
            (Answer::Member(number), Kind::Cname) => format!("cname {}", self.steer.cluster(number)),
            (Answer::FallbackAddresses, Kind::Cname) => "fallback addresses".to_owned(),
            (Answer::FallbackCname, _) => "cname fallback".to_owned(),
            (Answer::Nothing, _) => "nothing".to_owned(),
            (Answer::Refuse, _) => "refuse".to_owned(),
            odd => panic!("{odd:?}"),
        }
    }

    /// Returns the cluster of each of many client networks.
    pub(super) fn spread(&self, runtime: &RuntimeState, networks: u32) -> Vec<u8> {
        let choose = |i: u32| {
            let client = self.steer.client_net(network(i));
            self.steer.choose(Kind::V4, runtime, client, Draw(0), &mut ()).members.as_slice()[0]
        };
        (0..networks).map(choose).collect()
    }

    /// Returns a state text in which every member has this state.
    pub(super) fn all(&self, state: &str) -> String {
        vec![state; self.pool.members.len()].join(" ")
    }
}

/// Returns the /24 of a number below 2^24.
pub(super) fn network(i: u32) -> IpAddr {
    std::net::Ipv4Addr::from_bits(i << 8).into()
}

fn member(place: usize, text: &str) -> (Cluster, Member) {
    let mark = |text: &str, mark| text.split_once(mark).map(|(head, tail)| (head.to_owned(), tail.to_owned()));
    let (text, counts) = mark(text, '/').unwrap_or_else(|| (text.to_owned(), "1+0".to_owned()));
    let (text, tier) = mark(&text, '@').unwrap_or_else(|| (text.clone(), "1".to_owned()));
    let (name, weight) = mark(&text, ':').unwrap_or_else(|| (text.clone(), "1".to_owned()));
    let (v4, v6) = counts.split_once('+').unwrap();
    let number = |text: &str| text.parse::<u16>().unwrap();
    let v4 = (1..=number(v4)).map(|n| IpAddr::from([10, 0, place as u8, n as u8]));
    let v6 = (1..=number(v6)).map(|n| IpAddr::from([0x2001, 0xdb8, place as u16, 0, 0, 0, 0, n]));
    let cluster = Cluster::new(ClusterName::new(&name).unwrap(), v4.chain(v6).collect());
    let cluster = Cluster { capacity: Some(1_000), ..cluster };
    let mut member = Member::new(cluster.name.clone());
    member.weight = Weight(number(&weight));
    member.tier = Tier::new(number(&tier) as u8).unwrap();
    (cluster, member)
}

fn state(letter: char) -> Health {
    match letter {
        'u' => Health::new(HealthStatus::Up, None),
        'd' => Health::new(HealthStatus::Down, None),
        'p' => Health::PENDING,
        's' => Health::new(HealthStatus::Unknown, None),
        'e' => Health::new(HealthStatus::Up, None).with_exhausted(true),
        'x' => Health::new(HealthStatus::Up, Some(OverrideAction::Drain)),
        'f' => Health::new(HealthStatus::Up, Some(OverrideAction::Down)),
        'U' => Health::new(HealthStatus::Down, Some(OverrideAction::Up)),
        odd => panic!("no state {odd}"),
    }
}

/// Members are named a, b, c, … in the order of the third octet of their addresses.
fn label(address: &IpAddr) -> String {
    let (place, number) = match address {
        IpAddr::V4(a) => (u16::from(a.octets()[2]), u16::from(a.octets()[3])),
        IpAddr::V6(a) => (a.segments()[2], a.segments()[7]),
    };
    if place >= 26 {
        return format!("{address}");
    }
    let name = char::from(b'a' + place as u8);
    if number == 1 { name.to_string() } else { format!("{name}.{number}") }
}

/// Returns the number of the answer in its family.
pub(super) fn set_of(choice: &Choice) -> u16 {
    match choice.answer {
        Answer::Set(number) => number,
        odd => panic!("{odd:?} is no set"),
    }
}

/// Returns the ECS scopes of an address of each family.
pub(super) fn scopes(scene: &Scene) -> (u8, u8) {
    let scope = |address: &str| scene.steer.client_net(address.parse().unwrap()).scope();
    (scope("198.51.100.7"), scope("2001:db8::7"))
}

/// Questions of both families.
pub(super) const KINDS: [(Kind, Family); 2] = [(Kind::V4, Family::V4), (Kind::V6, Family::V6)];
