//! Arithmetic of weights in integers: shares of the children of a compound, and weights of clusters.

/// Divides `total` in proportion to `parts`, by largest remainder; of equal remainders the first is rounded up first.
///
/// The parts sum to `total`, unless all are 0.
pub(super) fn apportion(parts: &[u64], total: u64) -> Vec<u64> {
    let sum: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    if sum == 0 {
        return vec![0; parts.len()];
    }
    let exact = |part: &u64| u128::from(*part) * u128::from(total);
    let below = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    let mut shares: Vec<u64> = parts.iter().map(|part| below(exact(part) / sum)).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(exact(&parts[*at]) % sum));
    let left = total - shares.iter().sum::<u64>();
    // `left` is less than the number of parts with a remainder.
    order.into_iter().zip(0..left).for_each(|(at, _)| shares[at] += 1);
    shares
}

/// Returns the relative shares of a compound's children by their weights, 0 to 100. Children without weight share what the others leave
/// of 100; 0 is standby. If all are 0, they share equally.
pub(super) fn shares(weights: &[Option<u8>]) -> Vec<u64> {
    let without_weight = weights.iter().filter(|weight| weight.is_none()).count() as u64;
    let declared: u64 = weights.iter().flatten().map(|weight| u64::from(*weight)).sum();
    // Multiplied by the number of children without weight, so that nothing is divided.
    let rest = 100u64.saturating_sub(declared);
    let shares: Vec<u64> =
        weights.iter().map(|weight| weight.map_or(rest, |weight| u64::from(weight) * without_weight.max(1))).collect();
    if shares.iter().all(|share| *share == 0) { vec![1; weights.len()] } else { shares }
}

/// Returns weights of a pool, 0 to 65,535, in proportion to `parts` and as small as possible. Parts over 0 have a weight of at least 1.
pub(super) fn to_weights(parts: &[u64]) -> Vec<u16> {
    let divisor = parts.iter().copied().fold(0, common_divisor).max(1);
    let smallest: Vec<u64> = parts.iter().map(|part| part / divisor).collect();
    let max = u64::from(u16::MAX);
    let fitting = if smallest.iter().any(|part| *part > max) { apportion(&smallest, max) } else { smallest.clone() };
    let weight = |(share, part): (u64, &u64)| u16::try_from(share.max(u64::from(*part > 0))).unwrap_or(u16::MAX);
    fitting.into_iter().zip(&smallest).map(weight).collect()
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns shares in percent, as a mesh has them.
    fn percent(weights: &[Option<u8>]) -> Vec<u64> {
        apportion(&shares(weights), 100)
    }

    #[test]
    fn shares_follow_the_declared_weights() {
        assert_eq!(percent(&[Some(20), Some(80), Some(0)]), [20, 80, 0]);
        assert_eq!(percent(&[None, None, None]), [34, 33, 33]);
        assert_eq!(percent(&[Some(40), None, None]), [40, 30, 30]);
        assert_eq!(percent(&[Some(50), None, None, None]), [50, 17, 17, 16]);
        assert_eq!(percent(&[Some(1), Some(2)]), [33, 67]);
        assert_eq!(percent(&[Some(60), Some(60), None]), [50, 50, 0]);
        assert_eq!(percent(&[Some(0), Some(0)]), [50, 50]);
        assert!(percent(&[]).is_empty());
    }

    #[test]
    fn weights_are_as_small_as_possible() {
        assert_eq!(to_weights(&[20_000, 80_000, 0]), [1, 4, 0]);
        assert_eq!(to_weights(&[1, 1_000_000_007]), [1, 65_535]);
        assert_eq!(to_weights(&[0, 0]), [0, 0]);
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_total_and_are_off_by_less_than_one(parts in prop::collection::vec(0..1_000u64, 1..64), total in 0..100_000u64) {
            let shares = apportion(&parts, total);
            let sum: u64 = parts.iter().sum();
            prop_assert_eq!(shares.iter().sum::<u64>(), if sum == 0 { 0 } else { total });
            for (share, part) in shares.iter().zip(&parts).filter(|_| sum > 0) {
                let exact = part * total;
                prop_assert!(share * sum < exact + sum && exact < share * sum + sum);
                prop_assert!(*part > 0 || *share == 0);
            }
        }

        #[test]
        fn children_share_100_percent_and_standbys_get_nothing(weights in prop::collection::vec(prop::option::of(0..=100u8), 1..32)) {
            let percent = percent(&weights);
            prop_assert_eq!(percent.iter().sum::<u64>(), 100);
            let shares = shares(&weights);
            let all_standby = weights.iter().all(|weight| *weight == Some(0));
            for (share, weight) in shares.iter().zip(&weights) {
                prop_assert!(all_standby || *weight != Some(0) || *share == 0);
                prop_assert!(weight.is_none_or(|weight| weight == 0) || *share > 0);
            }
        }

        #[test]
        fn weights_are_in_range_and_zero_for_standbys_only(parts in prop::collection::vec(0..u64::from(u32::MAX), 1..64)) {
            let weights = to_weights(&parts);
            for (weight, part) in weights.iter().zip(&parts) {
                prop_assert_eq!(*weight == 0, *part == 0);
            }
        }
    }
}
