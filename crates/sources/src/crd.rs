//! Objects of Kubernetes as JSON, with the fields that matter. Unknown fields are ignored, and all fields are optional.

mod core_wire;
mod gateway_wire;
mod istio_wire;
mod lenient_wire;
mod split_wire;

use std::{borrow::Cow, fmt, sync::Arc};

use fairway_providers::Endpoint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{ApiResource, DynamicResourceScope},
};
use serde::{Deserialize, de::DeserializeOwned};

use self::{
    core_wire::{EndpointOfSlice, IngressSpec, LoadBalancerStatus, ServiceSpec, endpoint_slice, ingress, service},
    gateway_wire::{
        GatewaySpec, GatewayStatus, GrantSpec, ListenerSetSpec, ListenerSetStatus, RouteSpec, RouteStatus, gateway,
        listener_set, reference_grant, route,
    },
    istio_wire::{IstioGatewaySpec, VirtualServiceSpec, istio_gateway, virtual_service},
    lenient_wire::{List, Maybe},
    split_wire::{TrafficSplitSpec, traffic_split},
};
use crate::objects::{Body, DnsAnnotations, Kind, Object, ObjectKey};

/// An object of one kind as JSON.
pub(crate) trait Wire:
    Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
    + DeserializeOwned
    + Clone
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// The kind.
    const KIND: Kind;

    /// Returns the metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Returns the metadata, to change it.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Returns the fields that matter.
    fn into_body(self) -> Body;
}

/// Returns key and object. Returns `None` if name or namespace is missing: all kinds have a namespace.
pub(crate) fn read<W: Wire>(wire: W) -> Option<(ObjectKey, Object)> {
    let metadata = wire.metadata();
    let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return None };
    let key = ObjectKey::new(W::KIND, &**namespace, &**name);
    let created = metadata.creation_timestamp.as_ref().and_then(|time| u64::try_from(time.0.as_second()).ok());
    let dns = metadata.annotations.as_ref().and_then(DnsAnnotations::read);
    Some((key, Object { created: created.unwrap_or_default(), dns, body: wire.into_body() }))
}

/// Defines the JSON of a kind: its fields, and the function that returns the fields that matter.
macro_rules! wire {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $shape:ty),* } => $body:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(default)]
        pub(crate) struct $name {
            metadata: ObjectMeta,
            $($field: $shape,)*
        }

        impl Wire for $name {
            const KIND: Kind = Kind::$name;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }

            fn into_body(self) -> Body {
                let body: fn(&ObjectMeta, $($shape),*) -> Body = $body;
                body(&self.metadata, $(self.$field),*)
            }
        }

        /// Its group, version and plural are known once the cluster was asked for the versions that it serves.
        impl Resource for $name {
            type DynamicType = ApiResource;
            type Scope = DynamicResourceScope;

            fn kind(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.kind)
            }

            fn group(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.group)
            }

            fn version(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.version)
            }

            fn api_version(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.api_version)
            }

            fn plural(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.plural)
            }

            fn meta(&self) -> &ObjectMeta {
                Wire::metadata(self)
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                Wire::metadata_mut(self)
            }
        }
    };
}

wire! {
    /// A Service.
    Service { spec: Maybe<ServiceSpec>, status: Maybe<LoadBalancerStatus> } => |metadata, spec, status| {
        Body::Service(service(metadata, spec.0.unwrap_or_default(), status.0.unwrap_or_default()))
    }
}

wire! {
    /// An EndpointSlice.
    EndpointSlice { endpoints: List<EndpointOfSlice> } => |metadata, endpoints| {
        Body::EndpointSlice(endpoint_slice(metadata, endpoints))
    }
}

wire! {
    /// An Ingress.
    Ingress { spec: Maybe<IngressSpec>, status: Maybe<LoadBalancerStatus> } => |metadata, spec, status| {
        let ingress = ingress(&namespace(metadata), spec.0.unwrap_or_default(), status.0.unwrap_or_default());
        Body::Ingress(Box::new(ingress))
    }
}

wire! {
    /// A Gateway of Istio.
    IstioGateway { spec: Maybe<IstioGatewaySpec> } => |metadata, spec| {
        Body::IstioGateway(Box::new(istio_gateway(&namespace(metadata), spec.0.unwrap_or_default())))
    }
}

wire! {
    /// A VirtualService of Istio.
    VirtualService { spec: Maybe<VirtualServiceSpec> } => |metadata, spec| {
        Body::VirtualService(Box::new(virtual_service(&namespace(metadata), spec.0.unwrap_or_default())))
    }
}

wire! {
    /// A Gateway of the Gateway API.
    Gateway { spec: Maybe<GatewaySpec>, status: Maybe<GatewayStatus> } => |_, spec, status| {
        Body::Gateway(Box::new(gateway(spec.0.unwrap_or_default(), status.0.unwrap_or_default())))
    }
}

wire! {
    /// A ListenerSet.
    ListenerSet { spec: Maybe<ListenerSetSpec>, status: Maybe<ListenerSetStatus> } => |metadata, spec, status| {
        let set = listener_set(&namespace(metadata), spec.0.unwrap_or_default(), status.0.unwrap_or_default());
        Body::ListenerSet(Box::new(set))
    }
}

/// Returns the body of a route of any kind.
fn route_body(metadata: &ObjectMeta, spec: Maybe<RouteSpec>, status: Maybe<RouteStatus>) -> Body {
    Body::Route(Box::new(route(&namespace(metadata), spec.0.unwrap_or_default(), status.0.unwrap_or_default())))
}

wire! {
    /// An HTTPRoute.
    HttpRoute { spec: Maybe<RouteSpec>, status: Maybe<RouteStatus> } => route_body
}

wire! {
    /// A GRPCRoute.
    GrpcRoute { spec: Maybe<RouteSpec>, status: Maybe<RouteStatus> } => route_body
}

wire! {
    /// A TLSRoute.
    TlsRoute { spec: Maybe<RouteSpec>, status: Maybe<RouteStatus> } => route_body
}

wire! {
    /// A TCPRoute.
    TcpRoute { spec: Maybe<RouteSpec>, status: Maybe<RouteStatus> } => route_body
}

wire! {
    /// A UDPRoute.
    UdpRoute { spec: Maybe<RouteSpec>, status: Maybe<RouteStatus> } => route_body
}

wire! {
    /// A ReferenceGrant.
    ReferenceGrant { spec: Maybe<GrantSpec> } => |_, spec| {
        Body::ReferenceGrant(Box::new(reference_grant(spec.0.unwrap_or_default())))
    }
}

wire! {
    /// A DNSEndpoint. One that Fairway published has no endpoints here: read as members, its answers would feed themselves.
    DnsEndpoint { spec: Maybe<DnsEndpointSpec> } => |metadata, spec| {
        let manager = metadata.labels.as_ref().and_then(|labels| labels.get("app.kubernetes.io/managed-by"));
        let spec = if manager.is_some_and(|manager| manager == "fairway") { Maybe::default() } else { spec };
        Body::DnsEndpoint(spec.0.unwrap_or_default().endpoints.into_iter().map(Arc::new).collect())
    }
}

wire! {
    /// A TrafficSplit.
    TrafficSplit { spec: Maybe<TrafficSplitSpec> } => |_, spec| {
        Body::TrafficSplit(Box::new(traffic_split(spec.0.unwrap_or_default())))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct DnsEndpointSpec {
    endpoints: List<Endpoint>,
}

/// Returns the namespace of an object.
fn namespace(metadata: &ObjectMeta) -> Arc<str> {
    metadata.namespace.as_deref().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn object_is_read_with_key_creation_and_annotations() {
        let wire: HttpRoute = serde_json::from_value(json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {
                "namespace": "shop",
                "name": "web",
                "creationTimestamp": "2024-01-01T00:00:00Z",
                "annotations": {"external-dns.kubernetes.io/ttl": "60"},
            },
        }))
        .unwrap();
        let (key, object) = read(wire).unwrap();
        assert_eq!((key.to_string(), object.created), ("HTTPRoute shop/web".to_owned(), 1_704_067_200));
        assert_eq!(object.dns.and_then(|dns| dns.ttl.clone()).as_deref(), Some("60"));
        let unknown: HttpRoute = serde_json::from_value(json!({"metadata": {"namespace": "a", "name": "b"}})).unwrap();
        assert_eq!(read(unknown).map(|(_, object)| (object.created, object.dns)), Some((0, None)));
    }

    #[test]
    fn published_dns_endpoint_is_no_source() {
        let endpoints = |labels: serde_json::Value| {
            let wire: DnsEndpoint = serde_json::from_value(json!({
                "metadata": {"namespace": "dns", "name": "fairway-corp-all", "labels": labels},
                "spec": {"endpoints": [{"dnsName": "a.x", "recordType": "A", "targets": ["192.0.2.1"]}]},
            }))
            .unwrap();
            match wire.into_body() {
                Body::DnsEndpoint(endpoints) => endpoints.len(),
                body => panic!("{body:?}"),
            }
        };
        assert_eq!(endpoints(json!({"app.kubernetes.io/managed-by": "fairway"})), 0);
        assert_eq!(endpoints(json!({"app.kubernetes.io/managed-by": "Helm"})), 1);
    }

    #[test]
    fn resource_has_the_path_of_its_version() {
        let path = |kind: Kind, version: usize| {
            let (group, version, kind, plural) = kind.resources()[version];
            let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
            let resource = ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version,
                kind: kind.to_owned(),
                plural: plural.to_owned(),
            };
            HttpRoute::url_path(&resource, None)
        };
        assert_eq!(path(Kind::HttpRoute, 1), "/apis/gateway.networking.k8s.io/v1beta1/httproutes");
        assert_eq!(path(Kind::Service, 0), "/api/v1/services");
    }
}
