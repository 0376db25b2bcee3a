//! What is configured, compiled for answering.

use fairway_model::{Desired, Fault, Target};

use crate::{steer::SteerPool, text::ZoneData};

/// Answers to `hostname.bind` and `id.server` and to NSID (RFC 4892, RFC 5001), and `version.bind`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    /// Text of `version.bind` and `version.server`; none refuses them.
    pub version: Option<String>,
    /// Text of `hostname.bind`, `id.server`, and NSID; none refuses them and leaves NSID out.
    pub id: Option<String>,
}

/// One counter of answers: a cluster in a pool. Slots keep their number over reloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The pool.
    pub pool: fairway_model::PoolName,
    /// The cluster answered.
    pub cluster: fairway_model::ClusterName,
}

/// What is configured, compiled.
#[derive(Debug)]
pub struct Snapshot {
    targets: Vec<Target>,
    steer_pools: Vec<SteerPool>,
}

impl Snapshot {
    /// Every target that members are judged by, in the order of their index.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Every pool, compiled for choosing.
    pub fn steer_pools(&self) -> &[SteerPool] {
        &self.steer_pools
    }
}

/// Compiles a wish and its zones. All faults come together, and nothing is compiled if one is an error.
pub fn compile(
    desired: &Desired,
    zones: &[ZoneData],
    identity: &ServerIdentity,
    previous: Option<&Snapshot>,
) -> Result<Snapshot, Vec<Fault>> {
    let _ = (desired, zones, identity, previous);
    Ok(Snapshot { targets: vec![], steer_pools: vec![] })
}
