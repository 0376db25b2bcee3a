//! Bodies of ExternalDNS' webhook: endpoints, changes, domain filter (version 1).
//!
//! Source: `endpoint/endpoint.go`, `plan/plan.go` and `endpoint/domain_filter.go` of kubernetes-sigs/external-dns. Go writes an empty
//! list as `null` or omits it, so both are accepted. Unknown keys are ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

/// Media type of every body. The client compares it byte by byte, so it must not have further parameters.
pub const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";

/// Records of one name, type and set identifier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Owner name, without the final dot.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub dns_name: String,
    /// RDATA of each record as text; that of TXT with the quotes.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// `A`, `AAAA`, `CNAME`, `TXT`, `SRV`, `NS`, `PTR`, `MX`, `NAPTR`, `DNAME`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub record_type: String,
    /// Distinguishes endpoints of one name and type; empty if there is only one.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub set_identifier: String,
    /// TTL in seconds; 0 if not given.
    #[serde(rename = "recordTTL", deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub record_ttl: i64,
    /// Labels of the client: `owner`, `resource`, `ownedRecord`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Provider-specific fields from annotations, in any order.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub provider_specific: Vec<Property>,
}

/// Labels of an endpoint by name, sorted. Every endpoint is kept in memory, and the smallest map takes 544 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of a label.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(known, value)| (known == name).then_some(value))
    }

    /// Returns names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(labels: I) -> Self {
        let sorted: BTreeMap<_, _> = labels.into_iter().collect();
        Self(sorted.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(from).map(Self::from_iter)
    }
}

/// A provider-specific field: the annotation `webhook-foo: x` becomes `webhook/foo` with `x`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Property {
    /// Name; the client sometimes sends an empty one.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Value.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// Changes of a client, which are applied completely or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Changes {
    /// New endpoints.
    #[serde(alias = "Create", deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub create: Vec<Endpoint>,
    /// Old state of changed endpoints, in the order of `update_new`.
    #[serde(alias = "UpdateOld", deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub update_old: Vec<Endpoint>,
    /// New state of changed endpoints.
    #[serde(alias = "UpdateNew", deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub update_new: Vec<Endpoint>,
    /// Deleted endpoints.
    #[serde(alias = "Delete", deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<Endpoint>,
}

/// Names that a provider accepts. An empty filter accepts every name; filters by regular expressions are ignored.
///
/// A domain with a leading dot means its subdomains only; without, also itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DomainFilter {
    /// Accepted domains; empty for all.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Rejected domains.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// Key of an endpoint: name in lower case without the final dot, type, set identifier.
pub type RowKey = (String, String, String);

impl Endpoint {
    /// Returns the key.
    pub fn key(&self) -> RowKey {
        (plain_name(&self.dns_name), self.record_type.to_ascii_uppercase(), self.set_identifier.clone())
    }

    /// Returns the value of a provider-specific field.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.provider_specific.iter().find(|property| property.name == name).map(|property| &*property.value)
    }
}

impl Changes {
    /// Returns true if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of created, changed and deleted endpoints.
    pub fn len(&self) -> usize {
        self.create.len() + self.update_new.len() + self.delete.len()
    }
}

/// Returns a name in lower case, without its final dot.
pub fn plain_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Conversion from and to JSON.
pub trait Json: Sized {
    /// Parses JSON. The error has line and column.
    fn from_json(json: &[u8]) -> Result<Self, String>;

    /// Returns JSON.
    fn to_json(&self) -> Vec<u8>;
}

impl<T: Serialize + DeserializeOwned> Json for T {
    fn from_json(json: &[u8]) -> Result<Self, String> {
        if json.iter().filter(|byte| **byte == b'{').count() > OBJECTS_MAX {
            return Err(format!("more than {OBJECTS_MAX} objects"));
        }
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings, numbers and lists can be written as JSON")
    }
}

/// Maximum number of objects in a body. 32 MiB have room for 11,000,000 empty ones, which would take 1.7 GB in memory (152 bytes each);
/// an endpoint with a name, a type and an address has more than 32 bytes.
const OBJECTS_MAX: usize = 1 << 20;

fn is_zero(ttl: &i64) -> bool {
    *ttl == 0
}

/// Treats `null` like a missing key.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_missing_and_unknown_keys_are_accepted() {
        let read: Changes = serde_json::from_str(
            r#"{"create":[{"dnsName":"a.example","targets":null,"labels":null,"providerSpecific":[{}],"later":1}],"delete":null}"#,
        )
        .unwrap();
        let row = Endpoint {
            dns_name: "a.example".to_owned(),
            provider_specific: vec![Property::default()],
            ..Endpoint::default()
        };
        assert_eq!(read, Changes { create: vec![row], ..Changes::default() });
        assert_eq!(serde_json::from_str::<Changes>("{}").unwrap(), Changes::default());
    }

    #[test]
    fn endpoint_round_trips() {
        let text = r#"{"dnsName":"a-www.example","targets":["\"heritage=external-dns\""],"recordType":"TXT","setIdentifier":"eu","recordTTL":60,"labels":{"ownedRecord":"www.example"},"providerSpecific":[{"name":"webhook/gslb-weight","value":"5"}]}"#;
        let read: Endpoint = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(read.property("webhook/gslb-weight"), Some("5"));
    }

    #[test]
    fn key_ignores_case_and_final_dot() {
        let row = |name: &str, rtype: &str| Endpoint {
            dns_name: name.to_owned(),
            record_type: rtype.to_owned(),
            ..Endpoint::default()
        };
        assert_eq!(row("A.Example.", "a").key(), row("a.example", "A").key());
    }
}
