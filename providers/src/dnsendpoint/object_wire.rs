//! A DNSEndpoint as JSON, which is valid YAML.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DnsEndpoints, TAIL};
use crate::Endpoint;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Object {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
    namespace: String,
    labels: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    endpoints: Vec<Endpoint>,
}

impl Object {
    pub(super) fn new(folder: &DnsEndpoints, file: &str, endpoints: Vec<Endpoint>) -> Self {
        let labels = [("app.kubernetes.io/instance", &*folder.name), ("app.kubernetes.io/managed-by", "fairway")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self {
            api_version: "externaldns.k8s.io/v1alpha1".to_owned(),
            kind: "DNSEndpoint".to_owned(),
            metadata: Metadata {
                name: file.strip_suffix(TAIL).unwrap_or(file).to_owned(),
                namespace: folder.namespace.clone(),
                labels,
            },
            spec: Spec { endpoints },
        }
    }

    /// Returns true if it is our object of this file, in any namespace: the configured one may have changed.
    pub(super) fn is_of(&self, folder: &DnsEndpoints, file: &str) -> bool {
        let Self { api_version, kind, metadata, .. } = Self::new(folder, file, Vec::new());
        let same = (&api_version, &kind, &metadata.name, &metadata.labels);
        same == (&self.api_version, &self.kind, &self.metadata.name, &self.metadata.labels)
    }

    pub(super) fn into_endpoints(self) -> Vec<Endpoint> {
        self.spec.endpoints
    }

    /// Returns the object as JSON with one field per line, which is readable in a diff.
    pub(super) fn to_text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("strings, numbers and lists can be written as JSON");
        text.push(b'\n');
        text
    }
}
