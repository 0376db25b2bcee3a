//! Policy of a pool in the file: one word, or a list of steps in order.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, List, Plain, Word},
    words::Words,
};

/// Policy of a pool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, title = "weighted, failover, or a list of steps like [geo, nearest, load, weighted]")]
pub(super) enum Policy {
    /// One step. A ranking alone means shares by weight among members of equal rank.
    Word(Word<Step>),
    /// Several steps.
    Steps(List<Word<Step>, 1, 8>),
}

impl Policy {
    /// Returns its steps.
    pub(super) fn steps(&self) -> Vec<Step> {
        match self {
            Self::Word(As(step)) => vec![*step],
            Self::Steps(As(steps)) => steps.clone().plain(),
        }
    }
}

/// One step of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ranks by cost.
    Cost,
    /// As the last step: the first member in declared order. Before other steps: the same as `tier`.
    Failover,
    /// Ranks by the region of a map.
    Geo,
    /// Ranks by measured latency.
    Latency,
    /// Gives members at most their share of the load.
    Load,
    /// Ranks by distance.
    Nearest,
    /// Members take part in their windows only.
    Schedule,
    /// Like `weighted`, and each client keeps its member, as with `spread: client`.
    Sticky,
    /// Ranks by tier.
    Tier,
    /// Shares by weight.
    Weighted,
}

impl Words for Step {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("cost", Self::Cost),
        ("failover", Self::Failover),
        ("geo", Self::Geo),
        ("latency", Self::Latency),
        ("load", Self::Load),
        ("nearest", Self::Nearest),
        ("schedule", Self::Schedule),
        ("sticky", Self::Sticky),
        ("tier", Self::Tier),
        ("weighted", Self::Weighted),
    ];
}
