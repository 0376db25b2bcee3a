//! Kubernetes clusters in the state of the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The Kubernetes API of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KubernetesState {
    /// Reason why it cannot be read; null while it is read. What was read before stays in use.
    pub failure: Option<String>,
    /// Time since when it, or a kind of objects, cannot be read; null while all is read.
    pub failing_since: Option<String>,
    /// Time of the last change that was read; null if nothing was read since the start.
    pub read_at: Option<String>,
    /// Ingress gateway, as kind, namespace and name; null if none was found.
    pub gateway: Option<String>,
    /// All gateways with addresses.
    pub gateways: Vec<String>,
    /// Number of ready pods of the ingress gateway; 0 if they are not known.
    pub gateway_pods: usize,
    /// True if the pods cannot be reached, so that the load is read from the addresses of the cluster.
    pub pods_unreachable: bool,
    /// Reason why the gateways have no statistics of services; null if they have.
    pub no_service_statistics: Option<String>,
    /// Number of names in the zones of this server that its objects expose.
    pub names: usize,
    /// Number of names in other zones, which are not answered.
    pub names_outside: usize,
    /// Kinds of objects.
    pub kinds: Vec<KindState>,
    /// Memory of what is kept of the objects, in bytes, as estimated. At most 256 MiB: changes beyond are left out, with a problem.
    pub objects_bytes: usize,
    /// Problems of its objects, the first hundred.
    pub problems: Vec<ObjectProblem>,
}

/// A service of a member: a backend of its names in the Kubernetes cluster, with the statistics of the gateways.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceState {
    /// Namespace and name.
    pub service: String,
    /// Endpoints that the gateways use; null if it is not known.
    pub healthy: Option<u64>,
    /// Endpoints that the gateways know; null if it is not known.
    pub endpoints: Option<u64>,
    /// Requests in flight from the gateways; null if it is not known.
    pub active: Option<u64>,
    /// Age of these figures in milliseconds; null without any.
    pub age_ms: Option<u64>,
}

/// Load of the services of a member together, in a pool with `capacityPerPod`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceLoadState {
    /// Requests in flight that the ready endpoints carry.
    pub capacity: u64,
    /// Requests in flight from the gateways, in percent of the capacity; null if it is not known.
    pub load: Option<f64>,
    /// Part of the pool's demand that load control sends to the cluster, in percent; null if it decides nothing.
    pub share: Option<f64>,
}

/// Factors of the weight of a member: the product, scaled to at most 65,535, is the weight. That of a webhook client is also multiplied by
/// the factor of its lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightFactors {
    /// Weight as it is declared.
    pub base: u64,
    /// Declaration that has it, the first of these: `intent`, `pool`, `webhook` (the property or annotation `webhook-gslb-weight`), `split` (an
    /// object of a Kubernetes cluster), `default`.
    pub from: String,
    /// The object of a split, with its cluster: `eu1: TrafficSplit shop/web`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Ready endpoints, in a pool that multiplies by them; if they are not known, the average of the other members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<u64>,
}

impl WeightFactors {
    /// Returns the factors in a few words; `None` if there is nothing to explain: `75 of eu1: TrafficSplit shop/web × 3 pods`.
    pub fn text(&self) -> Option<String> {
        let base = self.object.as_ref().map(|object| format!("{} of {object}", self.base));
        match self.pods {
            Some(pods) => Some(format!("{} × {pods} pods", base.unwrap_or_else(|| self.base.to_string()))),
            None => base,
        }
    }
}

/// A kind of objects in a Kubernetes cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KindState {
    /// The kind.
    pub kind: String,
    /// State of its watch: `listing`, `watching`, `notInstalled`, `denied` or `failing`.
    pub state: String,
    /// Reason why it is denied or fails; null otherwise.
    pub why: Option<String>,
    /// Number of objects.
    pub objects: usize,
}

/// A problem of an object in a Kubernetes cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectProblem {
    /// The object, as kind, namespace and name.
    pub object: String,
    /// The problem.
    pub message: String,
}
