//! Objects of the store that hold names that were removed a short time ago.

use fairway_access::Tenant;
use fairway_providers::Json;
use serde::{Deserialize, Serialize};

/// Names that one batch removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemovedNames {
    /// Time of the removal, in seconds since 1970.
    pub(crate) at: u64,
    /// The names.
    pub(crate) names: Vec<RemovedName>,
}

/// A name that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemovedName {
    /// The name.
    pub(crate) name: String,
    /// The party that removed it.
    pub(crate) by: Remover,
    /// Time when the removal no longer matters, in seconds since 1970.
    pub(crate) until: u64,
}

/// A party that removes names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Remover {
    /// A webhook owner that claimed the name.
    Owner(String),
    /// A project that claimed the name.
    Project(String),
    /// An identity that pruned the name.
    Pruner(String),
    /// The operator, by an object of `/v1/names` or `/v1/records`, or by the configuration files.
    Operator(SharedWith),
}

/// The kinds of tenants whose claims were in the answers of a name of the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedWith {
    /// True if those of webhook owners were.
    pub(crate) owners: bool,
    /// True if those of projects were.
    pub(crate) projects: bool,
}

impl Remover {
    /// Returns the tenant that gave up its claim; `None` for the operator, and for a prune, which is counted by the identity of its caller.
    pub(super) fn tenant(&self) -> Option<Tenant> {
        match self {
            Self::Owner(name) => Some(Tenant::Owner(name.clone())),
            Self::Project(name) => Some(Tenant::Project(name.clone())),
            Self::Operator(_) | Self::Pruner(_) => None,
        }
    }
}

impl From<Tenant> for Remover {
    fn from(tenant: Tenant) -> Self {
        match tenant {
            Tenant::Owner(name) => Self::Owner(name),
            Tenant::Project(name) => Self::Project(name),
            // What is read from Kubernetes is no object of the store, so it removes none.
            Tenant::Cluster(_) | Tenant::Namespace { .. } => Self::Owner(tenant.to_string()),
        }
    }
}

/// Reads an object.
pub(super) fn read(bytes: &[u8]) -> Result<RemovedNames, String> {
    RemovedNames::from_json(bytes)
}

/// Returns an object.
pub(super) fn write(removed: &RemovedNames) -> Vec<u8> {
    removed.to_json()
}
