//! Steering policies: how a pool chooses a member, in a few steps.

use serde::{Deserialize, Serialize};

use std::{fmt, time::Duration};

/// A steering policy: schedules exclude members, rankings order the rest for the client's location, load may pass some
/// clients on, and one of the members with equal rank is selected.
///
/// Members with equal rank in every ranking are a *group*. A client gets a member of the first group with an eligible one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Policy {
    /// True if members take part only while their [`crate::Schedule`] is open.
    pub schedule: bool,
    /// The rankings, most significant first. [`Rank::Tier`] precedes all of them unless it is listed.
    pub ranks: Vec<Rank>,
    /// True if members take only the share that [`crate::Shares`] gives them, and pass other clients on.
    pub load: bool,
    /// The selection within a group.
    pub selection: Selection,
}

impl Policy {
    /// By tier; within the tier in use by weight, with a weighted rendezvous hash of the client's network.
    pub const WEIGHTED: Self = Self { schedule: false, ranks: Vec::new(), load: false, selection: Selection::Weighted };
    /// The first eligible member by tier, then by declared order; the same for every client.
    pub const FAILOVER: Self = Self { schedule: false, ranks: Vec::new(), load: false, selection: Selection::First };

    /// Returns all rankings in order, including the one by tier.
    pub fn rankings(&self) -> impl Iterator<Item = Rank> + '_ {
        let tier = (!self.ranks.contains(&Rank::Tier)).then_some(Rank::Tier);
        tier.into_iter().chain(self.ranks.iter().copied())
    }

    /// Returns the rankings that depend on the client's location, in order.
    pub fn location_rankings(&self) -> impl Iterator<Item = Rank> + '_ {
        self.ranks.iter().copied().filter(|rank| rank.is_by_location())
    }
}

impl fmt::Display for Policy {
    /// Writes the configuration's form: `weighted`, or `geo, nearest, load, weighted`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.schedule {
            f.write_str("schedule, ")?;
        }
        for rank in &self.ranks {
            write!(f, "{rank}, ")?;
        }
        write!(f, "{}{}", if self.load { "load, " } else { "" }, self.selection)
    }
}

/// A ranking of a pool's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, Serialize, Deserialize)]
#[strum(serialize_all = "lowercase")]
pub enum Rank {
    /// By declared tier, 1 first.
    Tier,
    /// By the regions that the client's location prefers.
    Geo,
    /// By distance from the client's coordinates, with the bias of each member.
    Nearest,
    /// By measured latency from the client's network.
    Latency {
        /// Members at most this much slower than the fastest one have equal rank.
        tolerance: Duration,
    },
    /// By declared cost, lowest first.
    Cost,
}

impl Rank {
    /// Returns true if it depends on the client's location.
    pub fn is_by_location(self) -> bool {
        match self {
            Self::Geo | Self::Nearest | Self::Latency { .. } => true,
            Self::Tier | Self::Cost => false,
        }
    }
}

/// The selection among members with equal rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display, Serialize, Deserialize)]
#[strum(serialize_all = "lowercase")]
pub enum Selection {
    /// The first in declared order.
    #[strum(serialize = "failover")]
    First,
    /// By weight.
    Weighted,
}

impl Selection {
    /// Returns true if it depends on the client, or on the draw of the query.
    #[inline]
    pub const fn is_by_client(self) -> bool {
        match self {
            Self::First => false,
            Self::Weighted => true,
        }
    }

    /// Returns true if it selects the first candidate in order, at which a search can end.
    #[inline]
    pub const fn is_in_order(self) -> bool {
        match self {
            Self::First => true,
            Self::Weighted => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tier_ranks_first_unless_listed() {
        let policy = |ranks: &[Rank]| Policy { ranks: ranks.to_vec(), ..Policy::WEIGHTED };
        let order = |ranks: &[Rank]| policy(ranks).rankings().collect::<Vec<_>>();
        assert_eq!(order(&[]), [Rank::Tier]);
        assert_eq!(order(&[Rank::Geo, Rank::Cost]), [Rank::Tier, Rank::Geo, Rank::Cost]);
        assert_eq!(order(&[Rank::Geo, Rank::Tier]), [Rank::Geo, Rank::Tier]);
        assert_eq!(policy(&[Rank::Cost, Rank::Nearest]).location_rankings().collect::<Vec<_>>(), [Rank::Nearest]);
    }

    #[test]
    fn policy_displays_as_in_the_configuration() {
        assert_eq!(Policy::WEIGHTED.to_string(), "weighted");
        assert_eq!(Policy::FAILOVER.to_string(), "failover");
        let all = Policy {
            schedule: true,
            ranks: vec![Rank::Geo, Rank::Latency { tolerance: Duration::from_millis(5) }],
            load: true,
            ..Policy::WEIGHTED
        };
        assert_eq!(all.to_string(), "schedule, geo, latency, load, weighted");
    }
}
