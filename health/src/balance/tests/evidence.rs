//! What a report teaches of the demands that it tells of.

use fairway_model::Demand;

use crate::balance::{
    demands::Demands,
    evidence::{Alike, Evidence},
};

const TTL: f64 = 30.0;

/// Demands of these loads and variances, all at the first cluster for long.
fn demands(known: &[(f64, f64)]) -> Demands {
    let mut demands = Demands::new(TTL);
    for (number, (load, doubt)) in (0..).zip(known) {
        demands.restore(Demand(number), *load, *doubt, 0);
    }
    demands
}

fn loads(demands: &Demands) -> Vec<f64> {
    demands.iter().map(|(_, it)| it.load).collect()
}

/// As many clients carry this at others, and so far those of the first cluster are taken for such.
fn alike(load: f64, forgotten: f64) -> Option<Alike> {
    Some(Alike { load, forgotten })
}

/// Everybody asks again and is sent where it was.
fn ask(demands: &mut Demands, at: f64) {
    let all: Vec<_> = demands.iter().map(|(demand, it)| (*demand, it.at.unwrap())).collect();
    all.into_iter().for_each(|(demand, cluster)| demands.asked(demand, cluster, at));
}

#[test]
fn a_move_of_what_was_known_teaches_nothing() {
    let mut demands = demands(&[(300.0, 900.0), (500.0, 2_500.0)]);
    let mut evidence = Evidence::default();
    assert!(evidence.hear(0, 800.0, 10.0, None, &mut demands));
    demands.asked(Demand(0), 1, 15.0);
    assert!(evidence.hear(0, 500.0, 20.0, None, &mut demands));
    let loads = loads(&demands);
    assert!((loads[0] - 300.0).abs() < 1.0 && (loads[1] - 500.0).abs() < 1.0, "{loads:?}");
}

#[test]
fn a_step_makes_known_what_moved() {
    let mut demands = demands(&[(300.0, 90_000.0), (500.0, 0.0)]);
    let mut evidence = Evidence::default();
    evidence.hear(0, 800.0, 10.0, None, &mut demands);
    let before = demands.get(Demand(0)).unwrap().doubt;
    demands.asked(Demand(0), 1, 15.0);
    evidence.hear(0, 500.0, 20.0, None, &mut demands);
    let after = demands.get(Demand(0)).unwrap().doubt;
    assert!(after < before / 2.0, "{after} of {before}");
}

#[test]
fn a_step_within_the_noise_of_reports_is_laid_to_nobody() {
    let mut demands = demands(&[(1_000.0, 0.0), (5.0, 25.0)]);
    let mut evidence = Evidence::default();
    evidence.hear(0, 1_005.0, 10.0, None, &mut demands);
    demands.asked(Demand(1), 1, 15.0);
    // 5 % less than there should be, and reports that are off by 7 % are usual.
    evidence.hear(0, 950.0, 20.0, None, &mut demands);
    assert!(loads(&demands)[1] < 8.0, "{:?}", loads(&demands));
}

#[test]
fn no_report_makes_a_load_less_than_nothing() {
    // A step against the one that was to be expected, and a level far below what is known too well to be given up.
    let mut moved = demands(&[(1_000.0, 0.0), (100.0, 10_000.0)]);
    moved.asked(Demand(1), 1, 1.0);
    let mut evidence = Evidence::default();
    evidence.hear(0, 1_000.0, 10.0, None, &mut moved);
    moved.asked(Demand(1), 0, 15.0);
    evidence.hear(0, 400.0, 20.0, None, &mut moved);
    assert!(loads(&moved).iter().all(|load| *load > 0.0), "{:?}", loads(&moved));
    let mut stayed = demands(&[(1_000.0, 0.0), (10.0, 10_000.0)]);
    Evidence::default().hear(0, 400.0, 10.0, None, &mut stayed);
    assert!(loads(&stayed).iter().all(|load| *load > 0.0), "{:?}", loads(&stayed));
}

#[test]
fn nothing_is_known_so_well_that_it_could_not_change() {
    let mut demands = demands(&[(100.0, 10_000.0), (100.0, 10_000.0)]);
    let (mut first, mut second) = (Evidence::default(), Evidence::default());
    for turn in 1..200u32 {
        let at = f64::from(turn) * 40.0;
        demands.asked(Demand(0), turn as usize % 2, at);
        demands.asked(Demand(1), 0, at);
        let here = if turn % 2 == 0 { 200.0 } else { 100.0 };
        first.hear(0, here, at + 10.0, None, &mut demands);
        second.hear(1, 200.0 - here, at + 10.0, None, &mut demands);
    }
    for (_, it) in demands.iter() {
        assert!(it.doubt >= 0.0003 * it.load * it.load, "2 %, squared: {it:?}");
    }
}

#[test]
fn demand_that_grows_by_little_each_time_is_followed() {
    let mut demands = demands(&[(250.0, 62_500.0); 4]);
    let mut evidence = Evidence::default();
    let mut load = 1_000.0;
    for turn in 1..400u32 {
        let at = f64::from(turn) * 10.0;
        ask(&mut demands, at - 1.0);
        // Calm at first, so that the level counts as known; then a quarter of a per cent each time.
        load *= if turn > 200 { 1.0025 } else { 1.0 };
        evidence.hear(0, load, at, None, &mut demands);
    }
    let known: f64 = loads(&demands).iter().sum();
    assert!((known / load - 1.0).abs() < 0.05, "{known} of {load}");
}

#[test]
fn demand_that_no_report_told_of_is_no_reason_to_disbelieve_one() {
    let mut demands = demands(&[(100.0, 10_000.0)]);
    let mut evidence = Evidence::default();
    evidence.hear(0, 100.0, 10.0, None, &mut demands);
    for query in 0..100u32 {
        demands.asked(Demand(7), 1, 10.0 + f64::from(query));
    }
    evidence.hear(0, 100.0, 110.0, None, &mut demands);
    let guessed = demands.get(Demand(7)).unwrap().load;
    assert!((guessed - 10.0).abs() < 1.0, "a tenth of what is known: {guessed}");
    assert!(Evidence::default().hear(1, 0.1, 112.0, None, &mut demands), "it was a guess");
    assert!(!Evidence::default().hear(1, 20.0, 112.0, alike(500.0, 0.0), &mut demands), "others let expect more");
}

#[test]
fn what_is_in_doubt_or_forgotten_is_no_reason_to_disbelieve_a_report() {
    let believed = |doubt: f64, alike| {
        let mut demands = demands(&[(900.0, doubt), (100.0, 0.0)]);
        ask(&mut demands, 1.0);
        Evidence::default().hear(0, 100.0, 10.0, alike, &mut demands)
    };
    assert!(!believed(100.0, None), "1,000 are known to be there");
    assert!(believed(900.0 * 900.0, None), "and here they may be 100");
    assert!(!believed(100.0, alike(100.0, 0.0)), "as many clients carry 100 elsewhere");
    assert!(believed(100.0, alike(100.0, 1.0)), "and these are taken for such");
    assert!(!believed(900.0 * 900.0, alike(1_000.0, 1.0)), "as many carry 1,000");
}
