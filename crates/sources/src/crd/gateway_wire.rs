//! Objects of the Gateway API as JSON.

use std::{collections::BTreeSet, sync::Arc};

use serde::Deserialize;

use super::{
    core_wire::targets,
    lenient_wire::{List, Maybe, Share},
};
use crate::objects::{
    AllowedRoutes, Backend, GATEWAY_GROUP, Gateway, HostPattern, Kind, Listener, ListenerSet, ObjectKey, Parent,
    Protocol, ReferenceGrant, Route,
};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GatewaySpec {
    gateway_class_name: Maybe<String>,
    listeners: List<WireListener>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireListener {
    name: Maybe<String>,
    hostname: Maybe<String>,
    port: Maybe<u16>,
    protocol: Maybe<String>,
    allowed_routes: Maybe<WireAllowedRoutes>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WireAllowedRoutes {
    namespaces: Maybe<RouteNamespaces>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RouteNamespaces {
    from: Maybe<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GatewayStatus {
    addresses: List<Address>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    r#type: Maybe<String>,
    value: Maybe<String>,
}

/// Returns the fields of a Gateway that matter.
pub(crate) fn gateway(spec: GatewaySpec, status: GatewayStatus) -> Gateway {
    let is_usable = |address: &Address| matches!(address.r#type.0.as_deref(), None | Some("IPAddress" | "Hostname"));
    let addresses = status.addresses.into_iter().filter(is_usable);
    let texts: Vec<_> = addresses.filter_map(|address| address.value.0).collect();
    let (targets, omitted) = targets(&texts);
    Gateway {
        is_istio: spec.gateway_class_name.0.is_some_and(|class| class.starts_with(ISTIO_CLASS)),
        listeners: spec.listeners.into_iter().map(listener).collect(),
        targets: Arc::new(targets),
        omitted,
    }
}

fn listener(wire: WireListener) -> Listener {
    let from = wire.allowed_routes.0.and_then(|routes| routes.namespaces.0?.from.0);
    Listener {
        name: wire.name.0.unwrap_or_default().into(),
        host: match wire.hostname.0.filter(|host| !host.is_empty()) {
            Some(host) => HostPattern::new(&host),
            None => HostPattern::Any,
        },
        port: wire.port.0.unwrap_or_default(),
        protocol: match &*wire.protocol.0.unwrap_or_default() {
            "HTTP" | "HTTPS" => Protocol::Http,
            "TLS" => Protocol::Tls,
            "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            _ => Protocol::Other,
        },
        allowed: match from.as_deref() {
            Some("All" | "Selector") => AllowedRoutes::All,
            None | Some("Same") => AllowedRoutes::Same,
            Some(_) => AllowedRoutes::None,
        },
    }
}

/// A reference to a Gateway or ListenerSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ParentRef {
    group: Maybe<String>,
    kind: Maybe<String>,
    namespace: Maybe<String>,
    name: Maybe<String>,
    section_name: Maybe<String>,
    port: Maybe<u16>,
}

impl ParentRef {
    /// Returns the key of the parent, or `None` if it is neither a Gateway nor a ListenerSet, as for routes within a mesh.
    fn key(&self, own: &Arc<str>) -> Option<ObjectKey> {
        let kind = match self.kind.0.as_deref().unwrap_or("Gateway") {
            "Gateway" => Kind::Gateway,
            "ListenerSet" => Kind::ListenerSet,
            _ => return None,
        };
        if self.group.0.as_deref().is_some_and(|group| group != GATEWAY_GROUP) {
            return None;
        }
        let namespace = self.namespace.0.as_deref().map_or_else(|| Arc::clone(own), Arc::from);
        Some(ObjectKey { kind, namespace, name: self.name.0.as_deref()?.into() })
    }

    /// Returns the reference with its defaults. Two references are equal if these are.
    fn target(&self, own: &Arc<str>) -> Option<(ObjectKey, Option<Arc<str>>, Option<u16>)> {
        let section = self.section_name.0.as_deref().filter(|section| !section.is_empty()).map(Arc::from);
        Some((self.key(own)?, section, self.port.0))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: Maybe<String>,
    status: Maybe<String>,
}

fn is_accepted(conditions: &List<Condition>) -> bool {
    let is_accepted = |condition: &Condition| {
        condition.r#type.0.as_deref() == Some("Accepted") && condition.status.0.as_deref() == Some("True")
    };
    conditions.0.iter().any(is_accepted)
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListenerSetSpec {
    parent_ref: Maybe<ParentRef>,
    listeners: List<WireListener>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListenerSetStatus {
    conditions: List<Condition>,
}

/// Returns the fields of a ListenerSet that matter.
pub(crate) fn listener_set(namespace: &Arc<str>, spec: ListenerSetSpec, status: ListenerSetStatus) -> ListenerSet {
    let parent = spec.parent_ref.0.and_then(|parent| parent.key(namespace));
    let gateway = parent.filter(|key| key.kind == Kind::Gateway).map(|key| (key.namespace, key.name));
    ListenerSet {
        gateway,
        is_accepted: is_accepted(&status.conditions),
        listeners: spec.listeners.into_iter().map(listener).collect(),
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RouteSpec {
    hostnames: List<String>,
    parent_refs: List<ParentRef>,
    rules: List<Rule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    backend_refs: List<BackendRef>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct BackendRef {
    group: Maybe<String>,
    kind: Maybe<String>,
    namespace: Maybe<String>,
    name: Maybe<String>,
    weight: Share,
}

impl BackendRef {
    fn into_backend(self, own: &Arc<str>) -> Backend {
        let is_service = self.group.0.is_none_or(|group| group.is_empty())
            && self.kind.0.is_none_or(|kind| kind.is_empty() || kind == SERVICE);
        match self.name.0.filter(|_| is_service) {
            Some(name) => {
                let namespace = self.namespace.0.map_or_else(|| Arc::clone(own), Arc::from);
                Backend::Service { namespace, name: name.into() }
            }
            None => Backend::Other,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RouteStatus {
    parents: List<ParentStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ParentStatus {
    parent_ref: Maybe<ParentRef>,
    conditions: List<Condition>,
}

/// Returns the fields of a route that matter. The status may still have parents that were removed, so those of the specification count.
pub(crate) fn route(namespace: &Arc<str>, spec: RouteSpec, status: RouteStatus) -> Route {
    let accepted = status.parents.0.iter().filter(|parent| is_accepted(&parent.conditions));
    let accepted: Vec<_> = accepted.filter_map(|parent| parent.parent_ref.0.as_ref()?.target(namespace)).collect();
    let parent = |reference: &ParentRef| {
        let target = reference.target(namespace)?;
        let is_accepted = accepted.contains(&target);
        let (key, section, port) = target;
        Some(Parent { key, section, port, is_accepted })
    };
    let backend = |of: BackendRef| {
        let weight = of.weight.or(1);
        (of.into_backend(namespace), weight)
    };
    let hosts: BTreeSet<_> = spec.hostnames.0.iter().map(|host| HostPattern::new(host)).collect();
    Route {
        hosts: hosts.into_iter().collect(),
        parents: spec.parent_refs.0.iter().filter_map(parent).collect(),
        rules: spec.rules.into_iter().map(|rule| rule.backend_refs.into_iter().map(backend).collect()).collect(),
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GrantSpec {
    from: List<GrantFrom>,
    to: List<GrantTo>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct GrantFrom {
    group: Maybe<String>,
    kind: Maybe<String>,
    namespace: Maybe<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct GrantTo {
    group: Maybe<String>,
    kind: Maybe<String>,
    name: Maybe<String>,
}

/// Returns the fields of a ReferenceGrant that matter.
pub(crate) fn reference_grant(spec: GrantSpec) -> ReferenceGrant {
    let from = |from: GrantFrom| {
        let kind = Kind::of_route(from.kind.0.as_deref()?)?;
        (from.group.0.as_deref() == Some(GATEWAY_GROUP)).then_some((kind, from.namespace.0?.into()))
    };
    let to = |to: GrantTo| {
        let is_service = to.group.0.is_none_or(|group| group.is_empty()) && to.kind.0.as_deref() == Some(SERVICE);
        is_service.then(|| to.name.0.filter(|name| !name.is_empty()).map(Arc::from))
    };
    ReferenceGrant {
        from: spec.from.into_iter().filter_map(from).collect(),
        to: spec.to.into_iter().filter_map(to).collect(),
    }
}

/// Beginning of the names of the classes of Istio: `istio`, `istio-remote`, `istio-waypoint`.
const ISTIO_CLASS: &str = "istio";
/// Kind of a Service.
const SERVICE: &str = "Service";
