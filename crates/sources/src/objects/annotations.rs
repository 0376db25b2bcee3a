//! Annotations of ExternalDNS.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use fairway_providers::Property;

use super::HostPattern;

/// Annotations of ExternalDNS of one object, with the prefix `external-dns.kubernetes.io/` or
/// `external-dns.alpha.kubernetes.io/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DnsAnnotations {
    /// Further names (`hostname`).
    pub(crate) hostnames: Box<[HostPattern]>,
    /// Addresses or host names that replace those of the gateway (`target`).
    pub(crate) target: Box<[Box<str>]>,
    /// TTL as text: seconds, or a duration such as `5m` (`ttl`).
    pub ttl: Option<Box<str>>,
    /// Set identifier (`set-identifier`).
    pub set_identifier: Option<Box<str>>,
    /// Properties for providers, sorted: `webhook/NAME` from `webhook-NAME`.
    pub properties: Box<[Property]>,
    /// True if another controller is responsible for the object (`controller`), so that it declares no names.
    pub is_foreign: bool,
}

impl DnsAnnotations {
    /// Reads the annotations of an object. Returns `None` if none is about DNS.
    pub(crate) fn read(annotations: &BTreeMap<String, String>) -> Option<Arc<Self>> {
        let mut read = Self::default();
        let mut properties = BTreeMap::new();
        // The later prefix wins.
        for prefix in PREFIXES {
            let with_prefix = annotations.range::<str, _>((Bound::Included(*prefix), Bound::Unbounded));
            for (name, value) in with_prefix.map_while(|(key, value)| Some((key.strip_prefix(prefix)?, value.trim()))) {
                match name {
                    "controller" => read.is_foreign = value != CONTROLLER,
                    "hostname" => read.hostnames = list(value).map(HostPattern::new).collect(),
                    "set-identifier" => read.set_identifier = Some(value.into()),
                    "target" => read.target = list(value).map(Box::from).collect(),
                    "ttl" => read.ttl = Some(value.into()),
                    _ => {
                        let property = name.strip_prefix("webhook-").map(|name| format!("webhook/{name}"));
                        properties.extend(property.map(|name| (name, value.to_owned())));
                    }
                }
            }
        }
        read.properties = properties.into_iter().map(|(name, value)| Property { name, value }).collect();
        (read != Self::default()).then(|| Arc::new(read))
    }

    /// Returns the annotations of an object, and those of its gateway where it has none itself.
    pub(crate) fn merged(own: Option<&Arc<Self>>, gateway: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let Some(gateway) = gateway else { return own.cloned() };
        // Names and controller of the gateway are not those of the object.
        let merged = own.map(|own| Self::clone(own)).unwrap_or_default().or(gateway);
        (merged != Self::default()).then(|| Arc::new(merged))
    }

    /// Takes target, TTL, set identifier and properties that are missing from `other`.
    fn or(mut self, other: &Self) -> Self {
        if self.target.is_empty() {
            self.target.clone_from(&other.target);
        }
        self.ttl = self.ttl.or_else(|| other.ttl.clone());
        self.set_identifier = self.set_identifier.or_else(|| other.set_identifier.clone());
        let has = |name: &str| self.properties.iter().any(|own| own.name == name);
        let missing = other.properties.iter().filter(|property| !has(&property.name)).cloned();
        let mut properties: Vec<_> = self.properties.iter().cloned().chain(missing).collect();
        properties.sort_unstable();
        self.properties = properties.into();
        self
    }
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Prefixes of the annotations. ExternalDNS 0.22 replaced the first by the second.
const PREFIXES: &[&str] = &["external-dns.alpha.kubernetes.io/", "external-dns.kubernetes.io/"];
/// Value of the annotation `controller` of the objects that ExternalDNS is responsible for.
const CONTROLLER: &str = "dns-controller";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Option<Arc<DnsAnnotations>> {
        DnsAnnotations::read(&pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    fn property(name: &str, value: &str) -> Property {
        Property { name: name.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn later_prefix_wins() {
        let read = read(&[
            ("external-dns.alpha.kubernetes.io/hostname", "old.example"),
            ("external-dns.alpha.kubernetes.io/ttl", "60"),
            ("external-dns.alpha.kubernetes.io/webhook-gslb-weight", "1"),
            ("external-dns.kubernetes.io/hostname", "a.example, *.b.example,"),
            ("external-dns.kubernetes.io/webhook-gslb-weight", "2"),
        ])
        .unwrap();
        assert_eq!(*read.hostnames, ["a.example", "*.b.example"].map(HostPattern::new));
        assert_eq!(read.ttl.as_deref(), Some("60"));
        assert_eq!(*read.properties, [property("webhook/gslb-weight", "2")]);
    }

    #[test]
    fn object_without_annotations_about_dns_has_none() {
        assert_eq!(read(&[]), None);
        assert_eq!(
            read(&[("kubectl.kubernetes.io/last-applied", "{}"), ("external-dns.kubernetes.io/other", "")]),
            None
        );
        assert_eq!(read(&[("external-dns.kubernetes.io/controller", "dns-controller")]), None);
        assert!(read(&[("external-dns.kubernetes.io/controller", "other")]).is_some_and(|of| of.is_foreign));
    }

    #[test]
    fn properties_of_the_gateway_fill_gaps_only() {
        let own = read(&[("external-dns.kubernetes.io/ttl", "5m"), ("external-dns.kubernetes.io/webhook-b", "own")]);
        let gateway = read(&[
            ("external-dns.kubernetes.io/ttl", "60"),
            ("external-dns.kubernetes.io/set-identifier", "east"),
            ("external-dns.kubernetes.io/hostname", "gw.example"),
            ("external-dns.kubernetes.io/webhook-a", "gateway"),
            ("external-dns.kubernetes.io/webhook-b", "gateway"),
        ]);
        let merged = DnsAnnotations::merged(own.as_ref(), gateway.as_ref()).unwrap();
        assert_eq!((merged.ttl.as_deref(), merged.set_identifier.as_deref()), (Some("5m"), Some("east")));
        assert_eq!(*merged.properties, [property("webhook/a", "gateway"), property("webhook/b", "own")]);
        let merged = DnsAnnotations::merged(None, gateway.as_ref()).unwrap();
        assert_eq!((merged.ttl.as_deref(), merged.hostnames.len()), (Some("60"), 0));
        assert_eq!(DnsAnnotations::merged(own.as_ref(), None), own);
        assert_eq!(DnsAnnotations::merged(None, None), None);
    }
}
