//! Status of the source that a cluster is.

use std::sync::Arc;

use fairway_model::Timestamp;

use crate::{
    graph::Problem,
    objects::{Kind, ObjectKey},
    watch::WatchState,
};

/// Status of the source that a cluster is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceStatus {
    /// Reason why the cluster cannot be read; `None`: it is read.
    pub failure: Option<Arc<str>>,
    /// Time since when it, or a kind, cannot be read; `None`: all is read.
    pub failing_since: Option<Timestamp>,
    /// Time of the last publication of what was read; `None`: nothing was read by this process.
    pub read_at: Option<Timestamp>,
    /// Its ingress gateway.
    pub gateway: Option<ObjectKey>,
    /// All gateways with addresses, as `Kind namespace/name`.
    pub gateways: Vec<String>,
    /// Each kind of objects.
    pub kinds: Vec<KindStatus>,
    /// Memory of what is kept of the objects, in bytes, as estimated.
    pub objects_bytes: usize,
    /// Number of names within the zones of this server.
    pub names: usize,
    /// Number of these names that are held: their objects are gone, and that looks like a mistake.
    pub held_names: usize,
    /// Number of names outside of them, which are not answered.
    pub names_outside: usize,
    /// Number of changes of objects that were left out, since there are too many.
    pub left_out: usize,
    /// Problems of its objects, the first hundred.
    pub problems: Vec<SourceProblem>,
}

/// Status of the watch of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindStatus {
    /// The kind.
    pub kind: Kind,
    /// State of the watch.
    pub state: WatchState,
    /// Number of objects.
    pub objects: usize,
}

/// A problem of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceProblem {
    /// The object, as `Kind namespace/name`.
    pub object: String,
    /// The problem.
    pub message: String,
}

impl From<Problem> for SourceProblem {
    fn from(Problem { object, message }: Problem) -> Self {
        Self { object: object.to_string(), message: message.to_string() }
    }
}
