//! Objects of a Kubernetes cluster, reduced to the fields that decide which names it exposes, where, and with how many endpoints.
//!
//! No wire format and no rules: `crd.rs` reads objects into these types, and `graph.rs` evaluates them.

mod annotations;
mod hosts;
mod key;
mod memory;
mod targets;

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use fairway_model::Name;
use fairway_providers::Endpoint;

pub use self::key::{Kind, ObjectKey};
pub(crate) use self::{
    annotations::DnsAnnotations,
    hosts::{HostPattern, NamespaceFilter, ServerHost, ServerHosts},
    key::GATEWAY_GROUP,
    targets::{TargetText, Targets},
};

/// An object of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object {
    /// Time of its creation, in seconds since 1970.
    pub created: u64,
    /// Its annotations about DNS; `None` if it has none, as most objects.
    pub dns: Option<Arc<DnsAnnotations>>,
    /// The fields of its kind.
    pub(crate) body: Body,
}

/// The fields of an object that matter, by kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Service(Service),
    EndpointSlice(EndpointSlice),
    Ingress(Box<Ingress>),
    IstioGateway(Box<IstioGateway>),
    VirtualService(Box<VirtualService>),
    Gateway(Box<Gateway>),
    ListenerSet(Box<ListenerSet>),
    /// A route of any kind; the key of the object has the kind.
    Route(Box<Route>),
    ReferenceGrant(Box<ReferenceGrant>),
    DnsEndpoint(Box<[Arc<Endpoint>]>),
    TrafficSplit(Box<TrafficSplit>),
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    /// Origin of its endpoints.
    pub(crate) origin: EndpointOrigin,
    /// Its ports, sorted.
    pub(crate) ports: Box<[u16]>,
    /// Its addresses for clients outside the cluster; `None` if it is neither of type LoadBalancer nor has external IPs.
    pub(crate) external: Option<Box<ExternalService>>,
}

/// The origin of the endpoints of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndpointOrigin {
    /// A host name (type ExternalName); `None` if the text is none.
    Host(Option<Name>),
    /// Pods that its selector chooses.
    Pods,
    /// Somebody writes its EndpointSlices: it has no selector.
    Written,
}

/// A Service that clients outside the cluster reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExternalService {
    /// True for the type LoadBalancer, false if it has external IPs only.
    pub(crate) is_load_balancer: bool,
    /// True if a label or its selector has the key `istio`, as those of Istio's ingress gateways have.
    pub(crate) is_istio: bool,
    /// True if it has the port 15021, at which Istio's gateways answer whether they are ready.
    pub(crate) has_status_port: bool,
    /// Labels of its pods.
    pub(crate) selector: Selector,
    /// Its addresses.
    pub(crate) targets: Arc<Targets>,
    /// Number of addresses over the limit.
    pub(crate) omitted: usize,
}

/// A label: key and value.
pub(crate) type Label = (Arc<str>, Arc<str>);

/// Labels that select pods, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Selector(pub(crate) Arc<[Label]>);

impl Selector {
    /// Returns true if the other selector has all these labels.
    pub(crate) fn is_subset_of(&self, other: &Self) -> bool {
        self.0.iter().all(|label| other.0.binary_search(label).is_ok())
    }
}

/// An EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointSlice {
    /// Name of its Service; `None` without one.
    pub(crate) service: Option<Arc<str>>,
    /// Address of each endpoint, and true if it is ready.
    pub(crate) endpoints: Box<[(IpAddr, bool)]>,
}

/// The destination of traffic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Backend {
    /// A Service.
    Service {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// A destination that is no Service, whose endpoints are unknown.
    Other,
}

/// The distinct backends, sorted, each with the sum of its weights; one with 0 gets no traffic. Without any, as with a redirect, the
/// gateway itself answers.
pub(crate) type Backends = Box<[(Backend, u32)]>;

/// The backends of a rule of a route in its order, which may repeat, with their weights.
pub(crate) type RuleRefs = Box<[(Backend, u32)]>;

/// A TrafficSplit of SMI: the traffic for a Service goes to other ones instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrafficSplit {
    /// Name of the Service; empty without one.
    pub(crate) service: Arc<str>,
    /// Names of the other Services, sorted, with their weights.
    pub(crate) backends: Box<[(Arc<str>, u32)]>,
    /// True if it applies to a part of the requests only.
    pub(crate) has_matches: bool,
}

/// An Ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ingress {
    /// Its hosts, sorted, each with its own backends.
    pub(crate) hosts: Box<[(HostPattern, Backends)]>,
    /// Backends of all hosts, with the default backend.
    pub(crate) all: Backends,
    /// Its addresses.
    pub(crate) targets: Arc<Targets>,
    /// Number of addresses over the limit.
    pub(crate) omitted: usize,
}

/// A Gateway of Istio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IstioGateway {
    /// Labels of the pods of the gateway.
    pub(crate) selector: Selector,
    /// Hosts of its servers.
    pub(crate) hosts: ServerHosts,
    /// Hosts that are no names.
    pub(crate) invalid: Box<[HostPattern]>,
}

/// A VirtualService of Istio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VirtualService {
    /// Its hosts; none if it is a delegate.
    pub(crate) hosts: Box<[HostPattern]>,
    /// Namespace and name of each of its Gateways, sorted.
    pub(crate) gateways: Box<[(Arc<str>, Arc<str>)]>,
    /// Namespaces that see it, with its own one for `.`; `None` for all.
    pub(crate) export_to: Option<Box<[Arc<str>]>>,
    /// Its destinations.
    pub(crate) destinations: Destinations,
    /// Namespace and name of each VirtualService that it delegates paths to, sorted.
    pub(crate) delegates: Box<[(Arc<str>, Arc<str>)]>,
}

impl VirtualService {
    /// Returns true if a namespace sees it.
    pub(crate) fn is_visible_to(&self, namespace: &str) -> bool {
        self.export_to.as_ref().is_none_or(|list| list.iter().any(|to| **to == *namespace))
    }
}

/// The destinations of a VirtualService.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Destinations {
    /// Destinations that may be Services, sorted, with the sums of their weights.
    pub(crate) services: Box<[(DestinationService, u32)]>,
    /// Sum of the weights of destinations outside the cluster; `None` without any.
    pub(crate) others: Option<u32>,
}

/// A host of a destination that may be a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DestinationService {
    /// Namespace of the Service.
    pub(crate) namespace: Arc<str>,
    /// Name of the Service.
    pub(crate) name: Arc<str>,
    /// True if the host has two labels, so that it may also be one outside the cluster.
    pub(crate) is_ambiguous: bool,
}

/// A Gateway of the Gateway API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gateway {
    /// True if its class is Istio's.
    pub(crate) is_istio: bool,
    /// Its listeners.
    pub(crate) listeners: Box<[Listener]>,
    /// Its addresses.
    pub(crate) targets: Arc<Targets>,
    /// Number of addresses over the limit.
    pub(crate) omitted: usize,
}

/// A ListenerSet of the Gateway API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerSet {
    /// Namespace and name of its Gateway; `None` if its parent is no Gateway.
    pub(crate) gateway: Option<(Arc<str>, Arc<str>)>,
    /// True if the Gateway accepted it.
    pub(crate) is_accepted: bool,
    /// Its listeners.
    pub(crate) listeners: Box<[Listener]>,
}

/// A listener of a Gateway or ListenerSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// Name.
    pub(crate) name: Arc<str>,
    /// Host names that it serves.
    pub(crate) host: HostPattern,
    /// Port; 0 if it has none of its own.
    pub(crate) port: u16,
    /// Protocol.
    pub(crate) protocol: Protocol,
    /// Namespaces whose routes it accepts.
    pub(crate) allowed: AllowedRoutes,
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP or HTTPS.
    Http,
    /// Any other one.
    Other,
    /// TCP.
    Tcp,
    /// TLS.
    Tls,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Returns true if a listener of this protocol serves routes of this kind.
    pub(crate) const fn serves(self, route: Kind) -> bool {
        match route {
            Kind::HttpRoute | Kind::GrpcRoute => matches!(self, Self::Http),
            Kind::TlsRoute => matches!(self, Self::Tls),
            // A listener of protocol TLS that terminates TLS passes a byte stream on.
            Kind::TcpRoute => matches!(self, Self::Tcp | Self::Tls),
            Kind::UdpRoute => matches!(self, Self::Udp),
            _ => false,
        }
    }
}

/// The namespaces whose routes a listener accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowedRoutes {
    /// All namespaces, or those that a selector chooses: the status of the route has the result.
    All,
    /// None.
    None,
    /// The namespace of the listener.
    Same,
}

/// A route of the Gateway API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Its host names; none for those of the listener.
    pub(crate) hosts: Box<[HostPattern]>,
    /// The Gateways and ListenerSets that it refers to.
    pub(crate) parents: Box<[Parent]>,
    /// The backends of each rule, in order, with their weights.
    pub(crate) rules: Box<[RuleRefs]>,
}

impl Route {
    /// Returns the backends of all rules.
    pub(crate) fn backends(&self) -> Backends {
        let mut backends = BTreeMap::<&Backend, u32>::new();
        for (backend, weight) in self.rules.iter().flatten() {
            let sum = backends.entry(backend).or_default();
            *sum = sum.saturating_add(*weight);
        }
        backends.into_iter().map(|(backend, weight)| (backend.clone(), weight)).collect()
    }
}

/// A reference from a route to a Gateway or ListenerSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    /// Key of the Gateway or ListenerSet.
    pub(crate) key: ObjectKey,
    /// Name of the only listener; `None` for all.
    pub(crate) section: Option<Arc<str>>,
    /// Port of the only listeners; `None` for all.
    pub(crate) port: Option<u16>,
    /// True if the status of the route has the condition `Accepted` of this parent.
    pub(crate) is_accepted: bool,
}

/// A ReferenceGrant, reduced to references from routes to Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReferenceGrant {
    /// Kind and namespace of routes.
    pub(crate) from: Box<[(Kind, Arc<str>)]>,
    /// Names of Services; `None` for all of the namespace.
    pub(crate) to: Box<[Option<Arc<str>>]>,
}

impl ReferenceGrant {
    /// Returns true if it permits a route to refer to a Service in its namespace.
    pub(crate) fn permits(&self, route: &ObjectKey, service: &str) -> bool {
        let is_from = |(kind, namespace): &(Kind, Arc<str>)| *kind == route.kind && *namespace == route.namespace;
        self.from.iter().any(is_from) && self.to.iter().any(|name| name.as_ref().is_none_or(|name| **name == *service))
    }
}
