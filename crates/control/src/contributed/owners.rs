//! Who a row belongs to.

use std::{collections::HashMap, sync::Arc};

use fairway_providers::{plain_name, webhook_server::Scope};

use super::read::ReadRow;

/// Who the rows of one client belong to: to it, if it has a base path. Else to whom a row's label names, else to whom the record of the
/// registry beside it names, else to `default`.
pub(super) struct Owners {
    all: Option<Arc<str>>,
    /// By name and set identifier, as the registry tells.
    told: HashMap<(String, String), Arc<str>>,
    default: Arc<str>,
}

impl Owners {
    pub(super) fn of(scope: &Scope, rows: &[&ReadRow]) -> Self {
        let mut owners = Self { all: None, told: HashMap::new(), default: DEFAULT.into() };
        if let Scope::Owner(name) = scope {
            owners.all = Some(Arc::clone(name));
            return owners;
        }
        for row in rows {
            if let (Some(of), Some(owner)) = (row.companion_of(), row.told_owner()) {
                owners.told.insert((of, row.row.endpoint.set_identifier.clone()), owner.into());
            }
        }
        owners
    }

    pub(super) fn of_row(&self, row: &ReadRow) -> Arc<str> {
        if let Some(all) = &self.all {
            return Arc::clone(all);
        }
        if let Some(owner) = row.told_owner() {
            return owner.into();
        }
        let endpoint = &row.row.endpoint;
        let key = (plain_name(&endpoint.dns_name), endpoint.set_identifier.clone());
        Arc::clone(self.told.get(&key).unwrap_or(&self.default))
    }
}

/// Who rows belong to of which nothing is told, as ExternalDNS' own default is.
const DEFAULT: &str = "default";
