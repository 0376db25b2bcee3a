//! Service, EndpointSlice and Ingress as JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::lenient_wire::{List, Maybe};
use crate::objects::{
    Backend, Backends, EndpointOrigin, EndpointSlice, ExternalService, HostPattern, Ingress, Selector, Service,
    TargetText, Targets,
};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceSpec {
    r#type: Maybe<String>,
    selector: Maybe<BTreeMap<String, String>>,
    #[serde(rename = "externalIPs")]
    external_ips: List<String>,
    #[serde(rename = "externalName")]
    external_name: Maybe<String>,
    ports: List<ServicePort>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ServicePort {
    port: Maybe<u16>,
}

/// The status of a Service or Ingress.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LoadBalancerStatus {
    load_balancer: Maybe<LoadBalancer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    ingress: List<LoadBalancerIngress>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancerIngress {
    ip: Maybe<String>,
    hostname: Maybe<String>,
}

impl LoadBalancerStatus {
    /// Returns its addresses, each as text.
    fn texts(self) -> Vec<String> {
        let filled = |text: Maybe<String>| text.0.filter(|text| !text.is_empty());
        let ingress = self.load_balancer.0.unwrap_or_default().ingress.into_iter();
        ingress.filter_map(|ingress| filled(ingress.ip).or_else(|| filled(ingress.hostname))).collect()
    }
}

/// Returns the targets of texts, and the number of those over the limit.
pub(crate) fn targets(texts: &[String]) -> (Targets, usize) {
    Targets::read(texts.iter().map(|text| &**text))
}

/// Returns a selector.
pub(crate) fn selector(labels: Maybe<BTreeMap<String, String>>) -> Selector {
    let labels = labels.0.unwrap_or_default().into_iter();
    Selector(labels.map(|(key, value)| (key.into(), value.into())).collect())
}

/// Returns the fields of a Service that matter.
pub(crate) fn service(metadata: &ObjectMeta, spec: ServiceSpec, status: LoadBalancerStatus) -> Service {
    let service_type = spec.r#type.0.unwrap_or_default();
    let is_load_balancer = service_type == "LoadBalancer";
    let selector = selector(spec.selector);
    let origin = match TargetText::read(&spec.external_name.0.unwrap_or_default()) {
        TargetText::Host(name) if service_type == "ExternalName" => EndpointOrigin::Host(Some(name)),
        _ if service_type == "ExternalName" => EndpointOrigin::Host(None),
        _ if selector.0.is_empty() => EndpointOrigin::Written,
        _ => EndpointOrigin::Pods,
    };
    let ports: BTreeSet<u16> = spec.ports.into_iter().filter_map(|port| port.port.0).collect();
    let external = (is_load_balancer || !spec.external_ips.0.is_empty()).then(|| {
        let has_istio_label = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(ISTIO_LABEL));
        let is_istio = has_istio_label || selector.0.iter().any(|(key, _)| **key == *ISTIO_LABEL);
        let status = if is_load_balancer { status.texts() } else { Vec::new() };
        let (targets, omitted) = targets(if spec.external_ips.0.is_empty() { &status } else { &spec.external_ips.0 });
        let targets = Arc::new(targets);
        let has_status_port = ports.contains(&STATUS_PORT);
        Box::new(ExternalService { is_load_balancer, is_istio, has_status_port, selector, targets, omitted })
    });
    Service { origin, ports: ports.into_iter().collect(), external }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointOfSlice {
    addresses: List<String>,
    conditions: Maybe<EndpointConditions>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct EndpointConditions {
    ready: Maybe<bool>,
    terminating: Maybe<bool>,
}

/// Returns the fields of an EndpointSlice that matter. The addresses of one endpoint are interchangeable, so the first one is used.
pub(crate) fn endpoint_slice(metadata: &ObjectMeta, endpoints: List<EndpointOfSlice>) -> EndpointSlice {
    let service = metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_LABEL)).map(|name| (**name).into());
    let address = |endpoint: EndpointOfSlice| {
        let address: IpAddr = endpoint.addresses.0.first()?.parse().ok()?;
        let EndpointConditions { ready, terminating } = endpoint.conditions.0.unwrap_or_default();
        Some((address, ready.0 != Some(false) && terminating.0 != Some(true)))
    };
    EndpointSlice { service, endpoints: endpoints.into_iter().filter_map(address).collect() }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct IngressSpec {
    rules: List<IngressRule>,
    default_backend: Maybe<IngressBackend>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct IngressRule {
    host: Maybe<String>,
    http: Maybe<HttpRule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct HttpRule {
    paths: List<IngressPath>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct IngressPath {
    backend: Maybe<IngressBackend>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct IngressBackend {
    service: Maybe<IngressService>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct IngressService {
    name: Maybe<String>,
}

impl IngressBackend {
    /// Returns the Service, or a backend of unknown readiness for a reference to another resource.
    fn into_backend(self, namespace: &Arc<str>) -> Backend {
        match self.service.0.and_then(|service| service.name.0) {
            Some(name) => Backend::Service { namespace: Arc::clone(namespace), name: name.into() },
            None => Backend::Other,
        }
    }
}

/// Returns the fields of an Ingress that matter. A host without paths of its own leads to the default backend.
pub(crate) fn ingress(namespace: &Arc<str>, spec: IngressSpec, status: LoadBalancerStatus) -> Ingress {
    let default = spec.default_backend.0.map(|backend| backend.into_backend(namespace));
    let mut hosts = BTreeMap::<HostPattern, BTreeSet<Backend>>::new();
    let mut all = BTreeSet::from_iter(default.clone());
    for rule in spec.rules {
        let paths = rule.http.0.unwrap_or_default().paths.into_iter();
        let backends: BTreeSet<_> = paths.filter_map(|path| Some(path.backend.0?.into_backend(namespace))).collect();
        all.extend(backends.iter().cloned());
        // A rule without a host applies to all names, of which it declares none.
        if let Some(host) = rule.host.0.filter(|host| !host.is_empty()) {
            hosts.entry(HostPattern::new(&host)).or_default().extend(backends);
        }
    }
    let of_host = |mut list: BTreeSet<Backend>| {
        if list.is_empty() {
            list.extend(default.clone());
        }
        backends(list)
    };
    let (targets, omitted) = targets(&status.texts());
    Ingress {
        hosts: hosts.into_iter().map(|(host, list)| (host, of_host(list))).collect(),
        all: backends(all),
        targets: Arc::new(targets),
        omitted,
    }
}

/// Returns backends of paths: they have no weights.
fn backends(list: BTreeSet<Backend>) -> Backends {
    list.into_iter().map(|backend| (backend, 1)).collect()
}

/// Key of the label of Istio's ingress gateways.
const ISTIO_LABEL: &str = "istio";
/// Label of an EndpointSlice with the name of its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Port of Istio's gateways that answers whether they are ready.
const STATUS_PORT: u16 = 15021;
