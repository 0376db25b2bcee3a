//! What a configuration leaves when something fails, and what a changed one moves, told from files alone.
//!
//! `ask` puts the questions to the code that answers: who is live for the clients of a row while this or that is down.
//! `places` judges what each client network keeps, `capacity` who carries whose clients, `change` what moves between two
//! configurations, and `report_wire` is what is printed. Nothing is probed and nothing is applied.

mod ask;
mod capacity;
mod change;
mod places;
mod report_wire;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{Diagnostic, HealthStatus, PoolName};

use fairway_config::Environment;
use fairway_config::Source;
use fairway_control::{Offline, of_files};

pub use report_wire::{CapacityReport, Finding, NamesReport, PoolImpact, Report, Rule, Severity, Share, Since};

/// Reads a configuration to be judged: every target is up, and every member open, whatever the time is.
///
/// # Errors
///
/// The faults of the configuration.
pub fn read(source: &Source, environment: &Environment) -> Result<Offline, Vec<Diagnostic>> {
    of_files(source, environment, |_| HealthStatus::Up).map(Offline::at_any_time)
}

/// What rules are held against, where they need to be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// What each cluster in use carries while all are up, in percent of its capacity.
    pub offered: Option<f64>,
    /// Longest that answers may go on naming a cluster which is drained, in seconds.
    pub drain_budget: Option<u32>,
}

/// A rule that does not hold. The same rule for the same pool and subject is the same breach in another configuration.
#[derive(Clone, Debug)]
struct Breach {
    rule: Rule,
    severity: Severity,
    pool: Option<PoolName>,
    subject: String,
    /// How bad it is; compared with itself only.
    measure: f64,
    what: String,
}

/// Judges a configuration, and what it changes where there is one before it.
pub fn judge(before: Option<&Offline>, after: &Offline, terms: Terms) -> Report {
    let judged = |side: &Offline| {
        let (pools, mut breaches) = places::walk(side, terms.drain_budget);
        let (capacity, more) = capacity::judge(side, terms.offered);
        breaches.extend(more);
        (pools, capacity, breaches)
    };
    let (mut pools, mut capacity, breaches) = judged(after);
    let Some(before) = before else {
        let findings = breaches.into_iter().map(|breach| finding(breach, None)).collect();
        return Report { findings, capacity, pools: pools.into_values().collect(), ..Report::default() };
    };
    let (_, capacity_before, breaches_before) = judged(before);
    capacity.holds_up_to_before = capacity_before.holds_up_to;
    change::compare(before, after, &mut pools);
    let (findings, mended) = since(breaches, breaches_before);
    Report {
        compared: true,
        findings,
        mended,
        capacity,
        pools: pools.into_values().collect(),
        names: change::names(&before.desired, &after.desired),
        pools_removed: removed(before, after),
    }
}

/// Says of each breach whether it was there before, and names those that are gone.
fn since(breaches: Vec<Breach>, before: Vec<Breach>) -> (Vec<Finding>, Vec<Finding>) {
    let key = |breach: &Breach| (breach.rule, breach.pool.clone(), breach.subject.clone());
    let known: BTreeMap<_, _> = before.iter().map(|breach| (key(breach), breach.measure)).collect();
    let still: BTreeSet<_> = breaches.iter().map(key).collect();
    let since = |breach: &Breach| match known.get(&key(breach)) {
        None => Since::New,
        Some(measure) if breach.measure > measure + MEASURE_NOISE => Since::Worse,
        Some(_) => Since::Before,
    };
    let findings = breaches.into_iter().map(|breach| {
        let since = since(&breach);
        finding(breach, Some(since))
    });
    let gone = before.into_iter().filter(|breach| !still.contains(&key(breach)));
    (findings.collect(), gone.map(|breach| finding(breach, None)).collect())
}

fn finding(breach: Breach, since: Option<Since>) -> Finding {
    let Breach { rule, severity, pool, subject, what, .. } = breach;
    Finding { rule, severity, since, pool: pool.map(|pool| pool.to_string()), subject, what }
}

/// Pools that answered names before and do not any more.
fn removed(before: &Offline, after: &Offline) -> Vec<String> {
    let used = |side: &Offline| -> BTreeSet<String> {
        side.desired.names.values().map(|name| name.pool.to_string()).collect()
    };
    let after = used(after);
    used(before).into_iter().filter(|pool| !after.contains(pool)).collect()
}

/// Two measures nearer than this are the same: they are shares of addresses, percent of load, or seconds.
const MEASURE_NOISE: f64 = 1e-9;
