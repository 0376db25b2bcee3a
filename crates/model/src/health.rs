//! Health of a target: the status that its probes show, and an operator's override of it.

use std::fmt;

/// The health status of a target, as evaluated from its probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum HealthStatus {
    /// Never evaluated: not answered while an evaluated member is up.
    Pending,
    /// Passes its check.
    Up,
    /// Fails its check.
    Down,
    /// Evaluated once, evidence now stale: keeps its weight and is the last to be dropped.
    Unknown,
}

/// The status that an override gives a target, whatever its probes show.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::EnumString, strum::IntoStaticStr,
)]
#[strum(serialize_all = "lowercase", parse_err_ty = OverrideActionError, parse_err_fn = not_an_action)]
pub enum OverrideAction {
    /// Answered.
    Up,
    /// Not answered, even if every member is down.
    Down,
    /// Not answered, for planned work: has the effect of `Down`, and is expected to come back.
    Drain,
}

impl OverrideAction {
    /// Returns its rank where several overrides match; the lowest takes precedence.
    pub const fn rank(self) -> u8 {
        match self {
            Self::Down => 0,
            Self::Drain => 1,
            Self::Up => 2,
        }
    }
}

/// The eligibility of a target when members are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "camelCase")]
pub enum Eligibility {
    /// Up, by its probes or an override.
    Up,
    /// Stale evidence; counts like up.
    Unknown,
    /// Up or unknown, but the gateways of its cluster drain or are overloaded; answered only if every member that is up is so.
    Exhausted,
    /// Never evaluated.
    Pending,
    /// Down by its probes; may be answered if every member is down.
    Down,
    /// Removed by an override; never answered.
    Out,
}

/// Status, override and exhaustion of one target in one byte, as the answer path reads it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Health(u8);

impl Health {
    /// Number of values.
    pub const COUNT: usize = 32;
    /// Never evaluated, without an override.
    pub const PENDING: Self = Self::new(HealthStatus::Pending, None);

    /// Combines a status and an override. The target is not exhausted.
    pub const fn new(status: HealthStatus, action: Option<OverrideAction>) -> Self {
        let action = match action {
            None => 0,
            Some(action) => action as u8 + 1,
        };
        Self(action << 2 | status as u8)
    }

    /// Returns the same with another status.
    pub const fn with_status(self, status: HealthStatus) -> Self {
        Self(self.0 & !3 | status as u8)
    }

    /// Returns the same with another override.
    pub const fn with_override(self, action: Option<OverrideAction>) -> Self {
        Self(Self::new(self.status(), action).0 | self.0 & EXHAUSTED)
    }

    /// Returns the same, exhausted or not.
    pub const fn with_exhausted(self, is_exhausted: bool) -> Self {
        Self(if is_exhausted { self.0 | EXHAUSTED } else { self.0 & !EXHAUSTED })
    }

    /// Returns true if the gateways of the target's cluster drain or are overloaded.
    pub const fn is_exhausted(self) -> bool {
        self.0 & EXHAUSTED != 0
    }

    /// Returns the status that the probes show.
    pub const fn status(self) -> HealthStatus {
        match self.0 & 3 {
            0 => HealthStatus::Pending,
            1 => HealthStatus::Up,
            2 => HealthStatus::Down,
            _ => HealthStatus::Unknown,
        }
    }

    /// Returns the override's action; `None` without an override.
    pub const fn override_action(self) -> Option<OverrideAction> {
        match self.0 >> 2 & 3 {
            0 => None,
            1 => Some(OverrideAction::Up),
            2 => Some(OverrideAction::Down),
            _ => Some(OverrideAction::Drain),
        }
    }

    /// Returns the eligibility that status, override and exhaustion give. An override to `up` also ends exhaustion.
    pub const fn eligibility(self) -> Eligibility {
        match (self.override_action(), self.status()) {
            (Some(OverrideAction::Down | OverrideAction::Drain), _) => Eligibility::Out,
            (Some(OverrideAction::Up), _) => Eligibility::Up,
            (None, HealthStatus::Up) if !self.is_exhausted() => Eligibility::Up,
            (None, HealthStatus::Unknown) if !self.is_exhausted() => Eligibility::Unknown,
            (None, HealthStatus::Up | HealthStatus::Unknown) => Eligibility::Exhausted,
            (None, HealthStatus::Pending) => Eligibility::Pending,
            (None, HealthStatus::Down) => Eligibility::Down,
        }
    }

    /// Returns the byte itself, below [`Health::COUNT`], for tables, ids and digests.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// Bit of an exhausted target.
const EXHAUSTED: u8 = 16;

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exhausted = if self.is_exhausted() { " exhausted" } else { "" };
        match self.override_action() {
            None => write!(f, "{:?}{exhausted}", self.status()),
            Some(action) => write!(f, "{:?}{exhausted} overridden {action:?}", self.status()),
        }
    }
}

/// The outcome of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The check passed.
    Pass,
    /// The check failed.
    Fail(Cause),
    /// The probe host could not tell, because it was stalled or had no socket. Counts neither way.
    Inconclusive(Cause),
}

/// The cause of a failed or inconclusive probe, for people: history, logs, explain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause(pub String);

impl Cause {
    /// Returns a cause, in a few words: `connection refused`, `status 503`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is not an override action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an override action; write up, down or drain")]
pub struct OverrideActionError(String);

fn not_an_action(text: &str) -> OverrideActionError {
    OverrideActionError(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_override_are_read_back() {
        for status in [HealthStatus::Pending, HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown] {
            for action in [None, Some(OverrideAction::Up), Some(OverrideAction::Down), Some(OverrideAction::Drain)] {
                let health = Health::new(status, action);
                assert_eq!((health.status(), health.override_action()), (status, action));
                let exhausted = health.with_exhausted(true);
                assert_eq!((exhausted.status(), exhausted.override_action()), (status, action));
                assert!(exhausted.is_exhausted() && usize::from(exhausted.bits()) < Health::COUNT);
                assert_eq!(Health::PENDING.with_exhausted(true).with_status(status).with_override(action), exhausted);
                assert_eq!(exhausted.with_exhausted(false), health);
            }
        }
    }

    #[test]
    fn words_of_actions_are_parsed() {
        for (word, action) in
            [("up", OverrideAction::Up), ("down", OverrideAction::Down), ("drain", OverrideAction::Drain)]
        {
            assert_eq!((word.parse(), action.to_string().as_str()), (Ok(action), word));
        }
        let error = "Up".parse::<OverrideAction>().unwrap_err().to_string();
        assert_eq!(error, "\"Up\" is not an override action; write up, down or drain");
    }

    #[test]
    fn exhausted_target_is_exhausted_only_if_its_probes_pass_and_nothing_overrides_it() {
        let eligibility = |status, action| Health::new(status, action).with_exhausted(true).eligibility();
        assert_eq!(eligibility(HealthStatus::Up, None), Eligibility::Exhausted);
        assert_eq!(eligibility(HealthStatus::Unknown, None), Eligibility::Exhausted);
        assert_eq!(eligibility(HealthStatus::Pending, None), Eligibility::Pending);
        assert_eq!(eligibility(HealthStatus::Down, None), Eligibility::Down);
        assert_eq!(eligibility(HealthStatus::Up, Some(OverrideAction::Up)), Eligibility::Up);
        assert_eq!(eligibility(HealthStatus::Up, Some(OverrideAction::Drain)), Eligibility::Out);
    }

    #[test]
    fn override_takes_precedence_over_status() {
        assert_eq!(Health::new(HealthStatus::Up, Some(OverrideAction::Drain)).eligibility(), Eligibility::Out);
        assert_eq!(Health::new(HealthStatus::Down, Some(OverrideAction::Up)).eligibility(), Eligibility::Up);
    }
}
