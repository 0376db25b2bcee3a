//! The table of demands: who is in it, where each is taken to be, and how large.

use fairway_model::Demand;
use proptest::prelude::*;

use crate::balance::{
    DemandKind,
    demands::{Demands, TRACKED_MAX, Tracked},
};

const TTL: f64 = 30.0;

fn get(demands: &Demands, demand: u64) -> &Tracked {
    demands.get(Demand(demand)).unwrap()
}

fn whole(demands: &Demands) -> f64 {
    demands.iter().map(|(_, it)| it.load).sum()
}

/// A table that is full, all at the first cluster: the large ones carry 100 each, all others 1.
fn full(large: u64) -> Demands {
    let mut demands = Demands::new(TTL);
    for demand in 0..TRACKED_MAX as u64 {
        demands.restore(Demand(demand), if demand < large { 100.0 } else { 1.0 }, 0.0, 0);
    }
    demands
}

/// A full table after one more came, and somebody whom its sample passes over.
fn thinned(large: u64) -> (Demands, u64) {
    let mut demands = full(large);
    let is_out = |demand: &u64| {
        demands.asked(Demand(*demand), 0, 1.0);
        demands.get(Demand(*demand)).is_none()
    };
    let out = (1_000_000..1_001_000).find(is_out).unwrap();
    (demands, out)
}

proptest! {
    #[test]
    fn what_leaves_a_cluster_is_at_the_other_one(
        queries in prop::collection::vec((0.5f64..40.0, 0usize..2), 2..40), later in 0.0f64..60.0,
    ) {
        let (mut demands, mut now) = (Demands::new(TTL), 0.0);
        for (pause, cluster) in queries {
            now += pause;
            demands.asked(Demand(1), cluster, now);
        }
        let it = get(&demands, 1);
        let parts = [0, 1, 2].map(|cluster| it.part(cluster, now + later, TTL));
        // Before its first answer it was nowhere.
        let sum: f64 = parts.iter().sum();
        prop_assert!(it.from.is_none() || (sum - 1.0).abs() < 1e-9, "{parts:?}");
        prop_assert!(parts.iter().all(|part| (0.0..=1.0).contains(part)), "{parts:?}");
    }
}

#[test]
fn a_demand_moves_at_once_behind_one_cache_and_over_a_ttl_behind_many() {
    let mut demands = Demands::new(TTL);
    for query in 0..100u32 {
        demands.asked(Demand(1), 0, f64::from(query) * 3.0);
    }
    demands.asked(Demand(2), 0, 0.0);
    demands.asked(Demand(1), 1, 300.0);
    demands.asked(Demand(2), 1, 300.0);
    let parts = |demand| [300.0, 315.0, 330.0].map(|at| (get(&demands, demand).part(1, at, TTL) * 10.0).round());
    assert_eq!(parts(1), [1.0, 6.0, 10.0], "one of ten caches, then all that ask after it");
    assert_eq!(parts(2), [10.0; 3]);
    assert_eq!(get(&demands, 1).part(0, 299.0, TTL), 1.0);
}

#[test]
fn who_comes_after_a_night_is_waited_for_and_taken_for_one_like_those_before() {
    let mut demands = Demands::new(TTL);
    demands.restore(Demand(1), 5.0, 0.0, 0);
    demands.guess(1_000.0);
    demands.asked(Demand(2), 0, 10.0);
    assert!(demands.have_all_asked(10.0, 0.0), "where the others are is known from before");
    demands.expire(1_000.0);
    demands.guess(1_000.0);
    assert!(demands.have_all_asked(1_000.0, 1e9), "nobody is known");
    demands.asked(Demand(3), 0, 1_001.0);
    demands.guess(1_000.0);
    assert_eq!(get(&demands, 3).load, 5.0);
    assert_eq!([1_030.0, 1_031.0].map(|at| demands.have_all_asked(at, 0.0)), [false, true]);
    assert!(!demands.have_all_asked(1_031.0, 1.0));
}

#[test]
fn who_was_never_seen_to_move_explains_no_step() {
    let mut demands = Demands::new(TTL);
    demands.asked(Demand(1), 0, 100.0);
    assert_eq!(get(&demands, 1).step(0, 95.0, 105.0, TTL), 0.0, "nobody knows where it was before");
    demands.asked(Demand(1), 1, 130.0);
    let steps = [0, 1].map(|cluster| get(&demands, 1).step(cluster, 125.0, 135.0, TTL));
    assert_eq!(steps, [-1.0, 1.0]);
}

#[test]
fn repeated_queries_make_no_demand_larger() {
    let mut demands = Demands::new(TTL);
    demands.restore(Demand(1), 10.0, 1_000.0, 0);
    for query in 1..1_000u32 {
        demands.asked(Demand(1), 0, f64::from(query) * 0.1);
        demands.asked(Demand(2), 0, f64::from(query) * 0.1);
    }
    demands.guess(1_000.0);
    assert_eq!(
        [1, 2].map(|demand| get(&demands, demand).load),
        [10.0, 1.0],
        "nor is one like it more than a tenth of all"
    );
}

#[test]
fn a_client_that_once_kept_an_answer_for_longer_is_waited_for() {
    let mut demands = Demands::new(TTL);
    for at in [0.0, 100.0, 130.0] {
        demands.asked(Demand(1), 0, at);
    }
    assert_eq!(demands.left(0, 135.0).0, 130.0 + 90.0, "nine tenths of the longest pause");
    assert_eq!(demands.left(1, 135.0).0, 135.0);
}

#[test]
fn who_asks_no_more_is_forgotten_after_three_of_its_pauses() {
    let mut demands = Demands::new(TTL);
    demands.asked(Demand(1), 0, 100.0);
    demands.asked(Demand(2), 0, 0.0);
    demands.asked(Demand(2), 0, 100.0);
    let mut known = |now| {
        demands.expire(now);
        [1, 2].map(|demand| demands.get(Demand(demand)).is_some())
    };
    assert_eq!(known(189.0), [true, true]);
    assert_eq!(known(191.0), [false, true]);
    assert_eq!(known(399.0), [false, true]);
    assert_eq!(known(401.0), [false, false]);
}

#[test]
fn a_sample_stands_for_those_that_are_left_out_and_the_large_ones_stay() {
    let (demands, _) = thinned(10);
    assert!(demands.iter().count() < TRACKED_MAX * 2 / 3);
    assert!((0..10).all(|large| (get(&demands, large).load, get(&demands, large).stands) == (100.0, 1.0)));
    let expected = 10.0 * 100.0 + (TRACKED_MAX - 10) as f64;
    assert!((whole(&demands) / expected - 1.0).abs() < 0.05, "{}", whole(&demands));
    let count = demands.count_at(0, 2.0);
    assert!((count / TRACKED_MAX as f64 - 1.0).abs() < 0.05, "so does their number: {count}");
}

#[test]
fn whom_the_sample_passes_over_comes_in_when_it_asks_as_often_as_the_large_ones() {
    let (mut demands, out) = thinned(0);
    // With the one before, seven.
    (0..6).for_each(|_| demands.asked(Demand(out), 0, 2.0));
    assert!(demands.get(Demand(out)).is_none());
    demands.asked(Demand(out), 0, 2.0);
    assert_eq!(get(&demands, out).stands, 1.0, "it stands for itself alone");
}

#[test]
fn queries_of_longer_than_a_ttl_ago_do_not_count() {
    let (mut demands, out) = thinned(0);
    for at in [40.0, 80.0, 120.0] {
        (0..7).for_each(|_| demands.asked(Demand(out), 0, at));
    }
    assert!(demands.get(Demand(out)).is_none());
}

#[test]
fn so_many_others_are_counted_and_no_more() {
    let (mut demands, out) = thinned(0);
    // All within one TTL, which begins here.
    (2_000_000..2_010_000).for_each(|other| demands.asked(Demand(other), 0, 50.0));
    assert!((0..20).all(|_| {
        demands.asked(Demand(out), 0, 51.0);
        demands.get(Demand(out)).is_none()
    }));
}

#[test]
fn what_was_kept_fills_the_table_and_no_more() {
    let mut demands = full(0);
    demands.restore(Demand(u64::MAX), 1.0, 0.0, 0);
    assert_eq!(demands.iter().count(), TRACKED_MAX);
}

#[test]
fn what_was_kept_has_been_where_it_was_for_long() {
    let mut demands = Demands::new(TTL);
    demands.restore(Demand(1), 10.0, 0.0, 0);
    (1..10u32).for_each(|query| demands.asked(Demand(1), 0, f64::from(query) / 2.0));
    assert!(get(&demands, 1).caches(TTL) > 2.0);
    assert_eq!(get(&demands, 1).part(0, 5.0, TTL), 1.0);
}

#[test]
fn demands_that_no_report_told_of_are_typical_ones_but_never_much_of_the_load() {
    let mut demands = Demands::new(TTL);
    (0..100).for_each(|known| demands.restore(Demand(known), 10.0, 0.0, 0));
    let mut guessed = |new: std::ops::Range<u64>, weight: f64| {
        new.clone().for_each(|new| demands.asked_as((DemandKind::Proven, weight), Demand(new), 1, 1.0));
        demands.guess(1_000.0);
        new.map(|new| get(&demands, new).load).sum::<f64>()
    };
    assert_eq!(guessed(1_000..1_005, 1.0), 50.0);
    assert!((guessed(2_000..2_100, 0.01) - 10.0).abs() < 1e-6, "a hundred of one source are as much as one");
    // With what is there already.
    assert!((guessed(3_000..5_000, 1.0) - 99.7).abs() < 0.1, "2,000 that came at once are a tenth of 1,000");
}

#[test]
fn who_asks_a_little_late_kept_no_answer_and_who_asks_much_later_did() {
    let over_after = |pause: f64| {
        let mut demands = Demands::new(30.0);
        (0..10).for_each(|turn| demands.asked(Demand(1), 0, 1_000.0 + f64::from(turn) * pause));
        demands.left(0, 0.0).0 - (1_000.0 + 9.0 * pause)
    };
    assert_eq!(over_after(33.0), 30.0);
    assert!((over_after(60.0) - 60.0).abs() < 0.01, "{}", over_after(60.0));
}
