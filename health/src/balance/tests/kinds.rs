//! Demands by who asks for them.

use super::*;
use crate::balance::DemandKind;

impl Stage {
    fn ask_as(&mut self, kind: DemandKind, demands: std::ops::Range<u64>, cluster: usize, secs: u64) {
        let at = self.at(secs);
        demands.for_each(|demand| self.balancer.asked_as((kind, 1.0), Demand(demand), cluster, at));
    }
}

#[test]
fn honest_report_is_believed_whatever_stand_ins_carry() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask(0..100, 0, 1);
    stage.ask(100..110, 1, 1);
    stage.report(0, 500, 10);
    stage.report(1, 50, 10);
    stage.ask_as(DemandKind::StandIn, 5_000..6_000, 1, 11);
    assert_eq!(stage.report(1, 50, 20), Heard::Believed);
    stage.ask_as(DemandKind::Proven, 3_000..4_000, 1, 21);
    assert_eq!(
        stage.report(1, 50, 30),
        Heard::Disbelieved,
        "a thousand proven clients are expected to carry something"
    );
}

#[test]
fn stand_in_whose_source_is_proven_is_no_longer_forgotten() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask_as(DemandKind::StandIn, 1_000..1_002, 0, 11);
    stage.ask_as(DemandKind::Proven, 1_000..1_001, 0, 12);
    stage.ask_as(DemandKind::StandIn, 1_000..1_001, 1, 13);
    assert_eq!(stage.balancer.demands.get(Demand(1_000)).and_then(|it| it.at), Some(0), "what is known is better");
    [1_000, 1_001].into_iter().for_each(|demand| stage.balancer.forget(Demand(demand)));
    let left: Vec<_> = stage.balancer.tracked().collect();
    assert_eq!(left, [Demand(1_000)]);
}

#[test]
fn reports_are_laid_to_stand_ins_if_nobody_is_proven() {
    let mut stage = Stage::new(&[1000, 1000]);
    for turn in 0..20 {
        stage.ask_as(DemandKind::StandIn, 0..64, 0, 10 * turn + 1);
        stage.ask_as(DemandKind::StandIn, 64..128, 1, 10 * turn + 1);
        // No client is near the second cluster.
        assert_eq!([stage.report(0, 900, 10 * turn + 9), stage.report(1, 0, 10 * turn + 9)], [Heard::Believed; 2]);
    }
    let load = |demands: std::ops::Range<u64>| {
        demands.filter_map(|it| stage.balancer.demands.get(Demand(it))).map(|it| it.load).sum::<f64>()
    };
    assert!((load(0..64) - 900.0).abs() < 50.0 && load(64..128) < 50.0, "{} {}", load(0..64), load(64..128));
    assert_eq!((stage.balancer.proven(), stage.balancer.keep().demands.len()), ((0, 0.0), 0));
}

#[test]
fn sample_of_small_demands_grows_back_after_a_burst() {
    let mut stage = Stage::new(&[1000, 1000]);
    stage.ask(0..30_000, 0, 1);
    let step = |stage: &mut Stage, secs: u64| {
        let at = stage.at(secs);
        stage.balancer.step(at, &mut |_, demands| vec![Some(0); demands.len()]);
    };
    for secs in [20, 50, 80, 110] {
        stage.ask(0..500, 0, secs);
        stage.report(0, 500, secs + 5);
        step(&mut stage, secs + 6);
    }
    stage.ask(0..500, 0, 120);
    assert_eq!(stage.balancer.tracked().count(), 500, "each of the few that are left is known");
    stage.report(0, 500, 130);
    let whole: f64 = (0..500).map(|demand| stage.load(demand)).sum();
    assert!((whole - 500.0).abs() < 100.0, "{whole}");
}
