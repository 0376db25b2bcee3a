//! The controller in single steps. How it does over minutes of traffic is for the simulator to show.

mod budgets;
mod demands;
mod evidence;
mod goal;
mod kinds;
mod plan;
mod silence;

use std::time::{Duration, Instant};

use fairway_model::{ClusterName, Demand, Load, LoadReport, LoadSignal, Permille, Shares};

use super::{Balancer, Caution, Declared, Heard, Kept, Settings, demands::TRACKED_MAX};

fn name(place: usize) -> ClusterName {
    ClusterName::new(["a", "b", "c"][place]).unwrap()
}

fn settings(capacities: &[u64]) -> Settings {
    let declared = |(place, capacity): (usize, &u64)| Declared {
        name: name(place),
        capacity: *capacity,
        soft: Permille::new(800).unwrap(),
        hard: Permille::new(1000).unwrap(),
        split: *capacity,
    };
    Settings {
        clusters: capacities.iter().enumerate().map(declared).collect(),
        period: Duration::from_secs(10),
        ttl: Duration::from_secs(30),
        sampled: 1,
    }
}

/// A controller and its clock.
struct Stage {
    balancer: Balancer,
    start: Instant,
    sequence: u64,
}

impl Stage {
    fn new(capacities: &[u64]) -> Self {
        let start = Instant::now();
        Self { balancer: Balancer::new(settings(capacities), start, None), start, sequence: 0 }
    }

    /// Seconds after the first minutes, in which every client has asked.
    fn at(&self, secs: u64) -> Instant {
        self.start + Duration::from_secs(200 + secs)
    }

    fn ask(&mut self, demands: impl Iterator<Item = u64>, cluster: usize, secs: u64) {
        let at = self.at(secs);
        demands.for_each(|demand| self.balancer.asked(Demand(demand), cluster, at));
    }

    /// A report of this load, in thousandths, measured now.
    fn report(&mut self, cluster: usize, load: u32, secs: u64) -> Heard {
        self.sequence += 1;
        let at = self.at(secs);
        let report = LoadReport {
            cluster: name(cluster),
            load: Load(load),
            signal: LoadSignal::InFlight,
            sequence: self.sequence,
            at,
        };
        self.balancer.report(&report, at)
    }

    /// What one demand is taken for, in the unit of the capacities.
    fn load(&self, demand: u64) -> f64 {
        let kept = self.balancer.keep();
        kept.demands.iter().find(|(known, ..)| *known == Demand(demand)).map_or(0.0, |(_, load, ..)| *load)
    }
}

#[test]
fn nothing_known_is_the_declared_split() {
    let stage = Stage::new(&[1000, 500]);
    let given: Vec<_> = stage.balancer.shares().accepted.values().map(|given| (given.local, given.overflow)).collect();
    assert_eq!(given, [(655, 0), (328, 0)], "in proportion to the capacities, and so little that all is split so");
}

#[test]
fn what_was_measured_before_every_client_has_asked_is_passed_over() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.balancer.demands.since = None;
    assert_eq!(stage.report(0, 500, 0), Heard::Believed, "there is nobody to be waited for");
    stage.ask(0..100, 0, 1);
    assert_eq!(stage.report(0, 500, 30), Heard::Early);
    assert_eq!(stage.report(0, 500, 31), Heard::Believed);
}

#[test]
fn a_report_tells_what_its_clients_carry() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask(0..100, 0, 1);
    assert_eq!(stage.report(0, 500, 10), Heard::Believed);
    let loads: f64 = (0..100).map(|demand| stage.load(demand)).sum();
    assert!((loads - 500.0).abs() < 10.0, "{loads}");
}

#[test]
fn a_report_without_clients_makes_nobody_weightless() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask(0..10, 0, 1);
    stage.report(1, 100, 5);
    for turn in 1..4 {
        stage.report(0, 500, 10 * turn);
    }
    let whole = (0..10).map(|demand| stage.load(demand)).sum::<f64>();
    assert!((whole - 500.0).abs() < 10.0, "{whole}");
}

#[test]
fn noise_moves_little_and_a_rise_within_the_noise_is_still_followed() {
    let mut stage = Stage::new(&[1000, 1000]);
    let mut whole_after = |reports: std::ops::Range<u64>, load: f64| {
        for number in reports {
            stage.ask(0..100, 0, number * 10 - 1);
            // Between -0.2 and 0.2, without order: 41 is prime.
            let error = 0.2 * ((number * 16 % 41) as f64 / 20.0 - 1.0);
            stage.report(0, (load * (1.0 + error)) as u32, number * 10);
        }
        (0..100).map(|demand| stage.load(demand)).sum::<f64>()
    };
    let steady: Vec<f64> = (1..4).map(|turn| whole_after(20 * turn..20 * turn + 20, 500.0)).collect();
    assert!(steady[1..].iter().all(|whole| (whole - 500.0).abs() < 25.0), "once the noise is known: {steady:?}");
    let risen = whole_after(80..100, 600.0);
    assert!((risen - 600.0).abs() < 30.0, "{risen}");
}

#[test]
fn the_step_after_a_move_shows_a_large_demand() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask(0..100, 0, 1);
    stage.ask(100..200, 1, 1);
    for secs in [10, 20, 30] {
        stage.ask(0..100, 0, secs - 1);
        stage.ask(100..200, 1, secs - 1);
        stage.report(0, 700, secs);
        stage.report(1, 400, secs);
    }
    assert!(stage.load(7) < 20.0, "one of a hundred");
    stage.ask(7..8, 1, 35);
    stage.report(0, 400, 40);
    stage.report(1, 700, 40);
    assert!(stage.load(7) > 200.0, "{} of the 300 that went with it", stage.load(7));
}

#[test]
fn what_cannot_be_is_not_believed_and_the_old_and_the_unknown_are_passed_over() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask(0..100, 0, 1);
    stage.ask(100..200, 1, 1);
    assert_eq!(stage.report(0, 500, 10), Heard::Believed);
    assert_eq!(stage.report(1, 0, 10), Heard::Disbelieved, "as many clients as the other, and no load");
    assert_eq!(stage.report(0, 0, 20), Heard::Disbelieved, "its clients went on asking");
    assert_eq!(stage.report(0, 450, 30), Heard::Believed);
    stage.sequence -= 1;
    assert_eq!(stage.report(0, 450, 40), Heard::Old, "the same sequence");
    assert_eq!(stage.report(0, 450, 30), Heard::Old, "measured before");
    assert_eq!(stage.report(2, 450, 50), Heard::Unknown);
}

#[test]
fn the_table_of_demands_is_bounded_and_still_tells_the_whole() {
    let mut stage = Stage::new(&[1000, 1000]);
    for secs in [1, 11] {
        stage.ask(0..30_000, 0, secs);
        stage.report(0, 600, secs + 8);
        assert!(stage.balancer.tracked().count() <= TRACKED_MAX);
    }
    assert!(stage.balancer.tracked().count() > TRACKED_MAX / 4, "a sample that is large enough");
    let whole: f64 = stage.balancer.keep().demands.iter().map(|(_, load, ..)| load).sum();
    assert!((whole - 600.0).abs() < 30.0, "{whole}");
}

#[test]
fn pins_are_bounded() {
    let mut stage = Stage::new(&[1000, 1]);
    stage.ask(0..3_000, 0, 1);
    stage.report(0, 900, 10);
    let at = stage.at(100);
    stage.balancer.step(at, &mut |_, demands| vec![Some(0); demands.len()]);
    assert!(stage.balancer.shares().pins.len() <= Shares::PINS_MAX);
}

#[test]
fn a_restart_finds_what_was_kept() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask(0..100, 0, 1);
    stage.report(0, 500, 10);
    let at = stage.at(50);
    stage.balancer.step(at, &mut |_, demands| vec![Some(0); demands.len()]);
    let kept = stage.balancer.keep();
    let mut again = Balancer::new(settings(&[1000, 1000]), at, Some(&kept));
    assert_eq!(again.shares().accepted, stage.balancer.shares().accepted);
    assert_eq!(again.shares().pins, stage.balancer.shares().pins);
    assert_eq!((again.keep().demands.len(), kept.demands.len()), (100, 100));
    again.asked(Demand(1_000), 0, at);
    again.step(at, &mut |_, demands| vec![Some(0); demands.len()]);
    let new = again.keep().demands.into_iter().find(|(demand, ..)| *demand == Demand(1_000));
    assert!(
        new.as_ref().is_some_and(|(_, load, ..)| (load - 5.0).abs() < 0.5),
        "taken for one like the others: {new:?}"
    );
    let fewer = Balancer::new(settings(&[1000]), at, Some(&kept));
    assert_eq!(fewer.shares().accepted.len(), 1, "a cluster that is not declared any more is passed over");
}

#[test]
fn a_drain_ends_when_the_last_client_must_have_asked_again() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask(0..10, 0, 1);
    stage.ask(10..11, 0, 5);
    stage.report(0, 100, 10);
    let drain = stage.balancer.drain(0, stage.at(12));
    assert_eq!(drain.over, stage.at(35), "the last answer was at 5, and holds for 30");
    assert!((drain.left - 100.0).abs() < 5.0, "{}", drain.left);
    assert_eq!(stage.balancer.drain(1, stage.at(12)).over, stage.at(12), "nothing is there");
}

#[test]
fn a_cluster_that_comes_back_takes_nothing_at_first_and_is_a_reason_for_caution_while_it_is_away() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask(0..100, 0, 99);
    stage.report(0, 500, 100);
    stage.report(1, 500, 100);
    let mut places = |_: &Shares, demands: &[Demand]| vec![Some(0); demands.len()];
    stage.balancer.available(1, false, stage.at(101));
    stage.balancer.step(stage.at(101), &mut places);
    assert_eq!(stage.balancer.caution(stage.at(101)), Caution::Short);
    stage.balancer.available(1, true, stage.at(102));
    stage.balancer.step(stage.at(102), &mut places);
    let given = stage.balancer.shares().accepted[&name(1)];
    assert!(given.local < 700 && given.overflow < 700, "{given:?}");
}

#[test]
fn nothing_known_of_a_cluster_that_is_not_declared_or_of_no_demand_does_no_harm() {
    let mut stage = Stage::new(&[0, 1000]);
    stage.ask(0..1, 17, 1);
    stage.balancer.available(17, false, stage.at(1));
    let before = stage.balancer.shares().clone();
    stage.balancer.step(stage.at(10), &mut |_, _| vec![]);
    assert_eq!(*stage.balancer.shares(), before);
    stage.ask(0..10, 0, 20);
    stage.report(0, 500, 100);
    stage.balancer.step(stage.at(100), &mut |_, _| vec![]);
}

/// Where shares send a demand of these: each one's best cluster is its number modulo three, and the next ones follow.
fn route(shares: &Shares, demand: u64) -> usize {
    let draw = |group: usize| ((demand * 31 + group as u64 * 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16;
    let order = [0, 1, 2].map(|step| (demand as usize + step) % 3);
    if let Some(held) = shares.pins.get(&Demand(demand)) {
        return (0..3).find(|place| name(*place) == *held).unwrap();
    }
    let given = |place: usize| shares.accepted.get(&name(place)).copied().unwrap_or_default();
    let takes = |(step, place): (usize, &usize)| {
        let taken = if step == 0 { given(*place).local } else { given(*place).overflow };
        (draw(*place) < taken).then_some(*place)
    };
    let rest = || *order.iter().max_by_key(|place| given(**place).local).unwrap();
    order.iter().enumerate().find_map(takes).unwrap_or_else(rest)
}

#[test]
fn who_stood_alone_at_the_start_gives_its_clients_away_once_others_are_there() {
    let mut stage = Stage::new(&[1000, 1000, 1000]);
    let start = stage.start;
    let after = |secs: u64| start + Duration::from_secs(secs);
    let places = |shares: &Shares, demands: &[Demand]| -> Vec<Option<usize>> {
        demands.iter().map(|demand| Some(route(shares, demand.0))).collect()
    };
    for away in [1, 2] {
        stage.balancer.available(away, false, start);
    }
    stage.balancer.step(start, &mut |shares, demands| places(shares, demands));
    for back in [1, 2] {
        stage.balancer.available(back, true, after(1));
    }
    // The first cluster is told of before it has one client, and is far over its capacity from then on.
    let mut loads = [0.0; 3];
    for turn in 1..40u64 {
        stage.balancer.step(after(10 * turn), &mut |shares, demands| places(shares, demands));
        let shares = stage.balancer.shares().clone();
        loads = [0.0; 3];
        for demand in 0..300 {
            let place = route(&shares, demand);
            loads[place] += 7.0;
            stage.balancer.asked(Demand(demand), place, after(10 * turn + 1));
        }
        for (place, load) in loads.iter().enumerate() {
            let (sequence, at) = (turn, after(10 * turn + 9));
            let (cluster, load, signal) = (name(place), Load(*load as u32), LoadSignal::InFlight);
            stage.balancer.report(&LoadReport { cluster, load, signal, sequence, at }, at);
        }
    }
    assert!(loads.iter().all(|load| *load < 1000.0), "{loads:?}");
}

#[test]
fn a_sample_of_small_demands_holds_no_large_one() {
    let mut stage = Stage::new(&[1000, 1]);
    stage.ask(0..30_000, 0, 1);
    stage.report(0, 600, 10);
    // Each of those that are known stands for sixteen of 0.02, where 0.05 would be large.
    let at = stage.at(20);
    stage.balancer.step(at, &mut |_, demands| vec![Some(0); demands.len()]);
    assert!(stage.balancer.shares().pins.is_empty());
}

#[test]
fn a_cluster_with_few_clients_is_expected_to_carry_little_and_not_nothing() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask(0..100, 0, 1);
    stage.ask(100..110, 1, 1);
    stage.report(0, 500, 10);
    assert_eq!(stage.report(1, 4, 10), Heard::Disbelieved, "ten clients carry some 50");
    assert_eq!(stage.report(1, 30, 11), Heard::Believed);
}

#[test]
fn calm_is_what_stood_still_for_ten_ttls_and_silence_is_none() {
    let mut stage = Stage::new(&[1000, 1000]);
    let mut caution = |heard: u64, secs: u64| {
        [0, 1].into_iter().for_each(|cluster| assert_eq!(stage.report(cluster, 0, heard), Heard::Believed));
        stage.balancer.caution(stage.at(secs))
    };
    // 200 seconds after the start.
    assert_eq!(caution(0, 5), Caution::Ordinary);
    assert_eq!(caution(95, 101), Caution::Calm);
    assert_eq!(caution(96, 126), Caution::Calm, "three periods");
    assert_eq!(caution(97, 128), Caution::Short);
}

#[test]
fn each_change_of_what_holds_has_a_new_number_and_nothing_else_has() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask(0..1, 0, 1);
    stage.ask(1..100, 1, 1);
    let step = |stage: &mut Stage, secs: u64| {
        let at = stage.at(secs);
        stage.balancer.step(at, &mut |_, demands| demands.iter().map(|d| Some(usize::from(d.0 > 0))).collect());
        (stage.balancer.shares().epoch, stage.balancer.shares().pins.len())
    };
    assert_eq!(step(&mut stage, 5), (0, 0));
    stage.report(1, 300, 9);
    stage.report(0, 300, 10);
    // A demand of 300 is held where it is, and nothing else changes.
    assert_eq!(step(&mut stage, 10), (1, 1));
    assert_eq!(step(&mut stage, 11), (1, 1));
}

#[test]
fn who_asks_no_more_is_forgotten_at_the_next_step_and_a_sampled_query_holds_for_longer() {
    let tracked_after = |sampled: u32, secs: u64| {
        let start = Instant::now();
        let mut balancer = Balancer::new(Settings { sampled, ..settings(&[1000]) }, start, None);
        balancer.asked(Demand(1), 0, start);
        balancer.step(start + Duration::from_secs(secs), &mut |_, demands| vec![Some(0); demands.len()]);
        balancer.tracked().count()
    };
    assert_eq!([80, 100].map(|secs| tracked_after(1, secs)), [1, 0], "three TTLs");
    assert_eq!([800, 1_000].map(|secs| tracked_after(10, secs)), [1, 0], "one query in ten is told");
}

#[test]
fn what_was_kept_and_is_no_number_is_passed_over() {
    let odd = [f64::NAN, f64::INFINITY, -1.0];
    let demands = (0..).zip(odd).map(|(demand, load)| (Demand(demand), load, 1.0, name(0)));
    let doubts = (10..).zip([f64::NAN, f64::INFINITY]).map(|(demand, doubt)| (Demand(demand), 1.0, doubt, name(0)));
    let good = (Demand(20), 1.0, -1.0, name(0));
    let kept = Kept { demands: demands.chain(doubts).chain([good]).collect(), ..Kept::default() };
    let again = Balancer::new(settings(&[1000]), Instant::now(), Some(&kept)).keep();
    assert_eq!(again.demands, [(Demand(20), 1.0, 0.0, name(0))]);
}

#[test]
fn who_reports_late_is_waited_for_at_the_start() {
    let has_stepped = |late: u64| {
        let mut stage = Stage::new(&[1000, 1000]);
        for number in 0..20u64 {
            stage.ask(0..100, 0, 10 * number);
            stage.sequence += 1;
            let (cluster, load, signal) = (name(0), Load(1_500), LoadSignal::InFlight);
            let report = LoadReport { cluster, load, signal, sequence: stage.sequence, at: stage.at(10 * number + 1) };
            stage.balancer.report(&report, stage.at(10 * number + 1 + late));
        }
        let at = stage.start + Duration::from_secs(100);
        let before = stage.balancer.shares().clone();
        stage.balancer.step(at, &mut |_, demands| vec![Some(0); demands.len()]);
        before != *stage.balancer.shares()
    };
    assert!(has_stepped(0), "reports are known at once");
    assert!(!has_stepped(300), "they tell of five minutes ago");
}

#[test]
fn what_was_not_believed_is_once_the_last_word_is_forgotten() {
    let mut stage = Stage::new(&[1000, 1000]);
    let mut hear = |turn: u64, load: u32| {
        stage.ask(0..100, 0, turn * 10 - 1);
        stage.ask(100..200, 1, turn * 10 - 1);
        assert_eq!(stage.report(1, 100, turn * 10), Heard::Believed);
        stage.report(0, load, turn * 10)
    };
    assert!((1..20).all(|turn| hear(turn, 500) == Heard::Believed));
    // What was beside its clients is gone, and they carry less than the other's.
    let believed = (20..100).find(|turn| hear(*turn, 60) == Heard::Believed);
    assert!(believed.is_some_and(|turn| (25..60).contains(&turn)), "{believed:?}, of 33 turns until all is forgotten");
}
