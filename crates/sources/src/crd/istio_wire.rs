//! Gateway and VirtualService of Istio as JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Deserialize;

use super::{
    core_wire::selector,
    lenient_wire::{List, Maybe, Share},
};
use crate::objects::{
    DestinationService, Destinations, HostPattern, IstioGateway, NamespaceFilter, ServerHost, ServerHosts,
    VirtualService,
};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct IstioGatewaySpec {
    selector: Maybe<BTreeMap<String, String>>,
    servers: List<Server>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    hosts: List<String>,
}

/// Returns the fields of a Gateway that matter.
pub(crate) fn istio_gateway(namespace: &Arc<str>, spec: IstioGatewaySpec) -> IstioGateway {
    let (mut hosts, mut invalid) = (Vec::new(), BTreeSet::new());
    for text in spec.servers.into_iter().flat_map(|server| server.hosts) {
        let (scope, host) = text.split_once('/').unwrap_or(("*", &text));
        let filter = match scope {
            "*" => NamespaceFilter::All,
            "." => NamespaceFilter::One(Arc::clone(namespace)),
            one => NamespaceFilter::One(one.into()),
        };
        match HostPattern::new(host) {
            HostPattern::Any => hosts.push(ServerHost { host: "*".into(), namespace: filter }),
            HostPattern::Name(host) => hosts.push(ServerHost { host, namespace: filter }),
            host @ HostPattern::Invalid(_) => _ = invalid.insert(host),
        }
    }
    IstioGateway {
        selector: selector(spec.selector),
        hosts: ServerHosts::new(hosts),
        invalid: invalid.into_iter().collect(),
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VirtualServiceSpec {
    hosts: List<String>,
    gateways: List<String>,
    export_to: List<String>,
    http: List<Routing>,
    tls: List<Routing>,
    tcp: List<Routing>,
}

/// The routing of HTTP, TLS or TCP.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Routing {
    route: List<WeightedDestination>,
    delegate: Maybe<Delegate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WeightedDestination {
    destination: Maybe<Destination>,
    weight: Share,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Destination {
    host: Maybe<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Delegate {
    name: Maybe<String>,
    namespace: Maybe<String>,
}

/// Returns the fields of a VirtualService that matter.
pub(crate) fn virtual_service(namespace: &Arc<str>, spec: VirtualServiceSpec) -> VirtualService {
    let hosts: BTreeSet<_> = spec.hosts.0.iter().map(|host| HostPattern::new(host)).collect();
    let gateways: BTreeSet<_> =
        spec.gateways.0.iter().filter(|name| **name != MESH).map(|text| gateway(namespace, text)).collect();
    let own = |to: String| if to == "." { Arc::clone(namespace) } else { to.into() };
    // `*` among others means all namespaces, too.
    let is_for_all = spec.export_to.0.is_empty() || spec.export_to.0.iter().any(|to| to == "*");
    let export_to = (!is_for_all).then(|| spec.export_to.into_iter().map(own).collect());
    let delegates: BTreeSet<_> =
        spec.http.0.iter().filter_map(|routing| delegate(namespace, routing.delegate.0.as_ref()?)).collect();
    let mut destinations = DestinationSet::default();
    for routing in spec.http.into_iter().chain(spec.tls).chain(spec.tcp) {
        destinations.add(namespace, routing.route.0);
    }
    VirtualService {
        hosts: hosts.into_iter().collect(),
        gateways: gateways.into_iter().collect(),
        export_to,
        destinations: Destinations {
            services: destinations.services.into_iter().collect(),
            others: destinations.others,
        },
        delegates: delegates.into_iter().collect(),
    }
}

/// Returns namespace and name of a Gateway: `name` in the same namespace, or `namespace/name`.
fn gateway(namespace: &Arc<str>, text: &str) -> (Arc<str>, Arc<str>) {
    match text.split_once('/') {
        Some((namespace, name)) => (namespace.into(), name.into()),
        None => (Arc::clone(namespace), text.into()),
    }
}

fn delegate(own: &Arc<str>, delegate: &Delegate) -> Option<(Arc<str>, Arc<str>)> {
    let name = delegate.name.0.as_deref()?;
    let namespace = delegate.namespace.0.as_deref().filter(|namespace| !namespace.is_empty());
    Some((namespace.map_or_else(|| Arc::clone(own), Arc::from), name.into()))
}

/// Distinct destinations.
#[derive(Default)]
struct DestinationSet {
    services: BTreeMap<DestinationService, u32>,
    others: Option<u32>,
}

impl DestinationSet {
    /// Adds the destinations of one route. Its only one gets all traffic, whatever its weight; without one it counts as 100. Among
    /// several, a missing weight means 0, as in Istio.
    fn add(&mut self, namespace: &Arc<str>, route: Vec<WeightedDestination>) {
        let is_only = route.len() == 1;
        for WeightedDestination { destination, weight } in route {
            let Some(host) = destination.0.and_then(|destination| destination.host.0) else { continue };
            let weight = match weight.or(0) {
                0 if is_only => 100,
                weight => weight,
            };
            let sum = match service(namespace, &host) {
                Some(service) => self.services.entry(service).or_default(),
                None => self.others.get_or_insert_default(),
            };
            *sum = sum.saturating_add(weight);
        }
    }
}

/// Returns the Service that a host stands for. Returns `None` if it cannot be one.
fn service(own: &Arc<str>, host: &str) -> Option<DestinationService> {
    let labels: Vec<_> = host.strip_suffix('.').unwrap_or(host).split('.').collect();
    let (name, namespace, is_ambiguous) = match labels[..] {
        [name] => (name, Arc::clone(own), false),
        [name, namespace] => (name, namespace.into(), true),
        [name, namespace, "svc"] | [name, namespace, "svc", "cluster", "local"] => (name, namespace.into(), false),
        _ => return None,
    };
    Some(DestinationService { namespace, name: name.into(), is_ambiguous })
}

/// The gateway of traffic within the mesh.
const MESH: &str = "mesh";
