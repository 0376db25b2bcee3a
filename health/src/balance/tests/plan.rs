//! Single steps of a plan, for demands whose loads are known.

use std::collections::BTreeMap;

use fairway_model::{AcceptedShare, Demand, Shares};

use super::{name, route, settings};
use crate::balance::{Settings, demands::Demands, evidence::Evidence, plan::Plan};

/// Three clusters of 1000, and demands of which each is at home where its number modulo three says.
struct Table {
    settings: Settings,
    plan: Plan,
    demands: Demands,
    evidence: Vec<Evidence>,
    loads: BTreeMap<u64, f64>,
}

impl Table {
    fn new() -> Self {
        let settings = settings(&[1000, 1000, 1000]);
        let (plan, demands) = (Plan::new(&settings), Demands::new(30.0));
        Self { settings, plan, demands, evidence: vec![Evidence::default(); 3], loads: BTreeMap::new() }
    }

    /// The same number of demands at home in each cluster, of these loads together.
    fn of(home: [f64; 3]) -> Self {
        let mut table = Self::new();
        table.carry(home);
        table.told(1.0);
        table
    }

    fn carry(&mut self, home: [f64; 3]) {
        (0..900).for_each(|demand| self.put(demand, home[demand as usize % 3] / 300.0, 0.0, demand as usize % 3));
    }

    fn put(&mut self, demand: u64, load: f64, doubt: f64, at: usize) {
        self.demands.restore(Demand(demand), load, doubt, at);
        self.loads.insert(demand, load);
    }

    /// Every cluster reports what is there.
    fn told(&mut self, at: f64) {
        for (place, evidence) in self.evidence.iter_mut().enumerate() {
            let load = self.demands.iter().filter(|(_, it)| it.at == Some(place)).map(|(_, it)| it.load).sum();
            assert!(evidence.hear(place, load, at, None, &mut self.demands));
        }
    }

    /// What is taken of near and of other clients, from before a restart.
    fn taking(mut self, near: [f64; 3], spill: f64) -> Self {
        for (place, near) in near.into_iter().enumerate() {
            let [near, spill] = [near, spill].map(|part| (part * 65_535.0) as u16);
            self.plan.restore(place, AcceptedShare { local: near, overflow: spill });
        }
        self
    }

    fn step(&mut self, now: f64) {
        self.plan.step(now, &self.settings, &self.demands, &self.evidence, &mut |shares, demands| {
            demands.iter().map(|demand| Some(route(shares, demand.0))).collect()
        });
    }

    /// How much of the demand is sent elsewhere by a step.
    fn moved_by_step(&mut self, now: f64) -> f64 {
        let before = self.shares();
        self.step(now);
        let after = self.shares();
        let moved = self.loads.iter().filter(|(demand, _)| route(&before, **demand) != route(&after, **demand));
        moved.map(|(_, load)| load).sum::<f64>() / self.loads.values().sum::<f64>()
    }

    fn shares(&self) -> Shares {
        self.plan.shares(&self.settings)
    }

    /// Load of each cluster once all have asked.
    fn totals(&self) -> [f64; 3] {
        let shares = self.shares();
        let mut totals = [0.0; 3];
        self.loads.iter().for_each(|(demand, load)| totals[route(&shares, *demand)] += load);
        totals
    }

    fn pinned(&self, demand: u64) -> Option<String> {
        self.shares().pins.get(&Demand(demand)).map(ToString::to_string)
    }
}

#[test]
fn a_large_demand_is_held_where_it_is_until_it_is_clearly_small() {
    let mut table = Table::of([100.0; 3]);
    table.put(9, 60.0, 0.0, 2);
    table.step(1_000.0);
    assert_eq!((table.pinned(9).as_deref(), table.shares().pins.len()), (Some("c"), 1));
    table.put(9, 60.0, 0.0, 0);
    table.step(1_005.0);
    table.put(9, 40.0, 0.0, 0);
    table.step(1_010.0);
    assert_eq!(table.pinned(9).as_deref(), Some("c"), "what is held stays, wherever it was seen since");
    table.put(9, 20.0, 0.0, 2);
    table.step(1_020.0);
    assert_eq!(table.pinned(9), None);
    table.put(9, 40.0, 0.0, 2);
    table.step(1_030.0);
    assert_eq!(table.pinned(9), None, "and is not held anew before it is large");
}

#[test]
fn what_may_be_large_is_not_held_and_nor_is_what_is_held_by_a_cluster_that_is_away() {
    let mut table = Table::of([100.0; 3]);
    table.put(9, 60.0, 5.0 * 60.0 * 60.0, 2);
    table.step(1_000.0);
    assert_eq!(table.pinned(9), None, "nobody knows how large it is");
    table.put(9, 60.0, 0.0, 2);
    table.step(1_010.0);
    assert_eq!(table.pinned(9).as_deref(), Some("c"));
    table.plan.available(2, false, 1_015.0);
    table.step(1_015.0);
    assert_eq!(table.pinned(9), None);
    table.put(9, 60.0, 0.0, 0);
    table.step(1_020.0);
    assert_eq!(table.pinned(9).as_deref(), Some("a"));
}

#[test]
fn a_cluster_that_is_back_takes_nothing_of_what_it_took_before() {
    let mut plan = Table::new().taking([1.0; 3], 1.0).plan;
    plan.available(1, false, 5.0);
    plan.available(1, true, 6.0);
    let given = plan.shares(&settings(&[1000; 3])).accepted;
    assert_eq!([0, 1, 2].map(|place| given[&name(place)].local), [65_535, 0, 65_535]);
    assert_eq!([0, 1, 2].map(|place| given[&name(place)].overflow), [65_535, 0, 65_535]);
}

#[test]
fn nothing_moves_until_every_client_has_asked_once_and_a_report_has_told() {
    let declared = Table::new().shares();
    let mut table = Table::of([900.0, 300.0, 300.0]);
    table.demands.since = Some(0.0);
    table.step(60.0);
    assert_eq!(table.shares(), declared);
    table.step(70.0);
    assert_ne!(table.shares(), declared);
    // What was kept may tell where clients are, or only what is taken of them.
    let mut kept = Table::of([900.0, 300.0, 300.0]).taking([0.01; 3], 0.0);
    let mut anew = Table::of([900.0, 300.0, 300.0]).taking([0.01; 3], 0.0);
    anew.demands.since = Some(0.0);
    let before = kept.shares();
    [&mut kept, &mut anew].into_iter().for_each(|table| table.step(10.0));
    assert_ne!(kept.shares(), before);
    assert_eq!(anew.shares(), before);
}

#[test]
fn nothing_moves_while_no_cluster_has_reported() {
    let mut table = Table::new();
    table.carry([900.0, 300.0, 300.0]);
    let declared = table.shares();
    table.step(1_000.0);
    assert_eq!(table.shares(), declared);
}

#[test]
fn reports_that_are_late_are_waited_for_but_not_for_ever() {
    let first_move = |late: f64| {
        let mut table = Table::of([900.0, 300.0, 300.0]);
        table.demands.since = Some(0.0);
        table.plan.late(late);
        let declared = table.shares();
        (0..1_000).map(|turn| f64::from(turn) * 10.0).find(|now| {
            table.step(*now);
            table.shares() != declared
        })
    };
    assert_eq!(first_move(10.0), Some(70.0));
    assert_eq!(first_move(300.0), Some(100.0));
    assert_eq!(first_move(1e9), Some(130.0), "a clock was wrong");
}

#[test]
fn what_a_death_leaves_over_the_budgets_is_moved_at_once() {
    let mut table = Table::of([600.0; 3]).taking([1.0; 3], 1.0);
    table.plan.available(0, false, 1_000.0);
    // The scene of the test knows nothing of health: the dead one takes nobody.
    table.plan.restore(0, AcceptedShare::NONE);
    table.step(1_000.0);
    let totals = table.totals();
    assert!(totals[1] < 1_000.0 && totals[2] < 1_000.0, "both have to share: {totals:?}");
}

#[test]
fn a_step_moves_a_small_part_however_much_is_over_and_also_after_a_flip() {
    let mut table = Table::of([1_800.0, 0.0, 0.0]).taking([1.0; 3], 1.0);
    let moved: Vec<f64> = (0..3u32).map(|turn| table.moved_by_step(1_000.0 + 10.0 * f64::from(turn))).collect();
    // Half of the demand in the time in which a move shows, 30 and 10 seconds; here 10 have passed.
    assert!(moved.iter().all(|moved| (0.02..0.15).contains(moved)), "{moved:?}");
    let mut table = Table::of([300.0; 3]).taking([1.0; 3], 1.0);
    table.plan.available(2, false, 1_000.0);
    table.step(1_000.0);
    table.carry([1_800.0, 0.0, 0.0]);
    table.told(1_005.0);
    let moved = table.moved_by_step(1_010.0);
    assert!(moved < 0.15, "{moved}");
}

#[test]
fn clients_come_home_in_small_steps_and_nobody_is_overrun_on_the_way() {
    let mut table = Table::of([1_200.0, 300.0, 300.0]).taking([0.3; 3], 0.5);
    for turn in 0..60u32 {
        let now = 100.0 + 10.0 * f64::from(turn);
        table.told(now - 5.0);
        let moved = table.moved_by_step(now);
        assert!(moved < 0.05, "{moved} in turn {turn}");
        assert!(table.totals().iter().all(|load| *load < 900.0), "{:?} in turn {turn}", table.totals());
    }
    let totals = table.totals();
    assert!(totals[0] > 720.0, "the first is full of its own clients: {totals:?}");
}

#[test]
fn what_brings_next_to_nobody_nearer_is_left() {
    let mut table = Table::of([400.0; 3]).taking([0.99, 1.0, 1.0], 1.0);
    assert!(table.totals()[0] < 400.0, "somebody could come nearer");
    let before = table.shares();
    table.step(1_000.0);
    assert_eq!(table.shares(), before);
}

#[test]
fn who_is_larger_than_a_step_still_comes_home() {
    let mut table = Table::of([100.0; 3]);
    // Just under what is pinned, and seven times what a step may move of so little.
    [9, 19, 29].into_iter().for_each(|demand| table.put(demand, 49.0, 0.0, demand as usize % 3));
    for turn in 0..200u32 {
        table.told(995.0 + 10.0 * f64::from(turn));
        table.step(1_000.0 + 10.0 * f64::from(turn));
    }
    let shares = table.shares();
    assert_eq!([9, 19, 29].map(|demand| route(&shares, demand)), [0, 1, 2]);
}
