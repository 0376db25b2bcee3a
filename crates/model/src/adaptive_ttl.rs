//! TTLs that follow how likely answers are to change soon.

use crate::Ttl;

/// The bounds within which a pool's TTL goes by risk: `short` ≤ the pool's own ≤ `long`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TtlBounds {
    /// While something is at risk.
    pub short: Ttl,
    /// While nothing has been for long.
    pub long: Ttl,
}

/// Which TTL a pool answers with now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AdaptiveTtl {
    /// Its own.
    #[default]
    Declared,
    /// The long one: nothing was at risk for long.
    Calm,
    /// The short one.
    Risky(Risk),
}

/// Why answers may have to change soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// A cluster is being taken out, or its gateways are exhausted.
    Drain,
    /// A member is down.
    Down,
    /// A cluster is over its target, or does not tell its load.
    Load,
    /// A member opens or closes soon by its schedule.
    ScheduleTransition,
    /// One of these was so a short while ago.
    Recent,
}

impl AdaptiveTtl {
    /// The TTL of this pace, of a pool with this TTL of its own.
    pub fn ttl(self, own: Ttl, bounds: TtlBounds) -> Ttl {
        match self {
            Self::Declared => own,
            Self::Calm => bounds.long,
            Self::Risky(_) => bounds.short,
        }
    }

    /// Why, for people.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Declared => "as declared",
            Self::Calm => "calm",
            Self::Risky(Risk::Drain) => "risky: a cluster is being drained",
            Self::Risky(Risk::Down) => "risky: a member is down",
            Self::Risky(Risk::Load) => "risky: load above target, or not told",
            Self::Risky(Risk::ScheduleTransition) => "risky: a member opens or closes soon",
            Self::Risky(Risk::Recent) => "risky: a member was down, drained or overloaded, or turned, lately",
        }
    }
}
