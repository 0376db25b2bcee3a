//! Eligibility of targets as bit sets, so that several targets are combined with one `or`.

use fairway_model::{Eligibility, Health, HealthStatus, OverrideAction};

/// A set of eligibilities: of some addresses, or those that a stage admits.
pub(crate) type EligibilitySet = u8;

/// Up or unknown.
pub(crate) const LIVE: EligibilitySet = 1;
/// Never evaluated.
pub(crate) const PENDING: EligibilitySet = 2;
/// Down by its probes.
pub(crate) const DOWN: EligibilitySet = 4;
/// Down or drained by an override: never answered.
pub(crate) const OUT: EligibilitySet = 8;
/// Everything but `OUT`.
pub(crate) const NOT_OUT: EligibilitySet = LIVE | PENDING | DOWN;

/// Returns the eligibility of one target.
#[inline]
pub(crate) const fn eligibility(health: Health) -> EligibilitySet {
    (NIBBLES >> (4 * health.bits()) & 15) as EligibilitySet
}

/// True if a target is [`LIVE`].
#[inline]
pub(crate) const fn is_live(health: Health) -> bool {
    LIVES >> health.bits() & 1 == 1
}

/// One bit for each of the 16 health bytes, set for those that are [`LIVE`].
const LIVES: u32 = {
    let (mut lives, mut i) = (0, 0);
    while i < 16 {
        lives |= ((NIBBLES >> (4 * i) & 15 == LIVE as u64) as u32) << i;
        i += 1;
    }
    lives
};

/// Four bits for each of the 16 health bytes: one shift instead of a tree of branches.
const NIBBLES: u64 = {
    const STATUSES: [HealthStatus; 4] =
        [HealthStatus::Pending, HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown];
    const OVERRIDES: [Option<OverrideAction>; 4] =
        [None, Some(OverrideAction::Up), Some(OverrideAction::Down), Some(OverrideAction::Drain)];
    let mut nibbles = 0;
    let mut i = 0;
    while i < 16 {
        let health = Health::new(STATUSES[i % 4], OVERRIDES[i / 4]);
        let eligibility = match health.eligibility() {
            Eligibility::Up | Eligibility::Unknown => LIVE,
            Eligibility::Pending => PENDING,
            Eligibility::Down => DOWN,
            Eligibility::Out => OUT,
        };
        nibbles |= (eligibility as u64) << (4 * health.bits());
        i += 1;
    }
    nibbles
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
    }

    #[test]
    fn is_live_agrees_with_eligibility() {
        for status in [HealthStatus::Pending, HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown] {
            for force in [None, Some(OverrideAction::Up), Some(OverrideAction::Down), Some(OverrideAction::Drain)] {
                let health = Health::new(status, force);
                assert_eq!(is_live(health), eligibility(health) == LIVE, "{status:?} {force:?}");
            }
        }
    }
}
