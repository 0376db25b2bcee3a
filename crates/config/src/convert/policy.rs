//! Steps of a policy: rankings, use of load, and the rule among equals.

use std::{fmt::Arguments, time::Duration};

use fairway_model::{Policy, Rank, Selection, Spread};

use super::{Converter, locations};
use crate::{
    bounds_wire::Plain, policy_wire as wire, policy_wire::Step, reason::Reason, tree::quoted, v1, words::Words,
};

/// Returns the policy of a pool. Contradicting steps are reported and skipped.
pub(super) fn policy(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, pool: &v1::Pool) -> Policy {
    let (steps, is_list) = (pool.policy.steps(), matches!(pool.policy, wire::Policy::Steps(_)));
    let tolerance = locations::latency_tolerance(converter, pointer, pool.latency.as_ref());
    let policy = build(&steps, tolerance, |at, why| {
        let pointer = if is_list { format!("{pointer}/policy/{at}") } else { format!("{pointer}/policy") };
        converter.reject(pointer, why);
    });
    if steps.contains(&Step::Sticky) && pool.spread.plain() == Some(Spread::Query) {
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

/// Builds a policy of its steps. Contradicting ones are rejected, with their index, and skipped.
fn build(steps: &[Step], tolerance: Duration, mut reject: impl FnMut(usize, Reason)) -> Policy {
    let mut policy = Policy::WEIGHTED;
    for (at, step) in steps.iter().enumerate() {
        if let Some(why) = contradiction(&steps[..at], *step) {
            reject(at, why);
            continue;
        }
        match step {
            Step::Cost => policy.ranks.push(Rank::Cost),
            Step::Geo => policy.ranks.push(Rank::Geo),
            Step::Latency => policy.ranks.push(Rank::Latency { tolerance }),
            Step::Nearest => policy.ranks.push(Rank::Nearest),
            Step::Schedule => policy.schedule = true,
            Step::Load => policy.load = true,
            Step::Sticky | Step::Weighted => policy.selection = Selection::Weighted,
            Step::Failover if at + 1 == steps.len() => policy.selection = Selection::First,
            Step::Failover | Step::Tier => policy.ranks.push(Rank::Tier),
        }
    }
    policy
}

/// Parses the steps of an intent's policy, which can use weights, tiers and load only. Returns the index of an invalid
/// step, and why.
pub fn parse(words: &[String]) -> Result<Policy, (usize, String)> {
    let mut steps = Vec::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        let step = Step::of_word(&word.to_ascii_lowercase())
            .filter(|step| matches!(step, Step::Failover | Step::Load | Step::Sticky | Step::Tier | Step::Weighted));
        steps.push(step.ok_or_else(|| {
            let hint = "give weighted, failover, sticky, or a list of tier, load and one of these; other steps need a declared pool";
            (at, format!("{} is not a valid step; {hint}", quoted(word)))
        })?);
    }
    let mut first = None;
    let policy = build(&steps, Duration::ZERO, |at, why| _ = first.get_or_insert_with(|| (at, why.to_string())));
    first.map_or(Ok(policy), Err)
}

/// Returns why a step cannot follow the steps before it, and a hint.
fn contradiction(before: &[Step], step: Step) -> Option<Reason> {
    let chooses = |step: &Step| matches!(step, Step::Sticky | Step::Weighted);
    let word = step.word();
    let ranks_by_tier = |step: &Step| matches!(step, Step::Tier | Step::Failover);
    if before.contains(&step) || step == Step::Tier && before.iter().any(ranks_by_tier) {
        return Some(Reason::new(format!("{word} is repeated"), "remove the second one"));
    }
    if let Some(chooser) = before.iter().find(|before| chooses(before)) {
        let what = format!("no step can follow {}, which chooses among equals", chooser.word());
        return Some(Reason::new(what, "put it last"));
    }
    if before.contains(&Step::Load) && step == Step::Schedule {
        let what = "load must come after schedule, which decides the members that take part";
        return Some(Reason::new(what, "put schedule before load"));
    }
    if before.contains(&Step::Load) && !chooses(&step) && step != Step::Failover {
        let what = format!("{word} is a ranking, and load must come after all rankings");
        return Some(Reason::new(what, "put load directly before weighted, sticky or failover"));
    }
    None
}
