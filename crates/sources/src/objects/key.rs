//! Kinds of objects, and the keys of objects.

use std::{fmt, str::FromStr, sync::Arc};

/// The kinds of objects that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Service.
    Service,
    /// EndpointSlice of a Service.
    EndpointSlice,
    /// Ingress.
    Ingress,
    /// Gateway of Istio.
    IstioGateway,
    /// VirtualService of Istio.
    VirtualService,
    /// Gateway of the Gateway API.
    Gateway,
    /// ListenerSet of the Gateway API: further listeners of a Gateway.
    ListenerSet,
    /// HTTPRoute of the Gateway API.
    HttpRoute,
    /// GRPCRoute of the Gateway API.
    GrpcRoute,
    /// TLSRoute of the Gateway API.
    TlsRoute,
    /// TCPRoute of the Gateway API.
    TcpRoute,
    /// UDPRoute of the Gateway API.
    UdpRoute,
    /// ReferenceGrant of the Gateway API: permission for references from other namespaces.
    ReferenceGrant,
    /// DNSEndpoint of ExternalDNS.
    DnsEndpoint,
    /// TrafficSplit of SMI.
    TrafficSplit,
}

impl Kind {
    /// All kinds, in their order.
    pub const ALL: [Self; 15] = [
        Self::Service,
        Self::EndpointSlice,
        Self::Ingress,
        Self::IstioGateway,
        Self::VirtualService,
        Self::Gateway,
        Self::ListenerSet,
        Self::HttpRoute,
        Self::GrpcRoute,
        Self::TlsRoute,
        Self::TcpRoute,
        Self::UdpRoute,
        Self::ReferenceGrant,
        Self::DnsEndpoint,
        Self::TrafficSplit,
    ];

    /// Returns group, version, kind and plural of its resources, in order of preference: a cluster may serve only some of the versions.
    pub const fn resources(self) -> &'static [(&'static str, &'static str, &'static str, &'static str)] {
        match self {
            Self::Service => &[("", "v1", "Service", "services")],
            Self::EndpointSlice => &[("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")],
            Self::Ingress => &[("networking.k8s.io", "v1", "Ingress", "ingresses")],
            Self::IstioGateway => {
                &[(ISTIO_GROUP, "v1", "Gateway", "gateways"), (ISTIO_GROUP, "v1beta1", "Gateway", "gateways")]
            }
            Self::VirtualService => &[
                (ISTIO_GROUP, "v1", "VirtualService", "virtualservices"),
                (ISTIO_GROUP, "v1beta1", "VirtualService", "virtualservices"),
            ],
            Self::Gateway => {
                &[(GATEWAY_GROUP, "v1", "Gateway", "gateways"), (GATEWAY_GROUP, "v1beta1", "Gateway", "gateways")]
            }
            Self::ListenerSet => &[(GATEWAY_GROUP, "v1", "ListenerSet", "listenersets")],
            Self::HttpRoute => &[
                (GATEWAY_GROUP, "v1", "HTTPRoute", "httproutes"),
                (GATEWAY_GROUP, "v1beta1", "HTTPRoute", "httproutes"),
            ],
            Self::GrpcRoute => &[(GATEWAY_GROUP, "v1", "GRPCRoute", "grpcroutes")],
            Self::TlsRoute => &[
                (GATEWAY_GROUP, "v1", "TLSRoute", "tlsroutes"),
                (GATEWAY_GROUP, "v1alpha3", "TLSRoute", "tlsroutes"),
                (GATEWAY_GROUP, "v1alpha2", "TLSRoute", "tlsroutes"),
            ],
            Self::TcpRoute => {
                &[(GATEWAY_GROUP, "v1", "TCPRoute", "tcproutes"), (GATEWAY_GROUP, "v1alpha2", "TCPRoute", "tcproutes")]
            }
            Self::UdpRoute => {
                &[(GATEWAY_GROUP, "v1", "UDPRoute", "udproutes"), (GATEWAY_GROUP, "v1alpha2", "UDPRoute", "udproutes")]
            }
            Self::ReferenceGrant => &[
                (GATEWAY_GROUP, "v1", "ReferenceGrant", "referencegrants"),
                (GATEWAY_GROUP, "v1beta1", "ReferenceGrant", "referencegrants"),
            ],
            Self::DnsEndpoint => &[("externaldns.k8s.io", "v1alpha1", "DNSEndpoint", "dnsendpoints")],
            Self::TrafficSplit => &[("split.smi-spec.io", "v1alpha4", "TrafficSplit", "trafficsplits")],
        }
    }

    /// Returns the name of the kind. It is that of Kubernetes, except for Istio's Gateway, which would be the same as that of the
    /// Gateway API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IstioGateway => "IstioGateway",
            _ => self.resources()[0].2,
        }
    }

    /// Returns the kind of route with this name in the Gateway API.
    pub(crate) fn of_route(name: &str) -> Option<Self> {
        let routes = [Self::HttpRoute, Self::GrpcRoute, Self::TlsRoute, Self::TcpRoute, Self::UdpRoute];
        routes.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Kind, namespace and name of an object of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Kind.
    pub kind: Kind,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Returns the key of an object.
    pub fn new(kind: Kind, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }

    /// Returns a key that sorts before those of all objects of a kind and a namespace.
    pub(crate) fn before(kind: Kind, namespace: &Arc<str>) -> Self {
        Self { kind, namespace: Arc::clone(namespace), name: Arc::default() }
    }
}

impl FromStr for ObjectKey {
    type Err = ObjectKeyError;

    /// Parses the form in which it is displayed, `Kind namespace/name`.
    fn from_str(text: &str) -> Result<Self, ObjectKeyError> {
        let parse = || {
            let (kind, rest) = text.split_once(' ')?;
            let (namespace, name) = rest.split_once('/')?;
            let kind = Kind::ALL.into_iter().find(|of| of.as_str() == kind)?;
            Some(Self::new(kind, namespace, name))
        };
        parse().ok_or_else(|| ObjectKeyError(text.to_owned()))
    }
}

/// Error of parsing the key of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the key of an object; give it as \"Service namespace/name\"")]
pub struct ObjectKeyError(String);

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

const ISTIO_GROUP: &str = "networking.istio.io";
/// API group of the Gateway API.
pub(crate) const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_displays_kind_namespace_and_name() {
        let keys = [Kind::Service, Kind::IstioGateway, Kind::HttpRoute, Kind::DnsEndpoint]
            .map(|kind| ObjectKey::new(kind, "shop", "web"));
        let texts = keys.each_ref().map(ToString::to_string);
        for (text, key) in texts.iter().zip(keys) {
            assert_eq!(text.parse(), Ok(key));
        }
        for text in ["", "Service", "Service shop", "Pod shop/web"] {
            assert_eq!(text.parse::<ObjectKey>(), Err(ObjectKeyError(text.to_owned())));
        }
        assert_eq!(texts, ["Service shop/web", "IstioGateway shop/web", "HTTPRoute shop/web", "DNSEndpoint shop/web"]);
    }

    #[test]
    fn all_kinds_are_listed_in_order_with_their_resources() {
        assert!(Kind::ALL.is_sorted());
        assert!(Kind::ALL.iter().all(|kind| kind.resources().iter().all(|(.., plural)| plural.ends_with('s'))));
        assert_eq!(Kind::TlsRoute.resources().len(), 3);
    }
}
