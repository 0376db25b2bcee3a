//! Clusters that fall silent, and clients that do, in a loop with clients: each turn is a report period, and every client asks in each third.

use std::time::{Duration, Instant};

use fairway_model::{Demand, Load, LoadReport, LoadSignal, Shares};

use super::{name, route, settings};
use crate::balance::Balancer;

/// Turns a TTL.
const TURNS: usize = 3;

/// Three clusters of 1,000, and clients that carry as much each, of which the first cluster is next to most.
struct Loop {
    balancer: Balancer,
    start: Instant,
    turn: usize,
    /// Where each client is.
    at: Vec<usize>,
    /// What a client carries.
    each: f64,
    /// What the first cluster carries beside.
    beside: f64,
    tells: [bool; 3],
}

impl Loop {
    fn new(clients: usize, each: f64) -> Self {
        let start = Instant::now();
        let balancer = Balancer::new(settings(&[1000; 3]), start, None);
        Self { balancer, start, turn: 0, at: vec![0; clients], each, beside: 0.0, tells: [true; 3] }
    }

    /// One whose first cluster is full of what no client asked for, and has next to none of them any more.
    fn overrun() -> Self {
        let mut world = Self::new(300, 2.0);
        world.play(60);
        world.beside = 900.0;
        world.play(60);
        assert!(world.part(0) < 0.15, "what is beside leaves no room: {}", world.part(0));
        world
    }

    /// Its best cluster is the first one for four in six, so that there is something to hold it under.
    fn number(client: usize) -> u64 {
        (client * 3 + [0, 0, 0, 0, 1, 2][client % 6]) as u64
    }

    /// Plays so many turns; returns the load of each cluster after each.
    fn play(&mut self, turns: usize) -> Vec<[f64; 3]> {
        (0..turns).map(|_| self.play_one()).collect()
    }

    fn play_one(&mut self) -> [f64; 3] {
        self.turn += 1;
        let now = self.start + Duration::from_secs(10 * self.turn as u64);
        let shares = self.balancer.shares().clone();
        for client in (0..self.at.len()).filter(|client| client % TURNS == self.turn % TURNS) {
            let demand = Self::number(client);
            self.at[client] = route(&shares, demand);
            self.balancer.asked(Demand(demand), self.at[client], now);
        }
        let loads = [0, 1, 2].map(|place| self.carried(place));
        for place in (0..3).filter(|place| self.tells[*place]) {
            let (cluster, sequence, signal) = (name(place), self.turn as u64, LoadSignal::InFlight);
            let load = Load(loads[place] as u32);
            self.balancer.report(&LoadReport { cluster, load, signal, sequence, at: now }, now);
        }
        let mut places = |shares: &Shares, demands: &[Demand]| -> Vec<Option<usize>> {
            demands.iter().map(|demand| Some(route(shares, demand.0))).collect()
        };
        self.balancer.step(now, &mut places);
        loads
    }

    /// Nobody asks, and all that is carried is nothing.
    fn sleep(&mut self, turns: usize) {
        let each = std::mem::replace(&mut self.each, 0.0);
        let at = std::mem::take(&mut self.at);
        self.play(turns);
        (self.each, self.at) = (each, vec![usize::MAX; at.len()]);
    }

    fn carried(&self, place: usize) -> f64 {
        let beside = if place == 0 { self.beside } else { 0.0 };
        self.at.iter().filter(|at| **at == place).count() as f64 * self.each + beside
    }

    /// The part of the clients that a cluster has.
    fn part(&self, place: usize) -> f64 {
        self.at.iter().filter(|at| **at == place).count() as f64 / self.at.len() as f64
    }
}

#[test]
fn a_fade_leads_to_the_declared_split_slowly_and_straight() {
    let mut world = Loop::new(600, 2.25);
    let before = *world.play(90).last().unwrap();
    assert!(before[0] > 700.0, "at its target, for most are next to it: {before:?}");
    world.tells = [false; 3];
    let fade = world.play(60);
    for pair in fade.windows(TURNS + 1) {
        let steps = [0, 1, 2].map(|place| (pair[TURNS][place] - pair[0][place]).abs());
        assert!(steps.iter().all(|step| *step <= 100.0), "a tenth of a capacity a TTL at most: {pair:?}");
    }
    let (held, after) = (&fade[..4], fade.last().unwrap());
    assert!(held.iter().all(|loads| (loads[0] - before[0]).abs() < 25.0), "held for three periods: {held:?}");
    assert!(after.iter().all(|load| (load - 450.0).abs() < 25.0), "{after:?}");
    for place in [1, 2] {
        let most = fade.iter().map(|loads| loads[place]).fold(0.0, f64::max);
        assert!(most < after[place] + 40.0, "what it gained over {:.0} it had to give back: {most:.0}", after[place]);
    }
}

#[test]
fn a_last_word_that_clients_do_not_explain_is_forgotten_while_others_report() {
    let mut world = Loop::overrun();
    world.tells[0] = false;
    world.play(5);
    assert!(world.part(0) < 0.15, "the last word holds: {}", world.part(0));
    world.play(60);
    assert!((world.part(0) - 1.0 / 3.0).abs() < 0.06, "{}", world.part(0));
    world.tells[0] = true;
    world.play(30);
    assert!(world.part(0) < 0.15, "it counts again: {}", world.part(0));
}

#[test]
fn where_nobody_reports_what_each_client_carries_stays_known() {
    let mut world = Loop::overrun();
    world.tells = [false; 3];
    world.play(90);
    assert!(world.part(0) < 0.15, "nothing says that its clients are not so large: {}", world.part(0));
}

#[test]
fn who_never_told_a_load_gets_no_more_than_its_declared_part() {
    let mut world = Loop::new(600, 2.25);
    world.tells[0] = false;
    let loads = *world.play(120).last().unwrap();
    assert!((loads[0] - 450.0).abs() < 30.0, "most are next to it: {loads:?}");
}

#[test]
fn clients_that_come_back_after_a_night_overrun_nobody() {
    let mut world = Loop::new(600, 2.25);
    world.play(90);
    world.sleep(12);
    let morning = world.play(30);
    let most = morning.iter().flatten().fold(0.0, |most: f64, load| most.max(*load));
    assert!(most < 900.0, "{most} of 1,000, and 800 are aimed at: {morning:?}");
}
