//! Balancing: what clusters take, and how shares that were declared, answered and arrived compare.

use fairway_health::load::ClusterLoad;
use fairway_model::Timestamp;
use fairway_zones::ServingState;

use super::Sheet;
use fairway_control::{Published, Shared, truth};

/// Writes what concerns balancing.
pub(super) fn write(
    sheet: &mut Sheet,
    shared: &Shared,
    view: &ServingState,
    published: &Published,
    loads: &[ClusterLoad],
) {
    if view.snapshot.heeds_load() {
        let lead = [([shared.decides.load().lead.to_owned()], 1.0)];
        let help = "Whose decisions hold: alone, leads (those that share its store follow), follows, local (cut off, or nobody leads).";
        sheet.gauges("fairway_balance_lead", help, &["lead"], lead);
    }
    let shares = view.runtime.shares();
    if let Some(shares) = shares {
        let part = |part: u16| f64::from(part) / f64::from(u16::MAX);
        let taken = shares.acceptance.iter().flat_map(|(cluster, taken)| {
            let parts = [("near", taken.near), ("spill", taken.spill)];
            parts.map(|(of, taken)| ([cluster.to_string(), of.to_owned()], part(taken)))
        });
        let help =
            "What a balanced cluster takes of clients whose best it is, and of those whom a better one did not take.";
        sheet.gauges("fairway_cluster_acceptance_ratio", help, &["cluster", "of"], taken);
        sheet.gauge("fairway_demand_pins", "Demands that are held where they are.", shares.pins.len() as f64);
        sheet.counter("fairway_balance_decisions_total", "Decisions that changed the shares.", shares.epoch);
    }
    let drains = shared.drains.load();
    let now = Timestamp::from(std::time::SystemTime::now());
    let rows = drains.iter().map(|(cluster, drain)| ([cluster.to_string()], drain.over.since(now).as_secs_f64()));
    let help = "Until the last client should have left a cluster that is taken out; absent while it is answered.";
    sheet.gauges("fairway_cluster_drain_seconds", help, &["cluster"], rows);
    let rows = drains.iter().filter_map(|(cluster, drain)| Some(([cluster.to_string()], drain.left?)));
    let help =
        "Part of the demand that is still at a cluster that is taken out; absent where it is not balanced by load.";
    sheet.gauges("fairway_cluster_drain_left_ratio", help, &["cluster"], rows);
    let desired = &published.configured.merged.desired;
    let (answered, carried) = (shared.answered.load(), truth::carried(desired, loads));
    let asked = desired.pools.values().filter(|pool| {
        let of_pool = |cluster| truth::slot(&pool.name, cluster);
        pool.members.iter().any(|member| answered.get(&of_pool(&member.cluster)).is_some_and(|count| *count > 0.0))
    });
    let rows = asked.take(POOLS_MAX).flat_map(|pool| {
        let shares = truth::shares(pool, &answered, &carried);
        let member = |(member, share): (&fairway_model::Member, fairway_api_types::state_wire::ShareState)| {
            let kinds = [("declared", share.declared), ("answered", share.answered), ("arrived", share.arrived)];
            let labels = |kind: &str| [pool.name.to_string(), member.cluster.to_string(), kind.to_owned()];
            kinds.map(|(kind, percent)| percent.map(|percent| (labels(kind), percent / 100.0)))
        };
        pool.members.iter().zip(shares).flat_map(member).flatten().collect::<Vec<_>>()
    });
    let help = "A member's share in its pool: declared by weight, answered in the last minute, arrived as load.";
    sheet.gauges("fairway_member_share_ratio", help, &["pool", "cluster", "kind"], rows);
}

/// Most pools that are compared: as many as have counters of their own, with four members each.
const POOLS_MAX: usize = 1024;
