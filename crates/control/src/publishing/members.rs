//! Which members of a pool any client may be sent to now: those that a server which tells no clients apart is to answer.

use std::net::IpAddr;

use fairway_model::{AnswerMode, Eligibility, Member, Pool, Rank, Selection};
use fairway_zones::ServingState;

use crate::configured::Configured;

/// The members that are up, of the best tier that has one, standbys where nobody else is up; each with those of its addresses that are
/// up. The first of them alone where the policy takes the first one for everybody.
pub(super) fn eligible<'a>(
    pool: &'a Pool,
    configured: &Configured,
    view: &ServingState,
) -> Vec<(&'a Member, Vec<IpAddr>)> {
    if pool.mode != AnswerMode::Address {
        return Vec::new();
    }
    let mut members: Vec<_> = pool
        .members
        .iter()
        // Who is for some clients alone is not for a server that tells no clients apart.
        .filter(|member| !member.internal && member.networks.is_empty() && is_open(pool, member, view))
        .map(|member| (member, up(pool, member, configured, view)))
        .filter(|(_, addresses)| !addresses.is_empty())
        .collect();
    if members.iter().any(|(member, _)| member.weight.0 > 0) {
        members.retain(|(member, _)| member.weight.0 > 0);
    }
    // Where clients are told apart by place before tiers are, each tier is the best of somebody.
    if pool.policy.rankings().next() == Some(Rank::Tier) {
        let best = members.iter().map(|(member, _)| member.tier).min();
        members.retain(|(member, _)| Some(member.tier) == best);
    }
    let is_first_for_all = pool.policy.selection == Selection::First && pool.policy.rankings().eq([Rank::Tier]);
    if is_first_for_all && !pool.policy.load {
        members.truncate(1);
    }
    members
}

fn is_open(pool: &Pool, member: &Member, view: &ServingState) -> bool {
    let schedule = view.runtime.schedule(&view.snapshot, &pool.name, &member.cluster);
    schedule.is_none_or(|schedule| schedule.turn.open)
}

/// The addresses of a member that are up, or were when last judged.
fn up(pool: &Pool, member: &Member, configured: &Configured, view: &ServingState) -> Vec<IpAddr> {
    let cluster = configured.merged.desired.clusters.get(&member.cluster);
    let is_up = |address: &IpAddr| {
        let site = (member.cluster.clone(), *address);
        let mut standings =
            configured.uses.targets(&pool.name, &site).map(|target| view.runtime.health(target).eligibility());
        standings.any(|standing| matches!(standing, Eligibility::Up | Eligibility::Unknown))
    };
    cluster.map_or_else(Vec::new, |cluster| cluster.addresses.iter().copied().filter(is_up).collect())
}
