//! Findings, to and from `kubernetes.json`: so that a start while the API of a cluster is unreachable has its last good contribution.

use std::{collections::BTreeMap, sync::Arc};

use fairway_access::Tenant;
use fairway_contributions::{ReadRow, Row};
use fairway_model::{ClusterName, ExposedServices, Name, SharedMap};
use serde::{Deserialize, Serialize};

use crate::{
    found::{Found, FoundCluster, FoundName, FoundRow},
    holds::Holds,
    splits::{Place, Split, SplitPart},
};

#[derive(Serialize, Deserialize)]
struct File {
    clusters: BTreeMap<String, Cluster>,
}

#[derive(Serialize, Deserialize)]
struct Cluster {
    addresses: Vec<std::net::IpAddr>,
    hosts: Vec<String>,
    #[serde(default)]
    status_port: bool,
    #[serde(default)]
    pods: Vec<std::net::IpAddr>,
    names: BTreeMap<String, Vec<SavedRow>>,
}

#[derive(Serialize, Deserialize)]
struct SavedRow {
    namespace: String,
    object: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ready: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    split: Option<SavedSplit>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    services: Vec<String>,
    row: Row,
}

/// A split over clusters.
#[derive(Serialize, Deserialize)]
struct SavedSplit {
    created: u64,
    object: String,
    weighted: bool,
    parts: Vec<SavedPart>,
}

/// A backend, with the addresses or the host name of a gateway that it may stand for.
#[derive(Serialize, Deserialize)]
struct SavedPart {
    weight: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ready: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<std::net::IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

impl From<&Split> for SavedSplit {
    fn from(split: &Split) -> Self {
        let part = |SplitPart { weight, ready, place }: &SplitPart| {
            let (addresses, host) = match place {
                None => (Vec::new(), None),
                Some(Place::Addresses(addresses)) => (addresses.to_vec(), None),
                Some(Place::Host(host)) => (Vec::new(), Some(host.to_string())),
            };
            SavedPart { weight: *weight, ready: *ready, addresses, host }
        };
        let object = split.object.to_string();
        let parts = split.parts.iter().map(part).collect();
        Self { created: split.created, object, weighted: split.is_weighted, parts }
    }
}

impl SavedSplit {
    /// Returns the split; `None` if its object is invalid.
    fn read(self) -> Option<Arc<Split>> {
        let part = |SavedPart { weight, ready, addresses, host }: SavedPart| {
            let host = host.and_then(|host| host.parse().ok()).map(Place::Host);
            let addresses = (!addresses.is_empty()).then(|| Place::Addresses(addresses.into()));
            SplitPart { weight, ready, place: host.or(addresses) }
        };
        let parts = self.parts.into_iter().map(part).collect();
        let object = self.object.parse().ok()?;
        Some(Arc::new(Split { created: self.created, object, is_weighted: self.weighted, parts }))
    }
}

/// Returns the text of `kubernetes.json`.
pub(crate) fn encode(found: &Found) -> Vec<u8> {
    let row = |row: &FoundRow| {
        let namespace = match &*row.tenant {
            Tenant::Namespace { namespace, .. } => namespace.clone(),
            _ => String::new(),
        };
        let endpoint = row.row.endpoint();
        SavedRow {
            namespace,
            object: row.object.to_string(),
            ready: row.ready,
            split: row.split.as_deref().map(SavedSplit::from),
            services: row.services.iter().map(ToString::to_string).collect(),
            row: Row { endpoint, ..row.row.row.clone() },
        }
    };
    let name = |(text, name): (&Arc<str>, &Arc<FoundName>)| (text.to_string(), name.rows.iter().map(row).collect());
    let cluster = |(key, cluster): (&ClusterName, &Arc<FoundCluster>)| {
        let hosts = cluster.hosts.iter().map(Name::to_string).collect();
        let names = cluster.names.iter().map(name).collect();
        (
            key.to_string(),
            Cluster {
                addresses: cluster.addresses.clone(),
                hosts,
                status_port: cluster.has_status_port,
                pods: cluster.pods.clone(),
                names,
            },
        )
    };
    let file = File { clusters: found.iter().map(cluster).collect() };
    // The types have no map with other keys than texts, so this cannot fail.
    serde_json::to_vec(&file).unwrap_or_default()
}

/// Parses `kubernetes.json`. What is invalid in it is left out.
pub(crate) fn decode(text: &[u8]) -> Result<Found, serde_json::Error> {
    let file: File = serde_json::from_slice(text)?;
    let cluster = |(key, saved): (String, Cluster)| {
        let key = ClusterName::new(&key).ok()?;
        let row = |SavedRow { namespace, object, ready, split, services, row }: SavedRow| {
            Some(FoundRow {
                owner: format!("kubernetes:{key}/{namespace}").into(),
                tenant: Arc::new(Tenant::Namespace { cluster: key.to_string(), namespace }),
                object: object.parse().ok()?,
                row: Arc::new(ReadRow::new(row)),
                ready,
                split: split.and_then(SavedSplit::read),
                services: services.into_iter().map(Arc::from).collect(),
            })
        };
        let name = |(text, rows): (String, Vec<SavedRow>)| {
            (Arc::from(text), Arc::new(FoundName { rows: rows.into_iter().filter_map(row).collect() }))
        };
        let names: SharedMap<_, _> = saved.names.into_iter().map(name).collect();
        let found = FoundCluster {
            addresses: saved.addresses,
            hosts: saved.hosts.iter().filter_map(|host| host.parse().ok()).collect(),
            has_status_port: saved.status_port,
            pods: saved.pods,
            // Those of names that are saved are known once the objects are read again.
            services: ExposedServices::new(),
            held: Holds::new(&names).summary(&names).into(),
            names,
        };
        Some((key.clone(), Arc::new(found)))
    };
    Ok(file.clusters.into_iter().filter_map(cluster).collect())
}

#[cfg(test)]
mod tests {
    use fairway_contributions::{Held, HoldRule};
    use fairway_providers::Endpoint;

    use super::*;
    use crate::found::HeldNames;

    #[test]
    fn encoded_state_is_decoded_unchanged_and_a_truncated_file_is_rejected() {
        let key = ClusterName::new("eu1").unwrap();
        let endpoint = Endpoint {
            dns_name: "shop.test".to_owned(),
            targets: vec!["192.0.2.1".to_owned()],
            record_type: "A".to_owned(),
            ..Endpoint::default()
        };
        let address = Place::Addresses(["192.0.2.2".parse().unwrap()].into());
        let held = Held { at: 9, rule: HoldRule::ManyNames };
        let places = [None, Some(address), Some(Place::Host("lb.test".parse().unwrap()))];
        let row = FoundRow {
            owner: "kubernetes:eu1/shop".into(),
            tenant: Arc::new("namespace:eu1/shop".parse().unwrap()),
            object: "Service shop/web".parse().unwrap(),
            row: Arc::new(ReadRow::new(Row { since: 7, endpoint, held: Some(held) })),
            ready: Some(3),
            split: Some(Arc::new(Split {
                created: 7,
                object: "TrafficSplit shop/web".parse().unwrap(),
                is_weighted: true,
                parts: places.map(|place| SplitPart { weight: 5, ready: Some(2), place }).into(),
            })),
            services: ["shop/web".into()].into(),
        };
        let summary = HeldNames { names: 1, first: "shop.test".into(), since: 9 };
        let mut cluster = FoundCluster {
            held: Arc::new([(Arc::clone(&row.owner), summary)].into()),
            addresses: vec!["192.0.2.1".parse().unwrap()],
            hosts: vec!["lb.test".parse().unwrap()],
            pods: vec!["10.0.0.1".parse().unwrap()],
            ..FoundCluster::default()
        };
        cluster.names.insert("shop.test".into(), Arc::new(FoundName { rows: [row].into() }));
        let found: Found = [(key, Arc::new(cluster))].into();
        let text = encode(&found);
        assert_eq!(decode(&text).unwrap(), found);
        assert!((0..text.len()).all(|end| decode(&text[..end]).is_err()));
    }
}
