//! Eligibility of targets as bit sets, so that several targets are combined with one `or`.

use fairway_model::{Eligibility, Health, HealthStatus, OverrideAction};

/// A set of eligibilities: of some addresses, or those that a stage admits.
pub(crate) type EligibilitySet = u8;

/// Up or unknown, and not exhausted.
pub(crate) const LIVE: EligibilitySet = 1;
/// Never evaluated.
pub(crate) const PENDING: EligibilitySet = 2;
/// Down by its probes.
pub(crate) const DOWN: EligibilitySet = 4;
/// Down or drained by an override: never answered.
pub(crate) const OUT: EligibilitySet = 8;
/// Up or unknown, but the gateways of the cluster drain or are overloaded.
pub(crate) const EXHAUSTED: EligibilitySet = 16;
/// Everything but `OUT`.
pub(crate) const NOT_OUT: EligibilitySet = LIVE | EXHAUSTED | PENDING | DOWN;

/// Returns the eligibility of one target.
#[inline]
pub(crate) const fn eligibility(health: Health) -> EligibilitySet {
    SETS[health.bits() as usize % Health::COUNT]
}

/// True if a target is [`LIVE`].
#[inline]
pub(crate) const fn is_live(health: Health) -> bool {
    LIVES >> health.bits() & 1 == 1
}

/// One bit for each health byte, set for those that are [`LIVE`].
const LIVES: u32 = {
    let (mut lives, mut i) = (0, 0);
    while i < Health::COUNT {
        lives |= ((SETS[i] == LIVE) as u32) << i;
        i += 1;
    }
    lives
};

/// Eligibility of each health byte: one load instead of a tree of branches.
const SETS: [EligibilitySet; Health::COUNT] = {
    const STATUSES: [HealthStatus; 4] =
        [HealthStatus::Pending, HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown];
    const OVERRIDES: [Option<OverrideAction>; 4] =
        [None, Some(OverrideAction::Up), Some(OverrideAction::Down), Some(OverrideAction::Drain)];
    let mut sets = [0; Health::COUNT];
    let mut i = 0;
    while i < Health::COUNT {
        let health = Health::new(STATUSES[i % 4], OVERRIDES[i / 4 % 4]).with_exhausted(i >= 16);
        sets[health.bits() as usize] = match health.eligibility() {
            Eligibility::Up | Eligibility::Unknown => LIVE,
            Eligibility::Exhausted => EXHAUSTED,
            Eligibility::Pending => PENDING,
            Eligibility::Down => DOWN,
            Eligibility::Out => OUT,
        };
        i += 1;
    }
    sets
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn override_wins_and_unknown_counts_as_up() {
        assert_eq!(eligibility(Health::PENDING), PENDING);
        assert_eq!(eligibility(Health::new(HealthStatus::Unknown, None)), LIVE);
        assert_eq!(eligibility(Health::new(HealthStatus::Down, None)), DOWN);
        assert_eq!(eligibility(Health::new(HealthStatus::Down, Some(OverrideAction::Up))), LIVE);
        assert_eq!(eligibility(Health::new(HealthStatus::Up, Some(OverrideAction::Down))), OUT);
        assert_eq!(eligibility(Health::new(HealthStatus::Up, Some(OverrideAction::Drain))), OUT);
        assert_eq!(eligibility(Health::new(HealthStatus::Up, None).with_exhausted(true)), EXHAUSTED);
    }

    #[test]
    fn is_live_agrees_with_eligibility() {
        for status in [HealthStatus::Pending, HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown] {
            for force in [None, Some(OverrideAction::Up), Some(OverrideAction::Down), Some(OverrideAction::Drain)] {
                for health in [false, true].map(|is_exhausted| Health::new(status, force).with_exhausted(is_exhausted))
                {
                    assert_eq!(is_live(health), eligibility(health) == LIVE, "{health:?}");
                }
            }
        }
    }
}
