//! How a pool chooses, as a few steps in order.

use std::{fmt, time::Duration};

/// How a pool chooses: its members take part always or in their windows, rankings put them in order for a client's place, load may pass some clients on, and of
/// members that rank equal one is taken.
///
/// Members of equal rank in every ranking are a *group*. A client gets a member of the first group that has one which can
/// be answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Whether members take part in the windows of their [`crate::Schedule`] only.
    pub schedule: bool,
    /// The rankings, the first one first. [`Rank::Tier`] goes before all of them where it is not among them.
    pub ranks: Vec<Rank>,
    /// Whether members take only what [`crate::Shares`] says, and the rest of their clients goes on.
    pub load: bool,
    /// Who of a group is taken.
    pub choose: Selection,
}

impl Policy {
    /// By tier; shares by weight within the tier in use, by weighted rendezvous hash of the client's network.
    pub const WEIGHTED: Self = Self { schedule: false, ranks: Vec::new(), load: false, choose: Selection::Weighted };
    /// The first live member by tier, then by declared order. The same for every client.
    pub const FAILOVER: Self = Self { schedule: false, ranks: Vec::new(), load: false, choose: Selection::First };

    /// Every ranking in order, with that by tier.
    pub fn rankings(&self) -> impl Iterator<Item = Rank> + '_ {
        let tier = (!self.ranks.contains(&Rank::Tier)).then_some(Rank::Tier);
        tier.into_iter().chain(self.ranks.iter().copied())
    }

    /// The rankings that go by the client's place, in order.
    pub fn places(&self) -> impl Iterator<Item = Rank> + '_ {
        self.ranks.iter().copied().filter(|rank| rank.is_by_place())
    }
}

impl fmt::Display for Policy {
    /// The words of the configuration: `weighted`, or `geo, nearest, load, weighted`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.schedule {
            f.write_str("schedule, ")?;
        }
        for rank in &self.ranks {
            write!(f, "{rank}, ")?;
        }
        write!(f, "{}{}", if self.load { "load, " } else { "" }, self.choose)
    }
}

/// One order of a pool's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// By declared tier, 1 first.
    Tier,
    /// By a map from the client's place to members, or regions, in order of preference.
    Geo,
    /// By distance from the client's coordinates, with the bias of each member.
    Nearest,
    /// By measured latency from the client's network.
    Latency {
        /// Members that are slower than the best of them by no more than this rank equal.
        tolerance: Duration,
    },
    /// By declared cost, the lowest first.
    Cost,
}

impl Rank {
    /// Whether it depends on where the client is.
    pub fn is_by_place(self) -> bool {
        matches!(self, Self::Geo | Self::Nearest | Self::Latency { .. })
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tier => "tier",
            Self::Geo => "geo",
            Self::Nearest => "nearest",
            Self::Latency { .. } => "latency",
            Self::Cost => "cost",
        })
    }
}

/// Who of equals is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// The first in declared order.
    First,
    /// By weight.
    Weighted,
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "failover",
            Self::Weighted => "weighted",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tier_goes_first_unless_it_is_named() {
        let policy = |ranks: &[Rank]| Policy { ranks: ranks.to_vec(), ..Policy::WEIGHTED };
        let order = |ranks: &[Rank]| policy(ranks).rankings().collect::<Vec<_>>();
        assert_eq!(order(&[]), [Rank::Tier]);
        assert_eq!(order(&[Rank::Geo, Rank::Cost]), [Rank::Tier, Rank::Geo, Rank::Cost]);
        assert_eq!(order(&[Rank::Geo, Rank::Tier]), [Rank::Geo, Rank::Tier]);
        assert_eq!(policy(&[Rank::Cost, Rank::Nearest]).places().collect::<Vec<_>>(), [Rank::Nearest]);
    }

    #[test]
    fn a_policy_is_shown_in_the_words_of_the_configuration() {
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
