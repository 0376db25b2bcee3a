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

use fairway_model::{Diagnostic, HealthStatus, PoolName};

use fairway_config::{Environment, Source};
use fairway_control::{Offline, of_files};

pub use report_wire::{CapacityReport, Finding, NamesReport, PoolImpact, Report, Rule, Severity, Share, Since};

/// Reads a configuration to assess. Every target counts as up, and every schedule as open, so that the result does not depend on the time.
///
/// # Errors
///
/// The errors of the configuration.
pub fn read(source: &Source, environment: &Environment) -> Result<Offline, Vec<Diagnostic>> {
    of_files(source, environment, |_| HealthStatus::Up).map(Offline::at_any_time)
}

/// Limits for rules that need one; `None` switches the rule off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// Load of each cluster in use while all are up, in percent of its capacity.
    pub offered: Option<f64>,
    /// Longest time in seconds that caches may keep the answers of a drained cluster.
    pub drain_budget: Option<u32>,
}

/// A rule that does not hold. Two configurations have the same violation if rule, pool and subject are equal.
#[derive(Clone, Debug)]
struct Violation {
    rule: Rule,
    severity: Severity,
    pool: Option<PoolName>,
    subject: String,
    /// Severity as a number, to compare the same violation in two configurations.
    measure: f64,
    what: String,
}

/// Assesses a configuration, and its difference to the one before it if there is one.
pub fn assess(before: Option<&Offline>, after: &Offline, terms: Terms) -> Report {
    let assessed = |side: &Offline| {
        let (pools, mut violations) = locations::assess(side, terms.drain_budget);
        let (capacity, overloads) = capacity::assess(side, terms.offered);
        violations.extend(overloads);
        (pools, capacity, violations)
    };
    let (mut pools, mut capacity, violations) = assessed(after);
    let Some(before) = before else {
        let findings = violations.into_iter().map(|violation| finding(violation, None)).collect();
        return Report { findings, capacity, pools: pools.into_values().collect(), ..Report::default() };
    };
    let (_, capacity_before, violations_before) = assessed(before);
    capacity.holds_up_to_before = capacity_before.holds_up_to;
    change::compare(before, after, &mut pools);
    let (findings, fixed) = compare(violations, violations_before);
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

/// Returns the violations, each compared with the one before, and those that are fixed.
fn compare(violations: Vec<Violation>, before: Vec<Violation>) -> (Vec<Finding>, Vec<Finding>) {
    let key = |violation: &Violation| (violation.rule, violation.pool.clone(), violation.subject.clone());
    let known: BTreeMap<_, _> = before.iter().map(|violation| (key(violation), violation.measure)).collect();
    let still: BTreeSet<_> = violations.iter().map(key).collect();
    let since = |violation: &Violation| match known.get(&key(violation)) {
        None => Since::New,
        Some(measure) if violation.measure > measure + MEASURE_NOISE => Since::Worse,
        Some(_) => Since::Before,
    };
    let findings = violations.into_iter().map(|violation| {
        let since = since(&violation);
        finding(violation, Some(since))
    });
    let fixed = before.into_iter().filter(|violation| !still.contains(&key(violation)));
    (findings.collect(), fixed.map(|violation| finding(violation, None)).collect())
}

fn finding(violation: Violation, since: Option<Since>) -> Finding {
    let Violation { rule, severity, pool, subject, what, .. } = violation;
    Finding { rule, severity, since, pool: pool.map(|pool| pool.to_string()), subject, what }
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
