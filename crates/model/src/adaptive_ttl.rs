//! Adaptive TTLs: shorter while answers are likely to change soon, longer after a calm time.

use serde::{Deserialize, Serialize};

use crate::Ttl;

/// The range of a pool's adaptive TTL: `short` ≤ the declared TTL ≤ `long`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TtlBounds {
    /// TTL while there is a [`Risk`].
    pub short: Ttl,
    /// TTL after a long time without a risk.
    pub long: Ttl,
}

/// The TTL that a pool answers with now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AdaptiveTtl {
    /// The declared TTL.
    #[default]
    Declared,
    /// The long TTL: there was no risk for a long time.
    Calm,
    /// The short TTL, because of this risk.
    Risky(Risk),
}

/// The reason why answers may have to change soon; of several, the first in this order is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Risk {
    /// A cluster is being drained, or its gateways are exhausted.
    Drain,
    /// A member is down.
    Down,
    /// A cluster is over its load target, or its load is unknown.
    Load,
    /// A member's schedule opens or closes it soon.
    ScheduleTransition,
    /// One of these ended a short while ago.
    Recent,
}

impl AdaptiveTtl {
    /// Returns the TTL in effect, for a pool with this declared TTL.
    pub fn ttl(self, declared: Ttl, bounds: TtlBounds) -> Ttl {
        match self {
            Self::Declared => declared,
            Self::Calm => bounds.long,
            Self::Risky(_) => bounds.short,
        }
    }

    /// Returns the reason as text, for status and explanations.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Declared => "as declared",
            Self::Calm => "calm",
            Self::Risky(Risk::Drain) => "risky: a cluster is being drained",
            Self::Risky(Risk::Down) => "risky: a member is down",
            Self::Risky(Risk::Load) => "risky: load above target or unknown",
            Self::Risky(Risk::ScheduleTransition) => "risky: a member opens or closes soon",
            Self::Risky(Risk::Recent) => {
                "risky: a member was down, drained, overloaded, opened or closed a short while ago"
            }
        }
    }
}
