//! A DNSEndpoint as JSON, which is valid YAML.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Objects;
use crate::Endpoint;

/// A DNSEndpoint with the fields that we write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Object {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
    namespace: String,
    labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    endpoints: Vec<Endpoint>,
}

impl Object {
    pub(super) fn new(objects: &Objects, name: String, endpoints: Vec<Endpoint>) -> Self {
        Self {
            api_version: "externaldns.k8s.io/v1alpha1".to_owned(),
            kind: "DNSEndpoint".to_owned(),
            metadata: Metadata { name, namespace: objects.namespace.clone(), labels: objects.labels() },
            spec: Spec { endpoints },
        }
    }

    pub(super) fn from_text(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    /// Returns our object of this name with the `spec` that an API server has. Returns `None` if the `spec` is not one of ours.
    pub fn with_spec(objects: &Objects, name: &str, spec: Value) -> Option<Self> {
        let Spec { endpoints } = serde_json::from_value(spec).ok()?;
        Some(Self::new(objects, name.to_owned(), endpoints))
    }

    /// Returns true if it is our object of this name, in any namespace: the configured one may have changed.
    pub(super) fn is_of(&self, objects: &Objects, name: &str) -> bool {
        let Self { api_version, kind, metadata, .. } = Self::new(objects, name.to_owned(), Vec::new());
        let same = (&api_version, &kind, &metadata.name, &metadata.labels);
        same == (&self.api_version, &self.kind, &self.metadata.name, &self.metadata.labels)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(super) fn into_endpoints(self) -> Vec<Endpoint> {
        self.spec.endpoints
    }

    /// Returns the object as JSON with one field per line, which is readable in a diff.
    pub(super) fn to_text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect(WRITABLE);
        text.push(b'\n');
        text
    }

    /// Returns the object as JSON. With a `version` the API server changes it only if that is its `resourceVersion`.
    pub fn to_json(&self, version: Option<&str>) -> Value {
        let mut value = serde_json::to_value(self).expect(WRITABLE);
        if let Some(version) = version {
            value["metadata"]["resourceVersion"] = version.into();
        }
        value
    }
}

const WRITABLE: &str = "strings, numbers and lists can be written as JSON";
