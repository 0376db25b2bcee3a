//! Estimates of the memory of objects: the sizes of their types, and the lengths of their texts and lists. What the allocator adds is left out.

use std::{net::IpAddr, sync::Arc};

use fairway_model::Name;
use fairway_providers::{Endpoint, Labels, Property};

use super::{
    Backend, Body, DestinationService, Destinations, DnsAnnotations, EndpointOrigin, EndpointSlice, ExternalService,
    Gateway, HostPattern, Ingress, IstioGateway, Kind, Listener, ListenerSet, NamespaceFilter, Object, ObjectKey,
    Parent, ReferenceGrant, Route, Selector, ServerHost, ServerHosts, Service, Targets, TrafficSplit, VirtualService,
};

impl Object {
    /// Returns an estimate of its memory in bytes, with that of its key. Parts that it shares with other objects count in each.
    pub(crate) fn memory(&self, key: &ObjectKey) -> usize {
        size_of::<(ObjectKey, Self)>() + key.heap() + self.dns.heap() + self.body.heap()
    }
}

/// A value with memory outside of its own bytes.
pub(super) trait Heap {
    /// Returns the number of these bytes.
    fn heap(&self) -> usize;
}

/// Numbers of strong and weak references, which an `Arc` has before its value.
const ARC_COUNTS: usize = size_of::<[usize; 2]>();

impl Heap for Arc<str> {
    fn heap(&self) -> usize {
        ARC_COUNTS + self.len()
    }
}

impl Heap for Box<str> {
    fn heap(&self) -> usize {
        self.len()
    }
}

impl Heap for String {
    fn heap(&self) -> usize {
        self.capacity()
    }
}

impl Heap for Name {
    fn heap(&self) -> usize {
        // Short names are within the type; the difference does not matter here.
        self.as_wire().len()
    }
}

impl<T: Heap> Heap for [T] {
    fn heap(&self) -> usize {
        size_of_val(self) + self.iter().map(Heap::heap).sum::<usize>()
    }
}

impl<T: Heap> Heap for Box<[T]> {
    fn heap(&self) -> usize {
        (**self).heap()
    }
}

impl<T: Heap> Heap for Vec<T> {
    fn heap(&self) -> usize {
        (**self).heap()
    }
}

impl<T: Heap> Heap for Arc<[T]> {
    fn heap(&self) -> usize {
        ARC_COUNTS + (**self).heap()
    }
}

impl<T: Heap> Heap for Box<T> {
    fn heap(&self) -> usize {
        size_of::<T>() + (**self).heap()
    }
}

impl<T: Heap> Heap for Arc<T> {
    fn heap(&self) -> usize {
        ARC_COUNTS + size_of::<T>() + (**self).heap()
    }
}

impl<T: Heap> Heap for Option<T> {
    fn heap(&self) -> usize {
        self.as_ref().map_or(0, Heap::heap)
    }
}

impl<A: Heap, B: Heap> Heap for (A, B) {
    fn heap(&self) -> usize {
        self.0.heap() + self.1.heap()
    }
}

/// Types without such memory.
macro_rules! inline {
    ($($type:ty)*) => { $(impl Heap for $type { fn heap(&self) -> usize { 0 } })* };
}

inline!(bool u16 u32 IpAddr Kind);

/// Structures: the sum of fields.
macro_rules! fields {
    ($($type:ty { $($field:tt)* })*) => {
        $(impl Heap for $type { fn heap(&self) -> usize { 0 $(+ self.$field.heap())* } })*
    };
}

fields! {
    ObjectKey { namespace name }
    DnsAnnotations { hostnames target ttl set_identifier properties }
    Property { name value }
    Service { origin ports external }
    ExternalService { selector targets }
    Selector { 0 }
    ServerHosts { 0 }
    ServerHost { host namespace }
    Targets { addresses hosts }
    EndpointSlice { service endpoints }
    TrafficSplit { service backends }
    Ingress { hosts all targets }
    IstioGateway { selector hosts invalid }
    VirtualService { hosts gateways export_to destinations delegates }
    Destinations { services }
    DestinationService { namespace name }
    Gateway { listeners targets }
    ListenerSet { gateway listeners }
    Listener { name host }
    Route { hosts parents rules }
    Parent { key section }
    ReferenceGrant { from to }
    Endpoint { dns_name targets record_type set_identifier labels provider_specific }
}

impl Heap for NamespaceFilter {
    fn heap(&self) -> usize {
        match self {
            Self::All => 0,
            Self::One(namespace) => namespace.heap(),
        }
    }
}

impl Heap for Labels {
    fn heap(&self) -> usize {
        self.iter().map(|(name, value)| size_of::<[Box<str>; 2]>() + name.len() + value.len()).sum()
    }
}

impl Heap for EndpointOrigin {
    fn heap(&self) -> usize {
        match self {
            Self::Host(host) => host.heap(),
            Self::Pods | Self::Written => 0,
        }
    }
}

impl Heap for HostPattern {
    fn heap(&self) -> usize {
        match self {
            Self::Any => 0,
            Self::Invalid(text) => text.heap(),
            Self::Name(name) => name.heap(),
        }
    }
}

impl Heap for Backend {
    fn heap(&self) -> usize {
        match self {
            Self::Service { namespace, name } => namespace.heap() + name.heap(),
            Self::Other => 0,
        }
    }
}

impl Heap for Body {
    fn heap(&self) -> usize {
        match self {
            Self::Service(of) => of.heap(),
            Self::EndpointSlice(of) => of.heap(),
            Self::Ingress(of) => of.heap(),
            Self::IstioGateway(of) => of.heap(),
            Self::VirtualService(of) => of.heap(),
            Self::Gateway(of) => of.heap(),
            Self::ListenerSet(of) => of.heap(),
            Self::Route(of) => of.heap(),
            Self::ReferenceGrant(of) => of.heap(),
            Self::DnsEndpoint(of) => of.heap(),
            Self::TrafficSplit(of) => of.heap(),
        }
    }
}
