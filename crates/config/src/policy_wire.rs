//! A pool's policy as it stands in a file: one word, or a list of steps in order.

use schemars::JsonSchema;
use serde::Deserialize;

use super::bounds_wire::List;

/// How a pool chooses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, title = "weighted, failover, or a list of steps like [geo, nearest, load, weighted]")]
pub(super) enum Policy {
    /// One step; a ranking alone shares by weight among those that rank equal.
    Word(Step),
    /// Several.
    Steps(List<Step, 1, 8>),
}

/// One step of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum Step {
    /// Ranks by cost.
    Cost,
    /// As the last step: the first in declared order is taken. Before others: the same as `tier`.
    Failover,
    /// Ranks by a map of places.
    Geo,
    /// Ranks by measured latency.
    Latency,
    /// Members take their share only.
    Load,
    /// Ranks by distance.
    Nearest,
    /// Members take part in their windows only.
    Schedule,
    /// As `weighted`, with each client kept where it is: what `spread: client` says.
    Sticky,
    /// Ranks by tier.
    Tier,
    /// Shares by weight.
    Weighted,
}
