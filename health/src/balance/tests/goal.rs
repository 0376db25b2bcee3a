//! Pictures of a setting, and goals that are set by them.

use std::collections::BTreeMap;

use fairway_model::{Demand, Shares};

use super::{route, settings};
use crate::balance::{
    Settings,
    goal::BAND,
    picture::{Picture, Scene, Setting},
};

/// What a scene is made of: three clusters, and demands of which each is at home where its number modulo three says.
struct Stand {
    settings: Settings,
    loads: Vec<f64>,
    pins: BTreeMap<Demand, usize>,
    available: Vec<bool>,
    budgets: Vec<f64>,
}

impl Stand {
    fn new(loads: Vec<f64>, budgets: [f64; 3]) -> Self {
        let settings = settings(&[1000, 1000, 1000]);
        Self { settings, loads, pins: BTreeMap::new(), available: vec![true; 3], budgets: budgets.to_vec() }
    }

    /// Demands of which the first cluster is home to 1200, and both others to 300.
    fn lopsided(budgets: [f64; 3]) -> Self {
        Self::new((0..900).map(|demand| if demand % 3 == 0 { 4.0 } else { 1.0 }).collect(), budgets)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Scene<'_, '_>) -> T) -> T {
        let demands: Vec<Demand> = (0..self.loads.len() as u64).map(Demand).collect();
        let mut places = |shares: &Shares, demands: &[Demand]| -> Vec<Option<usize>> {
            demands.iter().map(|demand| Some(route(shares, demand.0))).collect()
        };
        act(&mut Scene {
            settings: &self.settings,
            pins: &self.pins,
            available: &self.available,
            loads: self.loads.clone(),
            pinned: demands.iter().map(|demand| self.pins.contains_key(demand)).collect(),
            home: demands.iter().map(|demand| Some(demand.0 as usize % 3)).collect(),
            demands,
            budgets: self.budgets.clone(),
            places: &mut places,
        })
    }

    fn look(&self, setting: &Setting) -> Picture {
        self.with(|scene| scene.look(setting))
    }

    fn goal(&self, current: &Setting, pull: f64, fills: bool) -> Setting {
        self.with(|scene| {
            let before = scene.look(current);
            scene.goal(current, &before, pull, fills)
        })
    }
}

fn setting(near: [f64; 3], spill: [f64; 3]) -> Setting {
    Setting { near: near.to_vec(), spill: spill.to_vec() }
}

const ALL: [f64; 3] = [1.0; 3];
const NONE: [f64; 3] = [0.0; 3];

#[test]
fn a_picture_tells_natives_guests_and_pinned_demands_apart() {
    let mut stand = Stand::new(vec![1.0, 2.0, 4.0, 8.0, 16.0, 32.0], [100.0; 3]);
    stand.pins.insert(Demand(5), 0);
    let seen = stand.look(&setting(ALL, NONE));
    assert_eq!((&*seen.natives, &*seen.guests), (&[9.0, 18.0, 4.0][..], &[0.0; 3][..]));
    assert_eq!((&*seen.pinned, &*seen.total), (&[32.0, 0.0, 0.0][..], &[41.0, 18.0, 4.0][..]));
    let elsewhere = stand.look(&setting([0.0, 1.0, 1.0], [0.0, 1.0, 1.0]));
    assert_eq!((&*elsewhere.natives, &*elsewhere.guests), (&[0.0, 18.0, 4.0][..], &[0.0, 9.0, 0.0][..]));
    stand.with(|scene| {
        let flow = scene.flow(&seen, &elsewhere);
        assert_eq!((flow.whole, flow.each), (9.0, vec![9.0, 9.0, 0.0]), "what one loses another gains");
        assert_eq!(scene.flow(&seen, &seen).whole, 0.0);
    });
}

#[test]
fn only_clusters_that_can_be_answered_are_over_their_budgets_and_only_beyond_the_slack() {
    let mut stand = Stand::new(vec![100.0, 109.0, 150.0], [100.0; 3]);
    let excess = |stand: &Stand| {
        let seen = stand.look(&setting(ALL, NONE));
        stand.with(|scene| scene.excess(&seen, 0.1))
    };
    assert!((excess(&stand) - 40.0).abs() < 1e-9);
    stand.available[2] = false;
    assert_eq!(excess(&stand), 0.0);
}

#[test]
fn a_goal_brings_nobody_over_its_budget_and_as_many_home_as_fit() {
    let stand = Stand::lopsided([800.0, 700.0, 500.0]);
    for current in [setting(ALL, ALL), setting([0.2; 3], NONE), setting([1.0, 0.1, 0.3], [0.0, 1.0, 0.2])] {
        let seen = stand.look(&stand.goal(&current, f64::INFINITY, true));
        let over = seen.total.iter().zip(&stand.budgets).any(|(load, budget)| *load > budget * 1.05);
        assert!(!over, "{:?}", seen.total);
        let home = seen.natives.iter().zip([800.0, 300.0, 300.0]).all(|(natives, most)| *natives > 0.9 * most);
        assert!(home, "{:?}", seen.natives);
    }
}

#[test]
fn what_is_pinned_leaves_less_room() {
    let mut stand = Stand::lopsided([800.0, 700.0, 700.0]);
    stand.loads[1] = 400.0;
    stand.pins.insert(Demand(1), 0);
    let seen = stand.look(&stand.goal(&setting(ALL, ALL), f64::INFINITY, true));
    assert!(seen.total[0] < 840.0 && seen.natives[0] > 350.0, "{:?}", seen.total);
}

#[test]
fn a_pull_goes_no_further_than_it_says_in_the_proportions_of_the_declared_split() {
    let mut stand = Stand::lopsided([2_000.0; 3]);
    stand.settings.clusters[1].split = 500;
    let goal = stand.goal(&setting([0.02, 0.01, 0.01], NONE), 0.15, false);
    assert!(goal.near.iter().zip([0.17, 0.085, 0.17]).all(|(near, most)| *near < most + 1e-9), "{:?}", goal.near);
    assert!(goal.near[0] > 0.16 && goal.near[1] > 0.08, "{:?}", goal.near);
}

#[test]
fn room_is_offered_to_guests_where_that_is_wanted_alone() {
    let stand = Stand::lopsided([800.0, 700.0, 700.0]);
    let current = setting([0.6, 1.0, 1.0], [0.0, 0.2, 0.2]);
    assert_eq!(stand.goal(&current, 0.0, false).spill, current.spill);
    let filled = stand.goal(&current, 0.0, true).spill;
    assert!(filled[1] > 0.2 && filled[2] > 0.2, "{filled:?}");
}

#[test]
fn what_is_off_by_less_than_the_dead_band_stays() {
    let home = [1_200.0, 300.0, 300.0];
    let current = setting(ALL, ALL);
    let over = Stand::lopsided(home.map(|load| load / (1.0 + 0.9 * BAND)));
    assert_eq!(over.goal(&current, f64::INFINITY, true), current);
    let far_over = Stand::lopsided(home.map(|load| load / (1.0 + 2.0 * BAND)));
    assert_ne!(far_over.goal(&current, f64::INFINITY, true), current);
}
