//! Health of a target: the verdict of its probes, and what an operator says over it.

use std::{fmt, str::FromStr};

/// What probes say about a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
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
pub enum Forced {
    /// Answered whatever its probes say.
    Up,
    /// Not answered whatever its probes say, also when everything is down.
    Down,
    /// Not answered any more, for planned work: leaves like `Down`, meant to come back.
    Drain,
}

/// How a target counts when members are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
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
    pub const PENDING: Self = Self::new(Verdict::Pending, None);

    /// Joins both.
    pub const fn new(verdict: Verdict, forced: Option<Forced>) -> Self {
        let verdict = match verdict {
            Verdict::Pending => 0,
            Verdict::Up => 1,
            Verdict::Down => 2,
            Verdict::Unknown => 3,
        };
        let forced = match forced {
            None => 0,
            Some(Forced::Up) => 1,
            Some(Forced::Down) => 2,
            Some(Forced::Drain) => 3,
        };
        Self(forced << 2 | verdict)
    }

    /// What the probes say.
    pub const fn verdict(self) -> Verdict {
        match self.0 & 3 {
            0 => Verdict::Pending,
            1 => Verdict::Up,
            2 => Verdict::Down,
            _ => Verdict::Unknown,
        }
    }

    /// What an operator says over it.
    pub const fn forced(self) -> Option<Forced> {
        match self.0 >> 2 {
            0 => None,
            1 => Some(Forced::Up),
            2 => Some(Forced::Down),
            _ => Some(Forced::Drain),
        }
    }

    /// How it counts.
    pub const fn standing(self) -> Standing {
        match (self.forced(), self.verdict()) {
            (Some(Forced::Down | Forced::Drain), _) => Standing::Out,
            (Some(Forced::Up), _) | (None, Verdict::Up) => Standing::Up,
            (None, Verdict::Unknown) => Standing::Unknown,
            (None, Verdict::Pending) => Standing::Pending,
            (None, Verdict::Down) => Standing::Down,
        }
    }

    /// The byte itself, for ids and digests.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.forced() {
            None => write!(f, "{:?}", self.verdict()),
            Some(forced) => write!(f, "{:?} forced {forced:?}", self.verdict()),
        }
    }
}

/// What one probe showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
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

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Up => "up",
            Self::Down => "down",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for Forced {
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
pub struct ForcedError(String);

impl FromStr for Forced {
    type Err = ForcedError;

    /// Reads `up`, `down` or `drain`.
    fn from_str(text: &str) -> Result<Self, ForcedError> {
        let known = [Self::Up, Self::Down, Self::Drain].into_iter().find(|f| f.to_string() == text);
        known.ok_or_else(|| ForcedError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_survive_the_byte() {
        for verdict in [Verdict::Pending, Verdict::Up, Verdict::Down, Verdict::Unknown] {
            for forced in [None, Some(Forced::Up), Some(Forced::Down), Some(Forced::Drain)] {
                let health = Health::new(verdict, forced);
                assert_eq!((health.verdict(), health.forced()), (verdict, forced));
            }
        }
    }

    #[test]
    fn force_wins_over_the_verdict() {
        assert_eq!(Health::new(Verdict::Up, Some(Forced::Drain)).standing(), Standing::Out);
        assert_eq!(Health::new(Verdict::Down, Some(Forced::Up)).standing(), Standing::Up);
    }
}
