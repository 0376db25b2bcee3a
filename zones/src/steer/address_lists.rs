//! The address lists of a pool's numbered answers, in the order of their numbers.

use std::net::IpAddr;

use fairway_model::AnswerMode;

use super::{
    answer::Family,
    pool::{Member, SteerPool},
    sets::{Plan, parts},
};

impl SteerPool {
    /// Returns every list of addresses that this pool can answer in a family. The index is the number of an
    /// [`Answer::Set`](super::Answer::Set).
    ///
    /// No list is empty or has duplicates. There are at most [`SETS_MAX`](super::SETS_MAX).
    pub fn sets(&self, family: Family) -> Vec<Vec<IpAddr>> {
        let plan = &self.plans[family as usize];
        let mut by_rank: Vec<&Member> =
            self.members.iter().filter(|m| m.address_sets[family as usize].addresses() > 0).collect();
        by_rank.sort_by_key(|m| m.number);
        if self.mode == AnswerMode::Cname {
            by_rank.clear();
        }
        let whole = |ranks: &[usize]| union(ranks.iter().flat_map(|r| self.addresses(by_rank[*r].number, family)));
        let mut sets: Vec<_> = rank_lists(plan).iter().map(|ranks| whole(ranks)).collect();
        for member in &by_rank {
            let set = &member.address_sets[family as usize];
            let addresses: Vec<_> = self.addresses(member.number, family).collect();
            let part = |mask: u32| (0..).zip(&addresses).filter(|(i, _)| mask >> i & 1 == 1).map(|(_, a)| *a).collect();
            sets.extend(parts(set).map(|mask| -> Vec<_> { part(mask) }));
        }
        for seen in plan.everyone.iter().flat_map(|everyone| &everyone.sets) {
            let ranks = (0..by_rank.len()).filter(|rank| seen.contains(by_rank[*rank].number));
            sets.push(whole(&ranks.collect::<Vec<_>>()));
        }
        if plan.fallback.is_some() {
            sets.push(union(self.fallback(family)));
        }
        sets
    }
}

/// Returns the ranks of the members in each answer with whole members.
fn rank_lists(plan: &Plan) -> Vec<Vec<usize>> {
    let members = usize::from(plan.members);
    let sizes = 1..=usize::from(plan.answers).min(members);
    if plan.windows {
        let window = |start, length| (start..start + length).map(|rank| rank % members).collect();
        return sizes.flat_map(|length| (0..members).map(move |start| window(start, length))).collect();
    }
    sizes.flat_map(|size| combinations(members, size)).collect()
}

/// Returns the combinations of `size` out of `members` ranks in colexicographic order: by the largest rank, then by the
/// next.
fn combinations(members: usize, size: usize) -> Vec<Vec<usize>> {
    let Some(others) = size.checked_sub(1) else { return vec![Vec::new()] };
    let ending_in =
        |largest| combinations(largest, others).into_iter().map(move |ranks| [ranks, vec![largest]].concat());
    (others..members).flat_map(ending_in).collect()
}

/// Returns the addresses in order, without duplicates: two clusters may share one, but an RRset has none (RFC 2181
/// section 5).
fn union(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut all = Vec::new();
    for address in addresses {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}
