//! The Kubernetes API of a cluster.

use fairway_model::SecretKey;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, Int, Plain, Text},
    reason::Reason,
    values::TextValue,
};

/// The Kubernetes API of a cluster, which is read for names, addresses and ready endpoints.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Kubernetes {
    /// Kubeconfig. Default: that of the environment (`KUBECONFIG`, else `.kube/config` in the home folder).
    pub(super) kubeconfig: Option<Text<1, 4_096>>,
    /// Context of the kubeconfig. Default: its current context.
    pub(super) context: Option<Text<1, 253>>,
    /// True if the server runs in this cluster: the credentials of its Pod are used.
    #[schemars(extend("default" = false))]
    pub(super) in_cluster: Option<bool>,
    /// Secret with the kubeconfig of the cluster, read from the API that the keys above lead to. That kubeconfig may neither name
    /// files nor run commands.
    pub(super) secret_ref: Option<SecretRef>,
    /// Ingress gateway of the cluster, a Service or a Gateway. If the cluster lists no addresses, it has those of the gateway. Default:
    /// the Service with the label `istio: ingressgateway`, else the only gateway that is found.
    pub(super) gateway: Option<As<NamespacedName>>,
    /// Load that each ready pod of the gateway can carry, in the unit of the load. The capacity of the cluster is this times the number of
    /// ready pods, unless `capacity` is given.
    pub(super) capacity_per_pod: Option<Int<u64, 1, 9_007_199_254_740_991>>,
    /// True if an object whose names are refused gets an Event with the reason, which needs the right to create Events.
    #[schemars(extend("default" = false))]
    pub(super) events: Option<bool>,
}

/// One key of a Secret.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SecretRef {
    /// Namespace of the Secret.
    pub(super) namespace: Text<1, 63>,
    /// Name of the Secret.
    pub(super) name: Text<1, 253>,
    /// Key whose value is the kubeconfig.
    #[schemars(extend("default" = "kubeconfig"))]
    pub(super) key: Option<Text<1, 253>>,
}

impl From<SecretRef> for SecretKey {
    fn from(SecretRef { namespace, name, key }: SecretRef) -> Self {
        let key = key.plain().unwrap_or_else(|| "kubeconfig".to_owned());
        Self { namespace: namespace.plain(), name: name.plain(), key }
    }
}

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamespacedName {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl TextValue for NamespacedName {
    const FORMAT: &'static str = "namespaced-name";
    const EXPECTED: &'static str = "NAMESPACE/NAME";
    const EXAMPLE: &'static str = "istio-system/istio-ingressgateway";

    fn parse(text: &str) -> Result<Self, Reason> {
        let is_name = |part: &str| {
            let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
            (1..=253).contains(&part.len()) && part.bytes().all(is_known)
        };
        let parts = text.split_once('/').filter(|(namespace, name)| is_name(namespace) && is_name(name));
        let parts = parts.map(|(namespace, name)| Self { namespace: namespace.to_owned(), name: name.to_owned() });
        parts.ok_or_else(|| Self::invalid(text))
    }
}
