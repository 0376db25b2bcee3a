//! Members that any client may be sent to: a provider that does not distinguish clients publishes these.

use std::net::IpAddr;

use fairway_model::{AnswerMode, Eligibility, Member, Pool, Rank};
use fairway_zones::ServingState;

use crate::configured::Configured;

/// Returns the members that are up, each with its addresses that are up: of the best tier that has one, standbys only if no other member is
/// up, and exhausted ones only if all are. Returns the first one alone if the policy gives it to all clients.
pub(super) fn eligible<'a>(
    pool: &'a Pool,
    configured: &Configured,
    state: &ServingState,
) -> Vec<(&'a Member, Vec<IpAddr>)> {
    if pool.mode != AnswerMode::Address {
        return Vec::new();
    }
    let members = |worst: Eligibility| -> Vec<_> {
        // A member for some clients only cannot be published to all.
        let is_for_all = |member: &&'a Member| !member.internal && member.networks.is_empty();
        let members = pool.members.iter().filter(|member| is_for_all(member) && is_open(pool, member, state));
        let members = members.map(|member| (member, addresses_up(pool, member, worst, configured, state)));
        members.filter(|(_, addresses)| !addresses.is_empty()).collect()
    };
    let mut members = match members(Eligibility::Unknown) {
        none if none.is_empty() => members(Eligibility::Exhausted),
        members => members,
    };
    if members.iter().any(|(member, _)| member.weight.0 > 0) {
        members.retain(|(member, _)| member.weight.0 > 0);
    }
    // If another ranking comes before the tier, each tier may be the best of some clients.
    if pool.policy.rankings().next() == Some(Rank::Tier) {
        let best = members.iter().map(|(member, _)| member.tier).min();
        members.retain(|(member, _)| Some(member.tier) == best);
    }
    let is_first_for_all = pool.policy.selection.is_in_order() && pool.policy.rankings().eq([Rank::Tier]);
    if is_first_for_all && !pool.policy.load {
        members.truncate(1);
    }
    members
}

fn is_open(pool: &Pool, member: &Member, state: &ServingState) -> bool {
    let schedule = state.runtime.schedule(&state.snapshot, &pool.name, &member.cluster);
    schedule.is_none_or(|schedule| schedule.state.open)
}

/// Returns the addresses of a member with at least this eligibility.
fn addresses_up(
    pool: &Pool,
    member: &Member,
    worst: Eligibility,
    configured: &Configured,
    state: &ServingState,
) -> Vec<IpAddr> {
    let cluster = configured.merged.desired.clusters.get(&member.cluster);
    let is_up = |address: &IpAddr| {
        let address = (member.cluster.clone(), *address);
        let mut targets = configured.uses.targets(&pool.name, &address);
        targets.any(|of| state.runtime.health(of).eligibility() <= worst)
    };
    cluster.map_or_else(Vec::new, |cluster| cluster.addresses.iter().copied().filter(is_up).collect())
}
