//! Steps of a policy: rankings, use of load, and the rule among equals.

use std::{fmt::Arguments, time::Duration};

use fairway_model::{Policy, Rank, Selection};

use super::{Converter, locations};
use crate::{bounds_wire::List, policy_wire as wire, policy_wire::Step, tree::quoted, v1};

/// Returns the policy of a pool. Contradicting steps are reported and skipped.
pub(super) fn policy(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, pool: &v1::Pool) -> Policy {
    let (steps, listed) = match &pool.policy {
        wire::Policy::Word(step) => (std::slice::from_ref(step), false),
        wire::Policy::Steps(List(steps)) => (&steps[..], true),
    };
    let tolerance = locations::latency_tolerance(pool.latency.as_ref());
    let mut policy = Policy::WEIGHTED;
    for (at, step) in steps.iter().enumerate() {
        let before = &steps[..at];
        let is_last = at + 1 == steps.len();
        if let Some((what, hint)) = contradiction(before, *step) {
            let pointer = if listed { format!("{pointer}/policy/{at}") } else { format!("{pointer}/policy") };
            converter.error(pointer, what, hint);
            continue;
        }
        add(&mut policy, *step, is_last, tolerance);
    }
    if steps.contains(&Step::Sticky) && matches!(pool.spread, Some(v1::Spread::Query)) {
        let what = "a sticky policy keeps each client's member, but spread: query draws one for each query";
        converter.error(format_args!("{pointer}/spread"), what, "remove one of them");
    }
    let keys = [
        ("geo", pool.geo.is_some(), Step::Geo),
        ("nearest", pool.nearest.is_some(), Step::Nearest),
        ("latency", pool.latency.is_some(), Step::Latency),
    ];
    for (key, _, _) in keys.iter().filter(|(_, is_given, step)| *is_given && !steps.contains(step)) {
        let what = format!("the policy does not rank by {key}, so this has no effect");
        converter.warn(format_args!("{pointer}/{key}"), what, format!("remove it, or add {key} to the policy"));
    }
    policy
}

fn add(policy: &mut Policy, step: Step, is_last: bool, tolerance: Duration) {
    match step {
        Step::Cost => policy.ranks.push(Rank::Cost),
        Step::Geo => policy.ranks.push(Rank::Geo),
        Step::Latency => policy.ranks.push(Rank::Latency { tolerance }),
        Step::Nearest => policy.ranks.push(Rank::Nearest),
        Step::Schedule => policy.schedule = true,
        Step::Load => policy.load = true,
        Step::Sticky | Step::Weighted => policy.selection = Selection::Weighted,
        Step::Failover if is_last => policy.selection = Selection::First,
        Step::Failover | Step::Tier => policy.ranks.push(Rank::Tier),
    }
}

/// Parses the steps of an intent's policy, which can use weights, tiers and load only. Returns the index of an invalid
/// step, and why.
pub(crate) fn parse(words: &[String]) -> Result<Policy, (usize, String)> {
    let mut steps = Vec::with_capacity(words.len());
    let mut policy = Policy::WEIGHTED;
    for (at, word) in words.iter().enumerate() {
        let step = match word.to_ascii_lowercase().as_str() {
            "failover" => Step::Failover,
            "load" => Step::Load,
            "sticky" => Step::Sticky,
            "tier" => Step::Tier,
            "weighted" => Step::Weighted,
            _ => {
                let hint = "give weighted, failover, sticky, or a list of tier, load and one of these; other steps need a declared pool";
                return Err((at, format!("{} is not a valid step; {hint}", quoted(word))));
            }
        };
        if let Some((what, hint)) = contradiction(&steps, step) {
            return Err((at, format!("{what}; {hint}")));
        }
        steps.push(step);
        add(&mut policy, step, at + 1 == words.len(), Duration::ZERO);
    }
    Ok(policy)
}

/// Returns why a step cannot follow the steps before it, and a hint.
fn contradiction(before: &[Step], step: Step) -> Option<(String, &'static str)> {
    let chooses = |step: &Step| matches!(step, Step::Sticky | Step::Weighted);
    let word = format!("{step:?}").to_lowercase();
    let ranks_by_tier = |step: &Step| matches!(step, Step::Tier | Step::Failover);
    if before.contains(&step) || step == Step::Tier && before.iter().any(ranks_by_tier) {
        return Some((format!("{word} is repeated"), "remove the second one"));
    }
    if let Some(chooser) = before.iter().find(|before| chooses(before)) {
        let what = format!("no step can follow {}, which chooses among equals", format!("{chooser:?}").to_lowercase());
        return Some((what, "put it last"));
    }
    if before.contains(&Step::Load) && step == Step::Schedule {
        let what = "load must come after schedule, which decides the members that take part".to_owned();
        return Some((what, "put schedule before load"));
    }
    if before.contains(&Step::Load) && !chooses(&step) && step != Step::Failover {
        let what = format!("{word} is a ranking, and load must come after all rankings");
        return Some((what, "put load directly before weighted, sticky or failover"));
    }
    None
}
