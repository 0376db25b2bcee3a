//! What an explanation says in words.

use fairway_model::{Policy, Rank, Selection};
use fairway_zones::steer::{Explanation, HashInput, Sight};

/// Why a pool's answer depends on so many bits of the client's address.
pub(super) fn scope_reason(pool: &Explanation) -> String {
    let prefix = pool.proof.place.prefix;
    let block = pool.proof.place.block.map(|block| block.length());
    match block {
        None if matches!(pool.input, HashInput::Draw(_)) => "each query draws, whoever asks".to_owned(),
        None if prefix == 0 => "every client gets the same".to_owned(),
        None => format!("clientPrefix is /{prefix}"),
        Some(block) if block > prefix && prefix > 0 => {
            format!("its place is told by /{block}, clientPrefix is /{prefix}")
        }
        Some(block) if prefix == 0 => format!("its place is told by /{block}"),
        Some(block) => format!("clientPrefix is /{prefix}, its place is told by /{block}"),
    }
}

/// The steps of a policy in words, in order.
pub(super) fn policy_steps(policy: &Policy) -> Vec<String> {
    let ranking = |rank: Rank| match rank {
        Rank::Tier => "tier: the lower first".to_owned(),
        Rank::Geo => "geo: as the map prefers for the client's place".to_owned(),
        Rank::Nearest => "nearest: by distance from the client's place".to_owned(),
        Rank::Latency { tolerance } if tolerance.is_zero() => "latency: the faster first".to_owned(),
        Rank::Latency { tolerance } => format!("latency: the faster first, {tolerance:?} more than the best are equal"),
        Rank::Cost => "cost: the cheaper first".to_owned(),
    };
    let schedule = policy.schedule.then(|| "schedule: members take part in their windows only".to_owned());
    let load = policy.load.then(|| "load: each member takes its part of the clients, the others go on".to_owned());
    let choose = match policy.selection {
        Selection::First => "failover: of equals the first as declared",
        Selection::Weighted => "weighted: of equals one by weight",
    };
    schedule.into_iter().chain(policy.rankings().map(ranking)).chain(load).chain([choose.to_owned()]).collect()
}

/// What a member was to a stage, as one word.
pub(super) fn candidacy(sight: Sight) -> &'static str {
    match sight {
        Sight::Candidate => "candidate",
        Sight::Part => "partial",
        Sight::Elsewhere => "elsewhere",
        Sight::Excluded => "excluded",
        Sight::Closed => "closed",
        Sight::Unfit => "ineligible",
    }
}

/// 65535ths in percent, rounded to one place where they are no whole ones: `40`, `33.3`, `100`.
pub fn percent(part: u16) -> String {
    let tenths = (u32::from(part) * 1_000 + 32_767) / 65_535;
    if tenths.is_multiple_of(10) { (tenths / 10).to_string() } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

/// A hash as 16 digits.
pub(super) fn hex(hash: u64) -> String {
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_in_percent() {
        assert_eq!(
            [0, 1, 655, 26_214, 21_845, 65_500, 65_535].map(percent),
            ["0", "0", "1", "40", "33.3", "99.9", "100"]
        );
    }

    #[test]
    fn the_tier_is_told_where_the_policy_does_not_name_it() {
        let ranks = vec![Rank::Geo, Rank::Latency { tolerance: std::time::Duration::from_millis(10) }];
        let words = policy_steps(&Policy { schedule: true, ranks, load: true, selection: Selection::Weighted });
        let heads: Vec<&str> = words.iter().filter_map(|step| step.split(':').next()).collect();
        assert_eq!(heads, ["schedule", "tier", "geo", "latency", "load", "weighted"]);
        assert_eq!(words[3], "latency: the faster first, 10ms more than the best are equal");
    }
}
