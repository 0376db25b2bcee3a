//! Owners of rows.

use std::{collections::HashMap, sync::Arc};

use fairway_providers::{plain_name, webhook_server::Scope};

use super::read::ReadRow;

/// Owners of the rows of one client.
///
/// All rows of a client with a base path belong to it. Else the owner of a row is in its label, else in the registry's TXT record of its
/// name, else it is `default`.
pub struct RowOwners {
    /// The client, if it has a base path.
    client: Option<Arc<str>>,
    /// Owners by name and set identifier, from the registry.
    registry: HashMap<(String, String), Arc<str>>,
    default: Arc<str>,
}

impl RowOwners {
    /// Finds the owners of all rows of a client.
    pub fn of(scope: &Scope, rows: &[&ReadRow]) -> Self {
        let mut owners = Self { client: None, registry: HashMap::new(), default: DEFAULT.into() };
        if let Scope::Owner(name) = scope {
            owners.client = Some(Arc::clone(name));
            return owners;
        }
        for row in rows {
            if let (Some(of), Some(owner)) = (row.companion_of(), row.declared_owner()) {
                owners.registry.insert((of, row.row.endpoint.set_identifier.clone()), owner.into());
            }
        }
        owners
    }

    /// Returns the owner of a row.
    pub fn of_row(&self, row: &ReadRow) -> Arc<str> {
        self.stated(row).unwrap_or_else(|| Arc::clone(&self.default))
    }

    /// Returns the owner of a row; `None` if neither the row nor the registry states one.
    pub fn stated(&self, row: &ReadRow) -> Option<Arc<str>> {
        if let Some(client) = &self.client {
            return Some(Arc::clone(client));
        }
        if let Some(owner) = row.declared_owner() {
            return Some(owner.into());
        }
        let endpoint = &row.row.endpoint;
        let key = (plain_name(&endpoint.dns_name), endpoint.set_identifier.clone());
        self.registry.get(&key).cloned()
    }

    /// True if rows of several owners may be among those of the client.
    pub const fn are_mixed(&self) -> bool {
        self.client.is_none()
    }
}

/// Owner of rows that name none: the default of ExternalDNS' `--txt-owner-id`.
const DEFAULT: &str = "default";
