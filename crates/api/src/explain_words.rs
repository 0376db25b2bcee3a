//! Texts of explanations.

use fairway_model::{Policy, Rank, Selection};
use fairway_zones::steer::{Explanation, HashInput};

/// Returns the reason of the ECS scope of a pool's answer.
pub(crate) fn scope_reason(pool: &Explanation) -> String {
    let prefix = pool.proof.location_class.prefix;
    let block = pool.proof.location_class.block.map(|block| block.length());
    match block {
        None if matches!(pool.input, HashInput::Draw(_)) => "each query is drawn, for all clients alike".to_owned(),
        None if prefix == 0 => "every client gets the same".to_owned(),
        None => format!("clientPrefix is /{prefix}"),
        Some(block) if block > prefix && prefix > 0 => {
            format!("location class by /{block}, clientPrefix is /{prefix}")
        }
        Some(block) if prefix == 0 => format!("location class by /{block}"),
        Some(block) => format!("clientPrefix is /{prefix}, location class by /{block}"),
    }
}

/// Returns the steps of a policy as text, in order.
pub(crate) fn policy_steps(policy: &Policy) -> Vec<String> {
    let ranking = |rank: Rank| match rank {
        Rank::Tier => "tier: lower first".to_owned(),
        Rank::Geo => "geo: by the preferences for the client's location".to_owned(),
        Rank::Nearest => "nearest: by distance from the client".to_owned(),
        Rank::Latency { tolerance } if tolerance.is_zero() => "latency: faster first".to_owned(),
        Rank::Latency { tolerance } => {
            format!("latency: faster first, up to {tolerance:?} above the fastest is equal")
        }
        Rank::Cost => "cost: cheaper first".to_owned(),
    };
    let schedule = policy.schedule.then(|| "schedule: members are open in their windows only".to_owned());
    let load = policy.load.then(|| "load: the cluster of the client's slot, while it can be answered".to_owned());
    let choose = match policy.selection {
        Selection::First => "failover: the first declared one of equal members",
        Selection::Weighted => "weighted: one of equal members, by weight",
    };
    schedule.into_iter().chain(policy.rankings().map(ranking)).chain(load).chain([choose.to_owned()]).collect()
}

/// Returns 65535ths as percent, rounded to one decimal: `40`, `33.3`, `100`.
pub fn percent(part: u16) -> String {
    let tenths = (u32::from(part) * 1_000 + 32_767) / 65_535;
    if tenths.is_multiple_of(10) { (tenths / 10).to_string() } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

/// Returns a hash as 16 hexadecimal digits.
pub(crate) fn hex(hash: u64) -> String {
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_has_a_decimal_only_if_needed() {
        assert_eq!(
            [0, 1, 655, 26_214, 21_845, 65_500, 65_535].map(percent),
            ["0", "0", "1", "40", "33.3", "99.9", "100"]
        );
    }

    #[test]
    fn policy_steps_name_the_implied_tier() {
        let ranks = vec![Rank::Geo, Rank::Latency { tolerance: std::time::Duration::from_millis(10) }];
        let words = policy_steps(&Policy { schedule: true, ranks, load: true, selection: Selection::Weighted });
        let heads: Vec<&str> = words.iter().filter_map(|step| step.split(':').next()).collect();
        assert_eq!(heads, ["schedule", "tier", "geo", "latency", "load", "weighted"]);
        assert_eq!(words[3], "latency: faster first, up to 10ms above the fastest is equal");
    }
}
