//! Declarations of the exposures of a name, as rows like those of ExternalDNS: so annotations, grants, merging and status are the same.

use std::{net::IpAddr, sync::Arc};

use fairway_access::Tenant;
use fairway_contributions::{ReadRow, Row};
use fairway_model::{ClusterName, Name};
use fairway_providers::{Endpoint, Property};

use crate::{
    found::{FoundName, FoundRow},
    graph::{Declared, Exposure},
    objects::{DnsAnnotations, ObjectKey, Targets},
};

/// Returns what a cluster declares for a name; `None` without an exposure. `own` are addresses and host names of the ingress gateway of the
/// cluster, and `services` returns the services of an object. Rows that are the same `before` are shared with it.
pub(crate) fn found_name(
    cluster: &ClusterName,
    name: &str,
    exposures: &[&Exposure],
    own: (&[IpAddr], &[Name]),
    before: Option<&FoundName>,
    services: impl Fn(&ObjectKey) -> Vec<Arc<str>>,
) -> Option<FoundName> {
    let mut rows = Vec::new();
    for exposure in exposures {
        let owner: Arc<str> = format!("kubernetes:{cluster}/{}", exposure.namespace).into();
        let tenant = Tenant::Namespace { cluster: cluster.to_string(), namespace: exposure.namespace.to_string() };
        let tenant = Arc::new(tenant);
        let services = services(&exposure.object);
        let known = before.and_then(|before| before.rows.iter().find(|row| *row.services == *services));
        let services = known.map_or_else(|| services.into(), |row| Arc::clone(&row.services));
        for endpoint in endpoints(cluster, name, exposure, own) {
            let row = Row { since: exposure.created, endpoint, held: None };
            let known = before.and_then(|before| before.rows.iter().find(|known| known.row.row == row));
            let row = known.map_or_else(|| Arc::new(ReadRow::new(row)), |known| Arc::clone(&known.row));
            rows.push(FoundRow {
                owner: Arc::clone(&owner),
                tenant: Arc::clone(&tenant),
                object: exposure.object.clone(),
                row,
                ready: exposure.ready,
                split: exposure.split.clone(),
                services: Arc::clone(&services),
            });
        }
    }
    (!rows.is_empty()).then(|| FoundName { rows: rows.into() })
}

/// Returns the endpoints of an exposure.
fn endpoints(cluster: &ClusterName, name: &str, exposure: &Exposure, own: (&[IpAddr], &[Name])) -> Vec<Endpoint> {
    match &exposure.declared {
        Declared::Endpoint(endpoint) => {
            let mut endpoint = Endpoint { dns_name: name.to_owned(), ..endpoint.clone() };
            let is_address = ["A", "AAAA"].iter().any(|of| endpoint.record_type.eq_ignore_ascii_case(of));
            // Clusters share a name by set identifiers.
            if is_address && endpoint.set_identifier.is_empty() {
                endpoint.set_identifier = cluster.to_string();
            }
            vec![endpoint]
        }
        Declared::Gateway { targets, .. } => {
            let dns = exposure.dns.as_deref();
            let is_own = (&*targets.addresses, &*targets.hosts) == own;
            through_gateway(cluster, name, targets, dns, is_own)
        }
    }
}

/// Returns the endpoints of a name with the targets of a gateway. `is_own` is true for the cluster's ingress gateway, whose addresses are
/// those of the cluster.
fn through_gateway(
    cluster: &ClusterName,
    name: &str,
    targets: &Targets,
    dns: Option<&DnsAnnotations>,
    is_own: bool,
) -> Vec<Endpoint> {
    let mut properties: Vec<Property> = dns.into_iter().flat_map(|dns| dns.properties.iter().cloned()).collect();
    if is_own && !properties.iter().any(|property| property.name == CLUSTER) {
        properties.push(Property { name: CLUSTER.to_owned(), value: cluster.to_string() });
    }
    let set = dns.and_then(|dns| dns.set_identifier.clone()).unwrap_or_else(|| cluster.as_str().into());
    if let Some(ttl) = dns.and_then(|dns| dns.ttl.as_ref()).filter(|_| !properties.iter().any(|of| of.name == TTL)) {
        properties.push(Property { name: TTL.to_owned(), value: ttl.to_string() });
    }
    let endpoint = |record_type: &str, targets: Vec<String>| Endpoint {
        dns_name: name.to_owned(),
        targets,
        record_type: record_type.to_owned(),
        set_identifier: set.to_string(),
        provider_specific: properties.clone(),
        ..Endpoint::default()
    };
    let of_family = |is_v4: bool| {
        let own = targets.addresses.iter().filter(|address| address.is_ipv4() == is_v4);
        own.map(ToString::to_string).collect::<Vec<_>>()
    };
    let addresses = [("A", of_family(true)), ("AAAA", of_family(false))].into_iter();
    let addresses = addresses.filter(|(_, targets)| !targets.is_empty()).map(|(kind, targets)| endpoint(kind, targets));
    let hosts = targets.hosts.iter().map(|host| endpoint("CNAME", vec![host.to_plain()]));
    addresses.chain(hosts).collect()
}

/// Property with the name of a declared cluster.
const CLUSTER: &str = "webhook/gslb-cluster";
/// Property with a TTL.
const TTL: &str = "webhook/gslb-ttl";
