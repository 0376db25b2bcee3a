//! Metrics of load balancing: shares of clusters; declared, answered and arrived shares of members.

use fairway_health::load::ClusterLoad;
use fairway_model::Timestamp;
use fairway_zones::ServingState;

use super::Sheet;
use crate::render::shares::{arrived, shares, slot};
use fairway_control::{Published, Shared};
use fairway_store::LeaderStatus;

/// Writes the metrics of balancing.
pub(super) fn write(
    sheet: &mut Sheet,
    shared: &Shared,
    view: &ServingState,
    published: &Published,
    loads: &[ClusterLoad],
) {
    if view.snapshot.uses_load() {
        let role = [([], shared.balance.leader.load().role)];
        sheet.state_sets("fairway_balance_role", [], &LeaderStatus::ROLES, role);
        let evidence = shared.balance.evidence.load();
        sheet.counter("fairway_load_reports_rejected_total", evidence.rejected_reports);
        sheet.counter("fairway_balance_failures_total", evidence.failed_decisions);
        sheet.gauge("fairway_demand_sources", evidence.sources as f64);
        sheet.gauge("fairway_demand_networks", evidence.networks as f64);
        sheet.gauge("fairway_demand_networks_elsewhere", evidence.networks_elsewhere as f64);
    }
    if let Some(shares) = view.runtime.shares() {
        let parts = shares.parts.iter();
        let parts = parts.map(|(backend, part)| {
            let pool = backend.pool.as_ref().map_or_else(String::new, ToString::to_string);
            ([backend.cluster.to_string(), pool], f64::from(*part) / f64::from(u16::MAX))
        });
        sheet.gauges("fairway_cluster_share_ratio", &["cluster", "pool"], parts);
        sheet.counter("fairway_balance_decisions_total", shares.epoch);
    }
    let drains = shared.balance.drains.load();
    let now = Timestamp::from(std::time::SystemTime::now());
    let rows = drains.iter().map(|(cluster, drain)| ([cluster.to_string()], drain.over.since(now).as_secs_f64()));
    sheet.gauges("fairway_cluster_drain_seconds", &["cluster"], rows);
    let rows = drains.iter().filter_map(|(cluster, drain)| Some(([cluster.to_string()], drain.left?)));
    sheet.gauges("fairway_cluster_drain_left_ratio", &["cluster"], rows);
    let desired = &published.configured.merged.desired;
    let (answered, arrived) = (shared.balance.answered.load(), arrived(desired, loads));
    let asked = desired.pools.values().filter(|pool| {
        let of_pool = |cluster| slot(&pool.name, cluster);
        pool.members.iter().any(|member| answered.get(&of_pool(&member.cluster)).is_some_and(|count| *count > 0.0))
    });
    let rows = asked.take(POOLS_MAX).flat_map(|pool| {
        let shares = shares(pool, &answered, &arrived);
        let member = |(member, share): (&fairway_model::Member, fairway_api_types::state_wire::ShareState)| {
            let kinds = [("declared", share.declared), ("answered", share.answered), ("arrived", share.arrived)];
            let labels = |kind: &str| [pool.name.to_string(), member.cluster.to_string(), kind.to_owned()];
            kinds.map(|(kind, percent)| percent.map(|percent| (labels(kind), percent / 100.0)))
        };
        pool.members.iter().zip(shares).flat_map(member).flatten().collect::<Vec<_>>()
    });
    sheet.gauges("fairway_member_share_ratio", &["pool", "cluster", "kind"], rows);
}

/// Maximum number of pools with shares of members: 1,024 pools of four members have all 4,096 answer counters.
const POOLS_MAX: usize = 1024;
