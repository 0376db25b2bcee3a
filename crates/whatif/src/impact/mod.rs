//! The impact of failures under a configuration, and of a changed configuration, from files alone.
//!
//! `query` calls the code that answers, with some clusters down. `locations` checks which clusters each location class keeps, `capacity`
//! which clusters take over whose clients, and `change` what moves between two configurations. `report_wire` is the report. Nothing is
//! probed and nothing is applied.

mod capacity;
mod change;
mod locations;
mod query;
mod report_wire;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::Offline;

pub use report_wire::{CapacityReport, Finding, NamesReport, PoolImpact, Report, Rule, Severity, Share, Since};

/// Limits for rules that need one; `None` switches the rule off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// Load of each cluster in use while all are up, in percent of its capacity.
    pub offered: Option<f64>,
    /// Longest time in seconds that caches may keep the answers of a drained cluster.
    pub drain_budget: Option<u32>,
}

/// Assesses a configuration, and its difference to the one before it if there is one.
pub fn assess(before: Option<&Offline>, after: &Offline, terms: Terms) -> Report {
    let assessed = |side: &Offline| {
        let (pools, mut findings) = locations::assess(side, terms.drain_budget);
        let (capacity, overloads) = capacity::assess(side, terms.offered);
        findings.extend(overloads);
        (pools, capacity, findings)
    };
    let (mut pools, mut capacity, mut findings) = assessed(after);
    let Some(before) = before else {
        return Report { findings, capacity, pools: pools.into_values().collect(), ..Report::default() };
    };
    let (_, capacity_before, findings_before) = assessed(before);
    capacity.holds_up_to_before = capacity_before.holds_up_to;
    change::compare(before, after, &mut pools);
    let fixed = compare(&mut findings, findings_before);
    Report {
        compared: true,
        findings,
        fixed,
        capacity,
        pools: pools.into_values().collect(),
        names: change::names(&before.desired, &after.desired),
        pools_removed: removed_pools(before, after),
    }
}

/// Compares each finding with the one before. Returns those that are fixed.
fn compare(findings: &mut [Finding], before: Vec<Finding>) -> Vec<Finding> {
    let key = |finding: &Finding| (finding.rule, finding.pool.clone(), finding.subject.clone());
    let known: BTreeMap<_, _> = before.iter().map(|finding| (key(finding), finding.measure)).collect();
    let still: BTreeSet<_> = findings.iter().map(key).collect();
    for finding in findings {
        finding.since = Some(match known.get(&key(finding)) {
            None => Since::New,
            Some(measure) if finding.measure > measure + MEASURE_NOISE => Since::Worse,
            Some(_) => Since::Before,
        });
    }
    before.into_iter().filter(|finding| !still.contains(&key(finding))).collect()
}

/// Returns the pools that answered names before and no longer do.
fn removed_pools(before: &Offline, after: &Offline) -> Vec<String> {
    let used = |side: &Offline| -> BTreeSet<String> {
        side.desired.names.values().map(|name| name.pool.to_string()).collect()
    };
    let after = used(after);
    used(before).into_iter().filter(|pool| !after.contains(pool)).collect()
}

/// Measures closer than this are equal. It is far below any real difference of shares of addresses, percent of load, or seconds.
const MEASURE_NOISE: f64 = 1e-9;
