//! Findings in Kubernetes clusters: names that their objects expose, addresses of their ingress gateways, and ready endpoints.
//!
//! ```text
//! kubeconfig ─► connect ─► a watch per kind ─► graph ─► names whose exposures changed ─► rows ─► control: incremental reload
//!                              │ fails                                                    │
//!                              └─► status; what was read stays                            └─► `kubernetes.json`, for the next start
//! ```
//! Each cluster has a task of its own, and fails alone. `graph.rs`, `rows.rs` and `found.rs` decide; they are pure.
//!
//! Two parts write to a cluster: `dnsendpoints.rs` the objects of publishers with `cluster`, and `events.rs` Events about refused names, if the
//! cluster has `events: true`.
#![forbid(unsafe_code)]

mod cluster;
mod connect;
mod connection;
mod crd;
mod dnsendpoints;
mod events;
mod found;
mod graph;
mod holds;
mod objects;
mod rbac;
mod rows;
mod saved_wire;
mod splits;
mod status;
mod task;
mod watch;
mod weights;

pub use self::{
    connect::kubeconfig_error,
    dnsendpoints::{ClusterDnsEndpoints, process_identity},
    found::{Found, FoundCluster, FoundName, FoundRow, HeldNames, add_addresses, changed_names, owned_rows},
    holds::TargetHealth,
    objects::{Kind, ObjectKey},
    rbac::{ServiceAccount, ServiceAccountError},
    splits::{Place, Split, SplitPart},
    status::{KindStatus, SourceProblem, SourceStatus},
    task::Sources,
    watch::WatchState,
    weights::{
        PoolWeights, SplitProblem, WeighedPools, Weighing, WeightFactors, log_endpoints, ready_endpoints, weigh_members,
    },
};
