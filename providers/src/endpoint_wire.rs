//! What ExternalDNS says over its webhook: endpoints, changes, the filter of domains (contract version 1).
//!
//! Source: `endpoint/endpoint.go`, `plan/plan.go` and `endpoint/domain_filter.go` of kubernetes-sigs/external-dns. Go writes an empty
//! list as `null` or leaves it out, so both are read; keys that are not known are passed over.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

/// The media type of every body. The client compares it octet by octet, so nothing stands after the `;` but the version.
pub const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";

/// Records of one name, type and set identifier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// The owner, without its final dot.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub dns_name: String,
    /// RDATA of each record as text; that of TXT with the quotes.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// `A`, `AAAA`, `CNAME`, `TXT`, `SRV`, `NS`, `PTR`, `MX`, `NAPTR`, `DNAME`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub record_type: String,
    /// Tells endpoints of one name and type apart; empty where there is but one.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub set_identifier: String,
    /// In seconds; 0: not said.
    #[serde(rename = "recordTTL", deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub record_ttl: i64,
    /// What the client keeps about it: `owner`, `resource`, `ownedRecord`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What annotations say to the provider, in any order.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub provider_specific: Vec<Property>,
}

/// One thing that an annotation says to the provider: `webhook-foo: x` comes as `webhook/foo` with `x`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Property {
    /// What it is about. The client sends an empty one at times.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What is said.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// What a client wants changed; all of it, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Changes {
    /// Endpoints that are new.
    #[serde(alias = "Create", deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub create: Vec<Endpoint>,
    /// What is there of those that change, in the order of `update_new`.
    #[serde(alias = "UpdateOld", deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub update_old: Vec<Endpoint>,
    /// What they are from now on.
    #[serde(alias = "UpdateNew", deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub update_new: Vec<Endpoint>,
    /// Endpoints that go.
    #[serde(alias = "Delete", deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<Endpoint>,
}

/// Which names a provider takes. Lists or regular expressions, never both; nothing at all takes every name.
///
/// A domain with a leading dot stands for its subdomains alone, one without for itself and them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DomainFilter {
    /// Domains that are taken; empty: all.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Domains of those that are not.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// What a name must match (Go's syntax).
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub regex_include: String,
    /// What it must not.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub regex_exclude: String,
}

/// The key by which plans tell endpoints of one type apart: the name in lower case without its final dot, type, set identifier.
pub type RowKey = (String, String, String);

impl Endpoint {
    /// Its key.
    pub fn key(&self) -> RowKey {
        (plain_name(&self.dns_name), self.record_type.to_ascii_uppercase(), self.set_identifier.clone())
    }

    /// What a property says, if it is there.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.provider_specific.iter().find(|property| property.name == name).map(|property| &*property.value)
    }
}

impl Changes {
    /// Whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many endpoints are created, changed or deleted.
    pub fn len(&self) -> usize {
        self.create.len() + self.update_new.len() + self.delete.len()
    }
}

/// A name as plans compare it: in lower case, without its final dot.
pub fn plain_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// What has a JSON form.
pub trait Json: Sized {
    /// Reads it; what is wrong, with line and column.
    fn from_json(octets: &[u8]) -> Result<Self, String>;

    /// Writes it.
    fn to_json(&self) -> Vec<u8>;
}

impl<T: Serialize + DeserializeOwned> Json for T {
    fn from_json(octets: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(octets).map_err(|error| error.to_string())
    }

    fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts, numbers and lists have a JSON form")
    }
}

fn is_zero(ttl: &i64) -> bool {
    *ttl == 0
}

/// `null` as what is left out.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_leaves_out_writes_as_null_or_adds_is_read() {
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
    fn an_endpoint_is_written_as_it_was_read() {
        let text = r#"{"dnsName":"a-www.example","targets":["\"heritage=external-dns\""],"recordType":"TXT","setIdentifier":"eu","recordTTL":60,"labels":{"ownedRecord":"www.example"},"providerSpecific":[{"name":"webhook/gslb-weight","value":"5"}]}"#;
        let read: Endpoint = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(read.property("webhook/gslb-weight"), Some("5"));
    }

    #[test]
    fn case_and_the_final_dot_make_no_other_key() {
        let row = |name: &str, rtype: &str| Endpoint {
            dns_name: name.to_owned(),
            record_type: rtype.to_owned(),
            ..Endpoint::default()
        };
        assert_eq!(row("A.Example.", "a").key(), row("a.example", "A").key());
    }
}
