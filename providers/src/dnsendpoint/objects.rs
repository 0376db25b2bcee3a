//! The objects of one publisher: their names, labels and contents. Pure.

use std::{collections::BTreeMap, time::Duration};

use data_encoding::HEXLOWER;
use fairway_model::{ProviderRecordSet, RecordSetKey};
use ring::digest::{SHA256, digest};

use super::Object;
use crate::{
    Endpoint, Json, endpoint,
    publish::{Limits, ProviderError, Weights},
};

/// The objects of one publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects {
    /// Name of the publisher, in the names of objects and their label `app.kubernetes.io/instance`.
    pub name: String,
    /// Their namespace.
    pub namespace: String,
    /// Field for weights of the provider behind ExternalDNS; `None` if it supports no set identifiers.
    pub weights: Option<Weights>,
}

impl Objects {
    /// Returns the limits of a provider with these objects and this time limit of a call.
    pub fn limits(&self, timeout: Duration) -> Limits {
        Limits {
            batch_max: 100_000,
            is_conditional: false,
            types: Some(endpoint::TYPES),
            weights: self.weights,
            timeout,
        }
    }

    /// Returns the labels by which the objects are found. An object of one of our names without them belongs to others.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let labels = [("app.kubernetes.io/instance", &*self.name), ("app.kubernetes.io/managed-by", "fairway")];
        labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// Returns true if an object may have this name.
    pub fn is_name(&self, name: &str) -> bool {
        let is_part = |part: &str| part == ALL || !part.is_empty() && part.bytes().all(|byte| DIGITS.contains(&byte));
        name.strip_prefix(&self.prefix()).and_then(|part| part.strip_prefix('-')).is_some_and(is_part)
    }

    /// Returns the common beginning of the names of the objects, without the dash after it.
    pub fn prefix(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        format!("fairway-{}", self.name.chars().map(plain).collect::<String>())
    }

    /// Returns the sets of all objects. A crash may leave a name in two of them, with the same contents.
    pub fn sets(objects: impl IntoIterator<Item = Object>) -> BTreeMap<RecordSetKey, ProviderRecordSet> {
        let mut endpoints: Vec<_> = objects.into_iter().flat_map(Object::into_endpoints).collect();
        endpoints.sort_by_key(Endpoint::key);
        endpoints.dedup_by_key(|endpoint| endpoint.key());
        endpoint::sets(endpoints).into_iter().map(|set| (set.key(), set)).collect()
    }

    /// Returns the objects of sets, by name.
    pub fn render(
        &self,
        sets: impl Iterator<Item = ProviderRecordSet>,
    ) -> Result<BTreeMap<String, Object>, ProviderError> {
        let mut names: BTreeMap<String, Vec<Endpoint>> = BTreeMap::new();
        for set in sets {
            let endpoint = endpoint::endpoint(&set);
            names.entry(endpoint.dns_name.clone()).or_default().push(endpoint);
        }
        let hashed = names.into_iter().map(|(name, endpoints)| {
            let bytes = endpoints.to_json().len();
            (hash_of(&name), bytes, endpoints)
        });
        let mut parts = BTreeMap::new();
        divide(String::new(), hashed.collect(), &mut parts)?;
        let object = |(part, endpoints): (String, Vec<Endpoint>)| {
            let part = if part.is_empty() { ALL } else { &part };
            let name = format!("{}-{part}", self.prefix());
            (name.clone(), Object::new(self, name, endpoints))
        };
        Ok(parts.into_iter().filter(|(_, endpoints)| !endpoints.is_empty()).map(object).collect())
    }
}

/// Divides names into parts that fit into one object each. A name is never split.
fn divide(part: String, names: Vec<Hashed>, parts: &mut BTreeMap<String, Vec<Endpoint>>) -> Result<(), ProviderError> {
    let bytes: usize = names.iter().map(|(_, bytes, _)| bytes).sum();
    if bytes <= OBJECT_MAX {
        parts.insert(part, names.into_iter().flat_map(|(_, _, endpoints)| endpoints).collect());
        return Ok(());
    }
    if let [(_, bytes, endpoints)] = &names[..] {
        let name = endpoints.first().map_or("", |endpoint| &endpoint.dns_name);
        let what = format!("{name}: its records take {bytes} bytes, at most {OBJECT_MAX} fit into an object");
        return Err(ProviderError::Refused(what));
    }
    let mut next: BTreeMap<char, Vec<Hashed>> = BTreeMap::new();
    for hashed in names {
        // Hashes have 64 digits, so the parts become small before the digits end.
        let digit = hashed.0.chars().nth(part.len()).unwrap_or('0');
        next.entry(digit).or_default().push(hashed);
    }
    next.into_iter().try_for_each(|(digit, names)| divide(format!("{part}{digit}"), names, parts))
}

fn hash_of(name: &str) -> String {
    HEXLOWER.encode(digest(&SHA256, name.as_bytes()).as_ref())
}

/// Hash of a name, bytes of its endpoints, endpoints.
type Hashed = (String, usize, Vec<Endpoint>);

/// Maximum number of bytes of the endpoints of an object. etcd accepts requests of 1.5 MiB, which include the managed fields of the API server.
const OBJECT_MAX: usize = 1_000_000;
/// Name of the part with all names.
const ALL: &str = "all";
const DIGITS: &[u8] = b"0123456789abcdef";
