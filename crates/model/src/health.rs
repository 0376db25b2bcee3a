//! Health of a target: the verdict of its probes, and what an operator says over it.

use std::{fmt, str::FromStr};

/// What probes say about a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthStatus {
    /// Never judged: not answered while a judged member is up.
    Pending,
    /// Passes its check.
    Up,
    /// Fails its check.
    Down,
    /// Judged once, evidence now stale: keeps its weight, is the last to be dropped.
    Unknown,
}

/// What an operator says over the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OverrideAction {
    /// Answered whatever its probes say.
    Up,
    /// Not answered whatever its probes say, also when everything is down.
    Down,
    /// Not answered any more, for planned work: leaves like `Down`, meant to come back.
    Drain,
}

/// How a target counts when members are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Eligibility {
    /// Up, by its probes or by force.
    Up,
    /// Its evidence is stale; counts like up.
    Unknown,
    /// Never judged.
    Pending,
    /// Down by its probes; may be answered when everything is.
    Down,
    /// Out by force; never answered.
    Out,
}

/// Verdict and force of one target in one byte, as the answer path reads it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Health(u8);

impl Health {
    /// Never judged, not forced.
    pub const PENDING: Self = Self::new(HealthStatus::Pending, None);

    /// Joins both.
    pub const fn new(status: HealthStatus, forced: Option<OverrideAction>) -> Self {
        let status = match status {
            HealthStatus::Pending => 0,
            HealthStatus::Up => 1,
            HealthStatus::Down => 2,
            HealthStatus::Unknown => 3,
        };
        let forced = match forced {
            None => 0,
            Some(OverrideAction::Up) => 1,
            Some(OverrideAction::Down) => 2,
            Some(OverrideAction::Drain) => 3,
        };
        Self(forced << 2 | status)
    }

    /// What the probes say.
    pub const fn status(self) -> HealthStatus {
        match self.0 & 3 {
            0 => HealthStatus::Pending,
            1 => HealthStatus::Up,
            2 => HealthStatus::Down,
            _ => HealthStatus::Unknown,
        }
    }

    /// What an operator says over it.
    pub const fn override_action(self) -> Option<OverrideAction> {
        match self.0 >> 2 {
            0 => None,
            1 => Some(OverrideAction::Up),
            2 => Some(OverrideAction::Down),
            _ => Some(OverrideAction::Drain),
        }
    }

    /// How it counts.
    pub const fn eligibility(self) -> Eligibility {
        match (self.override_action(), self.status()) {
            (Some(OverrideAction::Down | OverrideAction::Drain), _) => Eligibility::Out,
            (Some(OverrideAction::Up), _) | (None, HealthStatus::Up) => Eligibility::Up,
            (None, HealthStatus::Unknown) => Eligibility::Unknown,
            (None, HealthStatus::Pending) => Eligibility::Pending,
            (None, HealthStatus::Down) => Eligibility::Down,
        }
    }

    /// The byte itself, for ids and digests.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.override_action() {
            None => write!(f, "{:?}", self.status()),
            Some(forced) => write!(f, "{:?} forced {forced:?}", self.status()),
        }
    }
}

/// What one probe showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The check passed.
    Pass,
    /// The check failed.
    Fail(Cause),
    /// The observer could not tell: it was late itself, or had no socket. No evidence either way.
    Inconclusive(Cause),
}

/// Why a probe failed or could not tell, for people: history, logs, explain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause(pub String);

impl Cause {
    /// A cause, in a few words: `connection refused`, `status 503`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for HealthStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Up => "up",
            Self::Down => "down",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for OverrideAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Drain => "drain",
        })
    }
}

/// A text that no operator's word is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} forces nothing; write up, down or drain")]
pub struct OverrideActionError(String);

impl FromStr for OverrideAction {
    type Err = OverrideActionError;

    /// Reads `up`, `down` or `drain`.
    fn from_str(text: &str) -> Result<Self, OverrideActionError> {
        let known = [Self::Up, Self::Down, Self::Drain].into_iter().find(|f| f.to_string() == text);
        known.ok_or_else(|| OverrideActionError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_survive_the_byte() {
        for status in [HealthStatus::Pending, HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown] {
            for forced in [None, Some(OverrideAction::Up), Some(OverrideAction::Down), Some(OverrideAction::Drain)] {
                let health = Health::new(status, forced);
                assert_eq!((health.status(), health.override_action()), (status, forced));
            }
        }
    }

    #[test]
    fn force_wins_over_the_verdict() {
        assert_eq!(Health::new(HealthStatus::Up, Some(OverrideAction::Drain)).eligibility(), Eligibility::Out);
        assert_eq!(Health::new(HealthStatus::Down, Some(OverrideAction::Up)).eligibility(), Eligibility::Up);
    }
}
